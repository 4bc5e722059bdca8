//! The ordered structure of the memtable: a skip list of entries (Pugh 1990) with one writer and
//! lock-free readers, in safe code: links are indices into append-only arenas.
//!
//! Invariants:
//! 1. Node 0 is the head; it has no entry, and as a link 0 means "none".
//! 2. A node's entry and its own links are set before any link to it is published (`Release`, met
//!    by the readers' `Acquire`), and the entry never changes after.
//! 3. Entries are unique in (row, column, timestamp, sequence): the order is total.

use super::arena::Arena;
use crate::cell::{Column, Entry, EntryKey, FamilyId, Kind, Scope, SequenceNumber, Timestamp};
use std::cmp::Ordering;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering as Memory};

const HEIGHT_MAX: usize = 12;

/// Bytes a node takes beside those of its row, qualifier and value.
pub(super) const NODE_BYTES: usize = size_of::<Node>() + 2 * size_of::<AtomicU32>() + 16;

#[derive(Default)]
struct Node {
    entry: OnceLock<NodeEntry>,
}

struct NodeEntry {
    /// Row, qualifier and value, one after the other.
    bytes: Box<[u8]>,
    row_len: u32,
    qualifier_len: u32,
    /// Index of the node's lowest link; the higher ones follow it.
    links: u32,
    family: FamilyId,
    scope: Scope,
    kind: Kind,
    timestamp: Timestamp,
    sequence: SequenceNumber,
}

impl NodeEntry {
    fn row(&self) -> &[u8] {
        &self.bytes[..self.row_len as usize]
    }

    fn key(&self) -> EntryKey<'_> {
        let start = self.row_len as usize;
        EntryKey {
            column: Column {
                family: self.family,
                scope: self.scope,
                qualifier: &self.bytes[start..start + self.qualifier_len as usize],
            },
            timestamp: self.timestamp,
            sequence: self.sequence,
            kind: self.kind,
        }
    }

    fn value(&self) -> &[u8] {
        &self.bytes[(self.row_len + self.qualifier_len) as usize..]
    }
}

/// A place in the list that a search looks for.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// Before every entry of the row.
    RowStart(&'a [u8]),
    /// Behind every entry of the row.
    RowEnd(&'a [u8]),
    /// Before every entry of the row's column.
    Column(&'a [u8], Column<'a>),
    /// Exactly before this entry.
    Entry(&'a [u8], EntryKey<'a>),
    /// Behind everything.
    End,
}

impl Target<'_> {
    /// Whether `entry` lies before the target.
    fn is_behind(&self, entry: &NodeEntry) -> bool {
        match self {
            Self::RowStart(row) => entry.row() < *row,
            Self::RowEnd(row) => entry.row() <= *row,
            Self::Column(row, column) => match entry.row().cmp(row) {
                Ordering::Equal => entry.key().column < *column,
                order => order.is_lt(),
            },
            Self::Entry(row, key) => {
                entry.row().cmp(row).then_with(|| entry.key().cmp_in_row(key)).is_lt()
            }
            Self::End => true,
        }
    }
}

/// What only the writer knows.
pub(super) struct Writer {
    next_node: u32,
    next_link: u32,
    random: u64,
}

/// The list. Readers share it; whoever holds the [`Writer`] may insert.
#[derive(Default)]
pub(super) struct SkipList {
    nodes: Arena<Node>,
    links: Arena<AtomicU32>,
}

impl SkipList {
    /// An empty list and its only writer.
    pub(super) fn new() -> (Self, Writer) {
        let list = Self::default();
        let mut writer = Writer { next_node: 0, next_link: 0, random: 0x9e37_79b9 };
        let head = list.nodes.reserve(&mut writer.next_node, 1);
        let links = list.links.reserve(&mut writer.next_link, HEIGHT_MAX as u32);
        assert_eq!((head, links), (Some(0), Some(0)), "the head comes first");
        (list, writer)
    }

    fn entry_of(&self, node: u32) -> &NodeEntry {
        self.nodes.get(node).entry.get().expect("a linked node has its entry (invariant 2)")
    }

    fn link(&self, node: u32, level: usize) -> &AtomicU32 {
        let base = if node == 0 { 0 } else { self.entry_of(node).links };
        self.links.get(base + level as u32)
    }

    /// The node after `node`; 0 if there is none.
    pub(super) fn next(&self, node: u32) -> u32 {
        self.link(node, 0).load(Memory::Acquire)
    }

    pub(super) fn row(&self, node: u32) -> &[u8] {
        self.entry_of(node).row()
    }

    pub(super) fn key(&self, node: u32) -> EntryKey<'_> {
        self.entry_of(node).key()
    }

    pub(super) fn entry(&self, node: u32) -> Entry<'_> {
        let entry = self.entry_of(node);
        entry.key().with_value(entry.value())
    }

    /// The last node before `target`; 0 if there is none.
    pub(super) fn last_before(&self, target: Target<'_>) -> u32 {
        self.search(target, |_, _| {}).0
    }

    /// The first node at or after `target`; 0 if there is none.
    pub(super) fn first_from(&self, target: Target<'_>) -> u32 {
        self.search(target, |_, _| {}).1
    }

    /// Finds the last node before `target` and the one after it, telling `visit` the former for
    /// each level on the way. They come from one look at the link between them: by a second look
    /// the writer may have put a node there that lies before `target`.
    fn search(&self, target: Target<'_>, mut visit: impl FnMut(usize, u32)) -> (u32, u32) {
        let (mut node, mut after) = (0, 0);
        for level in (0..HEIGHT_MAX).rev() {
            loop {
                after = self.link(node, level).load(Memory::Acquire);
                if after == 0 || !target.is_behind(self.entry_of(after)) {
                    break;
                }
                node = after;
            }
            visit(level, node);
        }
        (node, after)
    }

    /// Adds an entry. `false` when the list cannot take more (4 billion entries or links).
    #[must_use]
    pub(super) fn insert(&self, writer: &mut Writer, row: &[u8], entry: &Entry<'_>) -> bool {
        let height = writer.draw_height();
        let mut before = [0; HEIGHT_MAX];
        self.search(Target::Entry(row, entry.key()), |level, node| before[level] = node);
        let Some(node) = self.nodes.reserve(&mut writer.next_node, 1) else { return false };
        let Some(links) = self.links.reserve(&mut writer.next_link, height as u32) else {
            return false;
        };
        for (level, before) in before[..height].iter().enumerate() {
            let next = self.link(*before, level).load(Memory::Relaxed);
            self.links.get(links + level as u32).store(next, Memory::Relaxed);
        }
        let filled = self.nodes.get(node).entry.set(NodeEntry::new(row, entry, links));
        assert!(filled.is_ok(), "a reserved node is empty");
        for (level, before) in before[..height].iter().enumerate() {
            self.link(*before, level).store(node, Memory::Release);
        }
        true
    }
}

impl NodeEntry {
    fn new(row: &[u8], entry: &Entry<'_>, links: u32) -> Self {
        let parts = [row, entry.column.qualifier, entry.value];
        Self {
            bytes: parts.concat().into_boxed_slice(),
            row_len: row.len() as u32,
            qualifier_len: entry.column.qualifier.len() as u32,
            links,
            family: entry.column.family,
            scope: entry.column.scope,
            kind: entry.kind,
            timestamp: entry.timestamp,
            sequence: entry.sequence,
        }
    }
}

impl Writer {
    /// 1 with probability 3/4, 2 with 3/16, and so on (xorshift; the seed is fixed, since the
    /// keys are not chosen by someone who sees the heights).
    fn draw_height(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (1 + (self.random.trailing_zeros() / 2) as usize).min(HEIGHT_MAX)
    }
}
