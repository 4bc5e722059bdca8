//! Rows in memory, to be sorted. Each lies encoded as a frame of a file will have it, in chunks that
//! are never moved; what is sorted are small items that begin with the bytes compared first.
//!
//! 1. Chunk and place of an item ascend in the order in which rows were added, so they break ties.
//! 2. Heads are taken from behind what all rows begin with, else rows of one long prefix would all
//!    be compared twice. They are set by `sort`.

use crate::sstable::head_of;
use base::codec::{ByteReader, PutBytes};
use std::cmp::Ordering;

/// Most bytes of the two lengths in front of a row and its payload.
const LENGTHS_BYTES: usize = 10;

/// See the file header.
pub(super) struct Buffer {
    /// Bytes of a chunk, unless a row is larger.
    chunk_len: usize,
    chunks: Vec<Vec<u8>>,
    items: Vec<Item>,
    /// Bytes that all rows begin with.
    shared_prefix: usize,
    /// Capacity of all chunks.
    chunk_bytes: usize,
    /// Chunks of the ordinary size that are not in use.
    spare: Vec<Vec<u8>>,
}

/// A row: where it lies, and what it is compared by first.
#[derive(Clone, Copy)]
struct Item {
    head: u64,
    chunk: u32,
    at: u32,
}

const ITEM_BYTES: usize = std::mem::size_of::<Item>();

impl Buffer {
    /// No rows; chunks are of `chunk_len` bytes.
    pub(super) fn new(chunk_len: usize) -> Self {
        let (chunks, items, spare) = Default::default();
        Self { chunk_len, chunks, items, shared_prefix: 0, chunk_bytes: 0, spare }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Memory in use once `row` is added, about.
    pub(super) fn memory_with(&self, row: &[u8], payload: &[u8]) -> usize {
        let len = encoded_len(row, payload);
        let chunk = if self.fits(len) { 0 } else { len.max(self.chunk_len) };
        self.chunk_bytes + chunk + (self.items.capacity().max(self.items.len() + 1)) * ITEM_BYTES
    }

    fn fits(&self, len: usize) -> bool {
        self.chunks.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= len)
    }

    pub(super) fn add(&mut self, row: &[u8], payload: &[u8]) {
        let len = encoded_len(row, payload);
        if !self.fits(len) {
            self.add_chunk(len);
        }
        self.shared_prefix = match self.row(0) {
            None => row.len(),
            Some((first, _)) => common(&first[..self.shared_prefix], row),
        };
        if self.items.len() == self.items.capacity() {
            // By a quarter: the capacity counts as memory in use.
            self.items.reserve_exact(self.items.len() / 4 + 1024);
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let (chunk_number, at) = (u32::try_from(number), u32::try_from(chunk.len()));
        let place = "a buffer has fewer chunks, and a chunk fewer bytes, than 2^32";
        let (chunk_number, at) = (chunk_number.expect(place), at.expect(place));
        put(chunk, row, payload);
        self.items.push(Item { head: 0, chunk: chunk_number, at });
    }

    fn add_chunk(&mut self, len: usize) {
        let chunk = match self.spare.pop() {
            Some(chunk) if chunk.capacity() >= len => chunk,
            _ => Vec::with_capacity(len.max(self.chunk_len)),
        };
        self.chunk_bytes += chunk.capacity();
        self.chunks.push(chunk);
    }

    pub(super) fn sort(&mut self) {
        let Self { chunks, items, shared_prefix, .. } = self;
        for item in items.iter_mut() {
            item.head = head_of(&decode(chunks, *item).0[*shared_prefix..]);
        }
        items.sort_unstable_by(|a, b| {
            let rows = || decode(chunks, *a).0.cmp(decode(chunks, *b).0);
            let added = || (a.chunk, a.at).cmp(&(b.chunk, b.at));
            a.head.cmp(&b.head).then_with(rows).then_with(added)
        });
    }

    /// The row at `index` and its payload: in the order of adding, or once sorted in that.
    pub(super) fn row(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.items.get(index).map(|item| decode(&self.chunks, *item))
    }

    /// All rows as they are encoded.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.items.iter().map(|item| {
            let bytes = &self.chunks[item.chunk as usize][item.at as usize..];
            let (row, payload) = decode(&self.chunks, *item);
            let len = string_len(row) + string_len(payload);
            &bytes[..len]
        })
    }

    /// Forgets all rows; keeps memory for as many.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.chunk_bytes = 0;
        let len = self.chunk_len;
        for mut chunk in self.chunks.drain(..).filter(|chunk| chunk.capacity() == len) {
            chunk.clear();
            self.spare.push(chunk);
        }
    }
}

fn encoded_len(row: &[u8], payload: &[u8]) -> usize {
    row.len() + payload.len() + LENGTHS_BYTES
}

/// Appends a row as a frame has it.
pub(super) fn put(out: &mut Vec<u8>, row: &[u8], payload: &[u8]) {
    out.put_string(row);
    out.put_string(payload);
}

fn decode(chunks: &[Vec<u8>], item: Item) -> (&[u8], &[u8]) {
    let mut reader = ByteReader::new(&chunks[item.chunk as usize][item.at as usize..]);
    let row = reader.string("row").expect("`add` wrote it");
    (row, reader.string("payload").expect("`add` wrote it"))
}

fn string_len(bytes: &[u8]) -> usize {
    let len = bytes.len() as u64;
    let bits = u64::BITS - len.leading_zeros();
    bytes.len() + bits.div_ceil(7).max(1) as usize
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// How two rows compare that may be lent from different places.
pub(super) fn compare(a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(b),
        // What is exhausted comes last.
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
