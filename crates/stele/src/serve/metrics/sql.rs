//! Metrics of the door for PostgreSQL clients.

use super::Families;
use super::families::MICROS_PER_SECOND;
use sql::Counts;

/// Adds the families of the door. `memory` has the bytes that queries hold and may hold.
pub(super) fn add(counts: &Counts, memory: [usize; 2], families: &mut Families) {
    let help =
        "Open connections of PostgreSQL clients. One that a node hands on counts on both nodes.";
    families.gauge("stele_sql_connections", help, &[], counts.connections() as f64);
    let help = "Connections of PostgreSQL clients that may be open.";
    families.gauge("stele_sql_connections_limit", help, &[], counts.connections_max() as f64);
    let help = "Connections of PostgreSQL clients that found no place.";
    families.counter("stele_sql_refused_connections_total", help, &[], counts.refused() as f64);
    let help =
        "Connections of PostgreSQL clients that were handed to the node that leads the database.";
    families.counter("stele_sql_forwarded_connections_total", help, &[], counts.forwarded() as f64);
    let (committed, rolled_back) = counts.transactions();
    for (result, count) in [("committed", committed), ("rolled_back", rolled_back)] {
        let help = "Transactions of PostgreSQL clients, by their end.";
        let labels = [("result", result)];
        families.counter("stele_sql_transactions_total", help, &labels, count as f64);
    }
    for (statement, count) in counts.statements() {
        let help = "Statements of PostgreSQL clients that ended well, by kind.";
        let labels = [("statement", statement)];
        families.counter("stele_sql_statements_total", help, &labels, count as f64);
    }
    for (statement, result, latency) in counts.latency() {
        families.histogram(
            "stele_sql_statement_seconds",
            "Latency of statements of PostgreSQL clients until their end, by kind and result: ok, \
             client_error or server_error.",
            &[("result", result), ("statement", statement)],
            &latency,
            MICROS_PER_SECOND,
        );
    }
    let help = "Memory that queries of PostgreSQL clients hold.";
    families.gauge("stele_sql_query_memory_bytes", help, &[], memory[0] as f64);
    let help = "Memory that queries of PostgreSQL clients may hold.";
    families.gauge("stele_sql_query_memory_limit_bytes", help, &[], memory[1] as f64);
    for (class, count) in counts.errors() {
        let help = "Errors that PostgreSQL clients were told of, by the class of their SQLSTATE.";
        families.counter("stele_sql_errors_total", help, &[("class", class)], count as f64);
    }
}
