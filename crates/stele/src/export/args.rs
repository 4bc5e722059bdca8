//! The options of `export`.

use super::selection::Selection;
use crate::config::ConfigError;
use crate::connect::ConnectArgs;
use crate::size::ByteSize;
use crate::table_args::TableArgs;
use clap::{Args, ValueEnum};
use interchange::rows::{self, Encoding, WriteOptions};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

/// Arguments of the command `stele export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Directory for the parts, created if missing; - writes one file to standard output.
    #[arg(value_name = "DIR")]
    pub(super) destination: PathBuf,

    #[command(flatten)]
    pub(super) table: TableArgs,

    /// Server to read from; with TLS, https://HOST:PORT.
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "BIGTABLE_EMULATOR_HOST",
        default_value = "127.0.0.1:8086"
    )]
    pub(super) endpoint: String,

    /// Read this data directory instead of a server: one of a stopped server, or a checkpoint.
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Format of the files to write.
    #[arg(long, value_enum, default_value_t = Format::Avro)]
    format: Format,

    /// Encoding of keys, qualifiers and values in CSV and JSON lines.
    #[arg(long, value_enum, default_value_t = TextEncoding::Escaped)]
    encoding: TextEncoding,

    /// Compression inside of Avro and Parquet files.
    #[arg(long, value_enum, default_value_t = Compression::Snappy)]
    compression: Compression,

    #[command(flatten)]
    pub(super) selection: Selection,

    /// Size of a part, 1MiB or more. A part has whole rows, so it may exceed the size by a row.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    part_size: ByteSize,

    /// Rows of a part. [default: no limit]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) part_rows: Option<u64>,

    /// Discard the export in DIR, complete or not, and start over. It stays until the table was found
    /// and its first rows were read.
    #[arg(long)]
    pub(super) restart: bool,

    /// Resume even if the server does not tell whether the table is the one that the interrupted export
    /// read.
    #[arg(long, conflicts_with = "restart")]
    pub(super) assume_same_table: bool,

    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// Format in which an export is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Avro with the schema of Google's exports of Bigtable.
    Avro,
    /// Parquet with one record per cell, for programs that analyse tables.
    Parquet,
    /// Hadoop SequenceFile of HBase results, as HBase's and Google's exports write it.
    SequenceFile,
    /// Comma-separated values, one cell per line.
    Csv,
    /// One JSON object per row and line.
    Jsonl,
}

/// Encoding of bytes in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TextEncoding {
    /// Text as it is, with \\, \n, \r, \t and \xNN for other bytes.
    Escaped,
    /// Base64 of the standard alphabet, with padding.
    Base64,
}

/// Compression of blocks of an Avro file, and of pages of a Parquet file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compression {
    /// Blocks are stored as they are.
    None,
    /// Snappy, which every reader of Avro and Parquet knows.
    Snappy,
    /// Zstandard, which is smaller and slower than Snappy.
    Zstd,
}

impl ExportArgs {
    /// Returns whether the export goes to standard output.
    pub(super) fn to_stdout(&self) -> bool {
        self.destination == Path::new("-")
    }

    pub(super) fn format(&self) -> rows::Format {
        match self.format {
            Format::Avro => rows::Format::Avro,
            Format::Parquet => rows::Format::Parquet,
            Format::SequenceFile => rows::Format::SequenceFile,
            Format::Csv => rows::Format::Csv,
            Format::Jsonl => rows::Format::Jsonl,
        }
    }

    /// Returns the options of the files. The marker between blocks is drawn at random.
    pub(super) fn write_options(&self) -> WriteOptions {
        let sync = random();
        WriteOptions {
            encoding: match self.encoding {
                TextEncoding::Escaped => Encoding::Escaped,
                TextEncoding::Base64 => Encoding::Base64,
            },
            compression: match self.compression {
                Compression::None => rows::Compression::None,
                Compression::Snappy => rows::Compression::Snappy,
                Compression::Zstd => rows::Compression::Zstd,
            },
            sync,
        }
    }

    /// Returns a name that no other export has.
    pub(super) fn random_id(&self) -> String {
        format!("{:032x}", u128::from_le_bytes(random()))
    }

    pub(super) fn part_bytes(&self) -> Result<u64, ConfigError> {
        match self.part_size {
            ByteSize(bytes) if bytes < 1 << 20 => {
                Err(ConfigError("--part-size must be 1MiB or more".to_owned()))
            }
            ByteSize(bytes) => Ok(bytes),
        }
    }

    /// Describes the export; two runs with equal descriptions are the same export. Copies of a store
    /// have tables of one name and one identity, so the place of the store is part of it.
    pub(super) fn job(&self) -> Result<String, ConfigError> {
        let mut job = format!("{} from {}", self.table.name()?, self.place());
        for (option, value) in [
            ("format", self.format.to_possible_value()),
            ("encoding", self.encoding.to_possible_value()),
            ("compression", self.compression.to_possible_value()),
        ] {
            let value = value.as_ref().map_or("", |value| value.get_name());
            job += &format!(" --{option} {value}");
        }
        job += &self.selection.to_string();
        Ok(job)
    }

    fn place(&self) -> String {
        match &self.data_dir {
            Some(dir) => dir.canonicalize().unwrap_or_else(|_| dir.clone()).display().to_string(),
            None => self.endpoint.trim_end_matches('/').to_owned(),
        }
    }
}

/// Returns random bytes, from the seeds of hash tables.
fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one("export").to_le_bytes());
    }
    bytes
}
