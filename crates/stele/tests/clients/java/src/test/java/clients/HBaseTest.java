package clients;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.cloud.bigtable.hbase.BigtableConfiguration;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.filter.PrefixFilter;
import org.apache.hadoop.hbase.filter.SingleColumnValueFilter;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.Test;

/** The HBase client for Bigtable. */
class HBaseTest {
  private static final byte[] F = Bytes.toBytes("f");
  private static final byte[] Q = Bytes.toBytes("q");
  private static final byte[] ROW = Bytes.toBytes("r");

  private static Connection connect() {
    var config = BigtableConfiguration.configure(Clients.PROJECT, "hbase");
    if (Clients.KEY_FILE == null) {
      config.set("google.bigtable.emulator.endpoint.host", Clients.ENDPOINT);
    } else {
      config.set("google.bigtable.endpoint.host", Clients.host());
      config.set("google.bigtable.admin.endpoint.host", Clients.host());
      config.setInt("google.bigtable.endpoint.port", Clients.port());
      config.set("google.bigtable.auth.json.keyfile", Clients.KEY_FILE);
    }
    return BigtableConfiguration.connect(config);
  }

  private static Table create(Connection connection, String name) throws Exception {
    TableName table = TableName.valueOf(name);
    var family = ColumnFamilyDescriptorBuilder.newBuilder(F).setMaxVersions(5).build();
    try (var admin = connection.getAdmin()) {
      admin.createTable(
          TableDescriptorBuilder.newBuilder(table).setColumnFamily(family).build(),
          new byte[][] {Bytes.toBytes("row0500")});
    }
    return connection.getTable(table);
  }

  private static Put put(int i) {
    return new Put(Bytes.toBytes(String.format("row%04d", i))).addColumn(F, Q, Bytes.toBytes(i));
  }

  @Test
  void rowsThatWereAcknowledgedStay() throws Exception {
    Clients.lasting();
    try (Connection connection = connect()) {
      if (Clients.first()) {
        try (Table table = create(connection, "lasting")) {
          List<Put> puts = new ArrayList<>();
          for (int i = 0; i < 1_000; i++) {
            puts.add(put(i));
          }
          table.put(puts);
        }
      }
      try (Table table = connection.getTable(TableName.valueOf("lasting"));
          ResultScanner scanner = table.getScanner(new Scan().addFamily(F))) {
        int seen = 0;
        for (Result row : scanner) {
          assertArrayEquals(Bytes.toBytes(seen), row.getValue(F, Q));
          seen++;
        }
        assertEquals(1_000, seen);
      }
      try (var regions = connection.getRegionLocator(TableName.valueOf("lasting"))) {
        assertTrue(regions.getAllRegionLocations().size() >= 2);
      }
    }
  }

  @Test
  void rowsAreWrittenFilteredAndDeleted() throws Exception {
    Clients.firstOnly();
    try (Connection connection = connect();
        Table table = create(connection, "rows")) {
      for (int i = 0; i < 20; i++) {
        table.put(put(i));
      }
      Scan prefix = new Scan().setFilter(new PrefixFilter(Bytes.toBytes("row001")));
      assertEquals(10, count(table, prefix));
      var value =
          new SingleColumnValueFilter(F, Q, CompareOperator.EQUAL, Bytes.toBytes(7));
      value.setFilterIfMissing(true);
      assertEquals(1, count(table, new Scan().setFilter(value)));
      assertEquals(3, count(table, new Scan().setReversed(true).setLimit(3)));
      table.delete(new Delete(Bytes.toBytes("row0003")));
      assertFalse(table.exists(new Get(Bytes.toBytes("row0003"))));
      assertEquals(19, count(table, new Scan()));
    }
  }

  private static int count(Table table, Scan scan) throws Exception {
    try (ResultScanner scanner = table.getScanner(scan)) {
      int rows = 0;
      for (Result ignored : scanner) {
        rows++;
      }
      return rows;
    }
  }

  @Test
  void aRowChangesInOneStep() throws Exception {
    Clients.firstOnly();
    try (Connection connection = connect();
        Table table = create(connection, "steps")) {
      table.put(new Put(ROW).addColumn(F, Q, 1, Bytes.toBytes("old")));
      Put change = new Put(ROW).addColumn(F, Q, 2, Bytes.toBytes("new"));
      assertTrue(
          table.checkAndMutate(ROW, F).qualifier(Q).ifEquals(Bytes.toBytes("old")).thenPut(change));
      assertFalse(
          table.checkAndMutate(ROW, F).qualifier(Q).ifEquals(Bytes.toBytes("old")).thenPut(change));
      Result counted = table.increment(new Increment(ROW).addColumn(F, Bytes.toBytes("n"), 3));
      assertEquals(3L, Bytes.toLong(counted.getValue(F, Bytes.toBytes("n"))));
      RowMutations both = new RowMutations(ROW);
      both.add(new Put(ROW).addColumn(F, Bytes.toBytes("x"), 3, Bytes.toBytes("y")));
      both.add(new Delete(ROW).addColumns(F, Q));
      table.mutateRow(both);
      Result row = table.get(new Get(ROW).readVersions(5));
      assertEquals(0, row.getColumnCells(F, Q).size());
      assertEquals("y", Bytes.toString(row.getValue(F, Bytes.toBytes("x"))));
    }
  }
}
