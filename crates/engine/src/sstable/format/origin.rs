//! Where a file comes from: what the manifest knows as well, kept in the file for the day on which
//! the manifest is lost. Nothing but a repair reads it.

use crate::cell::TreeId;
use crate::files::FileNumber;
use base::codec::{ByteReader, DecodeError, PutBytes};

/// Origin of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The tree it was written for.
    pub tree: TreeId,
    /// The log position up to which every batch of the tree was in SSTables when the file had become one of them.
    pub position: u64,
    /// The files that were merged into this one and its sisters; none for a flush and an ingest.
    pub inputs: Vec<FileNumber>,
}

impl Origin {
    /// Returns whether the file can be one of `tree`: it was written for it, or for a tree with a smaller
    /// id. Copies have larger ids than what they are copies of, and so have trees that move when a store
    /// is given to a server; their files name the old ids until compaction replaces them.
    pub(crate) fn fits(&self, tree: TreeId) -> bool {
        self.tree <= tree
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u32(self.tree.0);
        out.put_u64(self.position);
        out.put_varint(self.inputs.len() as u64);
        self.inputs.iter().for_each(|input| out.put_varint(input.0));
        out
    }

    /// The origin in `bytes`. Allocates in proportion to them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let tree = TreeId(reader.u32("tree")?);
        let position = reader.u64("log position")?;
        let count = reader.varint("count of inputs")?;
        let mut inputs = Vec::new();
        for _ in 0..count {
            inputs.push(FileNumber(reader.varint("input")?));
        }
        reader.finish()?;
        Ok(Self { tree, position, inputs })
    }
}
