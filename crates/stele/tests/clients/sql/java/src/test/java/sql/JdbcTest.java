package sql;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.net.URI;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;

/**
 * PostgreSQL's JDBC driver: types, transactions, batches, generated keys, cursors, metadata, COPY.
 * {@code CLIENTS_SQL} is the address of the server; each test has a schema of its own.
 */
class JdbcTest {
  private static int number;
  private String schema;
  private Connection connection;

  private Connection connect(String parameters) throws SQLException {
    URI at = URI.create(System.getenv("CLIENTS_SQL"));
    String url = "jdbc:postgresql://" + at.getHost() + ":" + at.getPort() + at.getPath();
    return DriverManager.getConnection(url + "?user=stele&currentSchema=" + schema + parameters);
  }

  @BeforeEach
  void open() throws SQLException {
    schema = "j" + ProcessHandle.current().pid() + "_" + number++;
    connection = connect("");
    execute("CREATE SCHEMA " + schema);
  }

  @AfterEach
  void close() throws SQLException {
    if (!connection.getAutoCommit()) {
      connection.rollback();
      connection.setAutoCommit(true);
    }
    execute("DROP SCHEMA " + schema + " CASCADE");
    connection.close();
  }

  private void execute(String statement) throws SQLException {
    try (Statement made = connection.createStatement()) {
      made.execute(statement);
    }
  }

  private long ask(String query) throws SQLException {
    try (Statement made = connection.createStatement(); ResultSet rows = made.executeQuery(query)) {
      assertTrue(rows.next());
      return rows.getLong(1);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "&prepareThreshold=-1", "&preferQueryMode=simple", "&binaryTransfer=false"})
  void valuesComeBack(String parameters) throws SQLException {
    execute("CREATE TABLE t (id int PRIMARY KEY, a bool, b smallint, c int, d bigint, e real, f double precision, "
        + "g numeric(20,5), h text, i varchar(9), j bytea, k uuid, l date, m timestamp, n timestamptz, o int[], "
        + "p text[], q jsonb)");
    OffsetDateTime moment = OffsetDateTime.of(2024, 2, 29, 12, 0, 0, 123_000, ZoneOffset.UTC);
    UUID uuid = UUID.fromString("12345678-1234-5678-1234-567812345678");
    try (Connection other = connect(parameters);
        PreparedStatement insert = other.prepareStatement(
            "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::jsonb)")) {
      for (int id = 1; id <= 7; id++) {
        insert.setInt(1, id);
        insert.setBoolean(2, true);
        insert.setShort(3, (short) -5);
        insert.setInt(4, Integer.MAX_VALUE);
        insert.setLong(5, Long.MIN_VALUE);
        insert.setFloat(6, 1.5f);
        insert.setDouble(7, 0.1);
        insert.setBigDecimal(8, new BigDecimal("12345.67890"));
        insert.setString(9, "it's \\ €");
        insert.setString(10, "short");
        insert.setBytes(11, new byte[] {0, 1, -1});
        insert.setObject(12, uuid);
        insert.setObject(13, LocalDate.of(2024, 2, 29));
        insert.setObject(14, moment.toLocalDateTime());
        insert.setObject(15, moment);
        insert.setArray(16, other.createArrayOf("int4", new Integer[] {1, null, 3}));
        insert.setArray(17, other.createArrayOf("text", new String[] {"a", "b\"c,{}"}));
        insert.setString(18, "{\"a\": [1]}");
        assertEquals(1, insert.executeUpdate());
      }
      try (PreparedStatement select = other.prepareStatement("SELECT * FROM t WHERE id = ?")) {
        for (int id = 1; id <= 7; id++) {
          select.setInt(1, id);
          try (ResultSet row = select.executeQuery()) {
            assertTrue(row.next());
            assertTrue(row.getBoolean("a"));
            assertEquals(-5, row.getShort("b"));
            assertEquals(Integer.MAX_VALUE, row.getInt("c"));
            assertEquals(Long.MIN_VALUE, row.getLong("d"));
            assertEquals(1.5f, row.getFloat("e"));
            assertEquals(0.1, row.getDouble("f"));
            assertEquals(new BigDecimal("12345.67890"), row.getBigDecimal("g"));
            assertEquals("it's \\ €", row.getString("h"));
            assertArrayEquals(new byte[] {0, 1, -1}, row.getBytes("j"));
            assertEquals(uuid, row.getObject("k"));
            assertEquals(LocalDate.of(2024, 2, 29), row.getObject("l", LocalDate.class));
            assertEquals(moment.toLocalDateTime(), row.getTimestamp("m").toLocalDateTime());
            assertEquals(moment.toInstant(), row.getObject("n", OffsetDateTime.class).toInstant());
            assertArrayEquals(new Integer[] {1, null, 3}, (Integer[]) row.getArray("o").getArray());
            assertArrayEquals(new String[] {"a", "b\"c,{}"}, (String[]) row.getArray("p").getArray());
            assertEquals("{\"a\": [1]}", row.getString("q"));
            assertFalse(row.next());
          }
        }
      }
    }
    execute("INSERT INTO t (id) VALUES (100)");
    assertEquals(1, ask("SELECT count(*) FROM t WHERE a IS NULL AND q IS NULL"));
  }

  @Test
  void transactionsAndErrors() throws SQLException {
    execute("CREATE TABLE t (a int PRIMARY KEY, b int CONSTRAINT positive CHECK (b > 0))");
    connection.setAutoCommit(false);
    execute("INSERT INTO t VALUES (1, 1)");
    var savepoint = connection.setSavepoint("s");
    PSQLException error = assertThrows(PSQLException.class, () -> execute("INSERT INTO t VALUES (1, 1)"));
    assertEquals("23505", error.getSQLState());
    assertEquals("t_pkey", error.getServerErrorMessage().getConstraint());
    error = assertThrows(PSQLException.class, () -> execute("SELECT 1"));
    assertEquals("25P02", error.getSQLState());
    connection.rollback(savepoint);
    error = assertThrows(PSQLException.class, () -> execute("UPDATE t SET b = 0"));
    assertEquals("positive", error.getServerErrorMessage().getConstraint());
    connection.rollback(savepoint);
    connection.commit();
    connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
    connection.setReadOnly(true);
    error = assertThrows(PSQLException.class, () -> execute("DELETE FROM t"));
    assertEquals("25006", error.getSQLState());
    connection.rollback();
    connection.setReadOnly(false);
    connection.setAutoCommit(true);
    assertEquals(1, ask("SELECT count(*) FROM t"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "&reWriteBatchedInserts=true"})
  void batchesAndGeneratedKeys(String parameters) throws SQLException {
    execute("CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE)");
    try (Connection other = connect(parameters)) {
      try (PreparedStatement insert =
          other.prepareStatement("INSERT INTO t (name) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
        for (int n = 0; n < 300; n++) {
          insert.setString(1, "n" + n);
          insert.addBatch();
        }
        assertEquals(300, insert.executeBatch().length);
        List<Long> keys = new ArrayList<>();
        try (ResultSet made = insert.getGeneratedKeys()) {
          while (made.next()) {
            keys.add(made.getLong(1));
          }
        }
        assertEquals(300, keys.size());
        assertEquals(1, keys.get(0));
      }
      other.setAutoCommit(false);
      try (PreparedStatement insert = other.prepareStatement("INSERT INTO t (name) VALUES (?)")) {
        for (String name : new String[] {"new", "n5"}) {
          insert.setString(1, name);
          insert.addBatch();
        }
        assertThrows(BatchUpdateException.class, insert::executeBatch);
      }
      other.rollback();
    }
    assertEquals(300, ask("SELECT count(*) FROM t"));
  }

  @Test
  void cursorsByFetchSize() throws SQLException {
    execute("CREATE TABLE t AS SELECT g AS a FROM generate_series(1, 5000) AS g");
    connection.setAutoCommit(false);
    try (PreparedStatement select = connection.prepareStatement("SELECT a FROM t ORDER BY a")) {
      select.setFetchSize(77);
      try (ResultSet rows = select.executeQuery()) {
        for (int n = 1; n <= 5000; n++) {
          assertTrue(rows.next());
          assertEquals(n, rows.getInt(1));
        }
        assertFalse(rows.next());
      }
    }
    connection.commit();
    connection.setAutoCommit(true);
  }

  @Test
  void metadata() throws SQLException {
    execute("CREATE TABLE t (a int, b varchar(20) DEFAULT 'x', c numeric(8,2) NOT NULL, d timestamptz, "
        + "e bigint GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (a, e), CONSTRAINT t_b UNIQUE (b))");
    execute("CREATE VIEW v AS SELECT a, b FROM t");
    execute("COMMENT ON COLUMN t.b IS 'a comment'");
    DatabaseMetaData data = connection.getMetaData();
    assertEquals("PostgreSQL", data.getDatabaseProductName());
    assertTrue(data.getDatabaseMajorVersion() >= 15);
    List<String> tables = new ArrayList<>();
    try (ResultSet rows = data.getTables(null, schema, "%", new String[] {"TABLE", "VIEW"})) {
      while (rows.next()) {
        tables.add(rows.getString("TABLE_NAME") + " " + rows.getString("TABLE_TYPE"));
      }
    }
    assertEquals(List.of("t TABLE", "v VIEW"), tables);
    List<String> columns = new ArrayList<>();
    try (ResultSet rows = data.getColumns(null, schema, "t", "%")) {
      while (rows.next()) {
        columns.add(String.join(" ", rows.getString("COLUMN_NAME"), rows.getString("TYPE_NAME"),
            rows.getString("COLUMN_SIZE"), rows.getString("DECIMAL_DIGITS"), rows.getString("IS_NULLABLE"),
            rows.getString("IS_AUTOINCREMENT"), rows.getString("REMARKS")));
      }
    }
    assertEquals(List.of("a int4 10 0 NO NO null", "b varchar 20 0 YES NO a comment", "c numeric 8 2 NO NO null",
        "d timestamptz 35 6 YES NO null", "e int8 19 0 NO YES null"), columns);
    try (ResultSet rows = data.getSchemas()) {
      boolean found = false;
      while (rows.next()) {
        found |= rows.getString(1).equals(schema);
      }
      assertTrue(found);
    }
    try (ResultSet rows = data.getTablePrivileges(null, schema, "t")) {
      while (rows.next()) {
        assertEquals("t", rows.getString("TABLE_NAME"));
      }
    }
    try (Statement made = connection.createStatement();
        ResultSet rows = made.executeQuery("SELECT a, c, a + 1 AS s FROM t")) {
      assertEquals("t", ((org.postgresql.PGResultSetMetaData) rows.getMetaData()).getBaseTableName(1));
      assertEquals(2, rows.getMetaData().getScale(2));
      assertEquals("s", rows.getMetaData().getColumnLabel(3));
    }
  }

  private static List<String> texts(ResultSet rows, String... names) throws SQLException {
    List<String> out = new ArrayList<>();
    try (rows) {
      while (rows.next()) {
        List<String> row = new ArrayList<>();
        for (String name : names) {
          row.add(rows.getString(name));
        }
        out.add(String.join(" ", row));
      }
    }
    return out;
  }

  @Test
  void metadataOfKeys() throws SQLException {
    execute("CREATE TABLE k (x text, b int NOT NULL, a int NOT NULL, PRIMARY KEY (a, x), CONSTRAINT k_b UNIQUE (b))");
    execute("CREATE INDEX k_ab ON k (a, b)");
    DatabaseMetaData data = connection.getMetaData();
    assertEquals(List.of("a 1 k_pkey", "x 2 k_pkey"),
        texts(data.getPrimaryKeys(null, schema, "k"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
    assertEquals(List.of("f k_b 1 b A", "f k_pkey 1 a A", "f k_pkey 2 x A", "t k_ab 1 a A", "t k_ab 2 b A"),
        texts(data.getIndexInfo(null, schema, "k", false, true),
            "NON_UNIQUE", "INDEX_NAME", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC"));
    assertEquals(List.of("k_b", "k_pkey", "k_pkey"),
        texts(data.getIndexInfo(null, schema, "k", true, true), "INDEX_NAME"));
    assertEquals(List.of(), texts(data.getImportedKeys(null, schema, "k"), "FK_NAME"));
    assertEquals(List.of(), texts(data.getExportedKeys(null, schema, "k"), "FK_NAME"));
    assertEquals(List.of("x text", "a int4"),
        texts(data.getBestRowIdentifier(null, schema, "k", DatabaseMetaData.bestRowSession, false),
            "COLUMN_NAME", "TYPE_NAME"));
    List<String> types = texts(data.getTypeInfo(), "TYPE_NAME");
    assertTrue(types.containsAll(List.of("bool", "int4", "int8", "text", "numeric", "timestamptz", "_int4", "serial")),
        types.toString());
    execute("INSERT INTO k VALUES ('one', 1, 1), ('two', 2, 1)");
    try (Statement made = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_UPDATABLE);
        ResultSet rows = made.executeQuery("SELECT a, x, b FROM k ORDER BY x")) {
      while (rows.next()) {
        rows.updateInt("b", rows.getInt("b") * 10);
        rows.updateRow();
      }
    }
    try (Statement made = connection.createStatement()) {
      assertEquals(List.of("10", "20"), texts(made.executeQuery("SELECT b FROM k ORDER BY b"), "b"));
    }
  }

  @Test
  void copy() throws Exception {
    execute("CREATE TABLE t (a int PRIMARY KEY, b text)");
    var manager = connection.unwrap(PGConnection.class).getCopyAPI();
    assertEquals(2, manager.copyIn("COPY t FROM STDIN (FORMAT csv)", new StringReader("1,x\n2,\"y,z\"\n")));
    StringWriter out = new StringWriter();
    assertEquals(2, manager.copyOut("COPY (SELECT * FROM t ORDER BY a) TO STDOUT", out));
    assertEquals("1\tx\n2\ty,z\n", out.toString());
    PSQLException error = assertThrows(PSQLException.class,
        () -> manager.copyIn("COPY t FROM STDIN", new StringReader("3\tx\n1\ty\n")));
    assertEquals("23505", error.getSQLState());
    assertEquals(2, ask("SELECT count(*) FROM t"));
  }

  @Test
  void timeoutsAndCancel() throws Exception {
    try (Statement made = connection.createStatement()) {
      made.setQueryTimeout(1);
      PSQLException error = assertThrows(PSQLException.class, () -> made.execute("SELECT pg_sleep(60)"));
      assertEquals("57014", error.getSQLState());
    }
    try (Statement made = connection.createStatement()) {
      Thread canceller = new Thread(() -> {
        try {
          Thread.sleep(300);
          made.cancel();
        } catch (Exception error) {
          throw new IllegalStateException(error);
        }
      });
      canceller.start();
      PSQLException error = assertThrows(PSQLException.class, () -> made.execute("SELECT pg_sleep(60)"));
      assertEquals("57014", error.getSQLState());
      canceller.join();
    }
    assertNull(connection.getWarnings());
    assertEquals(1, ask("SELECT 1"));
  }
}
