//! The options of `import`.

use super::format::{Format, Layout};
use super::mapping::{ColumnRule, Mapping};
use crate::config::ConfigError;
use clap::Args;
use std::path::{Path, PathBuf};
use table::TableName;

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// File to read; - is standard input.
    #[arg(value_name = "FILE")]
    pub(super) input: PathBuf,

    /// Table to write to: its id, or its full name projects/P/instances/I/tables/T.
    #[arg(long, value_name = "TABLE")]
    table: String,

    /// Project of the table; any name, but readers must use the same.
    #[arg(long, value_name = "NAME", default_value = "local")]
    project: String,

    /// Instance of the table; any name, but readers must use the same.
    #[arg(long, value_name = "NAME", default_value = "local")]
    instance: String,

    /// How the input is written. [default: by the file's name: .csv, .tsv, .jsonl, .deb822]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Field that is the row key; several, in order, are joined with --key-separator.
    #[arg(long = "key", value_name = "FIELD", required = true)]
    keys: Vec<String>,

    /// What stands between the parts of a key.
    #[arg(long, value_name = "TEXT", default_value = "#")]
    key_separator: String,

    /// Column family of fields that --column does not map.
    #[arg(long, value_name = "FAMILY", default_value = "f")]
    family: String,

    /// Puts a field into another column than FAMILY:FIELD; may be given many times.
    #[arg(long = "column", value_name = "FIELD=FAMILY:QUALIFIER")]
    columns: Vec<ColumnRule>,

    /// Leaves a field out; may be given many times. [default: none]
    #[arg(long = "skip", value_name = "FIELD")]
    skipped: Vec<String>,

    /// Names of the fields of CSV or TSV without a header line, separated by commas.
    /// [default: the first line names them]
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    header: Option<Vec<String>>,

    /// One character between the fields of CSV or TSV. [default: comma or tab]
    #[arg(long, value_name = "CHARACTER")]
    delimiter: Option<char>,

    /// Timestamp of all cells, in microseconds since 1970, a multiple of 1000. [default: now]
    #[arg(long, value_name = "MICROS")]
    pub(super) timestamp: Option<i64>,

    /// Make the table and its families where they are missing.
    #[arg(long)]
    pub(super) create_table: bool,

    /// Server to write to.
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "BIGTABLE_EMULATOR_HOST",
        default_value = "127.0.0.1:8086"
    )]
    pub(super) endpoint: String,

    /// Write into this data directory instead of to a server; none may be running on it.
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Rows sent together, 1 to 10000.
    #[arg(long, value_name = "COUNT", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) batch_rows: u32,

    /// Batches under way at once, 1 to 64.
    #[arg(long, value_name = "COUNT", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) batches: u32,

    /// Stop when more lines than this were rejected.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(super) max_rejects: u64,

    /// File for rejected lines. [default: FILE.rejects; for standard input ./import.rejects]
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,

    /// File that says how far the import is, so that the same command goes on where it stopped.
    /// [default: FILE.import; for standard input none]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,

    /// Forget how far an earlier import came and begin anew.
    #[arg(long)]
    pub(super) restart: bool,
}

impl ImportArgs {
    pub(super) fn reads_stdin(&self) -> bool {
        self.input == Path::new("-")
    }

    pub(super) fn table(&self) -> Result<TableName, ConfigError> {
        let name = if self.table.contains('/') {
            self.table.clone()
        } else {
            format!("projects/{}/instances/{}/tables/{}", self.project, self.instance, self.table)
        };
        let parts: Vec<&str> = name.split('/').collect();
        if !matches!(parts[..], ["projects", p, "instances", i, "tables", _]
            if !p.is_empty() && !i.is_empty())
        {
            return Err(ConfigError(format!(
                "{name:?} is not of the form projects/P/instances/I/tables/T"
            )));
        }
        TableName::new(name).map_err(|error| ConfigError(error.to_string()))
    }

    pub(super) fn format(&self) -> Result<Format, ConfigError> {
        let by_name = || Format::of_name(self.input.to_str()?);
        self.format.or_else(by_name).ok_or_else(|| {
            ConfigError(format!(
                "the name {} does not tell its format: pass --format csv, tsv, jsonl or deb822",
                self.input.display()
            ))
        })
    }

    pub(super) fn layout(&self) -> Result<Layout, ConfigError> {
        let delimiter = self.delimiter.map(u8::try_from).transpose();
        let delimiter =
            delimiter.ok().filter(|d| d.is_none_or(|d| d.is_ascii() && d != b'"' && d != b'\n'));
        let delimiter = delimiter.ok_or_else(|| {
            ConfigError("--delimiter must be one ASCII character, no quote and no newline".into())
        })?;
        Ok(Layout { columns: self.header.clone(), delimiter })
    }

    pub(super) fn mapping(&self) -> Mapping {
        let (keys, separator) = (&self.keys, &self.key_separator);
        Mapping::new(keys, separator, &self.family, &self.columns, &self.skipped)
    }

    pub(super) fn rejects(&self) -> PathBuf {
        let default = || match self.reads_stdin() {
            true => PathBuf::from("import.rejects"),
            false => self.beside("rejects"),
        };
        self.rejects.clone().unwrap_or_else(default)
    }

    pub(super) fn checkpoint(&self) -> Option<PathBuf> {
        let default = || (!self.reads_stdin()).then(|| self.beside("import"));
        self.checkpoint.clone().or_else(default)
    }

    fn beside(&self, extension: &str) -> PathBuf {
        let mut name = self.input.clone().into_os_string();
        name.push(".");
        name.push(extension);
        name.into()
    }

    /// What makes an import the same import when it is run again.
    pub(super) fn job(&self) -> Result<String, ConfigError> {
        let format = self.format()?;
        let mut job = format!("{} as {format:?} into {}", self.input.display(), self.table()?);
        job += &format!(", keys {:?} joined by {:?}", self.keys, self.key_separator);
        job += &format!(", family {:?}, columns {:?}", self.family, self.columns);
        job += &format!(", skipped {:?}, header {:?}", self.skipped, self.header);
        job += &format!(", delimiter {:?}", self.delimiter);
        Ok(job)
    }
}
