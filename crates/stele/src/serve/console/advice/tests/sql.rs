//! Advice about PostgreSQL clients.

use super::super::super::readings::{SQL_CLIENT_ERROR, SQL_SERVER_ERROR};
use super::super::super::samples::SqlSample;
use super::*;

/// Returns the titles of advice about samples in which 100 statements a second end.
fn of(sql: SqlSample, errors: &[(&str, f64)]) -> Vec<String> {
    let mut sample = Sample { sql: Some(sql), seconds: 5.0, ..Sample::default() };
    let statements = OperationSample { per_second: 100.0, ..OperationSample::default() };
    sample.operations.insert(Operation::Sql, statements);
    sample.errors.extend(errors.iter().map(|(code, rate)| ((*code).to_owned(), *rate)));
    let recent = [sample.clone(), sample];
    let told = told(Phase::Serving, &EngineReading::default(), &recent);
    told.into_iter().map(|(_, title)| title).collect()
}

#[test]
fn errors_of_the_server_are_told_and_those_of_clients_are_not() {
    let of = |code, rate| of(SqlSample::default(), &[(code, rate)]);
    assert_eq!(of(SQL_SERVER_ERROR, 2.0), ["The server fails 2.0 % of SQL statements"]);
    assert_eq!(of(SQL_SERVER_ERROR, 0.5), [""; 0]);
    assert_eq!(of(SQL_CLIENT_ERROR, 50.0), [""; 0]);
}

#[test]
fn statements_of_sql_do_not_hide_requests_that_fail() {
    let mut sample = Sample { seconds: 5.0, ..Sample::default() };
    let of = |per_second| OperationSample { per_second, ..OperationSample::default() };
    sample.operations.insert(Operation::Sql, of(10_000.0));
    sample.operations.insert(Operation::Reads, of(10.0));
    sample.errors.insert("INTERNAL".to_owned(), 5.0);
    let told = told(Phase::Serving, &EngineReading::default(), &[sample]);
    assert_eq!(told, [(Severity::Warning, "50.0 % of requests fail".to_owned())]);
}

#[test]
fn memory_of_queries_near_its_limit_is_told() {
    let of = |memory| of(SqlSample { memory, memory_max: 1_000, ..SqlSample::default() }, &[]);
    assert_eq!(of(950), ["SQL queries hold 95 % of their memory"]);
    assert_eq!(of(850), [""; 0]);
}

#[test]
fn connections_near_their_limit_or_beyond_it_are_told() {
    let of = |connections, refused| {
        let refused_per_second = Some(refused);
        let connections_max = 100;
        let sql =
            SqlSample { connections, connections_max, refused_per_second, ..SqlSample::default() };
        of(sql, &[])
    };
    assert_eq!(of(90, 0.0), ["90 % of the places for PostgreSQL clients are taken"]);
    assert_eq!(of(100, 1.0), ["PostgreSQL clients find no place"]);
    assert_eq!(of(89, 0.0), [""; 0]);
}

#[test]
fn many_cancelled_statements_and_conflicts_are_told() {
    let of = |class, rate| {
        let errors_per_second = [(class, rate)].into();
        of(SqlSample { errors_per_second, ..SqlSample::default() }, &[])
    };
    assert_eq!(of("57", 6.0), ["6.0 % of SQL statements are cancelled"]);
    assert_eq!(of("57", 4.0), [""; 0]);
    assert_eq!(of("40", 2.0), ["2.0 % of SQL statements meet other transactions"]);
    assert_eq!(of("40", 0.5), [""; 0]);
    assert_eq!(of("42", 50.0), [""; 0]);
}

/// One error of a quiet server says nothing.
#[test]
fn a_single_cancelled_statement_is_not_told() {
    let errors_per_second = [("57", 0.05)].into();
    let sql = Some(SqlSample { errors_per_second, ..SqlSample::default() });
    let mut sample = Sample { sql, seconds: 20.0, ..Sample::default() };
    let statements = OperationSample { per_second: 0.1, ..OperationSample::default() };
    sample.operations.insert(Operation::Sql, statements);
    assert_eq!(told(Phase::Serving, &EngineReading::default(), &[sample]), []);
}
