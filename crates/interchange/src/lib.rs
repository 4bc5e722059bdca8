//! Formats in which rows come from other programs and go to them.
//!
//! A tour of the rooms: `records` reads text whose records become rows by a mapping, line by line.
//! `rows` writes and reads rows with all their cells, without loss, in formats of other programs.
//!
//! Every reader takes hostile input: it bounds each length before it allocates, and refuses what it
//! cannot read with the place in the input. Nothing here knows tables or servers.
#![forbid(unsafe_code)]

mod error;
pub mod lines;
pub mod records;
pub mod rows;

pub use error::{Error, Result};
