//! Input formats by their names on the command line and their endings of file names.

use clap::ValueEnum;
use interchange::{records, rows};

/// Format in which the input is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values, quoted as in RFC 4180. Quoted fields may contain newlines.
    Csv,
    /// Tab-separated values without quoting or escaping.
    Tsv,
    /// One JSON object per line (NDJSON).
    Jsonl,
    /// Stanzas of `Field: value` lines separated by blank lines, as in Debian control files and
    /// the output of `apt-cache dumpavail`.
    Deb822,
    /// Avro with the schema of Google's exports of Bigtable.
    Avro,
    /// Parquet of cells, as `stele export` writes it.
    Parquet,
    /// Hadoop SequenceFile of HBase results, as HBase's and Google's exports write it.
    SequenceFile,
    /// CSV that `stele export` wrote.
    ExportCsv,
    /// JSON lines that `stele export` wrote.
    ExportJsonl,
}

/// Kind of a format: text, or rows of an export.
pub(crate) enum Kind {
    /// Records become rows by the options of the command.
    Records(records::Format),
    /// Rows have all their cells.
    Rows(rows::Format),
}

impl Format {
    /// Returns the format that a file's name tells, if it does.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            "csv" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "deb822" => Some(Self::Deb822),
            "avro" => Some(Self::Avro),
            "parquet" => Some(Self::Parquet),
            "seq" => Some(Self::SequenceFile),
            _ => None,
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Csv => Kind::Records(records::Format::Csv),
            Self::Tsv => Kind::Records(records::Format::Tsv),
            Self::Jsonl => Kind::Records(records::Format::Jsonl),
            Self::Deb822 => Kind::Records(records::Format::Deb822),
            Self::Avro => Kind::Rows(rows::Format::Avro),
            Self::Parquet => Kind::Rows(rows::Format::Parquet),
            Self::SequenceFile => Kind::Rows(rows::Format::SequenceFile),
            Self::ExportCsv => Kind::Rows(rows::Format::Csv),
            Self::ExportJsonl => Kind::Rows(rows::Format::Jsonl),
        }
    }
}
