//! What tools do with a data directory: check, dump, repair, and copy it.
//!
//! In: a directory, open or closed. Out: reports, text, or a new directory; the old one is never
//! changed. May use all other rooms.

pub mod check;
pub mod checkpoint;
pub mod dump;
pub mod repair;
