package sql;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** The client program of {@code kills.rs} by JDBC. Environment variables tell it what to do. */
final class Kills {
  private static final Path DIR = Path.of(System.getenv("CLIENTS_DIR"));
  private static final int ACCOUNTS = setting("CLIENTS_ACCOUNTS");

  private final int session;
  private final Path record;
  private final Connection connection;

  private Kills(int session) throws IOException, SQLException {
    this.session = session;
    record = DIR.resolve("record-" + session);
    connection = connect();
    connection.setAutoCommit(false);
    if (session % 2 == 1) {
      connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
    }
  }

  public static void main(String[] arguments) throws Exception {
    switch (System.getenv("CLIENTS_KILLS")) {
      case "create" -> create();
      case "work" -> work();
      case "read" -> read();
      default -> throw new IllegalArgumentException("CLIENTS_KILLS");
    }
  }

  private static int setting(String name) {
    return Integer.parseInt(System.getenv(name));
  }

  private static Connection connect() throws SQLException {
    URI at = URI.create(System.getenv("CLIENTS_SQL"));
    String url = "jdbc:postgresql://" + at.getHost() + ":" + at.getPort() + at.getPath();
    return DriverManager.getConnection(url + "?user=stele");
  }

  private static void create() throws SQLException {
    try (Connection connection = connect(); Statement statement = connection.createStatement()) {
      connection.setAutoCommit(false);
      statement.execute("CREATE SCHEMA bank");
      statement.execute("CREATE TABLE bank.accounts (id bigint PRIMARY KEY, "
          + "balance bigint NOT NULL CHECK (balance >= 0), changes bigint NOT NULL DEFAULT 0)");
      statement.execute("CREATE TABLE bank.ledger (session int, number int, "
          + "debit bigint NOT NULL REFERENCES bank.accounts, credit bigint NOT NULL REFERENCES bank.accounts, "
          + "amount bigint NOT NULL CHECK (amount > 0), token text NOT NULL UNIQUE, PRIMARY KEY (session, number))");
      statement.execute("CREATE INDEX ledger_debit ON bank.ledger (debit)");
      try (PreparedStatement insert = connection.prepareStatement("INSERT INTO bank.accounts VALUES (?, ?)")) {
        for (int account = 1; account <= ACCOUNTS; account++) {
          insert.setLong(1, account);
          insert.setLong(2, setting("CLIENTS_BALANCE"));
          insert.addBatch();
        }
        insert.executeBatch();
      }
      connection.commit();
    }
  }

  /** Works in all sessions until all is done or the connections are lost. */
  private static void work() throws Exception {
    List<Future<?>> sessions = new ArrayList<>();
    ExecutorService threads = Executors.newCachedThreadPool();
    try {
      for (int session = 1; session <= setting("CLIENTS_SESSIONS"); session++) {
        int number = session;
        sessions.add(threads.submit(() -> workAs(number)));
      }
      for (Future<?> session : sessions) {
        session.get();
      }
    } finally {
      threads.shutdown();
    }
  }

  private static Void workAs(int session) throws IOException, SQLException {
    try {
      Kills client = new Kills(session);
      int first = client.first();
      for (int number = first; number < first + setting("CLIENTS_TRANSACTIONS"); number++) {
        client.transfer(number);
      }
      client.connection.close();
    } catch (SQLException error) {
      // Class 08: the connection was lost, or there is no server.
      if (error.getSQLState() == null || !error.getSQLState().startsWith("08")) {
        throw error;
      }
    }
    return null;
  }

  /** Appends a line to the record. */
  private void note(Object... words) throws IOException {
    List<String> texts = new ArrayList<>();
    for (Object word : words) {
      texts.add(word.toString());
    }
    String line = String.join(" ", texts) + "\n";
    Files.writeString(record, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }

  /** Returns the number of the next transfer, after a look at one without an answer. */
  private int first() throws IOException, SQLException {
    if (Files.notExists(record)) {
      return 1;
    }
    List<String> lines = Files.readAllLines(record);
    String[] last = lines.get(lines.size() - 1).split(" ");
    int number = Integer.parseInt(last[1]);
    if (!last[0].equals("begin")) {
      return number + 1;
    }
    String look = "SELECT count(*) FROM bank.ledger WHERE session = ? AND number = ?";
    try (PreparedStatement query = connection.prepareStatement(look)) {
      query.setInt(1, session);
      query.setInt(2, number);
      ResultSet rows = query.executeQuery();
      rows.next();
      boolean found = rows.getInt(1) == 1;
      connection.commit();
      note(found ? "found" : "missing", number);
      return found ? number + 1 : number;
    }
  }

  /** Makes a transfer with as many tries as it takes, unless it is against a constraint. */
  private void transfer(int number) throws IOException, SQLException {
    while (true) {
      try {
        attempt(number);
        note("done", number);
        return;
      } catch (SQLException error) {
        switch (String.valueOf(error.getSQLState())) {
          case "40001", "40P01", "23514" -> {
            connection.rollback();
            note("refused", number);
          }
          default -> throw error;
        }
        if (error.getSQLState().equals("23514")) {
          return;
        }
      }
    }
  }

  private void attempt(int number) throws IOException, SQLException {
    int debit = 1 + (7 * session + 3 * number) % ACCOUNTS;
    int credit = 1 + (debit + number % (ACCOUNTS - 1)) % ACCOUNTS;
    int amount = 1 + (13 * number + session) % 60;
    String change = "UPDATE bank.accounts SET balance = balance + ?, changes = changes + 1 WHERE id = ?";
    try (PreparedStatement update = connection.prepareStatement(change);
        PreparedStatement insert = connection.prepareStatement("INSERT INTO bank.ledger VALUES (?, ?, ?, ?, ?, ?)")) {
      long[][] changes = {{-amount, debit}, {amount, credit}};
      for (long[] one : changes) {
        update.setLong(1, one[0]);
        update.setLong(2, one[1]);
        update.executeUpdate();
      }
      int[] numbers = {session, number, debit, credit, amount};
      for (int at = 0; at < numbers.length; at++) {
        insert.setInt(at + 1, numbers[at]);
      }
      insert.setString(6, session + "-" + number);
      insert.executeUpdate();
      note("begin", number, debit, credit, amount);
      connection.commit();
    }
  }

  private static void read() throws IOException, SQLException {
    List<String> found = new ArrayList<>();
    try (Connection connection = connect()) {
      query(connection, found, "account", "SELECT id, balance, changes FROM bank.accounts", null);
      List<Object> tokens = query(connection, found, "row", "SELECT * FROM bank.ledger", null);
      for (long account = 1; account <= ACCOUNTS; account++) {
        query(connection, found, "debit", "SELECT * FROM bank.ledger WHERE debit = ?", account);
      }
      for (Object token : tokens) {
        query(connection, found, "token", "SELECT * FROM bank.ledger WHERE token = ?", token);
      }
    }
    Files.write(DIR.resolve("read"), found);
  }

  /** Notes the rows of a query under a word, and returns the last column of each. */
  private static List<Object> query(
      Connection connection, List<String> found, String word, String query, Object argument)
      throws SQLException {
    List<Object> last = new ArrayList<>();
    try (PreparedStatement statement = connection.prepareStatement(query)) {
      if (argument != null) {
        statement.setObject(1, argument);
      }
      ResultSet rows = statement.executeQuery();
      int columns = rows.getMetaData().getColumnCount();
      while (rows.next()) {
        StringBuilder line = new StringBuilder(word);
        for (int column = 1; column <= columns; column++) {
          line.append(' ').append(rows.getObject(column));
        }
        found.add(line.toString());
        last.add(rows.getObject(columns));
      }
    }
    return last;
  }
}
