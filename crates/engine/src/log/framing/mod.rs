//! Files of records, and logs made of numbered segments: what the commit log, the group log and the
//! manifest share. It knows nothing of what a record holds.
//!
//! In: payloads, with the kind of their file. Out: the same payloads in the same order, or the
//! place of damage. The protocol and its numbered rules are in the header of the room `log`.
//!
//! - [`record`]: bytes of file headers and record headers.
//! - [`append_file`], [`record_scan`]: one file, written and read.
//! - [`segment_files`]: names and numbers of segments.
//! - [`segment_writer`], [`segment_reader`], [`chain_reader`]: a log of segments, written and read.

pub(crate) mod append_file;
pub(crate) mod chain_reader;
pub(crate) mod record;
pub(crate) mod record_scan;
pub(crate) mod segment_files;
pub(crate) mod segment_reader;
pub(crate) mod segment_writer;
