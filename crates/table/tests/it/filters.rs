//! Filters by example: `testdata/filter/*`. `REWRITE=1` writes the results anew.
//!
//! `rows` writes cells, one a line: `row family:qualifier millis value`. `read` reads the table
//! through the filter in its input, `read reversed` backwards. A filter is written
//! `name(argument, …)`; texts are in double quotes, where a backslash stays a backslash.

use crate::harness::{Harness, set, show};
use std::ops::Bound;
use table::filter::{ColumnRange, Condition, ValueRange};
use table::*;

#[test]
fn filters_do_what_their_examples_show() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    datadriven::walk("testdata/filter", |file| {
        let dir = tempfile::tempdir().unwrap();
        let h = Harness::open(dir.path());
        runtime.block_on(h.create(&["f", "g", "h"], &["m"]));
        file.run(|case| {
            runtime.block_on(async {
                match case.directive.as_str() {
                    "rows" => {
                        for line in case.input.lines() {
                            let mut words = line.split(' ');
                            let mut word = || words.next().unwrap_or_default();
                            let (row, column, millis, value) = (word(), word(), word(), word());
                            let (family, qualifier) = column.split_once(':').unwrap();
                            let millis = millis.parse().unwrap();
                            let value = value.replace("\\n", "\n");
                            h.mutate(row, vec![set(family, qualifier, millis, &value)])
                                .await
                                .unwrap();
                        }
                        h.dump().await
                    }
                    "read" => {
                        let direction = match case.take_flag("reversed") {
                            Ok(true) => Direction::Reverse,
                            _ => Direction::Forward,
                        };
                        let filter = Some(Parser { rest: case.input.trim() }.filter());
                        let request = ReadRows { filter, direction, ..ReadRows::default() };
                        match h.read(request).await {
                            Ok(rows) if rows.is_empty() => "nothing\n".to_owned(),
                            Ok(rows) => show(&rows),
                            Err(error) => format!("{error}\n"),
                        }
                    }
                    other => panic!("no directive {other}"),
                }
            })
        });
    });
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\n', ',']);
    }

    fn take(&mut self, token: char) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn word(&mut self) -> &'a str {
        self.skip();
        let end = self.rest.find([' ', '\n', ',', '(', ')']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn text(&mut self) -> String {
        assert!(self.take('"'), "a text at {}", self.rest);
        let (text, rest) = self.rest.split_once('"').expect("a closing quote");
        self.rest = rest;
        text.to_owned()
    }

    fn number<T: std::str::FromStr>(&mut self) -> T {
        let word = self.word();
        word.parse().unwrap_or_else(|_| panic!("a number, not {word}"))
    }

    /// `["a"`, `("a"` or `*` and the mirror of each.
    fn bound(&mut self) -> Bound<Bytes> {
        if self.take('*') {
            Bound::Unbounded
        } else if self.take('[') {
            Bound::Included(self.text().into())
        } else {
            assert!(self.take('('));
            Bound::Excluded(self.text().into())
        }
    }

    fn filters(&mut self) -> Vec<RowFilter> {
        let mut filters = Vec::new();
        while !self.rest.trim_start().starts_with(')') {
            filters.push(self.filter());
        }
        filters
    }

    fn branch(&mut self) -> Option<RowFilter> {
        self.skip();
        if self.take('-') { None } else { Some(self.filter()) }
    }

    fn filter(&mut self) -> RowFilter {
        let name = self.word();
        let arguments = self.take('(');
        let filter = match name {
            "chain" => RowFilter::Chain(self.filters()),
            "interleave" => RowFilter::Interleave(self.filters()),
            "condition" => {
                let predicate = self.filter();
                let (on_true, on_false) = (self.branch(), self.branch());
                RowFilter::Condition(Box::new(Condition { predicate, on_true, on_false }))
            }
            "sink" => RowFilter::Sink,
            "pass" => RowFilter::PassAll,
            "block" => RowFilter::BlockAll,
            "key" => RowFilter::RowKeyRegex(self.text().into()),
            "sample" => RowFilter::RowSample(self.number()),
            "family" => RowFilter::FamilyNameRegex(self.text()),
            "qualifier" => RowFilter::ColumnQualifierRegex(self.text().into()),
            "columns" => {
                let family = self.text();
                let (start, end) = (self.bound(), self.bound());
                RowFilter::ColumnRange(ColumnRange { family, start, end })
            }
            "micros" => {
                let start = Timestamp(self.number());
                let end = if self.take('*') { None } else { Some(Timestamp(self.number())) };
                RowFilter::TimestampRange(TimestampRange { start, end })
            }
            "value" => RowFilter::ValueRegex(self.text().into()),
            "values" => {
                let (start, end) = (self.bound(), self.bound());
                RowFilter::ValueRange(ValueRange { start, end })
            }
            "row_offset" => RowFilter::CellsPerRowOffset(self.number()),
            "row_limit" => RowFilter::CellsPerRowLimit(self.number()),
            "column_limit" => RowFilter::CellsPerColumnLimit(self.number()),
            "strip" => RowFilter::StripValue,
            "label" => RowFilter::ApplyLabel(self.text()),
            other => panic!("no filter {other}"),
        };
        assert!(!arguments || self.take(')'), "a closing parenthesis at {}", self.rest);
        filter
    }
}
