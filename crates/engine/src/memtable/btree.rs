//! A B+tree over the nodes of a list, with one writer and readers that neither lock nor retry.
//!
//! Pages are small, and what is in order in a page is one word (as in Masstree: Mao et al., "Cache
//! craftiness for fast multicore key-value storage", 2012):
//!
//! ```text
//! word 0        the order: number of entries (4 bits, lowest), then their slots in order, 4 bits each
//! words 1..16   heads, by slot
//! words 16..24  by slot, two to a word: the node (leaf) or the page below (inner page);
//!               the last half is the page's `low`
//! root          height u32 (0: a leaf), page u32
//! ```
//!
//! Invariants:
//! 1. A slot is filled before it comes into the order (`Release`, met by `Acquire`) and keeps its
//!    head, so an order, loaded once, is a page at one moment.
//! 2. A full page is never changed again. It is replaced by two, or followed by a new one if the
//!    entry that did not fit is the last of the level, so that ascending nodes fill pages. Readers
//!    that still come to the old page find a node that is further back than need be; what they are
//!    looking for is found from there by links.
//! 3. `low` of a page is a node, and its head is the head of the page's entry above. Whatever is
//!    looked for in a page is behind its `low`. The first page of a level has no `low` (0): the
//!    first entry of a page is never compared, but taken when no other is before the place.

use super::words::{Growth, Target, Words, join, split};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Entries of a page.
const SLOTS: usize = 15;
const HEADS_AT: usize = 1;
const LINKS_AT: usize = HEADS_AT + SLOTS;
const PAGE_WORDS: usize = LINKS_AT + SLOTS.div_ceil(2);
/// The half word behind those of the slots.
const LOW_SLOT: usize = SLOTS;
/// Levels enough for 4 billion nodes in pages that are half full.
const LEVELS_MAX: usize = 12;

/// The pages among `Words`.
#[derive(Clone, Copy)]
pub(super) struct Pages<'a>(pub(super) &'a Words);

/// The pages on the way to a place, from the root to a leaf, and in each how many of its entries
/// are before the place.
#[derive(Default)]
pub(super) struct Path {
    steps: [(u32, usize); LEVELS_MAX],
    len: usize,
}

impl Path {
    /// One page further down.
    pub(super) fn push(&mut self, page: u32, at: usize) {
        self.steps[self.len] = (page, at);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<(u32, usize)> {
        self.len = self.len.checked_sub(1)?;
        Some(self.steps[self.len])
    }
}

/// The order of a page: see the file header.
#[derive(Clone, Copy)]
struct Order(u64);

impl Order {
    /// The first `count` slots as they are.
    fn of_first(count: usize) -> Self {
        let all = 0xedcb_a987_6543_2100;
        Self(all & !(u64::MAX.checked_shl(4 + 4 * count as u32).unwrap_or(0)) & !15 | count as u64)
    }

    fn count(self) -> usize {
        (self.0 & 15) as usize
    }

    fn slot(self, at: usize) -> usize {
        (self.0 >> (4 + 4 * at) & 15) as usize
    }

    /// With `slot` as the `at`-th.
    fn with(self, at: usize, slot: usize) -> Self {
        let before = (1 << (4 + 4 * at)) - 1;
        let behind = (self.0 & !before) << 4;
        Self((behind | (slot as u64) << (4 + 4 * at) | self.0 & before) + 1)
    }
}

/// An entry of a page.
#[derive(Clone, Copy, Default)]
struct Entry {
    head: u64,
    /// The node or the page below.
    link: u32,
    /// The node itself or the page's `low`.
    low: u32,
}

fn link_of(page: &[AtomicU64], slot: usize) -> u32 {
    let (odd, even) = split(page[LINKS_AT + slot / 2].load(Acquire));
    if slot.is_multiple_of(2) { even } else { odd }
}

fn set_link(page: &[AtomicU64], slot: usize, link: u32) {
    let word = &page[LINKS_AT + slot / 2];
    let (odd, even) = split(word.load(Relaxed));
    let both = if slot.is_multiple_of(2) { join(odd, link) } else { join(link, even) };
    word.store(both, Release);
}

impl<'a> Pages<'a> {
    fn page(self, page: u32) -> &'a [AtomicU64] {
        &self.0.from(page)[..PAGE_WORDS]
    }

    /// Makes the root of an empty tree.
    pub(super) fn plant(self, growth: &mut Growth, root: u32) {
        let page = self.make(growth, &[], 0);
        self.0.from(root)[0].store(join(0, page), Release);
    }

    /// A node before `target`, the last one that the tree has; 0 if there is none. Tells `visit`
    /// the way to it.
    pub(super) fn find(
        self,
        root: u32,
        target: &Target<impl Fn(u32) -> bool>,
        mut visit: impl FnMut(u32, usize),
    ) -> u32 {
        if root == 0 {
            return 0;
        }
        let (height, mut number) = split(self.0.from(root)[0].load(Acquire));
        for _ in 0..height {
            let page = self.page(number);
            let order = Order(page[0].load(Acquire));
            let low = |slot| link_of(self.page(link_of(page, slot)), LOW_SLOT);
            let at = entries_before(page, order, 1, target, low);
            visit(number, at);
            number = link_of(page, order.slot(at - 1));
        }
        let page = self.page(number);
        let order = Order(page[0].load(Acquire));
        let at = entries_before(page, order, 0, target, |slot| link_of(page, slot));
        visit(number, at);
        if at == 0 { 0 } else { link_of(page, order.slot(at - 1)) }
    }

    /// Adds `node` at the end of `path`, which led to its place.
    pub(super) fn insert(self, growth: &mut Growth, root: u32, mut path: Path, node: u32) {
        let mut entry = Entry { head: self.0.head(node), link: node, low: node };
        let (mut page, mut at) = path.pop().expect("a tree has a root");
        let mut height = 0;
        while self.is_full(page) {
            let (left, right) = match at == SLOTS && self.is_last(&path) {
                true => (page, self.make_right(growth, &[entry])),
                false => self.split(growth, (page, height), at, entry),
            };
            height += 1;
            let Some((above, at_above)) = path.pop() else {
                let low = link_of(self.page(left), LOW_SLOT);
                let left = Entry { head: self.0.head(low), link: left, low };
                let top = self.make(growth, &[left, right], low);
                self.0.from(root)[0].store(join(height, top), Release);
                return;
            };
            let slot = Order(self.page(above)[0].load(Relaxed)).slot(at_above - 1);
            set_link(self.page(above), slot, left);
            (page, at, entry) = (above, at_above, right);
        }
        self.add(page, at, entry);
    }

    fn is_full(self, page: u32) -> bool {
        Order(self.page(page)[0].load(Relaxed)).count() == SLOTS
    }

    /// Returns whether the pages of `path` were left by their last entries.
    fn is_last(self, path: &Path) -> bool {
        let mut steps = path.steps[..path.len].iter();
        steps.all(|(page, at)| Order(self.page(*page)[0].load(Relaxed)).count() == *at)
    }

    /// Adds `entry` as the `at`-th to a page that is not full.
    fn add(self, page: u32, at: usize, entry: Entry) {
        let page = self.page(page);
        let order = Order(page[0].load(Relaxed));
        let slot = order.count();
        page[HEADS_AT + slot].store(entry.head, Relaxed);
        set_link(page, slot, entry.link);
        page[0].store(order.with(at, slot).0, Release);
    }

    /// Makes two pages of a full one at `height`, with `entry` as the `at`-th. The number of the
    /// first, and the entry of the second.
    fn split(
        self,
        growth: &mut Growth,
        (page, height): (u32, u32),
        at: usize,
        entry: Entry,
    ) -> (u32, Entry) {
        let page = self.page(page);
        let order = Order(page[0].load(Relaxed));
        let mut entries = [entry; SLOTS + 1];
        for place in 0..SLOTS {
            let old = self.entry(page, order.slot(place), height);
            entries[place + usize::from(place >= at)] = old;
        }
        let (left, right) = entries.split_at(entries.len() / 2);
        let left = self.make(growth, left, link_of(page, LOW_SLOT));
        (left, self.make_right(growth, right))
    }

    fn entry(self, page: &[AtomicU64], slot: usize, height: u32) -> Entry {
        let link = link_of(page, slot);
        let low = if height == 0 { link } else { link_of(self.page(link), LOW_SLOT) };
        Entry { head: page[HEADS_AT + slot].load(Relaxed), link, low }
    }

    /// Makes a page that is not the first of its level, and its entry for the page above.
    fn make_right(self, growth: &mut Growth, entries: &[Entry]) -> Entry {
        let Entry { head, low, .. } = entries[0];
        Entry { head, link: self.make(growth, entries, low), low }
    }

    fn make(self, growth: &mut Growth, entries: &[Entry], low: u32) -> u32 {
        let number = self.0.reserve(growth, PAGE_WORDS);
        let page = self.page(number);
        for (slot, entry) in entries.iter().enumerate() {
            page[HEADS_AT + slot].store(entry.head, Relaxed);
            set_link(page, slot, entry.link);
        }
        set_link(page, LOW_SLOT, low);
        page[0].store(Order::of_first(entries.len()).0, Release);
        number
    }
}

/// Returns the number of entries of a page that are before `target`, given that the first `known` are;
/// `node` is the node of a slot.
fn entries_before(
    page: &[AtomicU64],
    order: Order,
    known: usize,
    target: &Target<impl Fn(u32) -> bool>,
    node: impl Fn(usize) -> u32,
) -> usize {
    let (mut from, mut to) = (known, order.count());
    while from < to {
        let middle = from.midpoint(to);
        let slot = order.slot(middle);
        if target.is_behind(page[HEADS_AT + slot].load(Relaxed), || node(slot)) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::list::List;
    use proptest::prelude::*;

    #[test]
    fn an_order_takes_slots_at_any_place() {
        for first in 0..SLOTS {
            let mut order = Order::of_first(first);
            let mut model: Vec<usize> = (0..first).collect();
            for slot in first..SLOTS {
                let at = slot * 7 % (model.len() + 1);
                model.insert(at, slot);
                order = order.with(at, slot);
                let slots: Vec<usize> = (0..order.count()).map(|at| order.slot(at)).collect();
                assert_eq!(slots, model);
            }
        }
        assert_eq!(Order::of_first(SLOTS).slot(SLOTS - 1), SLOTS - 1);
    }

    /// A tree of three levels.
    const NODES_MAX: usize = if cfg!(miri) { 200 } else { 600 };
    const CASES: u32 = if cfg!(miri) { 4 } else { 64 };

    /// Heads that collide often, seldom or ascend.
    fn heads() -> impl Strategy<Value = Vec<u64>> {
        let range = prop_oneof![Just(8u64), Just(1 << 20)];
        let heads = range.prop_flat_map(|range| proptest::collection::vec(0..range, 0..NODES_MAX));
        (heads, any::<bool>()).prop_map(|(mut heads, ascending)| {
            if ascending {
                heads.sort_unstable();
            }
            heads
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(CASES))]
        #[test]
        fn a_tree_finds_the_last_node_before_every_place(heads in heads()) {
            let (words, mut growth) = Words::new();
            let first = words.reserve(&mut growth, 2);
            let list = List { first, root: first + 1 };
            words.add_tree(&mut growth, list);
            // Nodes with equal heads are ordered by their numbers, the later ones first.
            let place = |head, number| {
                let is_after = move |node| {
                    assert_ne!(node, 0, "only nodes are compared");
                    node > number
                };
                Target { head, is_after }
            };
            let mut model = std::collections::BTreeSet::new();
            for head in heads {
                let node = words.reserve_node(&mut growth, 0, head);
                words.insert(&mut growth, list, &place(head, node), node);
                model.insert((head, std::cmp::Reverse(node)));
            }
            let mut before = 0;
            for (head, std::cmp::Reverse(node)) in model {
                prop_assert_eq!(Pages(&words).find(list.root, &place(head, node), |_, _| {}), before);
                prop_assert_eq!(words.search(list, &place(head, node)), (before, node));
                before = node;
            }
            prop_assert_eq!(words.search(list, &super::super::list::END), (before, 0));
        }
    }
}
