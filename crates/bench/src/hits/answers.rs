//! Answers of two servers to the same query, compared as text.
//!
//! LIMIT leaves open which rows an answer has, if rows have the same values of ORDER BY:
//! 1. Equal sets of rows, whose sort keys stand in the same order, are the same answer.
//! 2. Else the sort keys must be the same in the same order. Rows with the keys of the last row may differ, and
//!    behind an OFFSET rows with the keys of the first one. All other rows must be the same.
//! 3. If ORDER BY has keys that the answer does not show, rows with the same visible keys may differ. Without
//!    ORDER BY only the number of rows is certain.
//! 4. Without LIMIT all rows must be the same.

use super::queries::Parts;

/// The rows of an answer, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
}

/// Values as text; none is NULL.
type Row = Vec<Option<String>>;

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The rows are the same.
    Same,
    /// The sort keys are the same, and all rows that they decide on.
    SameKeys,
    /// Only the numbers of rows could be compared, and they are the same.
    SameCount,
    /// The answers differ in what must be the same.
    Different(String),
}

impl Verdict {
    /// Returns it as one word or a sentence.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Same => "same".to_owned(),
            Self::SameKeys => "same keys".to_owned(),
            Self::SameCount => "same count".to_owned(),
            Self::Different(what) => format!("DIFFERENT: {what}"),
        }
    }
}

/// Compares the answers of two servers to the statement `text`.
pub(super) fn compare(text: &str, ours: &Answer, theirs: &Answer) -> Verdict {
    let parts = Parts::of(text);
    let (our_count, their_count) = (ours.rows.len(), theirs.rows.len());
    if our_count != their_count {
        return Verdict::Different(format!("{our_count} and {their_count} rows"));
    }
    let keys = Keys::of(&parts, &theirs.columns);
    let pairs = ours.rows.iter().zip(&theirs.rows);
    for (number, (our_row, their_row)) in pairs.enumerate() {
        let (our_key, their_key) = (keys.values(our_row), keys.values(their_row));
        if our_key != their_key {
            return Verdict::Different(format!("row {number} has {our_key:?} and {their_key:?}"));
        }
    }
    if sorted(ours.rows.iter()) == sorted(theirs.rows.iter()) {
        return Verdict::Same;
    }
    if !parts.is_limited {
        return Verdict::Different("rows differ".to_owned());
    }
    if keys.positions.is_empty() {
        return Verdict::SameCount;
    }
    if keys.are_all && keys.certain(ours, &parts) != keys.certain(theirs, &parts) {
        return Verdict::Different("rows differ that their sort keys decide on".to_owned());
    }
    Verdict::SameKeys
}

fn sorted<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'a Row> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    rows
}

/// The sort keys that an answer shows.
#[derive(Debug, PartialEq, Eq)]
struct Keys {
    /// Positions of their columns in the answer.
    positions: Vec<usize>,
    /// Every key of ORDER BY is among them.
    are_all: bool,
}

impl Keys {
    fn of(parts: &Parts<'_>, columns: &[String]) -> Self {
        let found: Vec<_> = parts.order.iter().map(|key| position(key, parts, columns)).collect();
        let are_all = found.iter().all(Option::is_some);
        Self { positions: found.into_iter().flatten().collect(), are_all }
    }

    fn values<'a>(&self, row: &'a Row) -> Vec<Option<&'a str>> {
        self.positions.iter().map(|at| row.get(*at).and_then(Option::as_deref)).collect()
    }

    /// Returns the rows that must be part of each right answer, sorted.
    fn certain<'a>(&self, answer: &'a Answer, parts: &Parts<'_>) -> Vec<&'a Row> {
        let key_of = |row: Option<&'a Row>| row.map(|row| self.values(row));
        let first = key_of(answer.rows.first()).filter(|_| parts.skips);
        let last = key_of(answer.rows.last());
        sorted(answer.rows.iter().filter(|row| {
            let key = Some(self.values(row));
            key != first && key != last
        }))
    }
}

/// Returns the position of the column that shows a key of ORDER BY: by its number, name or expression.
fn position(key: &str, parts: &Parts<'_>, columns: &[String]) -> Option<usize> {
    let key = plain(key);
    let key = key.strip_suffix(" desc").or_else(|| key.strip_suffix(" asc")).unwrap_or(&key);
    if let Ok(number) = key.parse::<usize>() {
        return number.checked_sub(1).filter(|at| *at < columns.len());
    }
    let by_name = columns.iter().position(|name| name.to_lowercase() == key);
    by_name.or_else(|| {
        parts.columns.iter().position(|column| {
            let column = plain(column);
            column == key || column.rsplit_once(" as ").is_some_and(|(value, _)| value == key)
        })
    })
}

/// Returns an expression in lower case with single blanks.
fn plain(expression: &str) -> String {
    expression.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(columns: &[&str], rows: &[&[&str]]) -> Answer {
        let row = |row: &&[&str]| row.iter().map(|value| Some((*value).to_owned())).collect();
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        Answer { columns, rows: rows.iter().map(row).collect() }
    }

    fn of_two(text: &str, ours: &[&[&str]], theirs: &[&[&str]]) -> String {
        let columns = ["name", "count"];
        compare(text, &answer(&columns, ours), &answer(&columns, theirs)).text()
    }

    #[test]
    fn without_a_limit_all_rows_must_be_there() {
        let text = "SELECT name, COUNT(*) FROM t GROUP BY name";
        assert_eq!(of_two(text, &[&["a", "1"], &["b", "2"]], &[&["b", "2"], &["a", "1"]]), "same");
        assert_eq!(
            of_two(text, &[&["a", "1"], &["b", "2"]], &[&["b", "2"], &["a", "3"]]),
            "DIFFERENT: rows differ"
        );
        assert_eq!(of_two(text, &[&["a", "1"]], &[]), "DIFFERENT: 1 and 0 rows");
    }

    #[test]
    fn only_rows_with_the_last_key_may_differ() {
        let text = "SELECT name, COUNT(*) AS c FROM t GROUP BY name ORDER BY COUNT(*) DESC LIMIT 3";
        let ours: [&[&str]; 3] = [&["a", "9"], &["b", "5"], &["c", "5"]];
        assert_eq!(of_two(text, &ours, &[&["a", "9"], &["c", "5"], &["d", "5"]]), "same keys");
        assert_eq!(
            of_two(text, &ours, &[&["x", "9"], &["b", "5"], &["c", "5"]]),
            "DIFFERENT: rows differ that their sort keys decide on"
        );
        assert!(of_two(text, &ours, &[&["a", "9"], &["b", "5"], &["c", "4"]]).contains("row 2"));
        let skips = format!("{text} OFFSET 7");
        assert_eq!(of_two(&skips, &ours, &[&["x", "9"], &["b", "5"], &["c", "5"]]), "same keys");
    }

    #[test]
    fn keys_that_the_answer_does_not_show_decide_nothing() {
        let hidden = "SELECT name, 1 FROM t ORDER BY time LIMIT 1";
        assert_eq!(of_two(hidden, &[&["a", "1"]], &[&["b", "1"]]), "same count");
        let none = "SELECT name, COUNT(*) FROM t GROUP BY name LIMIT 1";
        assert_eq!(of_two(none, &[&["a", "1"]], &[&["b", "1"]]), "same count");
        let half = "SELECT name, 1 FROM t ORDER BY time, name LIMIT 1";
        assert_eq!(of_two(half, &[&["a", "1"]], &[&["a", "2"]]), "same keys");
    }

    #[test]
    fn keys_are_found_by_number_name_and_expression() {
        let parts = Parts::of("SELECT f(a,  b) AS x, Count(*) FROM t");
        let columns = ["x".to_owned(), "count".to_owned()];
        for (key, want) in [
            ("X", Some(0)),
            ("f(a, b) DESC", Some(0)),
            ("COUNT(*) asc", Some(1)),
            ("2", Some(1)),
            ("3", None),
            ("y", None),
        ] {
            assert_eq!(position(key, &parts, &columns), want, "{key}");
        }
    }
}
