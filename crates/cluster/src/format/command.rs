//! Commands of a group's log (docs/format/group_command.md).
//!
//! A node that meets a command which it cannot decode must not go on: the other replicas may have
//! applied it.

use super::FormatError;
use super::descriptor::DESCRIPTOR_TREES_MAX;
use base::codec::{ByteReader, PutBytes};

const VERSION: u8 = 1;

/// Kinds of commands, frozen. 0 stays invalid.
const BATCHES: u8 = 1;
const SCHEMA: u8 = 2;

/// One command, with its bytes borrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command<'a> {
    /// Batches of trees of the group, which are applied together.
    Batches(Batches<'a>),
    /// The schema of the group's table changes.
    Schema {
        /// Number of the schema. A smaller one than the group knows changes nothing.
        version: u64,
        /// The whole record of the table, as crate `table` encodes it.
        record: &'a [u8],
    },
}

/// Batches that one commit makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batches<'a> {
    /// Newest time that a server gave to a cell of the batches, in microseconds since the epoch; 0
    /// without any. Later leaders give later times.
    pub newest_micros: u64,
    /// At most one batch for each tree, by ascending slots.
    pub batches: Vec<SlotBatch<'a>>,
}

/// A batch and its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotBatch<'a> {
    /// Place of the tree in the list of the descriptor, from 0.
    pub slot: usize,
    /// The encoding of an `engine::ReadyBatch`.
    pub batch: &'a [u8],
}

impl<'a> Command<'a> {
    /// Returns the bytes of the command.
    ///
    /// # Panics
    ///
    /// Panics if slots do not ascend, or no descriptor has them.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Batches(Batches { newest_micros, batches }) => {
                let len = batches.iter().map(|one| one.batch.len() + 8).sum::<usize>();
                let mut out = Vec::with_capacity(len + 16);
                out.extend([VERSION, BATCHES]);
                out.put_u64(*newest_micros);
                let mut least = 0;
                for SlotBatch { slot, batch } in batches {
                    assert!((least..DESCRIPTOR_TREES_MAX).contains(slot), "slots ascend");
                    least = slot + 1;
                    out.put_varint(*slot as u64);
                    out.put_string(batch);
                }
                out
            }
            Self::Schema { version, record } => {
                let mut out = vec![VERSION, SCHEMA];
                out.put_varint(*version);
                out.put_string(record);
                out
            }
        }
    }

    /// Reads a command. The content of batches and records is not looked at.
    ///
    /// # Errors
    ///
    /// The bytes are no command that this build knows.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let mut reader = ByteReader::new(bytes);
        match reader.u8("version of a command")? {
            VERSION => {}
            version => return Err(FormatError::Version { format: "command", version }),
        }
        match reader.u8("kind of a command")? {
            BATCHES => decode_batches(reader),
            SCHEMA => {
                let version = reader.varint("version of a schema")?;
                let record = reader.string("record of a table")?;
                reader.finish()?;
                Ok(Self::Schema { version, record })
            }
            kind => Err(FormatError::Kind { of: "command", kind }),
        }
    }
}

fn decode_batches(mut reader: ByteReader<'_>) -> Result<Command<'_>, FormatError> {
    let newest_micros = reader.u64("time of a command")?;
    let mut batches: Vec<SlotBatch<'_>> = Vec::new();
    while !reader.is_empty() {
        let slot = usize::try_from(reader.varint("slot of a batch")?).unwrap_or(usize::MAX);
        let ascends = batches.last().is_none_or(|before| before.slot < slot);
        if !ascends || slot >= DESCRIPTOR_TREES_MAX {
            return Err(FormatError::Broken("slots of a command ascend, and are those of a group"));
        }
        batches.push(SlotBatch { slot, batch: reader.string("batch of a command")? });
    }
    Ok(Command::Batches(Batches { newest_micros, batches }))
}
