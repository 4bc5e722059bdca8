package clients;

import com.google.api.gax.core.CredentialsProvider;
import com.google.api.gax.core.FixedCredentialsProvider;
import com.google.api.gax.rpc.ApiException;
import com.google.api.gax.rpc.StatusCode.Code;
import com.google.auth.oauth2.ServiceAccountCredentials;
import com.google.cloud.bigtable.admin.v2.BigtableTableAdminClient;
import com.google.cloud.bigtable.admin.v2.BigtableTableAdminSettings;
import com.google.cloud.bigtable.admin.v2.models.CreateTableRequest;
import com.google.cloud.bigtable.data.v2.BigtableDataClient;
import com.google.cloud.bigtable.data.v2.BigtableDataSettings;
import com.google.cloud.bigtable.data.v2.stub.metrics.NoopMetricsProvider;
import java.io.FileInputStream;
import java.io.IOException;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Assumptions;

/**
 * The clients of the server that BIGTABLE_EMULATOR_HOST names (or, by TLS and signed in with the key
 * file that CLIENTS_KEY_FILE names, of the one at CLIENTS_ENDPOINT). The suite runs in phases, on one
 * data directory:
 *
 * <ul>
 *   <li>CLIENTS_PHASE=first: everything; tables that stay are made and filled.
 *   <li>CLIENTS_PHASE=again: what holds after the server was killed and restarted.
 *   <li>CLIENTS_PHASE=changes: ChangesTest alone, while whoever runs it kills the server.
 *   <li>CLIENTS_PHASE=other: reads of what the suite of another language wrote, in the table that
 *       CLIENTS_TABLE names as INSTANCE/TABLE.
 * </ul>
 */
final class Clients {
  static final String PROJECT = "stele-tests";
  static final String INSTANCE = "java";
  static final String PHASE = System.getenv("CLIENTS_PHASE");
  /** The file of a program that signs in, else null. */
  static final String KEY_FILE = System.getenv("CLIENTS_KEY_FILE");
  static final String ENDPOINT =
      System.getenv(KEY_FILE == null ? "BIGTABLE_EMULATOR_HOST" : "CLIENTS_ENDPOINT");
  static final BigtableTableAdminClient ADMIN = admin();
  static final BigtableDataClient DATA = data(INSTANCE);

  private static int tables;

  private Clients() {}

  static String host() {
    return ENDPOINT.substring(0, ENDPOINT.lastIndexOf(':'));
  }

  static int port() {
    return Integer.parseInt(ENDPOINT.substring(ENDPOINT.lastIndexOf(':') + 1));
  }

  private static CredentialsProvider credentials() throws IOException {
    try (var file = new FileInputStream(KEY_FILE)) {
      // Without a scope the token is for the service at its address, as HBase's is.
      var account =
          ServiceAccountCredentials.fromStream(file)
              .createWithUseJwtAccessWithScope(true)
              .createScoped("https://www.googleapis.com/auth/cloud-platform");
      return FixedCredentialsProvider.create(account);
    }
  }

  private static BigtableTableAdminSettings.Builder adminSettings() throws IOException {
    if (KEY_FILE == null) {
      return BigtableTableAdminSettings.newBuilderForEmulator(host(), port());
    }
    var settings = BigtableTableAdminSettings.newBuilder();
    settings.stubSettings().setEndpoint(ENDPOINT).setCredentialsProvider(credentials());
    return settings;
  }

  private static BigtableDataSettings.Builder dataSettings() throws IOException {
    if (KEY_FILE == null) {
      return BigtableDataSettings.newBuilderForEmulator(host(), port());
    }
    // Else the client sends its metrics to Google.
    var settings =
        BigtableDataSettings.newBuilder().setMetricsProvider(NoopMetricsProvider.INSTANCE);
    settings.stubSettings().setEndpoint(ENDPOINT).setCredentialsProvider(credentials());
    return settings;
  }

  private static BigtableTableAdminClient admin() {
    try {
      var settings = adminSettings();
      return BigtableTableAdminClient.create(
          settings.setProjectId(PROJECT).setInstanceId(INSTANCE).build());
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  static BigtableDataClient data(String instance) {
    try {
      var settings = dataSettings();
      return BigtableDataClient.create(
          settings.setProjectId(PROJECT).setInstanceId(instance).build());
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Returns a client whose failed writes are not written again. */
  static BigtableDataClient dataWithoutRetries() {
    try {
      var settings = dataSettings().setProjectId(PROJECT).setInstanceId(INSTANCE);
      settings.stubSettings().mutateRowSettings().setRetryableCodes();
      return BigtableDataClient.create(settings.build());
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  static boolean first() {
    return PHASE.equals("first");
  }

  /** Skips a test of what the first phase does. */
  static void firstOnly() {
    Assumptions.assumeTrue(first(), "of the first phase");
  }

  /** Skips a test in the phase that reads another client's rows. */
  static void lasting() {
    Assumptions.assumeFalse(PHASE.equals("other"), "of this client's own rows");
  }

  /** Makes a table of its own for a test and returns its name. */
  static synchronized String newTable(String... families) {
    String name = "t" + ++tables;
    create(name, families);
    return name;
  }

  static void create(String name, String... families) {
    CreateTableRequest request = CreateTableRequest.of(name);
    for (String family : families) {
      request.addFamily(family);
    }
    ADMIN.createTable(request);
  }

  /** Expects an error of this code whose text holds {@code word}. */
  static void refused(Code code, String word, Runnable call) {
    ApiException error = Assertions.assertThrows(ApiException.class, call::run);
    Assertions.assertEquals(code, error.getStatusCode().getCode());
    Assertions.assertTrue(error.getMessage().contains(word), error.getMessage());
  }
}
