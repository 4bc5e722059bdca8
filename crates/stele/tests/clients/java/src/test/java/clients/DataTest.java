package clients;

import static clients.Clients.DATA;
import static com.google.cloud.bigtable.data.v2.models.Filters.FILTERS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.cloud.bigtable.data.v2.models.BulkMutation;
import com.google.cloud.bigtable.data.v2.models.ConditionalRowMutation;
import com.google.cloud.bigtable.data.v2.models.MutateRowsException;
import com.google.cloud.bigtable.data.v2.models.Mutation;
import com.google.cloud.bigtable.data.v2.models.Query;
import com.google.cloud.bigtable.data.v2.models.Range.ByteStringRange;
import com.google.cloud.bigtable.data.v2.models.Range.TimestampRange;
import com.google.cloud.bigtable.data.v2.models.ReadModifyWriteRow;
import com.google.cloud.bigtable.data.v2.models.Row;
import com.google.cloud.bigtable.data.v2.models.RowMutation;
import com.google.cloud.bigtable.data.v2.models.RowMutationEntry;
import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Writes of every kind, and what reads show of them. */
class DataTest {
  private static final int ROWS = 2_000;

  @Test
  void rowsThatWereAcknowledgedStay() throws Exception {
    Clients.lasting();
    if (Clients.first()) {
      Clients.create("lasting", "f");
      try (var batcher = DATA.newBulkMutationBatcher("lasting")) {
        for (int i = 0; i < ROWS; i++) {
          Mutation change = Mutation.create().setCell("f", "q", "v" + i);
          batcher.add(
              RowMutationEntry.createFromMutationUnsafe(ByteString.copyFromUtf8(key(i)), change));
        }
      }
    }
    int seen = 0;
    for (Row row : DATA.readRows(Query.create("lasting"))) {
      assertEquals(key(seen), row.getKey().toStringUtf8());
      assertEquals("v" + seen, row.getCells().get(0).getValue().toStringUtf8());
      seen++;
    }
    assertEquals(ROWS, seen);
  }

  private static String key(int i) {
    return String.format("row%06d", i);
  }

  @Test
  void deletesTakeWhatWasThere() {
    Clients.firstOnly();
    String table = Clients.newTable("f", "g");
    DATA.mutateRow(
        RowMutation.create(table, "r")
            .setCell("f", "a", 1000, "1")
            .setCell("f", "a", 2000, "2")
            .setCell("f", "b", 1000, "3")
            .setCell("g", "c", 1000, "4"));
    var old = TimestampRange.create(0, 2000);
    DATA.mutateRow(
        RowMutation.create(table, "r").deleteCells("f", ByteString.copyFromUtf8("a"), old));
    assertEquals(List.of("f:a@2000=2", "f:b@1000=3", "g:c@1000=4"), cells(table, "r"));
    DATA.mutateRow(RowMutation.create(table, "r").deleteFamily("f"));
    assertEquals(List.of("g:c@1000=4"), cells(table, "r"));
    DATA.mutateRow(RowMutation.create(table, "r").deleteRow());
    assertNull(DATA.readRow(table, "r"));
  }

  private static List<String> cells(String table, String key) {
    List<String> out = new ArrayList<>();
    for (var cell : DATA.readRow(table, key).getCells()) {
      out.add(
          cell.getFamily() + ":" + cell.getQualifier().toStringUtf8() + "@" + cell.getTimestamp()
              + "=" + cell.getValue().toStringUtf8());
    }
    return out;
  }

  @Test
  void conditionsAndRulesAnswer() {
    Clients.firstOnly();
    String table = Clients.newTable("f");
    DATA.mutateRow(RowMutation.create(table, "r").setCell("f", "q", 1000, "yes"));
    var check =
        ConditionalRowMutation.create(table, "r")
            .condition(
                FILTERS.chain()
                    .filter(FILTERS.limit().cellsPerColumn(1))
                    .filter(FILTERS.value().exactMatch("yes")))
            .then(Mutation.create().setCell("f", "then", 1000, "1"))
            .otherwise(Mutation.create().setCell("f", "else", 1000, "1"));
    assertTrue(DATA.checkAndMutateRow(check));
    Row row =
        DATA.readModifyWriteRow(
            ReadModifyWriteRow.create(table, "r").increment("f", "n", 5).append("f", "q", "!"));
    assertEquals(2, row.getCells().size());
    assertEquals("yes!", row.getCells("f", "q").get(0).getValue().toStringUtf8());
    assertFalse(DATA.checkAndMutateRow(check));
    assertEquals(1, DATA.readRow(table, "r").getCells("f", "else").size());
  }

  @Test
  void aBatchTellsWhichEntriesFailed() {
    Clients.firstOnly();
    String table = Clients.newTable("f");
    var batch =
        BulkMutation.create(table)
            .add("good", Mutation.create().setCell("f", "q", "v"))
            .add("bad", Mutation.create().setCell("nowhere", "q", "v"));
    var error = assertThrows(MutateRowsException.class, () -> DATA.bulkMutateRows(batch));
    assertEquals(1, error.getFailedMutations().size());
    assertEquals(1, error.getFailedMutations().get(0).getIndex());
    assertNull(DATA.readRow(table, "bad"));
    assertEquals(1, DATA.readRow(table, "good").getCells().size());
  }

  @Test
  void readsAreShardedByTheSamplesAndLargeRowsComeWhole() {
    Clients.firstOnly();
    String table = Clients.newTable("f");
    ByteString value = ByteString.copyFrom(new byte[3_000_000]);
    for (int i = 0; i < 4; i++) {
      DATA.mutateRow(
          RowMutation.create(table, key(i)).setCell("f", ByteString.copyFromUtf8("q"), 1000, value));
    }
    var shards = Query.create(table).shard(DATA.sampleRowKeys(table));
    int rows = 0;
    for (Query shard : shards) {
      for (Row row : DATA.readRows(shard)) {
        assertEquals(value, row.getCells().get(0).getValue());
        rows++;
      }
    }
    assertEquals(4, rows);
    var last = Query.create(table).range(ByteStringRange.unbounded()).reversed(true).limit(1);
    assertEquals(key(3), DATA.readRows(last).iterator().next().getKey().toStringUtf8());
  }
}
