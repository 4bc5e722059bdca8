//! Whole SSTables for tools: verified, or shown as text.
//!
//! In: an open file. Out: what is wrong with it, or its text. May use all other rooms of SSTables.

pub(super) mod last_key;
pub(super) mod show;
pub(super) mod verify;
