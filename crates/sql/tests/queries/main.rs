//! Queries over a real database, compared with the answers of PostgreSQL 15.
#![expect(clippy::unwrap_used, reason = "a failure is the test's own verdict")]

mod catalogs;
mod harness;

use std::time::Duration;

use harness::{Session, run};
use sql::query::EngineOptions;
use sql::values::Settings;

/// Queries with the answers of PostgreSQL; `!` marks the state of an error. A line of `=` ends a case.
const ANSWERS: &str = include_str!("../../testdata/queries/answers");

#[test]
fn queries_answer_as_postgresql_does() {
    run(async {
        let session = Session::with_tables().await;
        let mut wrong = Vec::new();
        let mut count = 0;
        for case in ANSWERS.split("\n====\n") {
            let (query, want) = case.split_once("\n----\n").unwrap_or((case, ""));
            let query = query.trim_end_matches("\n----");
            let got = session.answer(query, &[]).await;
            count += 1;
            if got.trim_end_matches('\n') != want.trim_end_matches('\n') {
                wrong.push(format!("{query}\n   got: {got:?}\n  want: {want:?}"));
            }
        }
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    });
}

#[test]
fn parameters_take_the_type_of_their_place() {
    run(async {
        let session = Session::with_tables().await;
        let planned = session.plan("select id + $1 from t where name = $2 and born < $3").unwrap();
        let names: Vec<String> = planned.param_types().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["integer", "text", "date"]);
        let params = ["5", "ann", "2024-01-01"];
        let got =
            session.answer("select id + $1 from t where name = $2 and born < $3", &params).await;
        assert_eq!(got, "6\n");
    });
}

#[test]
fn errors_name_the_place() {
    run(async {
        let session = Session::with_tables().await;
        for (text, position) in [("select id, nope from t", 12), ("select 1 from  nope", 16)] {
            let problem = session.plan(text).err().unwrap();
            assert_eq!(problem.position, Some(position), "{text}: {problem}");
        }
    });
}

#[test]
fn a_key_bounds_the_scan() {
    run(async {
        let session = Session::with_tables().await;
        let plan = session.explain("select name from t where id = 3").await;
        assert!(plan.contains("t"), "{plan}");
        let sorted = session.explain("select id from t order by id").await;
        assert!(!sorted.contains("SortExec"), "{sorted}");
    });
}

#[test]
fn a_cancelled_query_ends() {
    run(async {
        let session = Session::with_tables().await;
        session.cancel.cancel();
        assert_eq!(session.answer("select id from t", &[]).await, "!57014");
    });
}

#[test]
fn subqueries_that_run_by_row_have_threads_however_few_there_are() {
    run(async {
        let options = EngineOptions { blocking_threads: 1, ..EngineOptions::default() };
        let session = Session::with(options).await;
        // The body of the first reads a table; the one of the second has a subquery of its own by row.
        let flat = "select t.id, (select count(*) from u where u.id > t.id) from t order by 1";
        let deep = "select t.id, (select count(*) from u where u.id > t.id and \
                    (select count(*) from t v where v.id > u.id) > 2) from t order by 1";
        let both = async || (session.answer(flat, &[]).await, session.answer(deep, &[]).await);
        let all = futures::future::join_all((0..8).map(|_| both()));
        let all = tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
        let want = ("1|3\n2|2\n3|1\n4|0\n5|0\n".to_owned(), "1|1\n2|0\n3|0\n4|0\n5|0\n".to_owned());
        all.iter().for_each(|answers| assert_eq!(*answers, want));
    });
}

#[test]
fn subqueries_that_run_by_row_are_nested() {
    run(async {
        let session = Session::with_tables().await;
        let nested = |depth: usize| {
            let inner = (1..=depth).rev().fold("0".to_owned(), |inner, at| {
                let before = at - 1;
                format!(
                    "(select count(*) from u x{at} where x{at}.id > x{before}.id + 1 - {inner})"
                )
            });
            format!("select x0.id, {inner} from u x0 order by 1")
        };
        let two = session.answer(&nested(2), &[]).await;
        assert_eq!(two, "1|4\n2|1\n3|0\n4|0\n");
    });
}

#[test]
fn expressions_agree_with_queries() {
    run(async {
        let session = Session::with_tables().await;
        let settings = Settings::default();
        for text in
            ["1 + 2 * 3", "'a' || 1", "round(2.345, 2)", "case when 1 < 2 then 'x' end", "null + 1"]
        {
            let query = session.answer(&format!("select {text}"), &[]).await;
            let value = session.evaluate(text).unwrap();
            assert_eq!(
                format!("{}\n", sql::values::value_text(&value, &settings)),
                query,
                "{text}"
            );
        }
        assert_eq!(session.evaluate("1 / 0").unwrap_err().state.code(), "22012");
    });
}
