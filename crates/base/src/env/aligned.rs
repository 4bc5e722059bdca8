//! Memory and ranges for reads that bypass the page cache, where file offset, length and memory
//! must be multiples of what the device asks for.

use std::io;
use std::ops::Range;

/// The alignment of every [`AlignedBuffer`]: no device asks for more of memory, and a page-sized
/// read then fills one page and not parts of two.
pub(super) const MEMORY_ALIGN: usize = 4096;

/// The shortest transfer of a read that is aligned: devices that write pages of this length take
/// longer for a part of one. What lies behind the file's end is not there to be read, and does not
/// matter.
const PAGE_BYTES: usize = 4096;

/// The longest single transfer asked of the kernel; it would cut longer ones to 2 GiB less a page.
const TRANSFER_BYTES_MAX: usize = 1 << 30;

/// Initialised bytes that begin at a multiple of [`MEMORY_ALIGN`] and never move, even when the
/// value does.
pub(super) struct AlignedBuffer {
    /// Longer than asked for by up to `MEMORY_ALIGN`; never grown, so it never moves.
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` zeroed bytes.
    pub(super) fn new(len: usize) -> Self {
        let memory = vec![0; len + MEMORY_ALIGN - 1];
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(MEMORY_ALIGN) - address;
        Self { memory, start, len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// A read of `[offset, offset + len)` rounded out to a device's alignment and to a page at least,
/// and how far it has come. The rounded range is read into memory of its length; what was asked for
/// lies inside.
#[derive(Debug, Clone)]
pub(super) struct AlignedRead {
    align: usize,
    /// Start of the rounded range in the file.
    start: u64,
    /// Length of the rounded range.
    len: usize,
    /// The part of the rounded range that was asked for.
    wanted: Range<usize>,
    /// Bytes of the rounded range that have been read.
    filled: usize,
}

impl AlignedRead {
    /// The read of `len` bytes at `offset`. `align` is a power of two; 1 leaves the range as it is,
    /// and so is one without bytes. `InvalidInput` if it ends beyond what a file can be long.
    pub(super) fn new(offset: u64, len: usize, align: usize) -> io::Result<Self> {
        assert!(align.is_power_of_two(), "an alignment is a power of two");
        let too_far = || io::Error::from(io::ErrorKind::InvalidInput);
        let start = offset - offset % align as u64;
        let head = (offset - start) as usize;
        let end = head.checked_add(len).ok_or_else(too_far)?;
        let mut rounded = end.checked_next_multiple_of(align).ok_or_else(too_far)?;
        if align > 1 && len > 0 {
            rounded = rounded.max(PAGE_BYTES.next_multiple_of(align));
        }
        let file_end = start.checked_add(rounded as u64).ok_or_else(too_far)?;
        if i64::try_from(file_end).is_err() {
            return Err(too_far());
        }
        Ok(Self { align, start, len: rounded, wanted: head..end, filled: 0 })
    }

    /// Returns the memory that the read needs.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The part of the memory that was asked for.
    pub(super) fn wanted(&self) -> Range<usize> {
        self.wanted.clone()
    }

    /// The next transfer: from where in the file to where in the memory. Aligned at both ends,
    /// so what a short transfer left of a sector is read again.
    pub(super) fn next(&self) -> (u64, Range<usize>) {
        let from = self.resume_at();
        let to = self.len.min(from + TRANSFER_BYTES_MAX);
        (self.start + from as u64, from..to)
    }

    /// Notes that the transfer of [`next`](Self::next) gave `count` bytes. Whether the read is
    /// complete; `UnexpectedEof` if the file ends before it is.
    pub(super) fn advance(&mut self, count: usize) -> io::Result<bool> {
        let filled = self.resume_at() + count;
        if filled >= self.wanted.end {
            return Ok(true);
        }
        if filled <= self.filled {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.filled = filled;
        Ok(false)
    }

    fn resume_at(&self) -> usize {
        self.filled - self.filled % self.align
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buffers_are_aligned_and_zeroed() {
        for len in [0, 1, 4095, 4096, 4097, 100_000] {
            let mut buffer = AlignedBuffer::new(len);
            assert_eq!(buffer.bytes(), vec![0; len]);
            assert_eq!(buffer.bytes_mut().as_ptr().addr() % MEMORY_ALIGN, 0);
        }
    }

    #[test]
    fn reads_past_the_longest_file_are_refused() {
        for (offset, len) in [(u64::MAX, 1), (1 << 63, 0), ((1 << 63) - 1, 2), (1, usize::MAX)] {
            for align in [1, 512] {
                let error = AlignedRead::new(offset, len, align).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{offset} {len} {align}");
            }
        }
    }

    proptest! {
        /// A device that transfers aligned ranges only, each time any part of what is asked.
        #[test]
        fn short_transfers_add_up(
            file_len in 0_usize..3000,
            offset in 0_usize..3000,
            len in 1_usize..3000,
            align in prop::sample::select(vec![1, 2, 512]),
            parts in prop::collection::vec(1_usize..2000, 1..20),
        ) {
            let mut read = AlignedRead::new(offset as u64, len, align).unwrap();
            let mut seen = vec![None; read.len()];
            let done = parts.iter().cycle().find_map(|part| {
                let (from, to) = read.next();
                let from = usize::try_from(from).unwrap();
                assert!(from % align == 0 && to.start % align == 0 && to.end % align == 0);
                let count = to.len().min(*part).min(file_len.saturating_sub(from));
                for at in 0..count {
                    seen[to.start + at] = Some(from + at);
                }
                read.advance(count).map(|done| done.then_some(())).transpose()
            });
            let wanted: Vec<_> = (offset..offset + len).map(Some).collect();
            match done.unwrap() {
                Ok(()) => prop_assert_eq!(&seen[read.wanted()], wanted.as_slice()),
                Err(error) => {
                    prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                    // Where each transfer is shorter than a sector, no read can come further.
                    let stuck = parts.iter().any(|part| *part < align);
                    prop_assert!(offset + len > file_len || stuck);
                }
            }
        }
    }
}
