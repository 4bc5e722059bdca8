//! What every room of Stele stands on: the environment (files, clock, randomness, background
//! tasks, each real or simulated) and byte codecs.
//!
//! The list is closed: something belongs here only when two rooms need it and it knows nothing
//! of cells, tables or protocols.

pub mod checksum;
pub mod codec;
pub mod env;
