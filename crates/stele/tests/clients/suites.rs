//! The suites of both languages, each before and after `kill -9`, and each on the other's rows.

use crate::server::Server;
use crate::setup;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A memtable so small that the suites' data goes to SSTables before the server is killed.
const FLAGS: &[&str] = &["--memtable-bytes-max=4MiB"];

/// A suite that can be run.
enum Suite {
    Python(PathBuf),
    Go(PathBuf),
}

impl Suite {
    /// Runs the part of the suite that belongs to `phase`. `table` is what the other suite wrote.
    fn run(&self, server: &Server, phase: &str, only: Option<&str>, table: Option<&str>) {
        let mut command = match self {
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
        };
        command.env("BIGTABLE_EMULATOR_HOST", server.bigtable().to_string());
        command.env("CLIENTS_PHASE", phase).envs(table.map(|table| ("CLIENTS_TABLE", table)));
        if let Err(error) = setup::run(&mut command) {
            panic!("phase {phase}: {error}");
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
