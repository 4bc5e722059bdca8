//! Clients of PostgreSQL whose server is killed with signal 9 in the midst of their transactions, and who find
//! exactly what was committed.
//!
//! Each client has a program in its own language. Sessions of a program make transfers between accounts at one
//! time, each with a row in a ledger, until their connections are lost. They ask again for a transfer that the
//! server refused with 40001 or 40P01. Some transfers are against a CHECK and are given up. Environment variables
//! tell a program what it does:
//!
//! | variable | value |
//! |---|---|
//! | `CLIENTS_KILLS` | `create`: make the schema `bank`; `work`: make transfers; `read`: write all that is there to the file `read` |
//! | `CLIENTS_SQL` | the address of the server |
//! | `CLIENTS_DIR` | the directory of the file `read`, and of the file `record-N` of each session N |
//! | `CLIENTS_SESSIONS` | the number of sessions, whose numbers begin at 1 |
//! | `CLIENTS_TRANSACTIONS` | the number of transfers that each session makes |
//! | `CLIENTS_ACCOUNTS`, `CLIENTS_BALANCE` | the number of accounts, and the money on each at the start |
//!
//! `judge.rs` describes both kinds of files. The server is killed once the records tell of enough
//! acknowledged transfers. `STELE_SQL_KILL_CYCLES` is the number of kills for each client (2).

use super::judge::{Bank, Reading, Records};
use super::{address, python_program};
use crate::server::{self, Server};
use crate::setup::{self, Running};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Sizes so small that the log has several segments and memtables are flushed.
const FLAGS: &[&str] = &[
    "--sql-listen=127.0.0.1:0",
    "--memtable-bytes-max=128KiB",
    "--log-segment-bytes=256KiB",
    "--sst-bytes-max=128KiB",
];
const BANK: Bank = Bank { accounts: 10, balance: 100 };
const SESSIONS: u64 = 4;
/// Transfers of each session, and of all together, that are acknowledged before a kill. Rounds wait for once, twice
/// and three times as many.
const ACKNOWLEDGED: (usize, usize) = (3, 20);
/// Transfers of each session in a round without a kill.
const QUIET_TRANSFERS: u64 = 10;
/// Time that sessions may take to get so far.
const PATIENCE: Duration = Duration::from_secs(300);

/// A client program with the directory of its records.
struct Client<'a> {
    program: &'a dyn Fn() -> Command,
    dir: &'a Path,
}

impl Client<'_> {
    /// Starts the program; `transfers` is the number that each session makes.
    fn start(&self, action: &str, transfers: u64, server: &Server) -> Running {
        let mut command = (self.program)();
        command.env("CLIENTS_KILLS", action).env("CLIENTS_SQL", address(server));
        command.env("CLIENTS_DIR", self.dir);
        for (name, value) in [
            ("CLIENTS_SESSIONS", SESSIONS),
            ("CLIENTS_TRANSACTIONS", transfers),
            ("CLIENTS_ACCOUNTS", BANK.accounts),
            ("CLIENTS_BALANCE", BANK.balance as u64),
        ] {
            command.env(name, value.to_string());
        }
        Running::start(&mut command).unwrap()
    }

    fn run(&self, action: &str, transfers: u64, server: &Server) {
        if let Err(error) = self.start(action, transfers, server).finish() {
            panic!("{action}: {error}\n{}", server.stderr());
        }
    }

    fn records(&self) -> Records {
        Records::load(self.dir, SESSIONS)
    }

    fn read(&self, server: &Server) -> Reading {
        self.run("read", 0, server);
        Reading::parse(&std::fs::read_to_string(self.dir.join("read")).unwrap())
    }

    /// Works without end, and kills the server after enough transfers were acknowledged.
    fn work_until_a_kill(&self, round: usize, server: &mut Server) {
        let before = self.records().acknowledged();
        let mut running = self.start("work", 1_000_000, server);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = running.has_ended();
            let now = self.records().acknowledged();
            let new = || now.iter().zip(&before).map(|(now, before)| now - before);
            let (each, all) = (ACKNOWLEDGED.0, ACKNOWLEDGED.1 * (1 + round % 3));
            if !ended && new().all(|count| count >= each) && new().sum::<usize>() >= all {
                break;
            }
            if ended || Instant::now() > deadline {
                let (new, printed) = (new().collect::<Vec<_>>(), running.printed());
                panic!("{new:?} transfers, ended: {ended}: {printed}\n{}", server.stderr());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        server.kill_9();
        running.finish().unwrap();
    }
}

/// Kills the server under a client program again and again, and lets it work to its end at last. After each
/// round the program has to find what its records say.
fn finds_what_was_committed(name: &str, program: &dyn Fn() -> Command) {
    let cycles = std::env::var("STELE_SQL_KILL_CYCLES").map_or(2, |value| value.parse().unwrap());
    let (dir, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let client = Client { program, dir: records.path() };
    let mut server = Server::start(dir.path(), FLAGS);
    let at = server.sql();
    client.run("create", 0, &server);
    let mut earlier = (client.records(), client.read(&server));
    assert_eq!(earlier.1.rows(), 0);
    for round in 1..=cycles {
        client.work_until_a_kill(round, &mut server);
        server.restart();
        assert_eq!(server.sql(), at, "clients find the server where it was");
        earlier = judge(&format!("{name}, kill {round}"), &client, &earlier, &server);
    }
    let before = earlier.0.last();
    client.run("work", QUIET_TRANSFERS, &server);
    let (last, reading) =
        judge(&format!("{name}, after {cycles} kills"), &client, &earlier, &server);
    for (before, last) in before.iter().zip(last.last()) {
        // A transfer that was missing is made again under its number.
        let made = last - before;
        assert!(
            (QUIET_TRANSFERS - 1..=QUIET_TRANSFERS).contains(&made),
            "{name}: {before}, {last}"
        );
    }
    let (unanswered, refused) = last.unanswered_and_refused();
    assert_eq!(unanswered, earlier.0.unanswered_and_refused().0, "{name}: all were answered");
    assert!(server.terminate().success());
    let checked = server::run(&["check", dir.path().to_str().unwrap()]);
    assert!(checked.status.success(), "{name}: check: {}", server::stderr(&checked));
    // The test harness hides what a passing test prints by macro.
    let summary = format!(
        "{name}: {cycles} kills, {} transfers, {refused} refused, {unanswered} without an answer\n",
        reading.rows()
    );
    std::io::stderr().write_all(summary.as_bytes()).unwrap();
}

/// Reads all that is there, and returns it with the records. Fails if they do not agree.
fn judge(
    place: &str,
    client: &Client<'_>,
    earlier: &(Records, Reading),
    server: &Server,
) -> (Records, Reading) {
    let now = (client.records(), client.read(server));
    let faults = BANK.faults((&earlier.0, &earlier.1), (&now.0, &now.1));
    assert!(faults.is_empty(), "{place}:\n{}\n{}", faults.join("\n"), server.stderr());
    now
}

#[test]
fn psql_finds_what_was_committed_before_kill_9() {
    let Some(psql) = setup::postgresql("STELE_PSQL", "psql") else { return };
    finds_what_was_committed("psql", &|| {
        let mut command = Command::new("sh");
        command.arg(setup::sources().join("sql/psql/kills.sh")).env("CLIENTS_PSQL", &psql);
        command
    });
}

#[test]
fn psycopg_finds_what_was_committed_before_kill_9() {
    let Some(interpreter) = setup::python_for_sql() else { return };
    finds_what_was_committed("psycopg", &|| python_program(&interpreter, &["kills.py", "psycopg"]));
}

#[test]
fn sqlalchemy_finds_what_was_committed_before_kill_9() {
    let Some(interpreter) = setup::python_for_sql() else { return };
    finds_what_was_committed("SQLAlchemy", &|| {
        python_program(&interpreter, &["kills.py", "sqlalchemy"])
    });
}

#[test]
fn pgx_finds_what_was_committed_before_kill_9() {
    let Some(suite) = setup::go_for_sql() else { return };
    finds_what_was_committed("pgx", &|| Command::new(&suite));
}

#[test]
fn jdbc_finds_what_was_committed_before_kill_9() {
    let Some((suite, classes)) = setup::java_for_sql() else { return };
    finds_what_was_committed("JDBC", &|| {
        let mut command = Command::new("java");
        command.args(["-cp", &classes, "sql.Kills"]).current_dir(&suite);
        command
    });
}
