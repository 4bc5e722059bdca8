//! PostgreSQL's own benchmark, unchanged: its scripts run, and its sums agree.

use super::{address, serve};
use crate::server::Server;
use crate::setup;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs: `pgbench` and `psql`.
fn programs() -> Option<(PathBuf, PathBuf)> {
    let pgbench = setup::postgresql("STELE_PGBENCH", "pgbench")?;
    Some((pgbench, setup::postgresql("STELE_PSQL", "psql")?))
}

fn succeed(program: &Path, args: &[&str], server: &Server) -> String {
    let mut command = Command::new(program);
    setup::run(command.args(args).arg(address(server)))
        .unwrap_or_else(|error| panic!("{error}\n{}", server.stderr()))
}

/// Returns the one value of a query.
fn ask(psql: &Path, query: &str, server: &Server) -> String {
    succeed(psql, &["-X", "-A", "-t", "-c", query], server).trim().to_owned()
}

#[test]
fn pgbench_runs_and_its_sums_agree() {
    let Some((pgbench, psql)) = programs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut server = serve(dir.path());
    succeed(&pgbench, &["-i", "-I", "dtgvpf", "-s", "1", "-q"], &server);
    assert_eq!(ask(&psql, "SELECT count(*) FROM pgbench_accounts", &server), "100000");
    let mut transactions = 0;
    for mode in ["simple", "extended", "prepared"] {
        let script = ["-n", "-c", "4", "-j", "2", "-t", "25", "-M", mode];
        for (what, writes) in [(&[][..], true), (&["-N"][..], true), (&["-S"][..], false)] {
            let said = succeed(&pgbench, &[&script[..], what].concat(), &server);
            assert!(
                said.contains("number of transactions actually processed: 100/100"),
                "{mode}: {said}"
            );
            assert!(said.contains("number of failed transactions: 0"), "{mode}: {said}");
            transactions += if writes { 100 } else { 0 };
        }
    }
    let history = ask(&psql, "SELECT count(*) FROM pgbench_history", &server);
    assert_eq!(history, transactions.to_string());
    server.kill_9();
    server.restart();
    let sum = |query: &str| ask(&psql, query, &server);
    // The script without updates of branches and tellers writes history and accounts alone.
    assert_eq!(
        sum("SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts"),
        sum("SELECT coalesce(sum(delta), 0) FROM pgbench_history")
    );
    assert_eq!(
        sum("SELECT sum(bbalance) FROM pgbench_branches"),
        sum("SELECT sum(tbalance) FROM pgbench_tellers")
    );
    assert_eq!(sum("SELECT count(*) FROM pgbench_history"), transactions.to_string());
    assert!(server.terminate().success());
}
