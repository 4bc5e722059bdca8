//! Bytes of the cluster: messages between nodes, commands in the logs of groups, descriptors of groups.
//!
//! In: bytes of peers and of the group log. Out: plain data, or an error. May use [`crate::group`].
//!
//! 1. Decoding is total: any bytes are read or refused, without a panic.
//! 2. Memory goes with the length of the bytes: no count in them allocates.
//! 3. What decodes is encoded to the same bytes again, so each value has one encoding.
//!
//! The pages are docs/format/{node_messages,group_command,group_descriptor}.md.

mod command;
mod descriptor;
mod fuzz;
mod message;
#[cfg(test)]
mod tests;

pub use command::{Batches, Command, SlotBatch};
pub use descriptor::{DESCRIPTOR_MEMBERS_MAX, DESCRIPTOR_TREES_MAX, Descriptor, SCHEMA_BYTES_MAX};
pub use fuzz::{fuzz_command, fuzz_descriptor, fuzz_messages};
pub use message::{FRAME_BYTES_MAX, decode_frame, encode_frames};

use base::codec::DecodeError;
use std::fmt;

/// The reason why bytes were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatError {
    /// They end early, or a number is malformed.
    Decode(DecodeError),
    /// They are of a version that this build does not know.
    Version {
        /// Name of the whole format.
        format: &'static str,
        /// The version that they name.
        version: u8,
    },
    /// A byte names a kind that this build does not know.
    Kind {
        /// Name of what has the kind.
        of: &'static str,
        /// The byte that was read.
        kind: u8,
    },
    /// A checksum differs, a limit is passed, or an order is broken.
    Broken(&'static str),
}

impl From<DecodeError> for FormatError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => error.fmt(f),
            Self::Version { format, version } => write!(
                f,
                "{format} of version {version}, which this Stele does not know; use a newer Stele"
            ),
            Self::Kind { of, kind } => {
                write!(f, "{of} of kind {kind}, which this Stele does not know; use a newer Stele")
            }
            Self::Broken(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for FormatError {}
