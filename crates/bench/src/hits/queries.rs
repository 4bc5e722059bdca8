//! The text of the queries: read from a file of statements, and cut into the parts that decide which rows of an
//! answer are certain.
//!
//! The 43 queries of ClickBench are not part of this repository, since their licence differs (`docs/hits.md`).

use super::HitsArgs;
use super::engine::Kind;
use crate::AnyError;
use std::path::Path;

/// A query in the dialects of all engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    /// Its position in the file, from 0.
    pub(super) number: usize,
    text: String,
    duckdb: Option<String>,
    clickhouse: Option<String>,
}

impl Query {
    /// Returns the statement for an engine.
    pub(super) fn text_for(&self, kind: Kind) -> &str {
        let dialect = match kind {
            Kind::DuckDb => self.duckdb.as_ref(),
            Kind::ClickHouse => self.clickhouse.as_ref(),
            Kind::Columnar | Kind::Rows | Kind::Postgres => None,
        };
        dialect.unwrap_or(&self.text)
    }
}

/// Reads the queries that the command line asks for.
pub(super) fn read(args: &HitsArgs) -> Result<Vec<Query>, AnyError> {
    let Some(file) = &args.queries else { return Ok(Vec::new()) };
    let texts = read_file(file)?;
    let duckdb = read_dialect(args.duckdb_queries.as_deref(), texts.len())?;
    let clickhouse = read_dialect(args.chdb_queries.as_deref(), texts.len())?;
    if let Some(number) = args.only.iter().find(|number| **number >= texts.len()) {
        let last = texts.len() - 1;
        return Err(format!("--only: there is no query {number}, the last one is {last}").into());
    }
    let of = |texts: &Option<Vec<String>>, number: usize| {
        texts.as_ref().and_then(|texts| texts.get(number).cloned())
    };
    let all = texts.into_iter().enumerate().map(|(number, text)| Query {
        number,
        text,
        duckdb: of(&duckdb, number),
        clickhouse: of(&clickhouse, number),
    });
    Ok(all.filter(|query| args.only.is_empty() || args.only.contains(&query.number)).collect())
}

fn read_dialect(file: Option<&Path>, count: usize) -> Result<Option<Vec<String>>, AnyError> {
    let Some(file) = file else { return Ok(None) };
    let texts = read_file(file)?;
    if texts.len() != count {
        let (file, found) = (file.display(), texts.len());
        return Err(format!("{file} has {found} queries, and --queries has {count}").into());
    }
    Ok(Some(texts))
}

fn read_file(file: &Path) -> Result<Vec<String>, AnyError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let texts = statements(&text);
    if texts.is_empty() {
        return Err(format!("{} has no query", file.display()).into());
    }
    Ok(texts)
}

/// Returns the statements of a text, without their semicolons and without comments.
fn statements(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut quote = None;
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let Some(statement) = found.last_mut() else { break };
        match (sign, quote) {
            ('-', None) if signs.peek() == Some(&'-') => {
                signs.by_ref().find(|sign| *sign == '\n');
                statement.push('\n');
            }
            (';', None) => found.push(String::new()),
            ('\'' | '"', None) => {
                quote = Some(sign);
                statement.push(sign);
            }
            (sign, Some(open)) if sign == open => {
                quote = None;
                statement.push(sign);
            }
            (sign, _) => statement.push(sign),
        }
    }
    let trimmed = found.iter().map(|statement| statement.trim().to_owned());
    trimmed.filter(|statement| !statement.is_empty()).collect()
}

/// The parts of a SELECT statement that decide which rows of its answer are certain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// The expressions of its columns, with their names.
    pub(super) columns: Vec<&'a str>,
    /// The expressions of ORDER BY, with their directions.
    pub(super) order: Vec<&'a str>,
    /// Its answer has only so many rows as LIMIT allows.
    pub(super) is_limited: bool,
    /// Its answer begins behind rows that OFFSET skips.
    pub(super) skips: bool,
}

impl<'a> Parts<'a> {
    /// Cuts a statement at its outermost words.
    pub(super) fn of(text: &'a str) -> Self {
        let outer = outermost(text);
        let at = |word: &str| find(text, &outer, word);
        let end = text.len();
        let (limit, offset) = (at("LIMIT"), at("OFFSET"));
        let tail = limit.unwrap_or(end).min(offset.unwrap_or(end));
        let part = |word: &str, until: usize| {
            let start = at(word).map(|start| start + word.len());
            let range = start.filter(|start| *start <= until).map(|start| start..until);
            range.map_or(Vec::new(), |range| split(&text[range.clone()], &outer[range]))
        };
        Self {
            columns: part("SELECT", at("FROM").unwrap_or(tail)),
            order: part("ORDER BY", tail),
            is_limited: limit.is_some(),
            skips: offset.is_some(),
        }
    }
}

/// Returns for each byte of a statement whether it lies outside of quotes and parentheses.
fn outermost(text: &str) -> Vec<bool> {
    let (mut depth, mut quote) = (0_u32, None);
    text.bytes()
        .map(|byte| match (byte, quote) {
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                false
            }
            (byte, Some(open)) => {
                quote = quote.filter(|_| byte != open);
                false
            }
            (b'(', None) => {
                depth += 1;
                false
            }
            (b')', None) => {
                depth = depth.saturating_sub(1);
                false
            }
            _ => depth == 0,
        })
        .collect()
}

/// Returns where `word` stands by itself in the outermost part of a statement.
fn find(text: &str, outer: &[bool], word: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_end = |byte: Option<&u8>| !byte.is_some_and(is_of_word);
    (0..=bytes.len().checked_sub(word.len())?).find(|start| {
        let end = start + word.len();
        outer[*start]
            && bytes[*start..end].eq_ignore_ascii_case(word.as_bytes())
            && is_end(start.checked_sub(1).and_then(|before| bytes.get(before)))
            && is_end(bytes.get(end))
    })
}

/// Returns the pieces between the outermost commas, without blanks around them.
fn split<'a>(text: &'a str, outer: &[bool]) -> Vec<&'a str> {
    let commas = text.bytes().enumerate().filter(|(at, byte)| *byte == b',' && outer[*at]);
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, _) in commas {
        pieces.push(text[start..at].trim());
        start = at + 1;
    }
    pieces.push(text[start..].trim());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes() {
        let text = "SELECT 1;\n-- a comment; with one\nSELECT ';', '--' -- end\n FROM t;\n\n";
        assert_eq!(statements(text), ["SELECT 1", "SELECT ';', '--' \n FROM t"]);
        assert!(statements(" \n-- nothing").is_empty());
    }

    #[test]
    fn a_statement_is_cut_at_its_outermost_words() {
        let parts = Parts::of(
            "SELECT extract(minute FROM t) AS m, COUNT(*), 'a, LIMIT' FROM x \
             GROUP BY m order by COUNT(*) DESC, m LIMIT 10 OFFSET 5",
        );
        let columns = vec!["extract(minute FROM t) AS m", "COUNT(*)", "'a, LIMIT'"];
        let order = vec!["COUNT(*) DESC", "m"];
        assert_eq!(parts, Parts { columns, order, is_limited: true, skips: true });
        let parts = Parts::of("SELECT COUNT(*) FROM x WHERE from_here <> 0");
        let columns = vec!["COUNT(*)"];
        assert_eq!(parts, Parts { columns, order: vec![], is_limited: false, skips: false });
    }

    #[test]
    fn each_engine_gets_its_dialect() {
        let query = Query {
            number: 0,
            text: "all".to_owned(),
            duckdb: None,
            clickhouse: Some("its own".to_owned()),
        };
        assert_eq!(query.text_for(Kind::DuckDb), "all");
        assert_eq!(query.text_for(Kind::ClickHouse), "its own");
        assert_eq!(query.text_for(Kind::Columnar), "all");
    }
}
