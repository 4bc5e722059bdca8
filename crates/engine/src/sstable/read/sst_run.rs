//! The SSTables of a sorted run, found by row.
//!
//! Invariant: the SSTables are in row order and share no row (manifest/state/version.rs, invariant 2).

use crate::sstable::SstReader;
use crate::sstable::format::ints::partition;
use crate::sstable::format::key_heads::{common_prefix, head_of, heads_below, suffix_of};
use std::sync::Arc;

/// See the file header.
pub(crate) struct SstRun {
    ssts: Arc<[Arc<SstReader>]>,
    /// Bytes that the first rows share, and the heads of what follows (key_heads.rs).
    prefix: Box<[u8]>,
    heads: Box<[u64]>,
    /// For each SSTable a head that no row after its last row's is below: that of the last row,
    /// or the largest there is where the last row has not the prefix.
    last_heads: Box<[u64]>,
}

impl SstRun {
    /// A run of `ssts`, which are in order, each with an entry.
    pub(crate) fn new(ssts: Arc<[Arc<SstReader>]>) -> Self {
        let first_row = |sst: &Arc<SstReader>| sst.properties().first_row.clone();
        let rows: Vec<Vec<u8>> = ssts.iter().map(first_row).collect();
        let shared = match &rows[..] {
            [first, .., last] => common_prefix(first, last),
            _ => 0,
        };
        let prefix: Box<[u8]> = rows.first().map_or(&[][..], |row| &row[..shared]).into();
        let heads = rows.iter().map(|row| head_of(&row[shared..])).collect();
        let last_head = |sst: &Arc<SstReader>| {
            sst.properties().last_row.strip_prefix(&*prefix).map_or(u64::MAX, head_of)
        };
        let last_heads = ssts.iter().map(last_head).collect();
        Self { ssts, prefix, heads, last_heads }
    }

    /// The SSTable whose rows lie around `row`, the first and the last included; the only one that
    /// can have it.
    #[inline]
    pub(crate) fn sst_around(&self, row: &[u8]) -> Option<&SstReader> {
        let at = self.behind(row, true).checked_sub(1)?;
        let sst = &*self.ssts[at];
        let before_end = match suffix_of(row, &self.prefix).map(head_of) {
            Some(head) if head < self.last_heads[at] => true,
            _ => row <= sst.properties().last_row.as_slice(),
        };
        before_end.then_some(sst)
    }

    /// The SSTables, in order.
    pub(crate) fn ssts(&self) -> &Arc<[Arc<SstReader>]> {
        &self.ssts
    }

    /// The only SSTable that can have `row`, though it may lie outside of its rows.
    pub(crate) fn shared_sst_of(&self, row: &[u8]) -> Option<&Arc<SstReader>> {
        self.behind(row, true).checked_sub(1).map(|at| &self.ssts[at])
    }

    /// The first SSTable whose last row is not less than `row`; their count if there is none.
    pub(crate) fn first_not_before(&self, row: &[u8]) -> usize {
        let behind = self.behind(row, true);
        match behind.checked_sub(1) {
            Some(at) if row <= self.ssts[at].properties().last_row.as_slice() => at,
            _ => behind,
        }
    }

    /// The first SSTable whose first row is not less than `row`; their count if there is none.
    pub(crate) fn first_beginning_at(&self, row: &[u8]) -> usize {
        self.behind(row, false)
    }

    /// The SSTables whose first row is less than `row`, or equal to it if `equal`.
    #[inline]
    fn behind(&self, row: &[u8], equal: bool) -> usize {
        let Some(suffix) = suffix_of(row, &self.prefix) else {
            // All first rows have the prefix, so `row` is before or after them all.
            return if row > &*self.prefix { self.ssts.len() } else { 0 };
        };
        let head = head_of(suffix);
        let below = heads_below(&self.heads, head);
        match self.heads.get(below) == Some(&head) {
            true => self.behind_tied(row, equal, below),
            false => below,
        }
    }

    /// The same where the SSTable at `first` begins with the head of `row`: only now do the rows
    /// decide.
    #[inline(never)]
    fn behind_tied(&self, row: &[u8], equal: bool, first: usize) -> usize {
        partition(first, self.ssts.len(), |at| {
            let order = self.ssts[at].properties().first_row.as_slice().cmp(row);
            order.is_lt() || (equal && order.is_eq())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::tests::sst_of_rows;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_sst_is_found_that_could_have_the_row(
            rows in proptest::collection::btree_set("p?[ab\\x00]{0,12}", 2..40),
            cut in 1usize..8,
            asked in proptest::collection::vec("p?[ab\\x00]{0,13}", 20),
        ) {
            let rows: Vec<Vec<u8>> = rows.into_iter().map(String::into_bytes).collect();
            let ssts: Vec<_> = rows.chunks(cut).map(sst_of_rows).collect();
            let run = SstRun::new(ssts.into());
            let chunks: Vec<&[Vec<u8>]> = rows.chunks(cut).collect();
            for row in asked.into_iter().map(String::into_bytes).chain(rows.iter().cloned()) {
                let could = chunks.iter().rposition(|part| part[0] <= row);
                let found = run.shared_sst_of(&row).map(|sst| sst.properties().first_row.clone());
                prop_assert_eq!(found, could.map(|at| chunks[at][0].clone()));
                let around = run.sst_around(&row).map(|sst| sst.properties().first_row.clone());
                let within = could.filter(|at| row <= chunks[*at][chunks[*at].len() - 1]);
                prop_assert_eq!(around, within.map(|at| chunks[at][0].clone()));
                let not_before = chunks.partition_point(|part| part[part.len() - 1] < row);
                prop_assert_eq!(run.first_not_before(&row), not_before);
                let beginning = chunks.partition_point(|part| part[0] < row);
                prop_assert_eq!(run.first_beginning_at(&row), beginning);
            }
        }
    }
}
