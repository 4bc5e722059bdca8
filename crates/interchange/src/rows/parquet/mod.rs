//! Parquet files of cells: one record a cell, as programs that analyse tables want it.
//!
//! The columns of our own files, in this order: `key`, `family`, `qualifier`, `timestamp`, `value`.
//! Cells of one row follow each other. A reader takes the columns in any order, and timestamps of
//! any unit.

mod delta;
mod footer;
mod pages;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub(super) use read::Reader;
pub(super) use write::Writer;

/// Names of the columns, in their order in a file that is written.
const COLUMNS: [&str; 5] = ["key", "family", "qualifier", "timestamp", "value"];
