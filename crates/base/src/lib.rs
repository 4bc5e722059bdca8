//! What every room of Stele stands on: the environment (files, clock, randomness, background
//! tasks, each real or simulated), byte codecs, and memory on huge pages.
//!
//! The list is closed: something belongs here only when two rooms need it and it knows nothing
//! of cells, tables or protocols.

pub mod checksum;
pub mod codec;
pub mod env;
pub mod memory;
