//! Random conditions over a table that a model knows: a query gives the rows for which the model says
//! that its condition holds, whatever keys, columns and cells the plan reads.

use super::query;
use crate::harness::{Clients, set, with_table};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cmp::Ordering;

/// Number of conditions that are tried.
const CASES: usize = 1_500;

/// A number that equals none.
const NAN: &str = "CAST('nan' AS FLOAT64)";

/// A row of the model: its key, and the values of `f:p`, `f:q` and `g:q`.
type Row = (&'static str, [Option<&'static str>; 3]);

const COLUMNS: [&str; 3] = ["f['p']", "f['q']", "g[b'q']"];

const ROWS: &[Row] = &[
    ("a", [Some("a"), None, None]),
    ("aa", [None, Some("b"), None]),
    ("ab", [Some("x"), Some("x"), Some("x")]),
    ("abc", [None, None, Some("")]),
    ("b", [Some(""), Some("ab"), None]),
    ("b%", [Some("b%"), None, Some("a")]),
    ("ba", [Some("aa"), Some("aa"), None]),
    ("c", [None, None, Some("c")]),
];

#[derive(Debug, Clone)]
enum Side {
    Key,
    KeyText,
    Column(usize),
}

#[derive(Debug, Clone)]
enum Condition {
    Compare(Side, &'static str, &'static str),
    /// A constant before what it is compared with.
    Before(&'static str, &'static str, Side),
    Sides(usize, &'static str, usize),
    In(Side, Vec<&'static str>),
    /// The length of a column among numbers, NaN and NULL.
    LengthIn(usize, Vec<&'static str>),
    Between(Side, &'static str, &'static str),
    StartsWith(Side, &'static str),
    Like(Side, &'static str),
    IsNull(usize),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    IsTrue(Box<Condition>),
}

fn constant() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "a", "aa", "ab", "abc", "b", "b%", "c", "x", "\u{e9}"])
}

fn number() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["0", "1", "2.0", NAN, "NULL"])
}

fn operator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["=", "!=", "<>", "<", "<=", ">", ">="])
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![4 => Just(Side::Key), 1 => Just(Side::KeyText), 3 => (0..3usize).prop_map(Side::Column)]
}

fn condition() -> impl Strategy<Value = Condition> {
    use Condition as C;
    let leaf = prop_oneof![
        4 => (side(), operator(), constant()).prop_map(|(side, how, to)| C::Compare(side, how, to)),
        1 => (constant(), operator(), side()).prop_map(|(to, how, side)| C::Before(to, how, side)),
        1 => (0..3usize, operator(), 0..3usize).prop_map(|(l, how, r)| C::Sides(l, how, r)),
        2 => (side(), prop::collection::vec(constant(), 1..4)).prop_map(|(side, of)| C::In(side, of)),
        2 => (0..3usize, prop::collection::vec(number(), 1..4)).prop_map(|(at, of)| C::LengthIn(at, of)),
        2 => (side(), constant(), constant()).prop_map(|(side, a, b)| C::Between(side, a, b)),
        1 => (side(), constant()).prop_map(|(side, prefix)| C::StartsWith(side, prefix)),
        2 => (side(), prop::sample::select(vec!["a%", "%", "a_", "_", "b\\\\%", "%b%", "ab", "a%c", ""]))
            .prop_map(|(side, pattern)| C::Like(side, pattern)),
        1 => (0..3usize).prop_map(C::IsNull),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let several = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            3 => several.clone().prop_map(C::And),
            3 => several.prop_map(C::Or),
            2 => inner.clone().prop_map(|inner| C::Not(Box::new(inner))),
            1 => inner.prop_map(|inner| C::IsTrue(Box::new(inner))),
        ]
    })
}

impl Side {
    fn sql(&self) -> &'static str {
        match self {
            Self::Key => "_key",
            Self::KeyText => "CAST(_key AS STRING)",
            Self::Column(at) => COLUMNS[*at],
        }
    }

    fn of(&self, row: &Row) -> Option<&'static str> {
        match self {
            Self::Key | Self::KeyText => Some(row.0),
            Self::Column(at) => row.1[*at],
        }
    }
}

impl Condition {
    fn sql(&self) -> String {
        let joined = |parts: &[Self], word: &str| {
            let parts: Vec<String> = parts.iter().map(|part| format!("({})", part.sql())).collect();
            parts.join(word)
        };
        match self {
            Self::Compare(side, how, to) => format!("{} {how} '{to}'", side.sql()),
            Self::Before(to, how, side) => format!("'{to}' {how} {}", side.sql()),
            Self::Sides(left, how, right) => {
                format!("{} {how} {}", COLUMNS[*left], COLUMNS[*right])
            }
            Self::In(side, of) => format!("{} IN ('{}')", side.sql(), of.join("', '")),
            Self::LengthIn(at, of) => format!("LENGTH({}) IN ({})", COLUMNS[*at], of.join(", ")),
            Self::Between(side, low, high) => {
                format!("{} BETWEEN '{low}' AND '{high}'", side.sql())
            }
            Self::StartsWith(side, prefix) => format!("STARTS_WITH({}, '{prefix}')", side.sql()),
            Self::Like(side, pattern) => format!("{} LIKE '{pattern}'", side.sql()),
            Self::IsNull(at) => format!("{} IS NULL", COLUMNS[*at]),
            Self::And(parts) => joined(parts, " AND "),
            Self::Or(parts) => joined(parts, " OR "),
            Self::Not(inner) => format!("NOT ({})", inner.sql()),
            Self::IsTrue(inner) => format!("({}) IS TRUE", inner.sql()),
        }
    }

    fn holds(&self, row: &Row) -> Option<bool> {
        let compare = |left: &str, how: &str, right: &str| {
            let order = left.cmp(right);
            match how {
                "=" => order == Ordering::Equal,
                "!=" | "<>" => order != Ordering::Equal,
                "<" => order == Ordering::Less,
                "<=" => order != Ordering::Greater,
                ">" => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }
        };
        match self {
            Self::Compare(side, how, to) => side.of(row).map(|value| compare(value, how, to)),
            Self::Before(to, how, side) => side.of(row).map(|value| compare(to, how, value)),
            Self::Sides(left, how, right) => {
                row.1[*left].zip(row.1[*right]).map(|(left, right)| compare(left, how, right))
            }
            Self::In(side, of) => side.of(row).map(|value| of.contains(&value)),
            Self::LengthIn(at, of) => row.1[*at].and_then(|value| {
                let len = value.len() as f64;
                let found = of.iter().any(|item| item.parse() == Ok(len));
                let unknown = !found && of.contains(&"NULL");
                (!unknown).then_some(found)
            }),
            Self::Between(side, low, high) => {
                side.of(row).map(|value| *low <= value && value <= *high)
            }
            Self::StartsWith(side, prefix) => side.of(row).map(|value| value.starts_with(prefix)),
            Self::Like(side, pattern) => side.of(row).map(|value| like(value, pattern)),
            Self::IsNull(at) => Some(row.1[*at].is_none()),
            Self::And(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| part.holds(row)).collect();
                let known = !parts.contains(&None);
                if parts.contains(&Some(false)) { Some(false) } else { known.then_some(true) }
            }
            Self::Or(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| part.holds(row)).collect();
                let known = !parts.contains(&None);
                if parts.contains(&Some(true)) { Some(true) } else { known.then_some(false) }
            }
            Self::Not(inner) => inner.holds(row).map(|holds| !holds),
            Self::IsTrue(inner) => Some(inner.holds(row) == Some(true)),
        }
    }
}

/// LIKE by its definition, from the left; `\\\\` in the pattern's literal stands for one backslash.
fn like(value: &str, pattern: &str) -> bool {
    let mut letters = pattern.chars();
    match letters.next() {
        None => value.is_empty(),
        Some('%') => {
            let starts = value.char_indices().map(|(at, _)| at).chain([value.len()]);
            let mut starts = starts.collect::<Vec<_>>().into_iter();
            starts.any(|at| like(&value[at..], letters.as_str()))
        }
        Some('\\') => {
            let escaped = letters.as_str().trim_start_matches('\\');
            let letter = escaped.chars().next().unwrap();
            value.strip_prefix(letter).is_some_and(|rest| like(rest, &escaped[letter.len_utf8()..]))
        }
        Some(letter) => {
            let mut rest = value.chars();
            let next = rest.next();
            next.is_some_and(|next| letter == '_' || letter == next)
                && like(rest.as_str(), letters.as_str())
        }
    }
}

async fn with_rows() -> Clients {
    let mut clients = with_table().await;
    for (key, values) in ROWS {
        // Each row exists, also without a value in any of the columns.
        let mut cells = vec![set("g:other", 0, b"o")];
        for (column, value) in ["f:p", "f:q", "g:q"].iter().zip(values) {
            if let Some(value) = value {
                cells.push(set(column, 1_000, b"older"));
                cells.push(set(column, 2_000, value.as_bytes()));
            }
        }
        clients.write(key, cells).await;
    }
    clients
}

#[tokio::test]
async fn a_query_gives_the_rows_for_which_its_condition_holds() {
    let mut clients = with_rows().await;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (mut some, conditions) = (0, condition());
    for _ in 0..CASES {
        let condition = conditions.new_tree(&mut runner).unwrap().current();
        let sql = condition.sql();
        let holds: Vec<&Row> =
            ROWS.iter().filter(|row| condition.holds(row) == Some(true)).collect();
        some += usize::from(!holds.is_empty() && holds.len() < ROWS.len());
        let value = |of: Option<&str>| of.map_or("NULL".into(), |of| format!("b'{of}'"));
        let want = holds.iter().map(|(key, values)| format!("b'{key}' {}", value(values[1])));
        let got = query(&mut clients, &format!("SELECT _key, f['q'] FROM t WHERE {sql}")).await;
        assert_eq!(got, want.collect::<Vec<_>>(), "{sql}");
        let limited = format!("SELECT _key FROM t WHERE {sql} ORDER BY _key DESC LIMIT 2 OFFSET 1");
        let got = query(&mut clients, &limited).await;
        let want = holds.iter().rev().skip(1).take(2).map(|(key, _)| format!("b'{key}'"));
        assert_eq!(got, want.collect::<Vec<_>>(), "{limited}");
    }
    assert!(some > CASES / 3, "only {some} conditions choose among the rows");
}
