//! The rows of the table: files that all engines read, and INSERT statements of further rows.
//!
//! 1. Files are made once, before an engine starts.
//! 2. DuckDB reads CSV, since its reader knows no backslashes of COPY's text form. All others read the text form.
//!    The rows of both are the same.

use super::HitsArgs;
use super::engine::Kind;
use crate::AnyError;
use bench_core::hits::{COLUMNS, Column, ColumnType, Hits, TextForm};
use bench_core::print;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Rows of one INSERT statement.
const INSERT_ROWS: u64 = 100;

/// The rows of a run.
pub(super) struct Data {
    hits: Hits,
    /// Rows that lie in the files of the table; the others are further rows.
    rows: u64,
    dir: PathBuf,
}

/// One of the two parts of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The rows that are loaded at once.
    Table,
    /// The further rows, which come later.
    Delta,
}

impl Data {
    /// Makes the files that the engines of `kinds` read, in `dir`.
    pub(super) fn make(args: &HitsArgs, kinds: &[Kind], dir: &Path) -> Result<Self, AnyError> {
        let total = args.rows.checked_add(args.delta_rows).ok_or("there are too many rows")?;
        let data = Self { hits: Hits::new(args.seed, total), rows: args.rows, dir: dir.to_owned() };
        let embedded: Vec<Kind> = kinds.iter().copied().filter(|kind| kind.is_embedded()).collect();
        data.write(Part::Table, TextForm::Tsv)?;
        if kinds.contains(&Kind::DuckDb) {
            data.write(Part::Table, TextForm::Csv)?;
        }
        if args.delta_rows > 0 {
            for kind in embedded {
                data.write(Part::Delta, form_for(kind))?;
            }
        }
        let bytes = std::fs::metadata(data.path(Part::Table, TextForm::Tsv))?.len();
        print(&format!("{} rows, {bytes} bytes as text, seed {}", args.rows, args.seed));
        Ok(data)
    }

    /// Returns the file that an engine reads a part from.
    pub(super) fn file_for(&self, kind: Kind, part: Part) -> PathBuf {
        self.path(part, form_for(kind))
    }

    /// Returns INSERT statements of all further rows, of some rows each.
    pub(super) fn inserts(&self) -> impl Iterator<Item = Result<String, AnyError>> {
        let (start, end) = (self.rows, self.hits.rows());
        let chunks = (end - start).div_ceil(INSERT_ROWS);
        (0..chunks).map(move |chunk| {
            let first = start + chunk * INSERT_ROWS;
            self.insert(first..end.min(first + INSERT_ROWS))
        })
    }

    fn insert(&self, rows: Range<u64>) -> Result<String, AnyError> {
        let mut lines = Vec::new();
        self.hits.write_tsv(rows, &mut lines)?;
        Ok(insert_statement(&String::from_utf8(lines)?))
    }

    fn path(&self, part: Part, form: TextForm) -> PathBuf {
        let name = match part {
            Part::Table => "hits",
            Part::Delta => "further",
        };
        let extension = match form {
            TextForm::Tsv => "tsv",
            TextForm::Csv => "csv",
        };
        self.dir.join(format!("{name}.{extension}"))
    }

    fn write(&self, part: Part, form: TextForm) -> Result<(), AnyError> {
        let path = self.path(part, form);
        let rows = match part {
            Part::Table => 0..self.rows,
            Part::Delta => self.rows..self.hits.rows(),
        };
        let written = File::create(&path).and_then(|file| {
            let mut out = BufWriter::new(file);
            self.hits.write(form, rows, &mut out)?;
            out.flush()
        });
        written.map_err(|error| {
            let path = path.display();
            format!("{path} cannot be written: {error}; --dir names a folder with more room").into()
        })
    }
}

fn form_for(kind: Kind) -> TextForm {
    if kind == Kind::DuckDb { TextForm::Csv } else { TextForm::Tsv }
}

/// Returns the statement that creates the table in ClickHouse, sorted as ClickBench sorts it there.
pub(super) fn clickhouse_table() -> String {
    let key = bench_core::hits::SORT_KEY.join(", ");
    format!(
        "CREATE TABLE clickbench.hits ({}) ENGINE = MergeTree ORDER BY ({key})",
        clickhouse_columns()
    )
}

/// Returns names and types of all columns, as ClickHouse writes them.
pub(super) fn clickhouse_columns() -> String {
    let columns = COLUMNS.map(|Column { name, column_type }| {
        let column_type = match column_type {
            ColumnType::SmallInt => "Int16",
            ColumnType::Integer => "Int32",
            ColumnType::BigInt => "Int64",
            ColumnType::Date => "Date",
            ColumnType::Timestamp => "DateTime",
            ColumnType::Char | ColumnType::VarChar | ColumnType::Text => "String",
        };
        format!("{name} {column_type}")
    });
    columns.join(", ")
}

/// Returns an INSERT statement of rows that are lines of COPY's text form.
fn insert_statement(lines: &str) -> String {
    let mut statement = "INSERT INTO hits VALUES ".to_owned();
    for (index, line) in lines.lines().enumerate() {
        statement.push_str(if index == 0 { "(" } else { ", (" });
        for (index, (field, column)) in line.split('\t').zip(&COLUMNS).enumerate() {
            if index > 0 {
                statement.push_str(", ");
            }
            match column.column_type {
                ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt => {
                    statement.push_str(field);
                }
                _ => append_literal(field, &mut statement),
            }
        }
        statement.push(')');
    }
    statement
}

/// Appends a field of COPY's text form as a literal of SQL.
fn append_literal(field: &str, statement: &mut String) {
    statement.push('\'');
    let mut signs = field.chars();
    while let Some(sign) = signs.next() {
        let meant = if sign == '\\' { signs.next().map(unescaped) } else { Some(sign) };
        match meant {
            Some('\'') => statement.push_str("''"),
            Some(sign) => statement.push(sign),
            None => {}
        }
    }
    statement.push('\'');
}

/// Returns the sign that a backslash and `sign` stand for.
fn unescaped(sign: char) -> char {
    match sign {
        't' => '\t',
        'n' => '\n',
        'r' => '\r',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_literals() {
        for (field, want) in [
            ("", "''"),
            ("it's", "'it''s'"),
            (r"a\tb\\c\n", "'a\tb\\c\n'"),
            ("2013-07-01 00:00:00", "'2013-07-01 00:00:00'"),
        ] {
            let mut got = String::new();
            append_literal(field, &mut got);
            assert_eq!(got, want, "{field}");
        }
    }

    #[test]
    fn inserts_have_all_further_rows() {
        let hits = Hits::new(1, 350);
        let data = Data { hits, rows: 100, dir: PathBuf::new() };
        let statements: Vec<String> = data.inserts().map(Result::unwrap).collect();
        assert_eq!(statements.len(), 3);
        assert!(statements.iter().all(|text| text.starts_with("INSERT INTO hits VALUES (")));
    }

    #[test]
    fn clickhouse_has_all_columns() {
        assert_eq!(clickhouse_columns().split(", ").count(), COLUMNS.len());
        assert!(
            clickhouse_table()
                .ends_with("ORDER BY (CounterID, EventDate, UserID, EventTime, WatchID)")
        );
    }
}
