//! What reads need of an engine's options, in one small value, so that a read finds it together.

use crate::options::{Options, ReadPath};

/// Runs that can be looked at here; a view of more is merged.
pub(crate) const RUNS_MAX: usize = 16;

/// See the file header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadParts {
    /// Parts of the read path.
    pub(crate) path: ReadPath,
    /// Runs that a point read looks at; a view of more is merged. [`RUNS_MAX`] or less.
    pub(crate) runs_max: u8,
    /// Tombstones of a row that is decided in place.
    pub(crate) covers_max: u8,
    /// Times a point read brings in what it misses before it is merged: of an index partition, its
    /// filter, a data block and a large value each may be missing, and a block other than a large
    /// value that the cache could not keep stays missing.
    pub(crate) fetches_max: u8,
    /// Gets of a multi-get that are planned together.
    pub(crate) group: u8,
    /// Questions that a read of a row asks filters.
    pub(crate) questions_max: u8,
    /// Rows merged after a search for a row span in vain before the next, at most.
    pub(crate) row_span_rest_max: u8,
    /// Rows of a row span that is worth being made: it holds its block once more.
    pub(crate) row_span_rows_min: u32,
    /// Bytes of a row's large values that are brought in together.
    pub(crate) large_bytes_max: usize,
}

impl ReadParts {
    /// Those of an engine; `options` are valid.
    pub(crate) fn of(options: &Options) -> Self {
        let byte = |value: usize| u8::try_from(value).expect("its range ends before 256");
        let shape = &options.shape;
        Self {
            path: options.read_path,
            runs_max: byte(shape.runs_looked_at.min(RUNS_MAX)),
            covers_max: byte(shape.covers_max),
            fetches_max: byte(shape.fetches_max),
            group: byte(shape.multi_get_group),
            questions_max: byte(shape.questions_max),
            row_span_rest_max: byte(shape.row_span_rest_max),
            row_span_rows_min: shape.row_span_rows_min as u32,
            large_bytes_max: shape.large_bytes_in_block,
        }
    }
}
