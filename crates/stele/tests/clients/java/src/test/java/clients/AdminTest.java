package clients;

import static clients.Clients.ADMIN;
import static clients.Clients.DATA;
import static com.google.cloud.bigtable.admin.v2.models.GCRules.GCRULES;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.api.gax.rpc.StatusCode.Code;
import com.google.cloud.bigtable.admin.v2.models.ColumnFamily;
import com.google.cloud.bigtable.admin.v2.models.CreateTableRequest;
import com.google.cloud.bigtable.admin.v2.models.ModifyColumnFamiliesRequest;
import com.google.cloud.bigtable.data.v2.models.Query;
import com.google.cloud.bigtable.data.v2.models.RowMutation;
import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.threeten.bp.Duration;

/** Tables and families. */
class AdminTest {
  @Test
  void aTableKeepsItsFamilies() {
    Clients.lasting();
    if (Clients.first()) {
      ADMIN.createTable(
          CreateTableRequest.of("families")
              .addFamily("plain")
              .addFamily("three", GCRULES.maxVersions(3))
              .addSplit(ByteString.copyFromUtf8("p"))
              .addSplit(ByteString.copyFromUtf8("g")));
      ADMIN.modifyFamilies(
          ModifyColumnFamiliesRequest.of("families")
              .addFamily("late", GCRULES.intersection()
                  .rule(GCRULES.maxVersions(2))
                  .rule(GCRULES.maxAge(Duration.ofDays(1))))
              .updateFamily("three", GCRULES.maxVersions(4))
              .addFamily("gone")
              .dropFamily("gone"));
    }
    Map<String, String> rules =
        ADMIN.getTable("families").getColumnFamilies().stream()
            .collect(Collectors.toMap(ColumnFamily::getId, f -> f.getGCRule().toString()));
    assertEquals(3, rules.size());
    assertEquals(GCRULES.maxVersions(4).toString(), rules.get("three"));
    assertTrue(rules.get("late").contains("PT24H"), rules.get("late"));
    List<String> keys = new ArrayList<>();
    DATA.sampleRowKeys("families").forEach(sample -> keys.add(sample.getKey().toStringUtf8()));
    assertEquals(List.of("g", "p", ""), keys);
    assertTrue(ADMIN.listTables().contains("families"));
  }

  @Test
  void tablesComeAndGo() {
    Clients.firstOnly();
    String name = Clients.newTable("f");
    Clients.refused(Code.ALREADY_EXISTS, name, () -> Clients.create(name, "f"));
    for (String key : List.of("a1", "b1")) {
      DATA.mutateRow(RowMutation.create(name, key).setCell("f", "q", "v"));
    }
    ADMIN.dropRowRange(name, "a");
    assertEquals(List.of("b1"), keys(name));
    ADMIN.awaitReplication(name);
    ADMIN.dropAllRows(name);
    assertEquals(List.of(), keys(name));
    ADMIN.deleteTable(name);
    assertFalse(ADMIN.exists(name));
    Clients.refused(Code.NOT_FOUND, name, () -> keys(name));
  }

  private static List<String> keys(String table) {
    List<String> keys = new ArrayList<>();
    DATA.readRows(Query.create(table)).forEach(row -> keys.add(row.getKey().toStringUtf8()));
    return keys;
  }
}
