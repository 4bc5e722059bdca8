//! The part of a table that is exported: rows by key, cells by family, qualifier, time and version.

use crate::config::ConfigError;
use clap::Args;
use engine::{Timestamp, TimestampRange};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use interchange::rows::Encoding;
use table::RowFilter;
use table::limits::TIMESTAMP_MICROS_STEP;

use data::row_filter::{Chain, Filter};

/// Selects rows and cells of a table.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Selection {
    /// Only rows whose key starts with PREFIX. Write \xNN for any byte, and \\ for a backslash.
    #[arg(long, value_name = "PREFIX", value_parser = key, conflicts_with_all = ["start", "end"])]
    prefix: Option<Key>,

    /// Only rows from KEY on. Written like --prefix.
    #[arg(long, value_name = "KEY", value_parser = key)]
    start: Option<Key>,

    /// Only rows before KEY. Written like --prefix.
    #[arg(long, value_name = "KEY", value_parser = key)]
    end: Option<Key>,

    /// Only cells of this column family. Can be repeated. [default: all]
    #[arg(long = "family", value_name = "FAMILY", value_parser = family)]
    families: Vec<String>,

    /// Only cells whose whole qualifier matches this RE2 expression; for a prefix, write abc\C*.
    #[arg(long, value_name = "REGEX")]
    qualifier: Option<String>,

    /// Only cells of this time or later, in microseconds since 1970; a multiple of 1000.
    #[arg(long, value_name = "MICROS", value_parser = micros)]
    since: Option<i64>,

    /// Only cells before this time, in microseconds since 1970; a multiple of 1000.
    #[arg(long, value_name = "MICROS", value_parser = micros)]
    until: Option<i64>,

    /// Only the newest COUNT of the selected cells of each column. [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    versions: Option<i32>,
}

/// A row key as it is written on the command line.
#[derive(Clone, PartialEq, Eq)]
struct Key(Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// Writes the selection as its options.
impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { prefix, start, end, families, qualifier, since, until, versions } = self;
        for (option, key) in [("prefix", prefix), ("start", start), ("end", end)] {
            if let Some(key) = key {
                write!(f, " --{option} {key:?}")?;
            }
        }
        for family in families {
            write!(f, " --family {family}")?;
        }
        if let Some(qualifier) = qualifier {
            write!(f, " --qualifier {qualifier:?}")?;
        }
        for (option, micros) in [("since", since), ("until", until)] {
            if let Some(micros) = micros {
                write!(f, " --{option} {micros}")?;
            }
        }
        versions.map_or(Ok(()), |versions| write!(f, " --versions {versions}"))
    }
}

/// Rows from `start` on and before `end`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Range {
    /// First key; empty: the first row.
    pub(super) start: Vec<u8>,
    /// First key that is left out.
    pub(super) end: Option<Vec<u8>>,
}

impl Selection {
    /// Returns the rows, or an error if there can be none.
    pub(super) fn range(&self) -> Result<Range, ConfigError> {
        let bytes = |key: &Option<Key>| key.as_ref().map(|key| key.0.clone());
        let range = match &self.prefix {
            Some(Key(prefix)) => Range { start: prefix.clone(), end: after_prefix(prefix) },
            None => {
                let (start, end) = (bytes(&self.start), bytes(&self.end));
                Range { start: start.unwrap_or_default(), end: end.filter(|end| !end.is_empty()) }
            }
        };
        match range.end.as_ref().is_some_and(|end| *end <= range.start) {
            true => Err(ConfigError("--end must come after --start".to_owned())),
            false => Ok(range),
        }
    }

    fn times(&self) -> Option<TimestampRange> {
        (self.since.is_some() || self.until.is_some()).then(|| TimestampRange {
            start: Timestamp(self.since.unwrap_or(0)),
            end: self.until.map(Timestamp),
        })
    }

    fn family_regex(&self) -> Option<String> {
        let quoted = |name: &String| name.replace('.', "\\.");
        let names: Vec<String> = self.families.iter().map(quoted).collect();
        (!names.is_empty()).then(|| names.join("|"))
    }

    /// Returns an error if no cell can be selected.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.range()?;
        match (self.since, self.until) {
            (since, Some(until)) if until <= since.unwrap_or(0) => {
                Err(ConfigError("--until must come after --since, and after 0".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the filter of a read in the store.
    pub(super) fn filter(&self) -> Option<RowFilter> {
        let mut filters = Vec::new();
        filters.extend(self.family_regex().map(RowFilter::FamilyNameRegex));
        let qualifier = self.qualifier.as_ref().map(|regex| regex.clone().into_bytes().into());
        filters.extend(qualifier.map(RowFilter::ColumnQualifierRegex));
        filters.extend(self.times().map(RowFilter::TimestampRange));
        filters.extend(self.versions.map(RowFilter::CellsPerColumnLimit));
        match filters.len() {
            0 | 1 => filters.pop(),
            _ => Some(RowFilter::Chain(filters)),
        }
    }

    /// Returns the filter of a read by the Bigtable API.
    pub(super) fn wire_filter(&self) -> Option<data::RowFilter> {
        let mut filters = Vec::new();
        filters.extend(self.family_regex().map(Filter::FamilyNameRegexFilter));
        let qualifier = self.qualifier.as_ref().map(|regex| regex.clone().into_bytes().into());
        filters.extend(qualifier.map(Filter::ColumnQualifierRegexFilter));
        filters.extend(self.times().map(|times| {
            Filter::TimestampRangeFilter(data::TimestampRange {
                start_timestamp_micros: times.start.0,
                end_timestamp_micros: times.end.map_or(0, |end| end.0),
            })
        }));
        filters.extend(self.versions.map(Filter::CellsPerColumnLimitFilter));
        let wire = |filter| data::RowFilter { filter: Some(filter) };
        match filters.len() {
            0 | 1 => filters.pop().map(wire),
            _ => {
                let filters = filters.into_iter().map(wire).collect();
                Some(wire(Filter::Chain(Chain { filters })))
            }
        }
    }
}

/// Returns the first key after all that start with `prefix`; `None` if there is no such key.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

fn key(text: &str) -> Result<Key, String> {
    Encoding::Escaped.decode(text.as_bytes()).map(Key)
}

fn family(text: &str) -> Result<String, String> {
    let legal = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    match !text.is_empty() && text.chars().all(legal) {
        true => Ok(text.to_owned()),
        false => Err("a family name has letters, digits, -, _ and . only".to_owned()),
    }
}

fn micros(text: &str) -> Result<i64, String> {
    let micros = text.parse().ok();
    micros
        .filter(|micros: &i64| *micros >= 0 && micros % TIMESTAMP_MICROS_STEP == 0)
        .ok_or_else(|| format!("no multiple of {TIMESTAMP_MICROS_STEP} that is 0 or more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_range() {
        for (prefix, end) in
            [(&b"a"[..], Some(&b"b"[..])), (b"a\xff", Some(b"b")), (b"\xff\xff", None), (b"", None)]
        {
            assert_eq!(after_prefix(prefix).as_deref(), end, "{prefix:?}");
        }
    }

    #[test]
    fn a_selection_is_told_as_its_options() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            selection: Selection,
        }
        let told = |options: &[&str]| {
            let cli: Cli = clap::Parser::parse_from([&["export"], options].concat());
            cli.selection.to_string()
        };
        assert_eq!(told(&[]), "");
        let some = ["--prefix", "a\\x00", "--family", "f", "--family", "g", "--versions", "1"];
        assert_eq!(told(&some), " --prefix \"a\\x00\" --family f --family g --versions 1");
        let others = ["--start", "a", "--qualifier", "b\\C*", "--until", "5000"];
        assert_eq!(told(&others), " --start \"a\" --qualifier \"b\\\\C*\" --until 5000");
    }
}
