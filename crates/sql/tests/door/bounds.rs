//! Promises about bounds: whatever a client asks, the server keeps its stacks, threads and memory.

use crate::group::{Fault, LocalGroup};
use crate::server::{Server, code};
use relational::{Database, DatabaseOptions};
use sql::DoorOptions;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Longest time that any of the statements below may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a test on threads as a server has them, but `blocking` ones for blocking calls.
fn on_threads(blocking: usize, test: impl Future<Output = ()>) {
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(2).max_blocking_threads(blocking).enable_all();
    let runtime = threads.thread_stack_size(sql::STACK_BYTES).build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.unwrap() });
}

/// Returns the first value of the first row.
async fn first(client: &Client, text: &str) -> String {
    let shown = text.get(..80).unwrap_or(text);
    let messages = client.simple_query(text).await.unwrap_or_else(|e| panic!("{shown}: {e:?}"));
    let row = messages.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        _ => None,
    });
    row.unwrap_or_default()
}

/// Returns the number of rows that a statement gives.
async fn count_of(client: &Client, text: &str) -> usize {
    let messages = client.simple_query(text).await.unwrap();
    messages.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_))).count()
}

#[test]
fn deep_and_long_statements_are_answered_or_refused() {
    on_threads(16, async {
        let server = Server::start().await;
        let client = server.client().await;
        client
            .batch_execute(
                "CREATE TABLE t (a int PRIMARY KEY, b int, n numeric); \
                 INSERT INTO t SELECT g, g, g FROM generate_series(1, 100) g",
            )
            .await
            .unwrap();
        let wide = format!("SELECT 1,1{}", " UNION ALL SELECT 1,1".repeat(100_000));
        let sums = format!("{})", "+1".repeat(1_500));
        let pyramid = format!("SELECT {}1{}", "(".repeat(10), sums.repeat(10));
        for text in [wide, pyramid] {
            let error = client.batch_execute(&text).await.unwrap_err();
            assert_eq!(code(&error), "54001", "{}", &text[..40]);
        }
        let sum = format!("SELECT 1{}", "+1".repeat(90));
        assert_eq!(first(&client, &sum).await, "91");
        let calls = format!("SELECT {}-1{}", "abs(".repeat(60), ")".repeat(60));
        assert_eq!(first(&client, &calls).await, "1");
        let ors = format!("SELECT count(*) FROM t WHERE a = 1{}", " OR b = 2".repeat(100));
        assert_eq!(first(&client, &ors).await, "2");
        let unions =
            format!("SELECT count(*) FROM (SELECT 1{}) q", " UNION ALL SELECT 1".repeat(30));
        assert_eq!(first(&client, &unions).await, "31");
        let numbers = (1..=1_000).map(|n| format!("{n}.0")).collect::<Vec<_>>().join(",");
        let all = format!("SELECT count(*) FROM t WHERE n IN ({numbers})");
        assert_eq!(first(&client, &all).await, "100");
        let pairs = (1..=100).map(|n| format!("({n},{n})")).collect::<Vec<_>>().join(",");
        let all = format!("SELECT count(*) FROM t WHERE (a, b) IN ({pairs})");
        assert_eq!(first(&client, &all).await, "100");
        let nested =
            |begin: &str, end: &str| format!("SELECT {}true{}", begin.repeat(40), end.repeat(40));
        for (begin, end) in [("(", " BETWEEN false AND true)"), ("coalesce(", ", false)")] {
            let error = client.batch_execute(&nested(begin, end)).await.unwrap_err();
            assert_eq!(code(&error), "54001", "{begin}");
        }
        assert_eq!(first(&client, "SELECT length(format('%70000s', 'x'))").await, "70000");
    });
}

#[test]
fn a_sleep_ends_by_its_time_by_a_request_and_by_a_timeout() {
    on_threads(16, async {
        let server = Server::start().await;
        let client = server.client().await;
        client.batch_execute("SELECT pg_sleep('NaN'), pg_sleep(-1), pg_sleep(0.01)").await.unwrap();
        let token = client.cancel_token();
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            token.cancel_query(NoTls).await.unwrap();
        };
        let (slept, ()) = tokio::join!(client.batch_execute("SELECT pg_sleep('infinity')"), cancel);
        let error = slept.unwrap_err();
        assert_eq!(code(&error), "57014");
        assert!(error.as_db_error().unwrap().message().contains("user request"), "{error:?}");
        client.batch_execute("SET statement_timeout = 200").await.unwrap();
        for text in ["SELECT pg_sleep(3600)", "SELECT pg_sleep(g) FROM generate_series(9, 20) g"] {
            let error = client.batch_execute(text).await.unwrap_err();
            assert_eq!(code(&error), "57014", "{text}");
            let message = error.as_db_error().unwrap().message().to_owned();
            assert!(message.contains("statement timeout"), "{text}: {message}");
        }
        client.batch_execute("SET statement_timeout = 0; SELECT 1").await.unwrap();
    });
}

#[test]
fn a_query_that_only_computes_ends_by_a_request_and_by_a_timeout() {
    on_threads(4, async {
        let server = Server::start().await;
        let client = server.client().await;
        let long = "SELECT count(*) FROM generate_series(1, 1500) a, generate_series(1, 1500) b, \
                    generate_series(1, 1500) c WHERE a + b * c < 0";
        let token = client.cancel_token();
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            token.cancel_query(NoTls).await.unwrap();
        };
        let (counted, ()) = tokio::join!(client.batch_execute(long), cancel);
        assert_eq!(code(&counted.unwrap_err()), "57014");
        client.batch_execute("SET statement_timeout = 200").await.unwrap();
        for text in [long, &format!("EXPLAIN ANALYZE {long}")] {
            assert_eq!(code(&client.batch_execute(text).await.unwrap_err()), "57014", "{text}");
        }
    });
}

#[test]
fn subqueries_that_run_by_row_end_and_keep_to_their_memory() {
    on_threads(4, async {
        let server = Server::start().await;
        let client = server.client().await;
        client
            .batch_execute("CREATE TABLE t (i int); INSERT INTO t VALUES (1), (2)")
            .await
            .unwrap();
        let endless = "SELECT (SELECT count(*) FROM generate_series(1, 1500) a, generate_series(1, 1500) b, \
                       generate_series(1, 1500) c WHERE a + b * c < t.i) FROM t";
        client.batch_execute("SET statement_timeout = 100").await.unwrap();
        // More of them than threads: one that went on would keep its thread.
        for _ in 0..8 {
            assert_eq!(code(&client.batch_execute(endless).await.unwrap_err()), "57014");
        }
        client.batch_execute("SET statement_timeout = 0").await.unwrap();
        assert_eq!(first(&client, "SELECT count(*) FROM t").await, "2");
        let large = "SELECT cardinality(ARRAY(SELECT repeat('x', 1000) FROM generate_series(1, 100000) a, \
                     generate_series(1, 100000) b WHERE a > t.i)) FROM t";
        assert_eq!(code(&client.batch_execute(large).await.unwrap_err()), "53200");
        let decided = "SELECT t.i < ALL (SELECT a FROM generate_series(1, 100000) a, \
                       generate_series(1, 100000) b WHERE b > t.i) FROM t LIMIT 1";
        assert_eq!(first(&client, decided).await, "f");
    });
}

#[test]
fn rows_that_are_not_fetched_leave_no_work_behind() {
    on_threads(4, async {
        let server = Server::start().await;
        let mut client = server.client().await;
        let setup = "CREATE TABLE t (n int); INSERT INTO t SELECT * FROM generate_series(1, 60000)";
        client.batch_execute(setup).await.unwrap();
        // The first rows come at once, and a join that takes long goes beside them.
        let text = "SELECT a.n FROM t a JOIN t b ON a.n * 5000 + b.n < 9201 UNION ALL \
                    SELECT n FROM generate_series(1, 2000) AS g(n)";
        // More of them than threads.
        for _ in 0..3 {
            let transaction = client.transaction().await.unwrap();
            let portal = transaction.bind(text, &[]).await.unwrap();
            assert_eq!(transaction.query_portal(&portal, 5).await.unwrap().len(), 5);
            drop(portal);
            let cursor = format!("DECLARE c CURSOR FOR {text}; FETCH 5 FROM c; CLOSE c");
            transaction.batch_execute(&cursor).await.unwrap();
            transaction.commit().await.unwrap();
        }
        let groups = "SELECT count(*) FROM (SELECT n % 7, count(*) FROM t GROUP BY n % 7) AS g";
        assert_eq!(first(&client, groups).await, "7");
    });
}

#[test]
fn expressions_that_wait_for_sequences_leave_threads_for_the_answers() {
    on_threads(1, async {
        let (tell, group) = tokio::sync::oneshot::channel();
        let server = Server::over(DoorOptions::default(), async |local| {
            let group = LocalGroup::of(local).await.unwrap();
            let (term, options) = (group.next_term().await, DatabaseOptions::default());
            let _ = tell.send(Arc::clone(&group));
            Database::open_in_group(local, term, options).await.unwrap()
        })
        .await;
        let group = group.await.unwrap();
        // More of them than the server has threads.
        let count = 8;
        let mut clients = Vec::new();
        for number in 0..count {
            let client = server.client().await;
            let create = format!("CREATE SEQUENCE s{number}; SELECT nextval('s{number}')");
            client.batch_execute(&create).await.unwrap();
            clients.push(client);
        }
        group.fail(vec![Fault::Untold; count]);
        let asked: Vec<_> = clients.into_iter().enumerate().collect();
        let asked = asked.into_iter().map(|(number, client)| {
            tokio::spawn(async move {
                client.batch_execute(&format!("SELECT setval('s{number}', 7)")).await.unwrap();
                first(&client, &format!("SELECT nextval('s{number}')")).await
            })
        });
        let asked: Vec<_> = asked.collect();
        // Each waits for the answer to its own write, and no answer comes before all have asked.
        while group.faults() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        group.tell(count);
        for number in asked {
            assert_eq!(number.await.unwrap(), "8");
        }
    });
}

#[test]
fn many_literals_and_words_are_parsed_in_one_pass() {
    on_threads(4, async {
        let server = Server::start().await;
        let client = server.client().await;
        let literals = format!("SELECT {};", "'a'\n".repeat(400_000));
        assert_eq!(
            first(&client, &format!("SELECT length({})", &literals[7..literals.len() - 1])).await,
            "400000"
        );
        for words in ["trim(leading from ", "FOR KEY SHARE ", "GENERATED AS IDENTITY ( "] {
            for begin in ["SELECT ", "CREATE TABLE t (a int "] {
                let text = format!("{begin}{}", words.repeat(100_000));
                assert!(client.batch_execute(&text).await.is_err(), "{words}");
            }
        }
    });
}

#[test]
fn open_cursors_hold_no_threads() {
    on_threads(3, async {
        let server = Server::start().await;
        let client = server.client().await;
        let fill = "CREATE TABLE t (a int PRIMARY KEY, b text); \
                    INSERT INTO t SELECT g, 'x' FROM generate_series(1, 20000) g";
        client.batch_execute(fill).await.unwrap();
        client.batch_execute("BEGIN").await.unwrap();
        for number in 0..20 {
            let declare = format!("DECLARE c{number} CURSOR FOR SELECT a, b || 'y' FROM t");
            client.batch_execute(&declare).await.unwrap();
            assert_ne!(first(&client, &format!("FETCH 1 FROM c{number}")).await, "");
        }
        let other = server.client().await;
        let count = "SELECT count(*) FROM t u JOIN t v ON u.a = v.a + 1";
        assert_eq!(first(&other, count).await, "19999");
        assert_eq!(count_of(&client, "FETCH ALL FROM c7").await, 19_999);
        assert_eq!(first(&client, "FETCH 1 FROM c7").await, "");
        client.batch_execute("MOVE ALL FROM c8; COMMIT").await.unwrap();
    });
}

#[test]
fn a_late_request_leaves_open_cursors_alone() {
    on_threads(16, async {
        let server = Server::start().await;
        let client = server.client().await;
        let fill = "CREATE TABLE t (a int PRIMARY KEY, b text); \
                    INSERT INTO t SELECT g, 'x' FROM generate_series(1, 20000) g; BEGIN; \
                    DECLARE c CURSOR FOR SELECT a, b || 'y' FROM t; FETCH 1 FROM c";
        client.batch_execute(fill).await.unwrap();
        client.cancel_token().cancel_query(NoTls).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(count_of(&client, "FETCH ALL FROM c").await, 19_999);
    });
}

#[test]
fn a_session_keeps_no_more_than_its_share() {
    on_threads(16, async {
        let server = Server::start().await;
        let client = server.client().await;
        let text = format!("SELECT 1 /* {} */", "x".repeat(6 << 20));
        let mut kept = Vec::new();
        let error = loop {
            match client.prepare(&text).await {
                Ok(statement) => kept.push(statement),
                Err(error) => break error,
            }
            assert!(kept.len() < 10);
        };
        assert_eq!(code(&error), "53200");
        kept.clear();
        client.batch_execute("DEALLOCATE ALL; BEGIN").await.unwrap();
        client.prepare(&text).await.unwrap();
        for number in 0..300 {
            let set = format!("SET LOCAL a.b{number} = 'x'");
            if let Err(error) = client.batch_execute(&set).await {
                assert_eq!((number, code(&error).as_str()), (256, "42704"));
                break;
            }
        }
        client.batch_execute("ROLLBACK").await.unwrap();
    });
}

#[test]
fn rows_of_held_cursors_count_for_the_share_of_a_session() {
    on_threads(16, async {
        let server = Server::start().await;
        let client = server.client().await;
        let declare = |number: usize| {
            format!(
                "DECLARE c{number} CURSOR WITH HOLD FOR \
                 SELECT repeat('x', 1000000) FROM generate_series(1, 60)"
            )
        };
        for number in 0..4 {
            client.batch_execute(&declare(number)).await.unwrap();
        }
        let error = client.batch_execute(&declare(4)).await.unwrap_err();
        assert_eq!(code(&error), "53200");
        assert_eq!(code(&client.batch_execute("FETCH c4").await.unwrap_err()), "34000");
        client.batch_execute("CLOSE c0").await.unwrap();
        client.batch_execute(&declare(4)).await.unwrap();
        assert_eq!(count_of(&client, "MOVE 59 FROM c4; FETCH ALL FROM c4").await, 1);
    });
}
