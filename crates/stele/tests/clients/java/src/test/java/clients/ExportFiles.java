package clients;

import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.io.ImmutableBytesWritable;
import org.apache.hadoop.hbase.shaded.protobuf.ProtobufUtil;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.compress.DefaultCodec;
import org.apache.hadoop.io.serializer.Deserializer;
import org.apache.hadoop.io.serializer.Serialization;
import org.apache.hadoop.io.serializer.Serializer;
import org.apache.hadoop.io.serializer.WritableSerialization;

/**
 * Prints the rows of SequenceFiles as {@code stele export --format jsonl --encoding base64} does, or writes
 * them to another file. Hadoop reads and writes the files, and HBase the results in them.
 */
public final class ExportFiles {
  /** Results as HBase's import and export jobs have them; their class is not in the client's jar. */
  public static final class Results implements Serialization<Result> {
    @Override
    public boolean accept(Class<?> type) {
      return Result.class.isAssignableFrom(type);
    }

    @Override
    public Serializer<Result> getSerializer(Class<Result> type) {
      return new Serializer<>() {
        private OutputStream output;

        @Override
        public void open(OutputStream output) {
          this.output = output;
        }

        @Override
        public void serialize(Result result) throws java.io.IOException {
          ProtobufUtil.toResult(result).writeDelimitedTo(output);
        }

        @Override
        public void close() throws java.io.IOException {
          output.close();
        }
      };
    }

    @Override
    public Deserializer<Result> getDeserializer(Class<Result> type) {
      return new Deserializer<>() {
        private InputStream input;

        @Override
        public void open(InputStream input) {
          this.input = input;
        }

        @Override
        public Result deserialize(Result reuse) throws java.io.IOException {
          return ProtobufUtil.toResult(ClientProtos.Result.parseDelimitedFrom(input));
        }

        @Override
        public void close() throws java.io.IOException {
          input.close();
        }
      };
    }
  }

  private ExportFiles() {}

  private static String base64(byte[] bytes) {
    return Base64.getEncoder().encodeToString(bytes);
  }

  private static String json(Cell cell) {
    return String.format(
        "{\"family\":\"%s\",\"qualifier_base64\":\"%s\",\"timestamp\":%d,\"value_base64\":\"%s\"}",
        new String(CellUtil.cloneFamily(cell), java.nio.charset.StandardCharsets.UTF_8),
        base64(CellUtil.cloneQualifier(cell)),
        cell.getTimestamp() * 1000,
        base64(CellUtil.cloneValue(cell)));
  }

  private static Path path(String file) {
    return new Path("file://" + new java.io.File(file).getAbsolutePath());
  }

  private static void print(Configuration config, String file) throws Exception {
    try (var reader = new SequenceFile.Reader(config, SequenceFile.Reader.file(path(file)))) {
      ImmutableBytesWritable key = new ImmutableBytesWritable();
      while (reader.next(key)) {
        Result row = (Result) reader.getCurrentValue((Object) null);
        List<String> cells = new ArrayList<>();
        for (Cell cell : row.rawCells()) {
          if (!CellUtil.matchingRows(cell, key.copyBytes())) {
            throw new AssertionError("a cell of another row than its record");
          }
          cells.add(json(cell));
        }
        System.out.printf(
            "{\"key_base64\":\"%s\",\"cells\":[%s]}%n",
            base64(key.copyBytes()), String.join(",", cells));
      }
    }
  }

  private static void rewrite(Configuration config, String from, String to, String compression)
      throws Exception {
    var kind = SequenceFile.CompressionType.valueOf(compression);
    try (var reader = new SequenceFile.Reader(config, SequenceFile.Reader.file(path(from)));
        var writer =
            SequenceFile.createWriter(
                config,
                SequenceFile.Writer.file(path(to)),
                SequenceFile.Writer.keyClass(ImmutableBytesWritable.class),
                SequenceFile.Writer.valueClass(Result.class),
                SequenceFile.Writer.compression(kind, new DefaultCodec()))) {
      ImmutableBytesWritable key = new ImmutableBytesWritable();
      while (reader.next(key)) {
        writer.append(key, reader.getCurrentValue((Object) null));
      }
    }
  }

  /** Arguments: {@code print FILE} or {@code rewrite FROM TO COMPRESSION}. */
  public static void main(String[] args) throws Exception {
    Configuration config = new Configuration();
    config.setStrings(
        "io.serializations", WritableSerialization.class.getName(), Results.class.getName());
    if (args[0].equals("print")) {
      print(config, args[1]);
    } else {
      rewrite(config, args[1], args[2], args[3]);
    }
  }
}
