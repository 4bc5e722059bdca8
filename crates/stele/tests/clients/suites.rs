//! The suites of all languages, each before and after `kill -9`, and some on the others' rows; and
//! histories of rows whose server is killed again and again.

use crate::secured::{Secured, endpoint};
use crate::server::Server;
use crate::setup;
use base::env::{Clock, Rng, SystemClock};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A memtable so small that the suites' data goes to SSTables before the server is killed.
const FLAGS: &[&str] = &["--memtable-bytes-max=4MiB"];

/// A suite that can be run.
enum Suite {
    Python(PathBuf),
    Go(PathBuf),
    Node(PathBuf),
    /// The directory and the class path.
    Java(PathBuf, String),
}

impl Suite {
    /// Runs the part of the suite that belongs to `phase`. `table` is what the other suite wrote.
    fn run(&self, server: &Server, phase: &str, only: Option<&str>, table: Option<&str>) {
        let mut command = self.command(only);
        command.env("BIGTABLE_EMULATOR_HOST", server.bigtable().to_string());
        command.env("CLIENTS_PHASE", phase).envs(table.map(|table| ("CLIENTS_TABLE", table)));
        if let Err(error) = setup::run(&mut command) {
            panic!("phase {phase}: {error}");
        }
    }

    /// Runs the first phase by TLS, signed in by a key file.
    fn run_secured(&self, server: &Server, secured: &Secured, only: Option<&str>) {
        let mut command = self.command(only);
        command.env("CLIENTS_PHASE", "first").env("CLIENTS_ENDPOINT", endpoint(server));
        command.env("CLIENTS_KEY_FILE", secured.key_file());
        // Trusted by Go, by gRPC of Python and Node.
        command.env("SSL_CERT_FILE", secured.ca());
        command.env("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", secured.ca());
        if let Self::Java(..) = self {
            let store = format!("-Djavax.net.ssl.trustStore={}", secured.trust_store().display());
            command.env("JDK_JAVA_OPTIONS", store + " -Djavax.net.ssl.trustStorePassword=changeit");
        }
        if let Err(error) = setup::run(command.env_remove("BIGTABLE_EMULATOR_HOST")) {
            panic!("by TLS: {error}\n{}", server.stderr());
        }
    }

    fn command(&self, only: Option<&str>) -> Command {
        match self {
            Self::Python(python) => {
                let mut command = Command::new(python);
                command.args(["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]);
                command.arg(only.unwrap_or(".")).env("PYTHONDONTWRITEBYTECODE", "1");
                command.current_dir(setup::sources().join("python"));
                command
            }
            Self::Go(suite) => {
                let mut command = Command::new(suite);
                command.args(["-test.failfast", "-test.run", only.unwrap_or(".")]);
                command.current_dir(setup::sources().join("go"));
                command
            }
            Self::Node(suite) => {
                let mut command = Command::new("node");
                command.args(["--test", "--test-concurrency=1"]).args(only);
                // Else the client looks for Google's metadata server.
                command.env("METADATA_SERVER_DETECTION", "none");
                command.current_dir(suite);
                command
            }
            Self::Java(suite, classes) => {
                let mut command = Command::new("java");
                command.args(["-cp", classes, "org.junit.platform.console.ConsoleLauncher"]);
                command.args(["execute", "--disable-banner", "--details=tree"]);
                let all = || "--scan-classpath=target/test-classes".to_owned();
                command.arg(only.map_or_else(all, |class| format!("--select-class={class}")));
                command.current_dir(suite);
                command
            }
        }
    }
}

/// Starts a server for `test`, kills and restarts it between the two parts.
fn around_a_kill(before: impl FnOnce(&Server), after: impl FnOnce(&Server)) {
    let dir = tempfile::tempdir().unwrap();
    let dir: &Path = dir.path();
    let mut server = Server::start(dir, FLAGS);
    before(&server);
    server.kill_9();
    server.restart();
    after(&server);
    assert!(server.terminate().success());
}

#[test]
fn python_clients_work_before_and_after_kill_9() {
    let Some(python) = setup::python().map(Suite::Python) else { return };
    around_a_kill(
        |server| python.run(server, "first", None, None),
        |server| python.run(server, "again", None, None),
    );
}

#[test]
fn the_go_client_works_before_and_after_kill_9() {
    let Some(go) = setup::go().map(Suite::Go) else { return };
    around_a_kill(
        |server| go.run(server, "first", None, None),
        |server| go.run(server, "again", None, None),
    );
}

#[test]
fn the_node_client_works_before_and_after_kill_9() {
    let Some(node) = setup::node().map(Suite::Node) else { return };
    around_a_kill(
        |server| node.run(server, "first", None, None),
        |server| node.run(server, "again", None, None),
    );
}

#[test]
fn node_reads_what_go_wrote() {
    let Some(node) = setup::node().map(Suite::Node) else { return };
    let Some(go) = setup::go().map(Suite::Go) else { return };
    around_a_kill(
        |server| go.run(server, "first", Some("^TestScenario$"), None),
        |server| node.run(server, "other", Some("scenario.test.js"), Some("go/scenario")),
    );
}

#[test]
fn python_clients_sign_in_by_a_key_file_over_tls() {
    let Some(python) = setup::python().map(Suite::Python) else { return };
    let (dir, secured) = (tempfile::tempdir().unwrap(), Secured::make());
    python.run_secured(&secured.start(dir.path()), &secured, None);
}

#[test]
fn the_go_client_signs_in_by_a_key_file_over_tls() {
    let Some(go) = setup::go().map(Suite::Go) else { return };
    let (dir, secured) = (tempfile::tempdir().unwrap(), Secured::make());
    go.run_secured(&secured.start(dir.path()), &secured, None);
}

#[test]
fn the_node_client_signs_in_by_a_key_file_over_tls() {
    let Some(node) = setup::node().map(Suite::Node) else { return };
    let (dir, secured) = (tempfile::tempdir().unwrap(), Secured::make());
    node.run_secured(&secured.start(dir.path()), &secured, None);
}

#[test]
fn java_clients_sign_in_by_a_key_file_over_tls() {
    let Some((suite, classes)) = setup::java() else { return };
    let java = Suite::Java(suite, classes);
    let (dir, secured) = (tempfile::tempdir().unwrap(), Secured::make());
    java.run_secured(&secured.start(dir.path()), &secured, None);
}

#[test]
fn java_clients_work_before_and_after_kill_9() {
    let Some((suite, classes)) = setup::java() else { return };
    let java = Suite::Java(suite, classes);
    around_a_kill(
        |server| java.run(server, "first", None, None),
        |server| java.run(server, "again", None, None),
    );
}

/// Java follows a change stream whose server is killed again and again: it is told each write once, in
/// the order of its row.
#[test]
fn java_follows_changes_across_kill_9() {
    let Some((suite, classes)) = setup::java() else { return };
    let java = Suite::Java(suite, classes);
    let (dir, signals) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // So small that segments of the log are retired while the test runs.
    let flags = ["--memtable-bytes-max=64KiB", "--log-segment-bytes=128KiB"];
    let mut server = Server::start(dir.path(), &flags);
    let mut command = java.command(Some("clients.ChangesTest"));
    command.env("BIGTABLE_EMULATOR_HOST", server.bigtable().to_string());
    command.env("CLIENTS_PHASE", "changes").env("CLIENTS_SIGNALS", signals.path());
    let printed = std::thread::scope(|scope| {
        let suite = scope.spawn(|| setup::run(&mut command));
        while !signals.path().join("ready").exists() && !suite.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
        }
        for kill in 0..8 {
            std::thread::sleep(Duration::from_millis(400 + 200 * (kill % 4)));
            server.kill_9();
            server.restart();
        }
        std::fs::write(signals.path().join("quiet"), "").unwrap();
        suite.join().unwrap()
    });
    let printed = printed.unwrap_or_else(|error| panic!("{error}\n{}", server.stderr()));
    assert!(printed.contains("changes: "), "the test ran: {printed}");
    assert!(server.terminate().success());
}

#[test]
fn java_reads_what_go_wrote() {
    let Some((suite, classes)) = setup::java() else { return };
    let java = Suite::Java(suite, classes);
    let Some(go) = setup::go().map(Suite::Go) else { return };
    around_a_kill(
        |server| go.run(server, "first", Some("^TestScenario$"), None),
        |server| java.run(server, "other", Some("clients.ScenarioTest"), Some("go/scenario")),
    );
}

#[test]
fn each_language_reads_what_the_other_wrote() {
    let Some(python) = setup::python().map(Suite::Python) else { return };
    let Some(go) = setup::go().map(Suite::Go) else { return };
    around_a_kill(
        |server| {
            python.run(server, "first", Some("test_scenario.py"), None);
            go.run(server, "first", Some("^TestScenario$"), None);
        },
        |server| {
            python.run(server, "other", None, Some("go/scenario"));
            go.run(server, "other", Some("^TestScenario$"), Some("python/scenario-sync"));
        },
    );
}

/// Every row is linearizable: what concurrent clients ask and are told of few rows, with the server's
/// times, across kills, fits an order in which one thing happened after the other. The suite records
/// the histories and judges them. `STELE_HISTORY_SECONDS` says for how long (20), `STELE_HISTORY_SEED`
/// from which seed the operations and the moments of the kills are drawn; how threads meet is not.
#[test]
fn histories_of_rows_are_linearizable_across_kill_9() {
    let Some(go) = setup::go() else { return };
    let number = |variable: &str| -> Option<u64> {
        std::env::var(variable).ok().map(|value| value.parse().expect(variable))
    };
    let seconds = number("STELE_HISTORY_SECONDS").unwrap_or(20);
    let seed = number("STELE_HISTORY_SEED")
        .unwrap_or_else(|| SystemClock.now_micros() as u64 % 1_000_000_000);
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &["--memtable-bytes-max=64KiB"]);
    let mut suite = Command::new(go);
    suite.args(["-test.v", "-test.timeout=0", "-test.run", "^TestHistories$"]);
    suite.env("BIGTABLE_EMULATOR_HOST", server.bigtable().to_string());
    suite.env("CLIENTS_PHASE", "histories").env("CLIENTS_SEED", seed.to_string());
    suite.env("CLIENTS_SECONDS", seconds.to_string());
    let mut rng = Rng::new(seed);
    let mut kills = 0;
    let printed = std::thread::scope(|scope| {
        let suite = scope.spawn(|| setup::run(&mut suite));
        while !suite.is_finished() {
            std::thread::sleep(Duration::from_millis(200 + rng.below(1_300)));
            server.kill_9();
            server.restart();
            kills += 1;
        }
        suite.join().unwrap()
    });
    let printed = printed.unwrap_or_else(|error| panic!("STELE_HISTORY_SEED={seed}: {error}"));
    assert!(server.terminate().success());
    let said = printed.lines().find(|line| line.starts_with("histories: ")).unwrap_or_default();
    // The test harness hides what a passing test prints by macro.
    let summary = format!("{said}, {kills} kills, seed {seed}\n");
    std::io::stderr().write_all(summary.as_bytes()).unwrap();
}
