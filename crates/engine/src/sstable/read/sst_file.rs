//! The file of an SSTable: its frame of header and footer, and its blocks as they are stored.
//!
//! A block is read whole, with its trailer, and its checksum verified before anybody looks at it.
//! Every failure to make sense of bytes is `Error::Corruption` with the file and an absolute offset.

use crate::error::{Error, Result};
use crate::files::{FileIdentity, FileNumber};
use crate::sstable::format::block_identity::{Frames, HEADER_LEN, decode_header};
use crate::sstable::format::damage::Damage;
use crate::sstable::format::{BlockType, FOOTER_LEN, Footer, FooterError, Handle, unseal};
use base::env::fs::ReadFile;
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory of a thread that is kept from one read to the next, for each of its two buffers: enough
/// for data blocks. A larger one is rare and dwarfs an allocation, and threads may be hundreds.
const KEPT_BYTES_MAX: usize = 80 << 10;

/// Memory that blocks pass through.
#[derive(Default)]
pub(crate) struct Scratch {
    /// A block as it lies in the file.
    pub(crate) framed: Vec<u8>,
    /// A block decompressed.
    pub(crate) raw: Vec<u8>,
}

/// Calls `run` with the scratch memory of this thread; what it holds is arbitrary.
pub(crate) fn with_scratch<R>(run: impl FnOnce(&mut Scratch) -> R) -> R {
    thread_local! {
        static SCRATCH: RefCell<Scratch> = RefCell::default();
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let result = run(scratch);
        for buffer in [&mut scratch.framed, &mut scratch.raw] {
            if buffer.len() > KEPT_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
        result
    })
}

/// The file of an SSTable, its name for messages, and its length when it was opened.
pub(crate) struct Source {
    pub(crate) file: Arc<dyn ReadFile>,
    pub(crate) path: PathBuf,
    pub(crate) number: FileNumber,
    pub(crate) len: u64,
    /// Where blocks end: at the footer, or where none was read, at the end of the file.
    pub(crate) blocks_end: u64,
    /// How checksums of blocks are made: as a sound footer says, or as in version 1.
    pub(crate) frames: Frames,
}

impl Source {
    /// The SSTable in `file`, whose name is `path`.
    pub(crate) fn new(file: Arc<dyn ReadFile>, path: &Path, number: FileNumber) -> Result<Self> {
        let len = file.size().map_err(|error| Error::io("read", path, &error))?;
        let (path, frames) = (path.to_owned(), Frames::Unmarked);
        Ok(Self { file, path, number, len, blocks_end: len, frames })
    }

    pub(crate) fn corruption(&self, offset: u64, what: impl std::fmt::Display) -> Error {
        Error::corruption(&self.path, offset, what)
    }

    /// The damage found in the block at `handle`.
    pub(crate) fn damage(&self, handle: Handle, damage: &Damage) -> Error {
        let within = damage.at.min(handle.len as usize) as u64;
        self.corruption(handle.offset + within, damage)
    }

    pub(crate) fn file(&self) -> &Arc<dyn ReadFile> {
        &self.file
    }

    /// Bytes to read for a block, which must lie within the file.
    pub(crate) fn framed_len(&self, handle: Handle, kind: BlockType) -> Result<usize> {
        if handle.end().is_some_and(|end| end <= self.blocks_end) {
            return Ok(handle.framed_len());
        }
        let at = handle.offset.min(self.len);
        Err(self.corruption(at, format_args!("{kind:?} block past the file's end")))
    }

    /// The stored bytes of a block and its trailer, read into `framed`.
    pub(crate) fn read_framed<'a>(
        &self,
        handle: Handle,
        kind: BlockType,
        framed: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        let len = self.framed_len(handle, kind)?;
        if framed.len() < len {
            framed.resize(len, 0);
        }
        self.read_exact(&mut framed[..len], handle.offset)?;
        Ok(&framed[..len])
    }

    /// The same if they can be had without waiting for the disk.
    pub(crate) fn read_framed_at_once<'a>(
        &self,
        handle: Handle,
        kind: BlockType,
        framed: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        let len = self.framed_len(handle, kind)?;
        if framed.len() < len {
            framed.resize(len, 0);
        }
        let read = self.file.read_exact_at_once(&mut framed[..len], handle.offset);
        let read = read.map_err(|error| self.read_error(handle.offset, &error))?;
        Ok(read.then_some(&framed[..len]))
    }

    /// The raw bytes of a block, its checksum verified: in `framed`, or decompressed into `raw`.
    pub(crate) fn unseal<'a>(
        &self,
        handle: Handle,
        kind: BlockType,
        framed: &'a [u8],
        raw: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        unseal(framed, kind, self.frames.seed(handle.offset), raw).map_err(|damage| {
            let what = Damage::new(damage.at, format!("{kind:?} block: {}", damage.what));
            self.damage(handle, &what)
        })
    }

    pub(crate) fn read_exact(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buf, offset).map_err(|error| self.read_error(offset, &error))
    }

    /// The failure to read at `offset`.
    pub(crate) fn read_error(&self, offset: u64, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.corruption(offset, "the file ends early"),
            _ => Error::io("read", &self.path, error),
        }
    }

    /// The footer, which must have the identity of the header if that is sound. From then on, if it
    /// is sound, blocks end where it begins and have the checksums that it wants.
    pub(crate) fn read_footer(&mut self) -> Result<Footer> {
        let (start, footer) = self.decode_footer()?;
        if let (Some(identity), Ok(other)) = (footer.identity, self.read_header())
            && other != identity
        {
            return Err(self.corruption(start, "the footer has another identity than the header"));
        }
        (self.blocks_end, self.frames) = (start, footer.frames());
        Ok(footer)
    }

    /// Where the footer begins, and the footer, whatever the header says.
    pub(crate) fn decode_footer(&self) -> Result<(u64, Footer)> {
        let Some(start) = self.len.checked_sub(FOOTER_LEN as u64) else {
            return Err(self.corruption(self.len, "the file is shorter than an SSTable's footer"));
        };
        let mut bytes = [0; FOOTER_LEN];
        self.read_exact(&mut bytes, start)?;
        let footer = Footer::decode(&bytes).map_err(|error| self.refusal(start, error))?;
        Ok((start, footer))
    }

    /// What the header says that the file is known by. Files of version 1 have none: there it is
    /// damage.
    pub(crate) fn read_header(&self) -> Result<FileIdentity> {
        let mut bytes = [0; HEADER_LEN];
        self.read_exact(&mut bytes, 0)?;
        decode_header(&bytes).map_err(|error| self.refusal(0, error))
    }

    /// The refusal of the header or the footer, which begins at `start`.
    fn refusal(&self, start: u64, error: FooterError) -> Error {
        match error {
            FooterError::Damage(damage) => self.corruption(start + damage.at as u64, damage),
            FooterError::Newer(what) => Error::Unusable {
                dir: self.path.parent().unwrap_or(&self.path).to_owned(),
                what: format!("{} has {what}: use a newer Stele", self.path.display()),
            },
        }
    }

    /// What `check` makes of the raw bytes of a block, its checksum verified.
    pub(crate) fn read_checked<T>(
        &self,
        handle: Handle,
        kind: BlockType,
        check: impl FnOnce(&[u8]) -> Result<T, Damage>,
    ) -> Result<T> {
        with_scratch(|scratch| {
            let framed = self.read_framed(handle, kind, &mut scratch.framed)?;
            let bytes = self.unseal(handle, kind, framed, &mut scratch.raw)?;
            check(bytes).map_err(|damage| self.damage(handle, &damage))
        })
    }
}
