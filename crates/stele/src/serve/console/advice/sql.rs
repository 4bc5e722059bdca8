//! Advice about PostgreSQL clients: their statements, connections and the memory of their queries.

use super::super::readings::{Operation, SQL_SERVER_ERROR};
use super::super::samples::Sample;
use super::{Advice, Severity, advice};
use std::sync::Arc;

/// Part of statements that fail by the server's fault, from which on advice is given.
const FAILED_MANY: f64 = 0.01;
/// Parts of statements that are cancelled, and that are in conflict with others; and how many a second say
/// something.
const CANCELLED_MANY: f64 = 0.05;
const CONFLICTS_MANY: f64 = 0.01;
const ERRORS_FEW: f64 = 0.1;
/// Part of a limit that is near to it.
const NEAR: f64 = 0.9;
/// Classes of SQLSTATE: an operator or a timeout intervened; the transaction met another one.
const INTERVENTION: &str = "57";
const CONFLICT: &str = "40";

/// Returns advice about what PostgreSQL clients did in the last minute.
pub(super) fn advise(recent: &[Arc<Sample>]) -> Vec<Advice> {
    let all = [
        failures(recent),
        memory(recent),
        connections(recent),
        cancelled(recent),
        conflicts(recent),
    ];
    all.into_iter().flatten().collect()
}

/// Returns statements a second, summed over samples.
fn statements(recent: &[Arc<Sample>]) -> f64 {
    let all = recent.iter().filter_map(|sample| sample.operations.get(&Operation::Sql));
    all.map(|operation| operation.per_second).sum()
}

/// Returns the part of statements that ended with an error of a class, if there are enough of both to say.
fn part_of_class(recent: &[Arc<Sample>], class: &str) -> Option<f64> {
    let samples = recent.iter().filter_map(|sample| sample.sql.as_ref());
    let errors: f64 = samples.filter_map(|sql| sql.errors_per_second.get(class)).sum();
    let is_seen = errors >= ERRORS_FEW * recent.len() as f64;
    (is_seen && errors > 0.0).then(|| (errors / statements(recent).max(errors)).min(1.0))
}

fn failures(recent: &[Arc<Sample>]) -> Option<Advice> {
    let failed = recent.iter().filter_map(|sample| sample.errors.get(SQL_SERVER_ERROR));
    let failed: f64 = failed.sum();
    let part = failed / statements(recent).max(failed);
    (failed > 0.0 && part >= FAILED_MANY).then(|| {
        advice(
            Severity::Warning,
            format!("The server fails {:.1} % of SQL statements", part * 100.0),
            "It has no room for them (SQLSTATE 53), its system fails (58), or it met damaged data or an error \
             of its own (XX). stele_sql_errors_total has the classes, and the server's log the reasons.",
            "stelesqlfails",
        )
    })
}

fn memory(recent: &[Arc<Sample>]) -> Option<Advice> {
    let sql = recent.last()?.sql.as_ref()?;
    let part = sql.memory as f64 / sql.memory_max.max(1) as f64;
    (sql.memory_max > 0 && part >= NEAR).then(|| {
        advice(
            Severity::Warning,
            format!("SQL queries hold {:.0} % of their memory", part * 100.0),
            "Further ones write to files and become slower, or fail with 53200. Run fewer large queries at a \
             time, give them indexes, or raise memory_bytes_max, a quarter of which is theirs.",
            "stelesqlmemorynearlimit",
        )
    })
}

fn connections(recent: &[Arc<Sample>]) -> Option<Advice> {
    let samples = || recent.iter().filter_map(|sample| sample.sql.as_ref());
    let refused: f64 = samples().filter_map(|sql| sql.refused_per_second).sum();
    let sql = samples().next_back()?;
    let part = sql.connections as f64 / sql.connections_max.max(1) as f64;
    let title = match refused > 0.0 {
        true => "PostgreSQL clients find no place".to_owned(),
        false => format!("{:.0} % of the places for PostgreSQL clients are taken", part * 100.0),
    };
    let is_near = sql.connections_max > 0 && part >= NEAR;
    (refused > 0.0 || is_near).then(|| {
        let text = format!(
            "{} of {} connections are open, and further clients are refused with 53300. Use a pool of \
             connections, and let the server close idle ones (idle_session_timeout).",
            sql.connections, sql.connections_max
        );
        advice(Severity::Warning, title, text, "stelesqlconnectionsnearlimit")
    })
}

fn cancelled(recent: &[Arc<Sample>]) -> Option<Advice> {
    let part = part_of_class(recent, INTERVENTION).filter(|part| *part >= CANCELLED_MANY)?;
    Some(advice(
        Severity::Note,
        format!("{:.1} % of SQL statements are cancelled", part * 100.0),
        "Their time was over (statement_timeout, lock_timeout), or a client or an operator cancelled them \
         (SQLSTATE 57). The log of slow requests shows statements that take long; pg_stat_activity shows \
         what runs now.",
        "when-statements-of-sql-are-cancelled-or-meet-others",
    ))
}

fn conflicts(recent: &[Arc<Sample>]) -> Option<Advice> {
    let part = part_of_class(recent, CONFLICT).filter(|part| *part >= CONFLICTS_MANY)?;
    Some(advice(
        Severity::Note,
        format!("{:.1} % of SQL statements meet other transactions", part * 100.0),
        "They end with a deadlock or a serialization failure (SQLSTATE 40), and their clients have to repeat \
         the transaction. Shorter transactions that take rows in one order, or READ COMMITTED, have fewer.",
        "when-statements-of-sql-are-cancelled-or-meet-others",
    ))
}
