//! The statements that a prompt takes: one query, or an EXPLAIN of one.
//!
//! Invariant: no part of a statement that is taken writes, locks rows, or changes a session.

use crate::statement::Parsed;
use datafusion::sql::sqlparser::ast::{Query, Statement, Visit, Visitor};
use relational::{Error, Result, SqlState};
use std::ops::ControlFlow;

/// Returns the only statement of a text, if a prompt takes it.
pub(super) fn only_read(mut statements: Vec<Parsed>) -> Result<Parsed> {
    if statements.len() > 1 {
        let message = "a prompt runs one statement at a time";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    let Some(parsed) = statements.pop() else {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "there is no statement"));
    };
    let Parsed::Tree(statement) = &parsed else { return Err(not_taken()) };
    match statement.visit(&mut Reads) {
        ControlFlow::Continue(()) => Ok(parsed),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Finds a part of a statement that does more than read.
struct Reads;

impl Visitor for Reads {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<Error> {
        let verb = match statement {
            Statement::Query(_) | Statement::Explain { .. } => return ControlFlow::Continue(()),
            Statement::Insert(_) => "INSERT",
            Statement::Update(_) => "UPDATE",
            Statement::Delete(_) => "DELETE",
            Statement::Truncate(_) => "TRUNCATE TABLE",
            _ => return ControlFlow::Break(not_taken()),
        };
        ControlFlow::Break(read_only(verb))
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        if query.locks.is_empty() {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(read_only("SELECT FOR UPDATE"))
    }
}

fn read_only(verb: &str) -> Error {
    let message = format!("cannot execute {verb} in a read-only transaction");
    Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, message)
}

fn not_taken() -> Error {
    let error = Error::unsupported("a prompt runs queries, and EXPLAIN of queries, alone");
    error.with_hint("Use psql or another client of PostgreSQL.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::parse;

    #[test]
    fn queries_are_taken_and_what_does_more_is_refused() {
        for text in [
            "SELECT 1",
            "VALUES (1), (2);",
            "WITH a AS (SELECT 1) SELECT * FROM a UNION SELECT 2",
            "EXPLAIN SELECT * FROM t",
            "EXPLAIN ANALYZE SELECT * FROM t",
        ] {
            assert!(only_read(parse(text).unwrap()).is_ok(), "{text}");
        }
        for (text, state) in [
            ("", "42601"),
            ("SELECT 1; SELECT 2", "42601"),
            ("INSERT INTO t VALUES (1)", "25006"),
            ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "25006"),
            ("UPDATE t SET a = 1", "25006"),
            ("DELETE FROM t", "25006"),
            ("TRUNCATE t", "25006"),
            ("SELECT * FROM t FOR UPDATE", "25006"),
            ("SELECT * FROM (SELECT * FROM t FOR SHARE) AS s", "25006"),
            ("EXPLAIN SELECT * FROM t FOR UPDATE", "25006"),
            ("EXPLAIN ANALYZE DELETE FROM t", "25006"),
            ("SELECT * INTO u FROM t", "0A000"),
            ("CREATE TABLE u (a int)", "0A000"),
            ("CREATE TABLE u AS SELECT 1", "0A000"),
            ("DROP TABLE t", "0A000"),
            ("ALTER SEQUENCE s RESTART", "0A000"),
            ("COPY t TO STDOUT", "0A000"),
            ("COPY t FROM STDIN", "0A000"),
            ("LISTEN a", "0A000"),
            ("SET search_path = s", "0A000"),
            ("SHOW search_path", "0A000"),
            ("BEGIN", "0A000"),
            ("COMMIT", "0A000"),
            ("LOCK TABLE t IN ACCESS SHARE MODE", "0A000"),
            ("PREPARE p AS SELECT 1", "0A000"),
            ("EXECUTE p", "0A000"),
            ("DECLARE c CURSOR FOR SELECT 1", "0A000"),
            ("VACUUM t", "0A000"),
            ("DISCARD ALL", "0A000"),
        ] {
            let error = only_read(parse(text).unwrap()).unwrap_err();
            assert_eq!(error.state.code(), state, "{text}: {error}");
        }
        let written = "WITH a AS (INSERT INTO t VALUES (1) RETURNING a) SELECT * FROM a";
        assert!(parse(written).and_then(only_read).is_err());
    }
}
