//! The rows of an input, whatever its format.

use super::checkpoint::Place;
use super::exported::Exported;
use super::mapping::Mapping;
use super::rejects::Reject;
use super::target::plain_schema;
use crate::config::ConfigError;
use anyhow::{Context, Result};
use engine::Timestamp;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use interchange::lines::Lines;
use interchange::records::{Item, Records};
use table::RowMutations;

/// The next row of the input.
pub(super) struct InputRow {
    /// Number of its first line, or of its record.
    pub(super) line: u64,
    /// The place behind it in the input.
    pub(super) end: Place,
    /// Its text in the input; empty for a row of an export.
    pub(super) text: Vec<u8>,
    /// The row, or its reject if it cannot be written.
    pub(super) content: Result<RowMutations, Reject>,
}

/// An input that is open.
pub(super) enum Input {
    /// Records, which a mapping makes rows of.
    Records(Box<RecordInput>),
    /// Rows with all their cells.
    Exported(Box<Exported>),
}

/// Records of a text format.
pub(super) struct RecordInput {
    pub(super) lines: Lines,
    pub(super) records: Box<dyn Records>,
    pub(super) mapping: Mapping,
}

impl Input {
    /// Returns whether the rows are from an export, and have their own timestamps.
    pub(super) fn is_export(&self) -> bool {
        matches!(self, Self::Exported(_))
    }

    /// Returns the word for a unit of the input.
    pub(super) fn record(&self) -> &'static str {
        if self.is_export() { "record" } else { "line" }
    }

    /// Returns the schema of a table for the rows, as far as it is known before the rows are read.
    pub(super) fn schema(&self) -> admin::Table {
        match self {
            Self::Records(input) => plain_schema(input.mapping.families()),
            Self::Exported(exported) => exported.schema(),
        }
    }

    /// Refuses to create a table whose schema the input lacks though it should have it.
    pub(super) fn check_schema(&self) -> Result<(), ConfigError> {
        match self {
            Self::Records(_) => Ok(()),
            Self::Exported(exported) => exported.check_schema(),
        }
    }

    /// Returns whether the families of all rows should be in the schema.
    pub(super) fn tells_families(&self) -> bool {
        matches!(self, Self::Exported(exported) if exported.is_directory())
    }

    /// Makes the rows fit for a table with this schema.
    pub(super) fn fit(&mut self, table: &admin::Table) {
        if let Self::Exported(exported) = self {
            exported.fit(table);
        }
    }

    /// Skips the files of the input that come before a place.
    pub(super) fn skip_files(&mut self, done: &Place) -> Result<()> {
        match self {
            Self::Records(_) => Ok(()),
            Self::Exported(exported) => exported.skip_files(done.file),
        }
    }

    /// Returns the next row; `None` at the end. Cells without a time of their own get `at`.
    pub(super) fn next(&mut self, at: Timestamp) -> Result<Option<InputRow>> {
        let input = match self {
            Self::Records(input) => input,
            Self::Exported(exported) => return exported.next(),
        };
        let item = input.records.next(&mut input.lines).context("cannot read the input")?;
        let Some(Item { line, end, text, content }) = item else { return Ok(None) };
        let content = content.and_then(|record| input.mapping.row(record, at));
        let content = content.map_err(|why| Reject::new(line, why, &text));
        Ok(Some(InputRow { line, end: end.into(), text, content }))
    }
}
