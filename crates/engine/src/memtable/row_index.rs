//! Rows by hash: a Bloom filter that answers most misses, and a hash table for the rest.
//!
//! Both lie in a **generation** of fixed size. The writer makes a generation twice as large when
//! one is full, fills it from the old one and publishes it; readers go on in whichever they have.
//! Old generations stay until the index goes, together as large as the newest.
//!
//! Of a hash only its **tag** is used: the upper 32 bits of its product with a random odd number.
//! A slot of the table is `tag << 32 | node`, 0 if empty; tags choose slots and words of the filter
//! by their upper bits, so that the old table is copied in the order in which the new one is written.
//!
//! Whoever chooses row keys does not know the multiplier, and so cannot crowd them into few slots:
//! two different hashes get the same upper bits with twice the likelihood of chance at most
//! (Dietzfelbinger and others, 1997). Keys of one *hash* still share a slot: the hash is that of
//! the filters on disk, has no key, and whoever inverts it makes searches for such rows walk over
//! all of them.
//!
//! No false negatives: a row's slot and filter bits are stored before the sequence number of its
//! batch is published (`Release`). A reader that loads a sequence number (`Acquire`) before it
//! asks here therefore finds every row whose batch it may see. This takes in growth: a generation
//! is whole when it is published, and a row that is later than it goes to the newest only, which
//! is published before the row's batch.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Release;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};

/// Slots of the first generation, a power of two.
const FIRST_SLOTS: usize = 1 << 6;
/// Generations enough for every node that an arena of words can hold.
const GENERATIONS: usize = 25;
/// Slots for each word of the filter: 12.8 bits a row in a full generation, 25.6 in a new one.
const SLOTS_PER_WORD: usize = 8;

/// See the file header.
pub(super) struct RowIndex {
    generations: [OnceLock<Generation>; GENERATIONS],
    /// The newest one; it is made by the first row.
    newest: AtomicUsize,
    /// Odd.
    multiplier: u64,
}

struct Generation {
    filter: Box<[AtomicU64]>,
    slots: Box<[AtomicU64]>,
}

/// State that only the writer uses: the rows in the index.
#[derive(Default)]
pub(super) struct RowCount(usize);

/// Chooses one of `len` (a power of two) by the upper bits of `tag`.
fn pick(tag: u32, len: usize) -> usize {
    ((u64::from(tag) * len as u64) >> 32) as usize
}

/// Four bits of a filter's word, from all bits of the tag.
fn bits_of(tag: u32) -> u64 {
    let mixed = u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..4).fold(0, |bits, probe| bits | 1 << (mixed >> (40 + 6 * probe) & 63))
}

impl RowIndex {
    /// An index without rows, whose tags follow from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        let generations = [const { OnceLock::new() }; GENERATIONS];
        Self { generations, newest: AtomicUsize::new(0), multiplier: seed | 1 }
    }

    /// What its tags follow from.
    pub(super) fn seed(&self) -> u64 {
        self.multiplier
    }

    fn tag_of(&self, hash: u64) -> u32 {
        (hash.wrapping_mul(self.multiplier) >> 32) as u32
    }

    fn newest(&self) -> Option<&Generation> {
        self.generations[self.newest.load(Acquire)].get()
    }

    /// Returns whether there may be a row of this hash. One word is read.
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        self.newest().is_some_and(|generation| generation.may_contain(self.tag_of(hash)))
    }

    /// The node of a row of this hash for which `is_row` holds; 0 if there is none.
    pub(super) fn find(&self, hash: u64, is_row: impl Fn(u32) -> bool) -> u32 {
        self.newest().map_or(0, |generation| generation.find(self.tag_of(hash), is_row))
    }

    /// Bytes of memory in use; the old generations take as much as the newest.
    pub(super) fn bytes(&self) -> usize {
        2 * self.newest().map_or(0, |newest| 8 * (newest.slots.len() + newest.filter.len()))
    }

    /// Adds a row that is not there.
    pub(super) fn insert(&self, count: &mut RowCount, hash: u64, node: u32) {
        let newest = self.newest.load(Relaxed);
        let generation = self.generations[newest].get_or_init(|| Generation::new(FIRST_SLOTS));
        count.0 += 1;
        if count.0 <= generation.rows_max() {
            return generation.insert(self.tag_of(hash), node);
        }
        let larger = self.generations[newest + 1].get_or_init(|| generation.doubled());
        larger.insert(self.tag_of(hash), node);
        self.newest.store(newest + 1, Release);
    }
}

impl Generation {
    fn new(slots: usize) -> Self {
        let zeroes = |len| (0..len).map(|_| AtomicU64::new(0)).collect();
        Self { filter: zeroes(slots / SLOTS_PER_WORD), slots: zeroes(slots) }
    }

    /// Rows it takes: five eighths of the slots, so that a probe meets an empty one soon.
    fn rows_max(&self) -> usize {
        self.slots.len() / 8 * 5
    }

    fn may_contain(&self, tag: u32) -> bool {
        let bits = bits_of(tag);
        self.filter[pick(tag, self.filter.len())].load(Relaxed) & bits == bits
    }

    fn find(&self, tag: u32, is_row: impl Fn(u32) -> bool) -> u32 {
        for slot in self.probes(tag) {
            let slot = slot.load(Acquire);
            if slot == 0 {
                return 0;
            }
            if (slot >> 32) as u32 == tag && is_row(slot as u32) {
                return slot as u32;
            }
        }
        0
    }

    /// The slots where `tag` may be, in order.
    fn probes(&self, tag: u32) -> impl Iterator<Item = &AtomicU64> {
        let (before, from) = self.slots.split_at(pick(tag, self.slots.len()));
        from.iter().chain(before)
    }

    fn insert(&self, tag: u32, node: u32) {
        let empty = self.probes(tag).find(|slot| slot.load(Relaxed) == 0);
        let slot = empty.expect("a generation is never full");
        slot.store(u64::from(tag) << 32 | u64::from(node), Release);
        let word = &self.filter[pick(tag, self.filter.len())];
        word.store(word.load(Relaxed) | bits_of(tag), Relaxed);
    }

    fn doubled(&self) -> Self {
        let larger = Self::new(self.slots.len() * 2);
        for slot in self.slots.iter().map(|slot| slot.load(Relaxed)).filter(|slot| *slot != 0) {
            larger.insert((slot >> 32) as u32, slot as u32);
        }
        larger
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const HASHES_MAX: usize = if cfg!(miri) { 100 } else { 1500 };
    const CASES: u32 = if cfg!(miri) { 4 } else { 64 };

    /// A hash whose tags are spread over their whole range, or crowded into few.
    fn hashes() -> impl Strategy<Value = Vec<u64>> {
        let hash = prop_oneof![any::<u64>(), (0u64..40).prop_map(|tag| tag << 32 | 5)];
        proptest::collection::vec(hash, 0..HASHES_MAX)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(CASES))]
        #[test]
        fn rows_are_found_as_in_a_map(
            hashes in hashes(),
            others in hashes(),
            seed in prop_oneof![Just(1), any::<u64>()],
        ) {
            let (index, mut count) = (RowIndex::new(seed), RowCount::default());
            let mut model: HashMap<u32, Vec<u32>> = HashMap::new();
            for (node, hash) in (1..).zip(&hashes) {
                index.insert(&mut count, *hash, node);
                model.entry(index.tag_of(*hash)).or_default().push(node);
            }
            for hash in hashes.iter().chain(&others) {
                let same_tag = model.get(&index.tag_of(*hash)).cloned().unwrap_or_default();
                prop_assert!(same_tag.is_empty() || index.may_contain(*hash));
                for node in &same_tag {
                    prop_assert_eq!(index.find(*hash, |found| found == *node), *node);
                }
                prop_assert_eq!(index.find(*hash, |found| !same_tag.contains(&found)), 0);
            }
        }
    }

    #[test]
    fn the_filter_of_a_full_generation_lets_few_absent_rows_pass() {
        let (index, mut count) = (RowIndex::new(0x9e37_79b9_7f4a_7c15), RowCount::default());
        let (slots, absent) = if cfg!(miri) { (1 << 10, 2_000) } else { (1 << 16, 100_000) };
        let rows = Generation::new(slots).rows_max() as u32;
        let hash = |number: u32| base::checksum::xxh3(&number.to_le_bytes());
        (1..=rows).for_each(|row| index.insert(&mut count, hash(row), row));
        let others = rows + 1..=rows + absent;
        let passed = others.filter(|number| index.may_contain(hash(*number))).count() as u32;
        assert!(passed < absent / 50, "{passed} of {absent}");
    }

    #[test]
    fn hashes_chosen_to_meet_in_one_slot_do_not() {
        const ROWS: u32 = if cfg!(miri) { 300 } else { 20_000 };
        // Alike in their upper half, in their upper bits, and evenly spaced.
        let alike: [fn(u64) -> u64; 3] =
            [|row| 7 << 32 | row, |row| 7 << 44 | row << 20, |row| row.wrapping_mul(1 << 20)];
        for (case, hash) in alike.into_iter().enumerate() {
            let (mut index, mut count) =
                (RowIndex::new(0x5851_f42d_4c95_7f2d), RowCount::default());
            (1..=ROWS).for_each(|row| index.insert(&mut count, hash(row.into()), row));
            let newest = index.newest.get_mut();
            let slots = &index.generations[*newest].get().unwrap().slots;
            let empty = |slot: &AtomicU64| slot.load(Relaxed) == 0;
            let longest = slots.split(empty).map(<[AtomicU64]>::len).max().unwrap();
            assert!(longest < 500, "case {case}: {longest} slots in a row");
        }
    }
}
