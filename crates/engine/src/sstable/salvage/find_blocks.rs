//! Finds blocks by their checksums, where nothing that leads to them can be read.
//!
//! A block does not say how long it is, but it ends with its compression, its type and a checksum
//! of all before: from where one begins, the first place at which those hold is its end. So the
//! blocks of a file can be walked from any known border up to the next damage, not past it. Where
//! checksums are also of the place (block_identity.rs), nothing but the block that was written there has
//! one that holds; in a file of version 1 a block may begin with bytes that look like another one.

use crate::error::Result;
use crate::options::Compression;
use crate::sstable::format::{BlockType, Handle, TRAILER_LEN};
use crate::sstable::read::sst_file::Source;
use base::checksum::Xxh3;

/// Bytes read at once.
const WINDOW_BYTES: u64 = 256 << 10;
/// Bytes of a trailer before its checksum.
const MARKS_LEN: usize = 2;

/// The block that begins at `start` and ends at or before `end`; `None` if there is none. Reads on
/// to `end` in the worst case.
pub(crate) fn block_at(
    source: &Source,
    start: u64,
    end: u64,
) -> Result<Option<(BlockType, Handle)>> {
    let mut hash = Xxh3::seeded(source.frames.seed(start));
    // What is read and not yet done with, and how much of it is in the hash.
    let (mut window, mut window_start, mut hashed) = (Vec::new(), start, 0);
    loop {
        let read = window.len();
        let more = WINDOW_BYTES.min(end.saturating_sub(window_start + read as u64)) as usize;
        if more == 0 {
            return Ok(None);
        }
        window.resize(read + more, 0);
        source.read_exact(&mut window[read..], window_start + read as u64)?;
        let mut at = MARKS_LEN;
        while let Some(checksum) = window.get(at..at + TRAILER_LEN - MARKS_LEN) {
            if let Some(kind) = trailer_kind(&window[at - MARKS_LEN..at]) {
                hash.update(&window[hashed..at]);
                hashed = at;
                if checksum == (hash.digest() as u32).to_le_bytes() {
                    let len = window_start + (at - MARKS_LEN) as u64 - start;
                    let handle = u32::try_from(len).map(|len| Handle { offset: start, len });
                    return Ok(handle.ok().map(|handle| (kind, handle)));
                }
            }
            at += 1;
        }
        let done = at - MARKS_LEN;
        if hashed < done {
            hash.update(&window[hashed..done]);
            hashed = done;
        }
        window.drain(..done);
        window_start += done as u64;
        hashed -= done;
    }
}

/// The type that the first bytes of a trailer name, if they may be of one.
fn trailer_kind(marks: &[u8]) -> Option<BlockType> {
    let [compression, kind] = marks else { return None };
    Compression::from_byte(*compression).and(BlockType::from_byte(*kind))
}
