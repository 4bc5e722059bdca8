//! A file written past the page cache (`O_DIRECT`), once and from its beginning: a page in the
//! cache costs the processor ten times what a direct write of it does.
//!
//! Bytes are gathered in aligned memory and written when that is full. `sync` writes what is left,
//! rounded up with zeroes to the alignment, and cuts the file to its length; the rest stays in
//! memory, to be written again with what follows it.

use super::aligned::AlignedBuffer;
use super::direct::alignment;
use super::fs::WriteFile;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of one write. A multiple of every alignment.
const WRITE_BYTES: usize = 1 << 20;

/// See the file header.
pub(super) struct DirectWriter {
    file: File,
    align: usize,
    buffer: AlignedBuffer,
    /// Bytes in `buffer`.
    filled: usize,
    /// Start of `buffer` in the file.
    start: u64,
}

impl DirectWriter {
    /// Creates the file at `path`, or empties it; `None` if its file system does not write
    /// directly.
    pub(super) fn create(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::DIRECT.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).custom_flags(flags);
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(None),
            Err(error) => return Err(error),
        };
        let buffer = || AlignedBuffer::new(WRITE_BYTES);
        Ok(alignment(&file).map(|align| Self {
            file,
            align,
            buffer: buffer(),
            filled: 0,
            start: 0,
        }))
    }

    fn end(&self) -> u64 {
        self.start + self.filled as u64
    }
}

impl WriteFile for DirectWriter {
    fn write_all_at(&mut self, mut data: &[u8], offset: u64) -> io::Result<()> {
        if offset != self.end() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        while !data.is_empty() {
            let (now, rest) = data.split_at(data.len().min(WRITE_BYTES - self.filled));
            self.buffer.bytes_mut()[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            data = rest;
            if self.filled == WRITE_BYTES {
                self.file.write_all_at(self.buffer.bytes(), self.start)?;
                self.start += WRITE_BYTES as u64;
                self.filled = 0;
            }
        }
        Ok(())
    }

    fn allocate(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        let rounded = self.filled.next_multiple_of(self.align);
        self.buffer.bytes_mut()[self.filled..rounded].fill(0);
        self.file.write_all_at(&self.buffer.bytes()[..rounded], self.start)?;
        if rounded > self.filled {
            self.file.set_len(self.end())?;
        }
        self.file.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.end())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileSystem, RealFileSystem};
    use super::*;

    #[test]
    fn what_is_written_in_any_pieces_is_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, [9; 100]).unwrap();
        let mut file = RealFileSystem.create_direct(&path).unwrap();
        let mut all: Vec<u8> = Vec::new();
        file.sync().unwrap();
        for len in [0, 1, 511, 512, 4095, 4096, 100_000, WRITE_BYTES, 3 * WRITE_BYTES + 17, 5] {
            let piece: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            file.write_all_at(&piece, all.len() as u64).unwrap();
            all.extend(piece);
            assert_eq!(file.size().unwrap(), all.len() as u64);
            if len % 2 == 1 {
                file.sync().unwrap();
                assert!(std::fs::read(&path).unwrap() == all, "after a piece of {len}");
            }
        }
    }

    #[test]
    fn only_what_comes_next_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let Some(mut file) = DirectWriter::create(&dir.path().join("file")).unwrap() else {
            return;
        };
        file.write_all_at(b"abc", 0).unwrap();
        for offset in [0, 2, 4] {
            assert!(file.write_all_at(b"d", offset).is_err(), "{offset}");
        }
        file.write_all_at(b"d", 3).unwrap();
    }

    #[test]
    fn other_file_systems_write_through_the_page_cache() {
        let path = Path::new("/proc/self/comm");
        if path.exists() {
            assert!(DirectWriter::create(path).unwrap().is_none());
            RealFileSystem.create_direct(path).unwrap();
        }
    }
}
