//! Promises of COPY into columnar tables: what arrives, in which form it leaves, and that nothing is left of a load
//! that failed or was taken back.

use crate::rows::rows;
use crate::server::{Server, code};
use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use std::pin::pin;
use tokio_postgres::{Client, Error};

/// Bytes that are sent together, which cuts lines anywhere.
const PIECE: usize = 100_003;
/// Rows of which a COPY makes segments.
const MANY: u32 = 9_000;

/// Carries out a COPY FROM STDIN, and returns the number of its rows.
pub(crate) async fn copy(
    client: &Client,
    text: &str,
    data: impl Into<Bytes>,
) -> Result<u64, Error> {
    let mut sink = pin!(client.copy_in::<_, Bytes>(text).await?);
    let mut data: Bytes = data.into();
    while !data.is_empty() {
        let piece = data.split_to(PIECE.min(data.len()));
        sink.send(piece).await?;
    }
    sink.finish().await
}

/// Copies lines into a table, of which columns may be named.
pub(crate) async fn load(client: &Client, table: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    let copied = copy(client, &format!("COPY {table} FROM STDIN"), lines.concat()).await;
    assert_eq!(copied.unwrap(), lines.len() as u64, "{table}");
}

/// Returns all data of a COPY to the client.
async fn copied(client: &Client, text: &str) -> Vec<u8> {
    let stream = client.copy_out(text).await.unwrap();
    let parts: Vec<Bytes> = stream.try_collect().await.unwrap();
    parts.concat()
}

/// Returns the statement that makes a table with a column of each type.
pub(crate) fn typed(name: &str, storage: &str) -> String {
    format!(
        "CREATE TABLE {name} (id int, b boolean, s smallint, l bigint, r real, \
         d double precision, n numeric(12, 3), m numeric, t text, v varchar(20), c char(4), \
         y bytea, u uuid, da date, ti time, ts timestamp, tz timestamptz, iv interval, j json, \
         jb jsonb, o oid, na name) {storage}"
    )
}

/// Returns the line of a row of such a table. Each column is NULL in some rows.
pub(crate) fn line(id: u32) -> String {
    let date = format!("{}-{:02}-{:02}", 1990 + id % 40, 1 + id % 12, 1 + id % 28);
    let time = format!("{:02}:{:02}:{:02}.{:06}", id % 24, id % 60, id % 60, id * 7 % 1_000_000);
    let real = if id.is_multiple_of(997) { f32::NAN } else { (id % 1000) as f32 / 8.0 };
    let sign = if id.is_multiple_of(3) { "-" } else { "" };
    let numeric = match id % 5 {
        0 => id.to_string(),
        1 => format!("{id}.50"),
        2 => format!("{}.500", id % 100),
        3 => format!("-{id}.{}", id % 1000),
        _ if id % 1000 == 4 => "NaN".to_owned(),
        _ => "0.000001".to_owned(),
    };
    let text = match () {
        () if id.is_multiple_of(23) => String::new(),
        () if id.is_multiple_of(29) => format!("größe-{id}"),
        () if id.is_multiple_of(31) => "a\\tb\\\\c\\nd\"e,".to_owned(),
        () => format!("word-{}", id % 300),
    };
    let of_interval = |at: u32| (id + at) % 12;
    let [months, days, hours, minutes, seconds] = [0, 1, 2, 3, 4].map(of_interval);
    let values = [
        if id.is_multiple_of(3) { "t" } else { "f" }.to_owned(),
        (i64::from(id % 200) - 100).to_string(),
        (u64::from(id) * 1_000_003).to_string(),
        real.to_string(),
        (f64::from(id) * 0.25 - 700.0).to_string(),
        format!("{sign}{}.{:03}", id % 10_000, id % 1_000),
        numeric,
        text,
        format!("v{}", id % 1_000),
        format!("c{}", id % 10),
        format!("\\\\x{id:08x}"),
        format!("{id:08x}-0000-4000-8000-{id:012x}"),
        if id % 1_999 == 5 { "infinity".to_owned() } else { date.clone() },
        time.clone(),
        format!("{date} {time}"),
        format!("{date} {time}+02"),
        format!("{months} mons {days} days {hours:02}:{minutes:02}:{seconds:02}"),
        format!("{{\"a\":{id}}}"),
        format!("{{\"s\": \"x\", \"k\": {}}}", id % 50),
        if id.is_multiple_of(2) { id } else { 4_000_000_000 + id }.to_string(),
        format!("n{}", id % 100),
    ];
    let mut line = id.to_string();
    for (number, value) in (1u32..).zip(values) {
        let is_null = (id + 5 * number).is_multiple_of(19);
        line.push('\t');
        line.push_str(if is_null { "\\N" } else { &value });
    }
    line.push('\n');
    line
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_columnar_table_gives_is_what_it_was_given_in_each_format() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(&typed("plain", "")).await.unwrap();
    load(&client, "plain", (0..MANY).map(line)).await;
    let ordered = |table: &str| format!("COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT");
    let wanted = copied(&client, &ordered("plain")).await;
    let options = [
        ("", MANY),
        ("(FORMAT csv)", MANY),
        ("(FORMAT csv, HEADER, DELIMITER ';', QUOTE '!', NULL 'none')", MANY),
        ("(FORMAT binary)", MANY),
        ("(DELIMITER '|', NULL 'none')", MANY),
        ("(FORMAT csv, HEADER)", 300),
        ("(FORMAT binary)", 300),
    ];
    for (number, (options, count)) in options.into_iter().enumerate() {
        let table = format!("t{number}");
        client.batch_execute(&typed(&table, "USING columnar")).await.unwrap();
        let part = format!("COPY (SELECT * FROM plain WHERE id < {count}) TO STDOUT {options}");
        let data = copied(&client, &part).await;
        let text = format!("COPY {table} FROM STDIN {options}");
        let loaded = copy(&client, &text, data).await;
        assert_eq!(loaded.unwrap(), u64::from(count), "{text}");
        let found = copied(&client, &ordered(&table)).await;
        assert!(found == wanted[..found.len()], "{text}");
        assert_eq!(found.len() == wanted.len(), count == MANY, "{text}");
        let all = rows(&client, &format!("SELECT count(*), count(t) FROM {table}")).await;
        let of_plain = format!("SELECT count(*), count(t) FROM plain WHERE id < {count}");
        assert_eq!(all, rows(&client, &of_plain).await, "{text}");
    }
    let mut lines: Vec<_> = wanted.split_inclusive(|byte| *byte == b'\n').collect();
    let found = copied(&client, "COPY t0 TO STDOUT").await;
    let mut all: Vec<_> = found.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    all.sort_unstable();
    assert!(lines == all, "COPY of the table itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_has_quotes_and_newlines_in_values() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int, b text) USING columnar").await.unwrap();
    let line = |id: u32| format!("{id},\"one, \"\"{id}\"\"\r\ntwo\"\r\n");
    let data: String = std::iter::once("a,b\r\n".to_owned()).chain((0..MANY).map(line)).collect();
    let text = "COPY t FROM STDIN (FORMAT csv, HEADER)";
    assert_eq!(copy(&client, text, data).await.unwrap(), u64::from(MANY));
    let same = "SELECT count(*) FROM t WHERE b = 'one, \"' || a::text || E'\"\\r\\ntwo'";
    assert_eq!(rows(&client, same).await, [MANY.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_a_copy_does_not_name_get_their_defaults() {
    let server = Server::start().await;
    let client = server.client().await;
    let create = "CREATE TABLE t (id bigserial, a int, b text DEFAULT 'x', \
                  g int GENERATED ALWAYS AS (a * 2) STORED, i int GENERATED BY DEFAULT AS IDENTITY, \
                  at timestamptz DEFAULT now(), c numeric(6, 2)) USING columnar";
    client.batch_execute(create).await.unwrap();
    load(&client, "t (c, a)", (0..MANY).map(|id| format!("{}.005\t{id}\n", id % 9))).await;
    let seen = "SELECT count(*), count(DISTINCT id), min(id), max(id), count(DISTINCT i), sum(a), \
                sum(g), min(b), max(b), count(DISTINCT at), sum(c) FROM t";
    let wanted = "9000|9000|1|9000|9000|40495500|80991000|x|x|1|36090.00";
    assert_eq!(rows(&client, seen).await, [wanted]);
    load(&client, "t (a, id, b)", (0..10).map(|id| format!("1\t{}\t\\N\n", id + 9_001))).await;
    client.batch_execute("INSERT INTO t (a) VALUES (5)").await.unwrap();
    assert_eq!(
        rows(&client, "SELECT max(i), max(id), count(*), count(b) FROM t").await,
        ["9011|9010|9011|9001"]
    );
    assert_eq!(
        rows(&client, "SELECT id, g, b FROM t WHERE a = 5 AND id > 5000").await,
        ["9001|10|x"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_have_the_precision_of_their_columns() {
    let server = Server::start().await;
    let client = server.client().await;
    let create = "CREATE TABLE t (a int, i interval(0) DEFAULT '1.6 s', ti time(1) DEFAULT '10:00:00.26', \
                  ts timestamp(0) DEFAULT '2020-01-01 00:00:00.7') USING columnar";
    client.batch_execute(create).await.unwrap();
    load(&client, "t (a)", (0..5).map(|id| format!("{id}\n"))).await;
    load(&client, "t (a)", (0..MANY).map(|id| format!("{id}\n"))).await;
    client.batch_execute("INSERT INTO t (a) VALUES (1)").await.unwrap();
    let seen = "SELECT i, ti, ts, count(*) FROM t GROUP BY i, ti, ts";
    assert_eq!(rows(&client, seen).await, ["00:00:02|10:00:00.3|2020-01-01 00:00:01|9006"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_defaults_make_shorter_segments() {
    let server = Server::start().await;
    let client = server.client().await;
    let create = "CREATE TABLE t (a int, b text DEFAULT repeat('x', 20000)) USING columnar";
    client.batch_execute(create).await.unwrap();
    load(&client, "t (a)", (0..MANY).map(|id| format!("{id}\n"))).await;
    let seen = "SELECT count(*), sum(a), min(length(b)), max(length(b)) FROM t";
    assert_eq!(rows(&client, seen).await, ["9000|40495500|20000|20000"]);
    let plan = rows(&client, "EXPLAIN SELECT a FROM t").await.concat();
    assert!(plan.contains("segments 2 of 2"), "{plan}");
    assert_eq!(rows(&client, "SELECT length(b) FROM t LIMIT 1").await, ["20000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_many_columns_are_read_within_the_memory_of_queries() {
    let server = Server::start().await;
    let client = server.client().await;
    let columns: Vec<String> = (0..600).map(|number| format!("c{number} bigint")).collect();
    let create = format!("CREATE TABLE t ({}) USING columnar", columns.join(", "));
    client.batch_execute(&create).await.unwrap();
    load(&client, "t (c7)", (0..13_000).map(|id| format!("{id}\n"))).await;
    let row = rows(&client, "SELECT * FROM t LIMIT 1").await;
    assert_eq!(row[0].split('|').count(), 600);
    let last = "SELECT * FROM t ORDER BY c7 DESC LIMIT 1";
    assert!(rows(&client, last).await[0].contains("|12999|"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_is_part_of_its_transaction() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    client.batch_execute("CREATE TABLE t (a int, b text) USING columnar").await.unwrap();
    let lines = || (0..MANY).map(|id| format!("{id}\tb\n"));
    let count = "SELECT count(*), sum(a) FROM t";
    let (none, one, two) = ("0|NULL", "9000|40495500", "18000|80991000");
    client.batch_execute("BEGIN").await.unwrap();
    load(&client, "t", lines()).await;
    assert_eq!(rows(&client, count).await, [one], "own rows");
    assert_eq!(rows(&other, count).await, [none], "rows of another session");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(rows(&client, count).await, [none], "after a rollback");
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    load(&client, "t", lines()).await;
    client.batch_execute("SAVEPOINT s").await.unwrap();
    load(&client, "t", lines()).await;
    client.batch_execute("INSERT INTO t VALUES (7, 'x')").await.unwrap();
    assert_eq!(rows(&client, count).await, ["18001|80991007"]);
    client.batch_execute("ROLLBACK TO s").await.unwrap();
    assert_eq!(rows(&client, count).await, [one], "after a savepoint");
    let error = copy(&client, "COPY t FROM STDIN", "1\tb\nx\tb\n").await.unwrap_err();
    assert_eq!(code(&error), "22P02");
    client.batch_execute("ROLLBACK TO s").await.unwrap();
    load(&client, "t", lines()).await;
    other.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    assert_eq!(rows(&other, count).await, [none]);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(&client, count).await, [two], "after the commit");
    assert_eq!(rows(&other, count).await, [none], "a snapshot of before");
    other.batch_execute("COMMIT; BEGIN READ ONLY").await.unwrap();
    assert_eq!(rows(&other, count).await, [two]);
    let error = copy(&other, "COPY t FROM STDIN", "1\tb\n").await.unwrap_err();
    assert_eq!(code(&error), "25006");
    other.batch_execute("ROLLBACK").await.unwrap();
    let server = server.restarted().await;
    assert_eq!(rows(&server.client().await, count).await, [two], "after a restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_fails_leaves_nothing_and_tells_where() {
    let server = Server::start().await;
    let client = server.client().await;
    let create = "CREATE TABLE t (a int NOT NULL CHECK (a >= 0), b varchar(8), u uuid) \
                  USING columnar";
    client.batch_execute(create).await.unwrap();
    let good: Vec<String> = (0..MANY).map(|id| format!("{id}\tb\t\\N\n")).collect();
    for (bad, state, place) in [
        (&b"x\tb\t\\N\n"[..], "22P02", Some("column a: \"x\"")),
        (b"1\tb\n", "22P04", Some("")),
        (b"1\tb\t\\N\t1\n", "22P04", Some("")),
        (b"1\t\xff\t\\N\n", "22021", Some("")),
        (b"99999999999\tb\t\\N\n", "22003", Some("column a: \"99999999999\"")),
        (b"1\tnine char\t\\N\n", "22001", Some("column b: \"nine char\"")),
        (b"1\tb\tno-uuid\n", "22P02", Some("column u: \"no-uuid\"")),
        (b"-1\tb\t\\N\n", "23514", Some("")),
        (b"\\N\tb\t\\N\n", "23502", None),
    ] {
        // Among few rows, at the end of many, and in the middle of many.
        for (before, behind) in [(2, 0), (MANY as usize, 0), (MANY as usize / 2, MANY as usize)] {
            let (first, last) = (good[..before].concat(), good[..behind].concat());
            let all = [first.as_bytes(), bad, last.as_bytes()].concat();
            let error = copy(&client, "COPY t FROM STDIN", all).await.unwrap_err();
            let shown = bad.escape_ascii();
            assert_eq!(code(&error), state, "{shown} behind {before}: {error:?}");
            let told = error.as_db_error().and_then(|error| error.where_()).unwrap_or_default();
            let line = format!("COPY t, line {}", before + 1);
            let is_placed = |place: &str| told.starts_with(&line) && told.contains(place);
            assert!(place.is_none_or(is_placed), "{shown}: {told}");
            assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"], "{shown}");
        }
    }
    // A client that takes its COPY back, by CopyFail.
    {
        let mut sink = pin!(client.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap());
        sink.send(Bytes::from(good.concat())).await.unwrap();
    }
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"]);
    load(&client, "t", good.into_iter()).await;
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, [MANY.to_string()]);
}
