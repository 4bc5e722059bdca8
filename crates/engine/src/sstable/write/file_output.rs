//! The file of an SSTable that is being written: blocks are sealed into a buffer, which goes to the
//! file when it is large enough.

use crate::error::{Error, Result};
use crate::marks::Mark;
use crate::sstable::format::block_identity::{Frames, encode_header};
use crate::sstable::format::{BlockType, Handle, Sealer};
use base::env::fs::WriteFile;
use std::path::PathBuf;

/// The file and what is not yet written to it.
pub(crate) struct Output {
    pub(crate) file: Box<dyn WriteFile>,
    pub(crate) path: PathBuf,
    pub(crate) sealer: Sealer,
    pub(crate) pending: Vec<u8>,
    /// Bytes at which it is written.
    pub(crate) pending_max: usize,
    pub(crate) written: u64,
    pub(crate) frames: Frames,
}

impl Output {
    /// Bytes of the file so far.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Writes a block of these raw bytes.
    pub(crate) fn write_block(&mut self, raw: &[u8], kind: BlockType) -> Result<Handle> {
        self.write_block_with(kind, |out| out.extend_from_slice(raw))
    }

    /// Writes a block whose raw bytes `fill` appends.
    pub(crate) fn write_block_with(
        &mut self,
        kind: BlockType,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Handle> {
        if let (Frames::Of(identity), 0) = (self.frames, self.len()) {
            self.pending.extend_from_slice(&encode_header(identity));
        }
        let (offset, start) = (self.len(), self.pending.len());
        fill(&mut self.pending);
        let len = self.sealer.seal(&mut self.pending, start, kind, self.frames.seed(offset));
        if self.pending.len() >= self.pending_max {
            Mark::SstWrittenInParts.hit();
            self.flush()?;
        }
        Ok(Handle { offset, len })
    }

    /// Writes what is pending.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.file
            .write_all_at(&self.pending, self.written)
            .map_err(|error| Error::io("write", &self.path, &error))?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}
