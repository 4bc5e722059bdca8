//! The body of a page as encodings write and read it: bytes, and the tree of tags.

use super::{EncodingKind, TREE_TAGS_MAX};
use crate::{Error, HEADER_BYTES};
use arrow_buffer::Buffer;
use base::codec::PutBytes;

/// Nodes that are being written.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    /// Place in the body at which `bytes` will begin, modulo 64.
    origin: usize,
    tree: Vec<u8>,
    /// Bytes that would not be more if there were more values like these: symbols, distinct values.
    pub(crate) fixed: usize,
    /// Tags above the first one of `tree`.
    above: usize,
}

/// A state of an [`Output`].
pub(crate) struct Mark {
    bytes: usize,
    tags: usize,
    fixed: usize,
}

impl Output {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn tree(&self) -> &[u8] {
        &self.tree
    }

    /// Returns where the output ends.
    pub(crate) fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), tags: self.tree.len(), fixed: self.fixed }
    }

    /// Removes what was appended since a mark.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.tree.truncate(mark.tags);
        self.fixed = mark.fixed;
    }

    /// Begins a node. `None` if the tree is full.
    pub(crate) fn begin(&mut self, kind: EncodingKind) -> Option<()> {
        if self.above + self.tree.len() == TREE_TAGS_MAX {
            return None;
        }
        self.align(8);
        self.tree.push(kind as u8);
        Some(())
    }

    /// Returns whether the next node is a child of the first one.
    pub(crate) fn below_root(&self) -> bool {
        self.above + self.tree.len() == 1
    }

    /// Returns an empty output that is a continuation of this one.
    pub(crate) fn child(&self) -> Self {
        let origin = (self.origin + self.bytes.len()).next_multiple_of(8) % 64;
        Self { origin, above: self.above + self.tree.len(), ..Self::default() }
    }

    /// Appends what was written to a [`Self::child`] of this output.
    pub(crate) fn append(&mut self, child: Self) {
        self.align(8);
        self.bytes.extend_from_slice(&child.bytes);
        self.tree.extend_from_slice(&child.tree);
        self.fixed += child.fixed;
    }

    /// Appends zeros to a multiple of `to` bytes.
    pub(crate) fn align(&mut self, to: usize) {
        let at = self.origin + self.bytes.len();
        let zeros = at.next_multiple_of(to) - at;
        self.bytes.resize(self.bytes.len() + zeros, 0);
    }

    pub(crate) fn put_u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Appends a number that the limits keep below 2^32.
    pub(crate) fn put_len(&mut self, value: usize) {
        self.bytes.put_u32(u32::try_from(value).unwrap_or(u32::MAX));
    }
}

/// Nodes that are being read. Offsets in errors count from the start of the page.
pub(crate) struct Input<'a> {
    body: &'a Buffer,
    at: usize,
    tree: &'a [u8],
    /// Longest text that a node may decode to.
    text_bytes_max: usize,
}

impl<'a> Input<'a> {
    /// Reads nodes of a tree from `at` in a body.
    pub(crate) fn new(body: &'a Buffer, at: usize, tree: &'a [u8], text_bytes_max: usize) -> Self {
        Self { body, at, tree, text_bytes_max }
    }

    pub(crate) fn text_bytes_max(&self) -> usize {
        self.text_bytes_max
    }

    /// Returns where the next byte is, from the start of the page.
    pub(crate) fn at(&self) -> usize {
        HEADER_BYTES + self.at
    }

    pub(crate) fn damage(&self, what: &'static str) -> Error {
        Error::corrupt(what, self.at())
    }

    /// Begins a node: reads its tag, and the zeros before it.
    pub(crate) fn begin(&mut self) -> Result<EncodingKind, Error> {
        let tag = self.tree.split_off_first().copied().unwrap_or(0);
        let kind = EncodingKind::from_byte(tag).ok_or(self.damage("tag of the encoding tree"))?;
        self.align(8)?;
        Ok(kind)
    }

    /// Reads zeros to a multiple of `to` bytes.
    pub(crate) fn align(&mut self, to: usize) -> Result<(), Error> {
        let zeros = self.at.next_multiple_of(to) - self.at;
        match self.bytes(zeros)?.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(self.damage("padding that is not zero")),
        }
    }

    /// Reads bytes and moves behind them.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(len);
        let bytes = end.and_then(|end| self.body.get(self.at..end));
        let bytes = bytes.ok_or(self.damage("body ends inside a node"))?;
        self.at += len;
        Ok(bytes)
    }

    /// Reads bytes and returns them where they lie.
    pub(crate) fn buffer(&mut self, len: usize) -> Result<Buffer, Error> {
        let at = self.at;
        self.bytes(len)?;
        Ok(self.body.slice_with_length(at, len))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.bytes(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        let bytes = self.bytes(4)?;
        Ok(bytes.try_into().map_or(0, u32::from_le_bytes))
    }

    /// Reads a count of values that is at least 1 and at most `max`.
    pub(crate) fn count(&mut self, max: usize, what: &'static str) -> Result<usize, Error> {
        let damage = self.damage(what);
        let count = self.u32()? as usize;
        if (1..=max).contains(&count) { Ok(count) } else { Err(damage) }
    }

    /// Ends the reading; damage if bytes or tags are left over.
    pub(crate) fn finish(self) -> Result<(), Error> {
        if self.at != self.body.len() {
            return Err(self.damage("bytes left over behind the last node"));
        }
        if self.tree.iter().any(|tag| *tag != 0) {
            return Err(self.damage("tags left over behind the last node"));
        }
        Ok(())
    }
}
