//! Metrics of the door for PostgreSQL clients.

use super::Families;
use sql::Counts;

/// Adds the families of the door.
pub(super) fn add(counts: &Counts, families: &mut Families) {
    let help = "Open connections of PostgreSQL clients.";
    families.gauge("stele_sql_connections", help, &[], counts.connections() as f64);
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
    for (class, count) in counts.errors() {
        let help = "Errors that PostgreSQL clients were told of, by the class of their SQLSTATE.";
        families.counter("stele_sql_errors_total", help, &[("class", class)], count as f64);
    }
}
