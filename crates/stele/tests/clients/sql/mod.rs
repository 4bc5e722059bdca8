//! Clients of PostgreSQL, unmodified, against the door for SQL.
//!
//! The suites are programs of their languages, in the folders beside this file. The address of the server
//! is in `CLIENTS_SQL`. `STELE_PSQL` and `STELE_PGBENCH` name programs of PostgreSQL that are not on the
//! search path. [`kills`] kills the server under them.

mod judge;
mod kills;
mod pgbench;
mod psql;

use crate::secured::Secured;
use crate::server::Server;
use crate::setup;
use std::path::Path;
use std::process::Command;

/// The password of the owner, where one is needed.
const PASSWORD: &str = "a long secret";

/// Starts a server with the door for SQL on a free port.
fn serve(dir: &Path) -> Server {
    Server::start(dir, &["--sql-listen=127.0.0.1:0", "--memtable-bytes-max=4MiB"])
}

/// Returns the address of the owner's sessions.
fn address(server: &Server) -> String {
    format!("postgresql://stele@{}/stele", server.sql())
}

/// Runs a suite against a server, and fails with its output if it fails.
fn run(command: &mut Command, server: &Server) {
    command.env("CLIENTS_SQL", address(server));
    if let Err(error) = setup::run(command) {
        panic!("{error}\n{}", server.stderr());
    }
}

fn python(interpreter: &Path, only: &[&str]) -> Command {
    let suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"];
    python_program(interpreter, &[&suite[..], only].concat())
}

/// Returns the interpreter with arguments, in the directory of the suite.
fn python_program(interpreter: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(interpreter);
    command.args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
    command.current_dir(setup::sources().join("sql/python"));
    command
}

#[test]
fn python_drivers_and_sqlalchemy_work() {
    let Some(interpreter) = setup::python_for_sql() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut server = serve(dir.path());
    run(&mut python(&interpreter, &[]), &server);
    assert!(server.terminate().success());
}

#[test]
fn python_drivers_sign_in_by_scram_over_tls() {
    let Some(interpreter) = setup::python_for_sql() else { return };
    let (dir, secured) = (tempfile::tempdir().unwrap(), Secured::make());
    let sql = ["--sql-listen=127.0.0.1:0"];
    let mut server = Server::start(
        dir.path(),
        &[&sql[..], &secured.tls_flags().each_ref().map(String::as_str)].concat(),
    );
    let mut first = python(&interpreter, &["test_secured.py", "-k", "first"]);
    run(first.env("CLIENTS_CA", secured.ca()).env("CLIENTS_PASSWORD", PASSWORD), &server);
    let mut then = python(&interpreter, &["test_secured.py", "-k", "not first"]);
    run(then.env("CLIENTS_CA", secured.ca()).env("CLIENTS_PASSWORD", PASSWORD), &server);
    assert!(server.terminate().success());
}

#[test]
fn pgx_and_database_sql_work() {
    let Some(suite) = setup::go_for_sql() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut server = serve(dir.path());
    run(Command::new(suite).args(["-test.failfast", "-test.timeout=10m"]), &server);
    assert!(server.terminate().success());
}

#[test]
fn node_postgres_works() {
    let Some(suite) = setup::node_for_sql() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut server = serve(dir.path());
    let mut command = Command::new("node");
    run(command.args(["--test", "--test-concurrency=1"]).current_dir(suite), &server);
    assert!(server.terminate().success());
}

#[test]
fn jdbc_works() {
    let Some((suite, classes)) = setup::java_for_sql() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut server = serve(dir.path());
    let mut command = Command::new("java");
    command.args(["-cp", &classes, "org.junit.platform.console.ConsoleLauncher"]);
    command.args([
        "execute",
        "--disable-banner",
        "--details=tree",
        "--scan-classpath=target/test-classes",
    ]);
    run(command.current_dir(suite), &server);
    assert!(server.terminate().success());
}
