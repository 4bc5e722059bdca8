//! Input of `import` and `load-sorted`, and its mapping to rows: the options of both commands.

use super::format::{self, Format, Layout, Records};
use super::lines::Lines;
use super::mapping::{ColumnRule, Mapping};
use crate::config::ConfigError;
use anyhow::{Context, Result};
use base::env::{Clock, SystemClock};
use clap::Args;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use table::TableName;
use table::limits::TIMESTAMP_MICROS_STEP;

const BUFFER_BYTES: usize = 1 << 20;

/// The input and its mapping to rows.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// Input file; - reads standard input.
    #[arg(value_name = "FILE")]
    input: PathBuf,

    /// Table: an id, or a full name projects/P/instances/I/tables/T.
    #[arg(long, value_name = "TABLE")]
    table: String,

    /// Project of the table. Any name works; readers must use the same one.
    #[arg(long, value_name = "NAME", default_value = "local")]
    project: String,

    /// Instance of the table. Any name works; readers must use the same one.
    #[arg(long, value_name = "NAME", default_value = "local")]
    instance: String,

    /// Input format. [default: from the file name: .csv, .tsv, .jsonl or .deb822]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Field that is the row key. Repeat the option to join several fields with --key-separator.
    #[arg(long = "key", value_name = "FIELD", required = true)]
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
        let name = if self.table.contains('/') {
            self.table.clone()
        } else {
            format!("projects/{}/instances/{}/tables/{}", self.project, self.instance, self.table)
        };
        // Whoever writes to a directory itself makes no table that a server would not serve.
        bigtable::table_name("--table", &name).map_err(|error| ConfigError(error.to_string()))
    }

    pub(crate) fn format(&self) -> Result<Format, ConfigError> {
        let by_name = || Format::of_name(self.input.to_str()?);
        self.format.or_else(by_name).ok_or_else(|| {
            ConfigError(format!(
                "cannot tell the format from the name {}; pass --format csv, tsv, jsonl or deb822",
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
        let mut name = self.input.clone().into_os_string();
        name.push(".");
        name.push(extension);
        name.into()
    }

    /// Describes the import; two runs with equal descriptions are the same import.
    pub(crate) fn job(&self) -> Result<String, ConfigError> {
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
        let input: Box<dyn BufRead> = Box::new(BufReader::with_capacity(BUFFER_BYTES, file));
        Ok((Lines::new(input), len))
    }

    /// The records of `lines`, whose header line is taken if they have one.
    pub(crate) fn records(&self, lines: &mut Lines) -> Result<Box<dyn Records>> {
        format::records(self.format()?, &self.layout()?, lines)
    }
}
