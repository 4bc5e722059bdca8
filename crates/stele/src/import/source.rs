//! Input of `import` and `load-sorted`, and its mapping to rows: the options of both commands.

use super::exported::Exported;
use super::format::{Format, Kind};
use super::input::{Input, RecordInput};
use super::mapping::{ColumnRule, Mapping};
use crate::config::ConfigError;
use crate::table_args::TableArgs;
use anyhow::{Context, Result};
use base::env::{Clock, SystemClock};
use clap::Args;
use interchange::lines::Lines;
use interchange::records::{self, Layout, Records};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use table::TableName;
use table::limits::TIMESTAMP_MICROS_STEP;

const BUFFER_BYTES: usize = 1 << 20;

/// The input and its mapping to rows.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// Input file, or a directory that `stele export` wrote; - reads standard input.
    #[arg(value_name = "FILE")]
    input: PathBuf,

    #[command(flatten)]
    table: TableArgs,

    /// Input format. [default: from the file name: .csv, .tsv, .jsonl, .deb822, .avro, .parquet or .seq]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Field that is the row key. Repeat the option to join several fields with --key-separator.
    /// Required for records; rows of an export have their keys.
    #[arg(long = "key", value_name = "FIELD")]
    keys: Vec<String>,

    /// Separator between the fields of a row key.
    #[arg(long, value_name = "TEXT", default_value = "#")]
    key_separator: String,

    /// Column family of fields that --column does not map.
    #[arg(long, value_name = "FAMILY", default_value = "f")]
    family: String,

    /// Column of a field, instead of FAMILY:FIELD. Can be repeated.
    #[arg(long = "column", value_name = "FIELD=FAMILY:QUALIFIER")]
    columns: Vec<ColumnRule>,

    /// Field to skip. Can be repeated. [default: none]
    #[arg(long = "skip", value_name = "FIELD")]
    skipped: Vec<String>,

    /// Comma-separated field names, for CSV or TSV without a header line.
    /// [default: taken from the first line]
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    header: Option<Vec<String>>,

    /// Field separator of CSV or TSV, one character. [default: comma or tab]
    #[arg(long, value_name = "CHARACTER")]
    delimiter: Option<char>,

    /// Timestamp of all cells in microseconds since 1970; a multiple of 1000. [default: now]
    #[arg(long, value_name = "MICROS")]
    timestamp: Option<i64>,
}

impl SourceArgs {
    pub(crate) fn reads_stdin(&self) -> bool {
        self.input == Path::new("-")
    }

    pub(crate) fn table(&self) -> Result<TableName, ConfigError> {
        self.table.name()
    }

    pub(crate) fn format(&self) -> Result<Format, ConfigError> {
        let by_name = || Format::of_name(self.input.to_str()?);
        self.format.or_else(by_name).ok_or_else(|| {
            ConfigError(format!(
                "cannot tell the format from the name {}; pass --format",
                self.input.display()
            ))
        })
    }

    pub(crate) fn layout(&self) -> Result<Layout, ConfigError> {
        let delimiter = self.delimiter.map(u8::try_from).transpose();
        let delimiter =
            delimiter.ok().filter(|d| d.is_none_or(|d| d.is_ascii() && d != b'"' && d != b'\n'));
        let delimiter = delimiter.ok_or_else(|| {
            ConfigError(
                "--delimiter must be one ASCII character other than a quote or a newline".into(),
            )
        })?;
        Ok(Layout { columns: self.header.clone(), delimiter })
    }

    pub(crate) fn mapping(&self) -> Mapping {
        let (keys, separator) = (&self.keys, &self.key_separator);
        Mapping::new(keys, separator, &self.family, &self.columns, &self.skipped)
    }

    /// Returns the file for rejected lines by default: next to the input, or `of_stdin`.
    pub(crate) fn rejects(&self, of_stdin: &str) -> PathBuf {
        if self.reads_stdin() { of_stdin.into() } else { self.beside("rejects") }
    }

    pub(crate) fn beside(&self, extension: &str) -> PathBuf {
        // Without a slash at the end of the name of a directory; `.` and `..` have names elsewhere.
        let mut name = self.input.components().as_path().to_owned();
        if name.file_name().is_none() {
            name = name.canonicalize().unwrap_or(name);
        }
        let mut name = name.into_os_string();
        name.push(".");
        name.push(extension);
        name.into()
    }

    /// Refuses to write the file of `option` over the input, or into it if it is a directory.
    pub(super) fn refuse_output(&self, path: &Path, option: &str) -> Result<(), ConfigError> {
        let is = if !self.reads_stdin() && is_same_file(&self.input, path) {
            "is the input"
        } else if !self.reads_stdin() && self.input.is_dir() && is_inside(path, &self.input) {
            "is in the directory of the input"
        } else {
            return Ok(());
        };
        Err(ConfigError(format!("{option} {} {is}; choose another file", path.display())))
    }

    /// Describes the import of `input`; two runs with equal descriptions are the same import.
    pub(super) fn job(&self, input: &Input) -> Result<String, ConfigError> {
        if let Input::Exported(exported) = input {
            let (name, table) = (self.input.display(), self.table()?);
            return Ok(format!("{name} ({}) into {table}", exported.describe()));
        }
        let format = self.format()?;
        let mut job = format!("{} as {format:?} into {}", self.input.display(), self.table()?);
        job += &format!(", keys {:?} joined by {:?}", self.keys, self.key_separator);
        job += &format!(", family {:?}, columns {:?}", self.family, self.columns);
        job += &format!(", skipped {:?}, header {:?}", self.skipped, self.header);
        job += &format!(", delimiter {:?}", self.delimiter);
        Ok(job)
    }

    /// The timestamp of all cells that is asked for, in microseconds.
    pub(crate) fn wanted_micros(&self) -> Option<i64> {
        self.timestamp
    }

    /// The timestamp of all cells, in microseconds: the one given, or now.
    pub(crate) fn timestamp_micros(&self) -> Result<i64, ConfigError> {
        let now = SystemClock.now_micros();
        let step = TIMESTAMP_MICROS_STEP;
        let timestamp = self.timestamp.unwrap_or(now - now.rem_euclid(step));
        if timestamp < 0 || timestamp % step != 0 {
            return Err(ConfigError(format!(
                "--timestamp must be a multiple of {step} and at least 0"
            )));
        }
        Ok(timestamp)
    }

    /// Opens the input, and returns it with the number of its bytes if that is known.
    pub(super) fn input(&self) -> Result<(Input, Option<u64>)> {
        let exported = if self.input.is_dir() && self.format.is_none() {
            Exported::directory(&self.input)?
        } else {
            match self.format()?.kind() {
                Kind::Records(_) => {
                    self.layout()?;
                    let (mut lines, bytes) = self.open()?;
                    let records = self.records(&mut lines)?;
                    let mapping = self.mapping();
                    let input = RecordInput { lines, records, mapping };
                    return Ok((Input::Records(Box::new(input)), bytes));
                }
                Kind::Rows(format) => {
                    let path = (!self.reads_stdin()).then(|| self.input.clone());
                    Exported::file(format, path)?
                }
            }
        };
        self.refuse_options_of_records()?;
        let bytes = exported.bytes();
        Ok((Input::Exported(Box::new(exported)), bytes))
    }

    fn refuse_options_of_records(&self) -> Result<(), ConfigError> {
        let given = [
            ("--key", !self.keys.is_empty()),
            ("--column", !self.columns.is_empty()),
            ("--skip", !self.skipped.is_empty()),
            ("--header", self.header.is_some()),
            ("--delimiter", self.delimiter.is_some()),
            ("--timestamp", self.timestamp.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(ConfigError(format!(
                "{option} is for records; the rows of an export have their keys, columns and times"
            ))),
            None => Ok(()),
        }
    }

    /// The input and, of a file, its length.
    pub(crate) fn open(&self) -> Result<(Lines, Option<u64>)> {
        if self.reads_stdin() {
            let input = BufReader::with_capacity(BUFFER_BYTES, std::io::stdin());
            return Ok((Lines::new(Box::new(input)), None));
        }
        let context = || format!("could not read {}", self.input.display());
        let file = File::open(&self.input).with_context(context)?;
        let meta = file.metadata().with_context(context)?;
        let len = meta.is_file().then_some(meta.len());
        let input: Box<dyn BufRead + Send> = Box::new(BufReader::with_capacity(BUFFER_BYTES, file));
        Ok((Lines::new(input), len))
    }

    /// The records of `lines`, whose header line is taken if they have one.
    pub(crate) fn records(&self, lines: &mut Lines) -> Result<Box<dyn Records>> {
        let Kind::Records(format) = self.format()?.kind() else {
            let text = "this command takes records only; use import for the files of an export";
            return Err(ConfigError(text.to_owned()).into());
        };
        if self.keys.is_empty() {
            let text = "--key FIELD is missing; the files of an export need --format export-csv or \
                        export-jsonl instead";
            return Err(ConfigError(text.to_owned()).into());
        }
        Ok(records::records(format, &self.layout()?, lines)?)
    }
}

/// Returns whether two paths lead to one file that is there, or to one name that is free.
pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => {
            matches!((resolved(one), resolved(other)), (Some(a), Some(b)) if a == b)
        }
        _ => false,
    }
}

/// Returns whether a file at `path` is, or would be, below `dir`.
fn is_inside(path: &Path, dir: &Path) -> bool {
    matches!((resolved(path), dir.canonicalize()), (Some(path), Ok(dir)) if path.starts_with(&dir))
}

/// Returns `path` without links, also if no file has its name yet.
fn resolved(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(dir.join(path.file_name()?))
    })
}
