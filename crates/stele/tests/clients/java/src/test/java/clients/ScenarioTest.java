package clients;

import static com.google.cloud.bigtable.data.v2.models.Filters.FILTERS;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.cloud.bigtable.admin.v2.models.CreateTableRequest;
import com.google.cloud.bigtable.data.v2.BigtableDataClient;
import com.google.cloud.bigtable.data.v2.models.Filters.Filter;
import com.google.cloud.bigtable.data.v2.models.Query;
import com.google.cloud.bigtable.data.v2.models.Range;
import com.google.cloud.bigtable.data.v2.models.Range.ByteStringRange;
import com.google.cloud.bigtable.data.v2.models.Row;
import com.google.cloud.bigtable.data.v2.models.RowMutation;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The rows and reads of ../scenario.json, said in the terms of the Java client. */
class ScenarioTest {
  private static final JsonObject SCENARIO = load();

  private static JsonObject load() {
    try {
      String text = Files.readString(Path.of("../scenario.json"));
      return JsonParser.parseString(text).getAsJsonObject();
    } catch (java.io.IOException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Returns the bytes that a text of the scenario stands for, one a character. */
  private static ByteString raw(JsonElement text) {
    return ByteString.copyFrom(text.getAsString(), StandardCharsets.ISO_8859_1);
  }

  private static String text(ByteString raw) {
    return raw.toString(StandardCharsets.ISO_8859_1);
  }

  private static void fill() {
    CreateTableRequest request = CreateTableRequest.of("scenario");
    SCENARIO.getAsJsonArray("families").forEach(f -> request.addFamily(f.getAsString()));
    SCENARIO.getAsJsonArray("splits").forEach(split -> request.addSplit(raw(split)));
    Clients.ADMIN.createTable(request);
    for (var row : SCENARIO.getAsJsonObject("rows").entrySet()) {
      ByteString key = ByteString.copyFrom(row.getKey(), StandardCharsets.ISO_8859_1);
      RowMutation mutation = RowMutation.create("scenario", key);
      for (JsonElement cell : row.getValue().getAsJsonArray()) {
        JsonArray c = cell.getAsJsonArray();
        mutation.setCell(
            c.get(0).getAsString(), raw(c.get(1)), c.get(2).getAsLong(), raw(c.get(3)));
      }
      Clients.DATA.mutateRow(mutation);
    }
  }

  @TestFactory
  Stream<DynamicTest> reads() {
    if (Clients.first()) {
      fill();
    }
    boolean other = Clients.PHASE.equals("other");
    String[] place = (other ? System.getenv("CLIENTS_TABLE") : "java/scenario").split("/");
    BigtableDataClient client = other ? Clients.data(place[0]) : Clients.DATA;
    return SCENARIO.getAsJsonArray("reads").asList().stream()
        .map(JsonElement::getAsJsonObject)
        .filter(read -> !read.has("only"))
        .map(
            read ->
                DynamicTest.dynamicTest(
                    read.get("name").getAsString(),
                    () -> assertEquals(want(read), lines(client, query(place[1], read)))));
  }

  private static List<String> want(JsonObject read) {
    return read.getAsJsonArray("want").asList().stream().map(JsonElement::getAsString).toList();
  }

  private static List<String> lines(BigtableDataClient client, Query query) {
    List<String> out = new ArrayList<>();
    for (Row row : client.readRows(query)) {
      for (var cell : row.getCells()) {
        StringBuilder line = new StringBuilder();
        line.append(text(row.getKey())).append(' ').append(cell.getFamily()).append(':');
        line.append(text(cell.getQualifier())).append(" @").append(cell.getTimestamp());
        line.append(" = ").append(text(cell.getValue()));
        cell.getLabels().forEach(label -> line.append(" {").append(label).append('}'));
        out.add(line.toString());
      }
    }
    return out;
  }

  private static Query query(String table, JsonObject read) {
    Query query = Query.create(table);
    if (read.has("keys")) {
      read.getAsJsonArray("keys").forEach(key -> query.rowKey(raw(key)));
    }
    if (read.has("ranges")) {
      for (JsonElement range : read.getAsJsonArray("ranges")) {
        query.range(bounds(ByteStringRange.unbounded(), range.getAsJsonObject()));
      }
    }
    if (read.has("prefix")) {
      query.prefix(raw(read.get("prefix")));
    }
    if (read.has("limit")) {
      query.limit(read.get("limit").getAsLong());
    }
    if (read.has("reversed")) {
      query.reversed(true);
    }
    if (read.has("filter")) {
      query.filter(filter(read.getAsJsonObject("filter")));
    }
    return query;
  }

  private static <R extends Range<ByteString, R>> R bounds(R range, JsonObject bounds) {
    R out = range;
    out = bound(out, bounds, "from", Range::startClosed);
    out = bound(out, bounds, "after", Range::startOpen);
    out = bound(out, bounds, "to", Range::endClosed);
    return bound(out, bounds, "below", Range::endOpen);
  }

  private static <R extends Range<ByteString, R>> R bound(
      R range, JsonObject bounds, String name, BiFunction<R, ByteString, R> set) {
    return bounds.has(name) ? set.apply(range, raw(bounds.get(name))) : range;
  }

  private static Filter filter(JsonObject tree) {
    if (tree.has("if")) {
      var condition = FILTERS.condition(filter(tree.getAsJsonObject("if")));
      if (tree.has("then")) {
        condition.then(filter(tree.getAsJsonObject("then")));
      }
      if (tree.has("else")) {
        condition.otherwise(filter(tree.getAsJsonObject("else")));
      }
      return condition;
    }
    var entry = tree.entrySet().iterator().next();
    return simple(entry.getKey(), entry.getValue());
  }

  private static Filter simple(String kind, JsonElement value) {
    switch (kind) {
      case "chain":
        var chain = FILTERS.chain();
        value.getAsJsonArray().forEach(each -> chain.filter(filter(each.getAsJsonObject())));
        return chain;
      case "interleave":
        var interleave = FILTERS.interleave();
        value.getAsJsonArray().forEach(each -> interleave.filter(filter(each.getAsJsonObject())));
        return interleave;
      case "pass":
        return FILTERS.pass();
      case "block":
        return FILTERS.block();
      case "strip":
        return FILTERS.value().strip();
      case "label":
        return FILTERS.label(value.getAsString());
      case "row_key":
        return FILTERS.key().regex(raw(value));
      case "family":
        return FILTERS.family().regex(value.getAsString());
      case "qualifier":
        return FILTERS.qualifier().regex(raw(value));
      case "value":
        return FILTERS.value().regex(raw(value));
      case "columns":
        var columns = value.getAsJsonObject();
        return bounds(
            FILTERS.qualifier().rangeWithinFamily(columns.get("family").getAsString()), columns);
      case "values":
        return bounds(FILTERS.value().range(), value.getAsJsonObject());
      case "times":
        JsonArray micros = value.getAsJsonArray();
        return times(micros.get(0).getAsLong(), micros.get(1).getAsLong());
      case "per_column":
        return FILTERS.limit().cellsPerColumn(value.getAsInt());
      case "per_row":
        return FILTERS.limit().cellsPerRow(value.getAsInt());
      case "skip":
        return FILTERS.offset().cellsPerRow(value.getAsInt());
      default:
        throw new IllegalArgumentException("no such filter: " + kind);
    }
  }

  private static Filter times(long from, long below) {
    var range = FILTERS.timestamp().range();
    if (from != 0) {
      range.startClosed(from);
    }
    return below == 0 ? range : range.endOpen(below);
  }
}
