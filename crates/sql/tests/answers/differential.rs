//! Random queries, asked of the door and of PostgreSQL: rows and SQLSTATEs must agree.
//!
//! It runs only with `STELE_TEST_POSTGRES`. `STELE_TEST_SEED` chooses the first seed, and
//! `STELE_TEST_SEEDS` their number.
//!
//! 1. A seed gives the same tables and queries on every machine.
//! 2. Rows are compared as a set with counts; where a query has ORDER BY, it names all columns, and rows
//!    are compared in order.

use sqllogictest::{AsyncDB as _, DBOutput};

use crate::client::{Session, Target, postgresql};

/// Queries that come from one seed.
const QUERIES: usize = 60;

/// Columns of the tables: name and type, small enough for values to meet.
const COLUMNS: [(&str, &str); 6] = [
    ("a", "int"),
    ("b", "bigint"),
    ("n", "numeric"),
    ("f", "float8"),
    ("t", "text"),
    ("d", "date"),
];

/// Random choices by a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % count
    }

    fn of<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

fn literal(dice: &mut Dice, column: &str) -> String {
    if dice.chance(15) {
        return "NULL".to_owned();
    }
    let text = match column {
        "a" | "b" => dice.of(&["0", "1", "2", "3", "-1", "7"]),
        "n" => dice.of(&["0", "1.0", "1.00", "2.5", "-0.5", "10"]),
        "f" => dice.of(&["0", "'-0'", "1.5", "2", "'NaN'", "-3.25"]),
        "t" => dice.of(&["'a'", "'b'", "''", "'A'", "'ab'", "'é'"]),
        _ => dice.of(&["'2024-01-01'", "'2024-02-29'", "'1999-12-31'"]),
    };
    text.to_owned()
}

/// Returns the statements that make and fill the tables.
fn tables(dice: &mut Dice) -> Vec<String> {
    let mut out = Vec::new();
    for table in ["r", "s"] {
        let columns: Vec<String> =
            COLUMNS.iter().map(|(name, data_type)| format!("{name} {data_type}")).collect();
        out.push(format!("CREATE TABLE {table} (id int PRIMARY KEY, {})", columns.join(", ")));
        for id in 0..12 {
            let values: Vec<String> = COLUMNS.iter().map(|(name, _)| literal(dice, name)).collect();
            out.push(format!("INSERT INTO {table} VALUES ({id}, {})", values.join(", ")));
        }
    }
    out
}

/// Returns a numeric expression over the columns of a table.
fn number(dice: &mut Dice, table: &str, depth: usize) -> String {
    if depth == 0 || dice.chance(40) {
        return match dice.below(3) {
            0 => dice.of(&["1", "2", "0", "3", "1.5"]).to_owned(),
            _ => format!("{table}.{}", dice.of(&["a", "b", "n", "id"])),
        };
    }
    let left = number(dice, table, depth - 1);
    let right = number(dice, table, depth - 1);
    match dice.below(7) {
        0 => format!("({left} + {right})"),
        1 => format!("({left} - {right})"),
        2 => format!("({left} * {right})"),
        3 => format!("coalesce({left}, {right})"),
        4 => format!("nullif({left}, {right})"),
        5 => format!("greatest({left}, {right})"),
        _ => format!("CASE WHEN {} THEN {left} ELSE {right} END", condition(dice, table, 0)),
    }
}

fn condition(dice: &mut Dice, table: &str, depth: usize) -> String {
    let op = dice.of(&["=", "<>", "<", "<=", ">", ">="]);
    let column = dice.of(&["a", "b", "n", "f", "t", "d"]);
    let value = literal(dice, column);
    if depth == 0 {
        return match dice.below(5) {
            0 => format!("{table}.{column} IS NULL"),
            1 => format!("{table}.{column} IN ({value}, {})", literal(dice, column)),
            2 => format!("{table}.t LIKE {}", dice.of(&["'a%'", "'_'", "'%b'", "''"])),
            _ => format!("{table}.{column} {op} {value}"),
        };
    }
    let (left, right) = (condition(dice, table, depth - 1), condition(dice, table, depth - 1));
    match dice.below(9) {
        0 => format!("({left} AND {right})"),
        1 => format!("({left} OR {right})"),
        2 => format!("NOT ({left})"),
        3 => format!("EXISTS (SELECT 1 FROM s x WHERE x.{column} {op} {table}.{column})"),
        4 => format!("{table}.{column} IN (SELECT x.{column} FROM s x WHERE x.a {op} {table}.a)"),
        5 => format!(
            "{table}.{column} NOT IN (SELECT x.{column} FROM s x WHERE {})",
            condition(dice, "x", 0)
        ),
        6 => format!("{table}.a {op} (SELECT count(*) FROM s x WHERE x.b {op} {table}.b)"),
        7 => format!("{table}.{column} {op} ANY (SELECT x.{column} FROM s x)"),
        _ => format!("({left} = ({right}))"),
    }
}

/// Returns a query; true if its rows have an order.
fn query(dice: &mut Dice) -> (String, bool) {
    let column = dice.of(&["a", "b", "n", "f", "t", "d"]);
    let other = dice.of(&["a", "b", "n", "t", "d"]);
    let filter = condition(dice, "r", 2);
    let value = number(dice, "r", 2);
    let join = dice.of(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    let aggregate = dice.of(&[
        "count(*)",
        "sum(r.a)",
        "sum(r.n)",
        "avg(r.b)",
        "min(r.t)",
        "max(r.d)",
        "count(DISTINCT r.n)",
        "sum(DISTINCT r.a)",
        "bool_or(r.a > 1)",
        "string_agg(r.t, ',' ORDER BY r.t, r.id)",
        "array_agg(r.a ORDER BY r.id DESC)",
    ]);
    let text = match dice.below(11) {
        0 => format!("SELECT r.id, {value} FROM r WHERE {filter} ORDER BY 1, 2"),
        1 => format!("SELECT r.id, s.id FROM r {join} s ON r.{column} = s.{column} ORDER BY 1, 2"),
        2 => format!("SELECT r.{other}, {aggregate} FROM r WHERE {filter} GROUP BY r.{other}"),
        3 => format!("SELECT r.{column} IS NULL, {aggregate} FROM r GROUP BY 1 ORDER BY 1"),
        4 => format!("SELECT {aggregate} FROM r WHERE {filter}"),
        5 => {
            let set = dice.of(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"]);
            format!("SELECT r.{other} FROM r WHERE {filter} {set} SELECT s.{other} FROM s")
        }
        6 => format!(
            "SELECT r.id, row_number() OVER (PARTITION BY r.{column} ORDER BY r.id), \
             sum(r.a) OVER (ORDER BY r.{other}), rank() OVER (ORDER BY r.{column} DESC) \
             FROM r ORDER BY 1"
        ),
        7 => format!(
            "SELECT r.id, (SELECT max(s.{column}) FROM s WHERE s.a > r.a OR s.b = r.b) \
             FROM r WHERE {filter} ORDER BY 1"
        ),
        8 => format!("SELECT DISTINCT r.{other}, r.a > 1 FROM r WHERE {filter}"),
        9 => format!(
            "SELECT r.id, x.id FROM r LEFT JOIN LATERAL (SELECT s.id FROM s \
             WHERE s.{column} = r.{column} ORDER BY s.id LIMIT 2) x ON true ORDER BY 1, 2"
        ),
        _ => format!(
            "SELECT r.{other}, r.t, count(*), grouping(r.{other}) FROM r \
             GROUP BY ROLLUP (r.{other}, r.t)"
        ),
    };
    let ordered = text.contains(" ORDER BY 1");
    (text, ordered)
}

/// Returns the rows of an answer, sorted unless they have an order; or the state of its error.
async fn answer(session: &mut Session, text: &str, ordered: bool) -> Vec<String> {
    match session.run(text).await {
        Ok(DBOutput::Rows { rows, .. }) => {
            let mut rows: Vec<String> = rows.iter().map(|row| row.join("|")).collect();
            if !ordered {
                rows.sort();
            }
            rows
        }
        Ok(_) => vec!["done".to_owned()],
        Err(problem) => {
            vec![format!("!{}", Session::error_sql_state(&problem).unwrap_or_default())]
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_answer_as_postgresql_does() {
    let Some(address) = postgresql() else { return };
    let from = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let first = from("STELE_TEST_SEED", 1);
    let mut wrong = Vec::new();
    for seed in first..first + from("STELE_TEST_SEEDS", 3) {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (own, other) = (Target::stele().await, Target::new_database(&address, "random").await);
        let mut own = Session::open(&own).await.unwrap();
        let mut other = Session::open(&other).await.unwrap();
        for statement in tables(&mut dice) {
            own.run(&statement).await.unwrap();
            other.run(&statement).await.unwrap();
        }
        for _ in 0..QUERIES {
            let (text, ordered) = query(&mut dice);
            let got = answer(&mut own, &text, ordered).await;
            let want = answer(&mut other, &text, ordered).await;
            if got != want {
                wrong.push(format!("seed {seed}: {text}\n   got: {got:?}\n  want: {want:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
