//! `stele import`: rows into a table, from records in CSV, TSV, JSON lines or Debian control stanzas,
//! or from an export with all its cells.
//!
//! The default target is a running server, because data directories have one owner and most
//! imports go into a table that is being served; the same limits and answers hold for any other
//! client. With `--data-dir` the import owns the directory itself and needs no server.
//!
//! Rows are sent in batches, a few of them at once. Two invariants make that safe:
//! 1. No two rows in flight have the same key, so of two records with one key the later wins, as
//!    in the input.
//! 2. Batches are finished in the order of the input, so that a checkpoint is a prefix of it. It is
//!    saved when the rows before it are on the server's disk.

mod args;
mod checkpoint;
pub(crate) mod direct;
mod exported;
mod format;
mod input;
pub(crate) mod mapping;
mod place;
pub(crate) mod progress;
pub(crate) mod rejects;
pub(crate) mod remote;
mod run;
pub(crate) mod source;
pub(crate) mod target;

pub(crate) use args::ImportArgs;
pub(crate) use run::run;
