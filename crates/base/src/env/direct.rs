//! Files of the operating system read past its page cache (`O_DIRECT`): blocks that the engine
//! caches itself are then in memory once, and a read costs the device no more than what it asks.
//!
//! Written bytes are seen as by any other read: the kernel writes dirty pages of the range back
//! before it reads.

use super::aligned::{AlignedBuffer, AlignedRead, MEMORY_ALIGN};
use super::fs::{Descriptor, ReadFile};
use rustix::fs::{AtFlags, OFlags, StatxFlags, statx};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Alignment if the kernel reports none; no common device needs more.
const ALIGN_DEFAULT: usize = 4096;

/// Above this a device is odd enough that its files are read through the page cache.
const ALIGN_MAX: usize = 64 << 10;

/// Memory of one thread for unaligned reads; longer reads are split.
const SCRATCH_BYTES_MAX: usize = 1 << 20;
/// Of it what a thread keeps from one read to the next: threads may be hundreds.
const SCRATCH_KEPT_BYTES_MAX: usize = 128 << 10;

/// A file that is read past the page cache.
pub(super) struct DirectFile {
    file: File,
    align: usize,
}

impl DirectFile {
    /// Opens the file at `path`; `None` if its file system does not read directly.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::DIRECT.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(alignment(&file).map(|align| Self { file, align }))
    }

    /// Reads less than [`SCRATCH_BYTES_MAX`] through the thread's own aligned memory.
    fn read_through_scratch(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        thread_local! {
            static SCRATCH: RefCell<AlignedBuffer> = RefCell::new(AlignedBuffer::new(0));
        }
        let read = AlignedRead::new(offset, buf.len(), self.align)?;
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.len() < read.len() {
                *scratch = AlignedBuffer::new(read.len().next_power_of_two());
            }
            let wanted = read.wanted();
            self.transfer(read, scratch.bytes_mut())?;
            buf.copy_from_slice(&scratch.bytes()[wanted]);
            if scratch.len() > SCRATCH_KEPT_BYTES_MAX {
                *scratch = AlignedBuffer::new(0);
            }
            Ok(())
        })
    }

    fn transfer(&self, mut read: AlignedRead, memory: &mut [u8]) -> io::Result<()> {
        loop {
            let (from, to) = read.next();
            match self.file.read_at(&mut memory[to], from) {
                Ok(count) if read.advance(count)? => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl ReadFile for DirectFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let read = AlignedRead::new(offset, buf.len(), self.align)?;
        if buf.is_empty() {
            return Ok(());
        }
        if buf.len() == read.len() && buf.as_ptr().addr().is_multiple_of(self.align) {
            return self.transfer(read, buf);
        }
        let mut at = offset;
        for piece in buf.chunks_mut(SCRATCH_BYTES_MAX - ALIGN_MAX * 2) {
            self.read_through_scratch(piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn is_direct(&self) -> bool {
        true
    }

    fn descriptor(&self) -> Option<Descriptor<'_>> {
        Some(Descriptor { fd: self.file.as_fd(), align: self.align })
    }
}

/// What offset, length and memory of a direct read or write of `file` must be multiples of; `None`
/// if there is none.
pub(super) fn alignment(file: &File) -> Option<usize> {
    let Ok(stat) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return Some(ALIGN_DEFAULT);
    };
    if !StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN) {
        return Some(ALIGN_DEFAULT);
    }
    usable(stat.stx_dio_mem_align, stat.stx_dio_offset_align)
}

/// The alignment that serves memory and offset both; 0 means "not at all".
fn usable(memory: u32, offset: u32) -> Option<usize> {
    let (memory, offset) = (memory as usize, offset as usize);
    let usable = memory.is_power_of_two()
        && memory <= MEMORY_ALIGN
        && offset.is_power_of_two()
        && offset <= ALIGN_MAX;
    usable.then_some(offset.max(memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_alignment_is_checked() {
        for (memory, offset, want) in [
            (4, 512, Some(512)),
            (512, 512, Some(512)),
            (4096, 512, Some(4096)),
            (4096, 65536, Some(65536)),
            (0, 0, None),
            (0, 512, None),
            (8192, 8192, None),
            (512, 131_072, None),
            (512, 768, None),
        ] {
            assert_eq!(usable(memory, offset), want, "{memory} {offset}");
        }
    }
}
