package clients;

import static clients.Clients.ADMIN;
import static clients.Clients.DATA;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.api.gax.rpc.ApiException;
import com.google.cloud.bigtable.admin.v2.models.CreateTableRequest;
import com.google.cloud.bigtable.data.v2.BigtableDataClient;
import com.google.cloud.bigtable.data.v2.models.ChangeStreamContinuationToken;
import com.google.cloud.bigtable.data.v2.models.ChangeStreamMutation;
import com.google.cloud.bigtable.data.v2.models.ChangeStreamRecord;
import com.google.cloud.bigtable.data.v2.models.Heartbeat;
import com.google.cloud.bigtable.data.v2.models.Range.ByteStringRange;
import com.google.cloud.bigtable.data.v2.models.ReadChangeStreamQuery;
import com.google.cloud.bigtable.data.v2.models.RowMutation;
import com.google.cloud.bigtable.data.v2.models.SetCell;
import com.google.protobuf.ByteString;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A change stream, followed while the server is killed and restarted. The file "ready" in the directory
 * CLIENTS_SIGNALS says that the kills may begin, the file "quiet" that there will be no more.
 */
class ChangesTest {
  private static final String TABLE = "changes";
  private static final int WRITERS = 4;
  /** The last number that a writer writes. */
  private static final long END = 1_000_000_000;
  /** Records after which a follower goes on in a new stream, as a program that moves would. */
  private static final int STREAM_RECORDS = 50;

  private static Path signal(String name) {
    return Path.of(System.getenv("CLIENTS_SIGNALS"), name);
  }

  /** Writes numbers to a row of its own, until there are no more kills. */
  private static final class Writer implements Callable<Writer> {
    private final BigtableDataClient client = Clients.dataWithoutRetries();
    private final String row;
    private final List<Long> acknowledged = new ArrayList<>();
    private long attempts;

    Writer(String row) {
      this.row = row;
    }

    @Override
    public Writer call() throws Exception {
      while (!Files.exists(signal("quiet"))) {
        long number = attempts++;
        if (write(number)) {
          acknowledged.add(number);
        } else {
          Thread.sleep(5);
        }
      }
      // The server lives, and the client needs a moment to find it again.
      while (!write(END)) {
        Thread.sleep(5);
      }
      client.close();
      return this;
    }

    /** Returns bytes that make the log long. */
    private static ByteString weight(long number) {
      return ByteString.copyFrom(new byte[1 + (int) (number * 37 % 5_000)]);
    }

    private boolean write(long number) {
      ByteString value = ByteString.copyFromUtf8(Long.toString(number));
      try {
        client.mutateRow(
            RowMutation.create(TABLE, row)
                .setCell("f", ByteString.copyFromUtf8("number"), 1000, value)
                .setCell("f", ByteString.copyFromUtf8("weight"), 1000, weight(number)));
        return true;
      } catch (ApiException error) {
        return false;
      }
    }
  }

  /** Follows a partition over all lives of the server, until each of its rows has ended. */
  private static final class Follower implements Callable<Follower> {
    private final ByteStringRange partition;
    private final Map<String, List<Long>> told = new TreeMap<>();
    private ChangeStreamContinuationToken token;
    private int streams;
    private int ended;

    Follower(ByteStringRange partition) {
      this.partition = partition;
    }

    /** Takes the first token, which comes with a heartbeat. */
    Follower begin() {
      while (token == null) {
        follow(1);
      }
      return this;
    }

    @Override
    public Follower call() {
      while (ended < WRITERS / 2) {
        try {
          follow(STREAM_RECORDS);
        } catch (ApiException error) {
          // The client gave up trying again: the token says from where to go on. A connection that
          // breaks while a call begins is an unknown error to it.
          boolean broken = String.valueOf(error.getMessage()).contains("channel closed");
          assertTrue(error.isRetryable() || broken, error.toString());
        }
      }
      return this;
    }

    private void follow(int records) {
      streams++;
      var query = ReadChangeStreamQuery.create(TABLE).heartbeatDuration(Duration.ofMillis(100));
      if (token == null) {
        query.streamPartition(partition);
      } else {
        query.streamPartition(partition).continuationTokens(List.of(token));
      }
      var stream = DATA.readChangeStream(query);
      int seen = 0;
      for (ChangeStreamRecord record : stream) {
        take(record);
        if (++seen == records || ended == WRITERS / 2) {
          break;
        }
      }
      stream.cancel();
    }

    private void take(ChangeStreamRecord record) {
      if (record instanceof Heartbeat heartbeat) {
        token = heartbeat.getChangeStreamContinuationToken();
        return;
      }
      var mutation = (ChangeStreamMutation) record;
      token = ChangeStreamContinuationToken.create(partition, mutation.getToken());
      assertEquals(2, mutation.getEntries().size());
      var cell = (SetCell) mutation.getEntries().get(0);
      assertEquals("number", cell.getQualifier().toStringUtf8());
      long number = Long.parseLong(cell.getValue().toStringUtf8());
      String row = mutation.getRowKey().toStringUtf8();
      told.computeIfAbsent(row, key -> new ArrayList<>()).add(number);
      if (number == END) {
        ended++;
      }
    }
  }

  @Test
  @Timeout(300)
  void aStreamTellsEachWriteOnceAcrossKills() throws Exception {
    Assumptions.assumeTrue(Clients.PHASE.equals("changes"), "of a server that is killed");
    ADMIN.createTable(
        CreateTableRequest.of(TABLE)
            .addFamily("f")
            .addSplit(ByteString.copyFromUtf8("w2"))
            .addChangeStreamRetention(org.threeten.bp.Duration.ofDays(1)));
    List<Callable<Follower>> followers = new ArrayList<>();
    for (ByteStringRange partition : DATA.generateInitialChangeStreamPartitions(TABLE)) {
      followers.add(new Follower(partition).begin());
    }
    assertEquals(2, followers.size());
    List<Callable<Writer>> writers = new ArrayList<>();
    for (int i = 0; i < WRITERS; i++) {
      writers.add(new Writer("w" + i));
    }
    ExecutorService threads = Executors.newCachedThreadPool();
    try {
      var following = followers.stream().map(threads::submit).toList();
      var writing = writers.stream().map(threads::submit).toList();
      Files.createFile(signal("ready"));
      compare(writing, following);
    } finally {
      threads.shutdownNow();
    }
  }

  private static void compare(List<Future<Writer>> writing, List<Future<Follower>> following)
      throws Exception {
    Map<String, List<Long>> told = new TreeMap<>();
    int streams = 0;
    for (var follower : following) {
      told.putAll(follower.get().told);
      streams += follower.get().streams;
    }
    int changes = 0;
    for (var writer : writing) {
      Writer wrote = writer.get();
      List<Long> numbers = told.get(wrote.row);
      for (int i = 1; i < numbers.size(); i++) {
        assertTrue(numbers.get(i - 1) < numbers.get(i), wrote.row + ": in order, none twice");
      }
      // One without an answer may be there or not.
      assertEquals(END, numbers.remove(numbers.size() - 1));
      assertTrue(numbers.containsAll(wrote.acknowledged), wrote.row + ": none missing");
      assertTrue(numbers.stream().allMatch(n -> n < wrote.attempts), wrote.row + ": none invented");
      assertTrue(wrote.acknowledged.size() > 0, wrote.row + " was written");
      changes += numbers.size();
    }
    System.out.println("changes: " + changes + " told by " + streams + " streams");
  }
}
