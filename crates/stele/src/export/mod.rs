//! `stele export`: a table, or a part of it, into files.
//!
//! The source is a running server, which is read by the Bigtable API, or a data directory that this
//! process opens. Rows come in key order and are written to parts of a bounded size.
//!
//! 1. A part is whole or absent: it is written under a temporary name, synced, then renamed, and
//!    only then recorded in `export.parts`. The export is complete when `export.json` says so.
//! 2. An export resumes after the last row of the last recorded part, if the table is still the same.
//!    Parts that are not recorded are removed first.
//! 3. A failed read begins its part again from the part's first row. So no part has a row twice.
//! 4. Memory does not grow with a row: a row with many cells is written as several records
//!    ([`interchange::rows::limits`]), one after the other in one part.
//!
//! `docs/format/export.md` describes the files.

mod args;
mod command;
pub(crate) mod manifest;
mod part;
pub(crate) mod part_list;
mod place;
mod run;
mod selection;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use args::ExportArgs;
pub(crate) use command::run;
