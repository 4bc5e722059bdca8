//! Several row cursors as one, row at a time.
//!
//! Invariants:
//! 1. `active` lists, in source order (newest first), the sources that stand on the current row;
//!    it is empty exactly when the merge stands on no row.
//! 2. Going forward, every other source stands on a later row or on none; going in reverse, on an
//!    earlier row or on none.
//! 3. `current` is the active source whose entry is the smallest; `None` past the row's last.
//!
//! Sources never share an entry (cell.rs, invariant 1), so there are no ties among entries.

use crate::cell::{Column, Entry, EntryKey};
use crate::error::Result;
use crate::request::Direction;
use crate::semantics::row_cursor::RowCursor;

/// Merges cursors. Also a cursor; after an error only a seek is legal, as for each of them.
pub(crate) struct MergeCursor<C> {
    sources: Vec<C>,
    active: Vec<usize>,
    current: Option<usize>,
    direction: Direction,
}

impl<C: RowCursor> MergeCursor<C> {
    /// A merge of `sources`, newest first, standing on no row.
    pub(crate) fn new(sources: Vec<C>) -> Self {
        let active = Vec::with_capacity(sources.len());
        Self { sources, active, current: None, direction: Direction::Forward }
    }

    #[inline]
    fn fail<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.active.clear();
            self.current = None;
        }
        result
    }

    /// Finds the next row in the direction of travel and who stands on it.
    #[inline]
    fn settle(&mut self) {
        self.active.clear();
        if let [only] = &self.sources[..] {
            if only.row().is_some() {
                self.active.push(0);
                self.current = Some(0);
            } else {
                self.current = None;
            }
            return;
        }
        let mut best: Option<&[u8]> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(row) = source.row() else { continue };
            let order = best.map_or(std::cmp::Ordering::Less, |best| row.cmp(best));
            let order = match self.direction {
                Direction::Reverse if best.is_some() => order.reverse(),
                _ => order,
            };
            if order.is_lt() {
                self.active.clear();
                best = Some(row);
            }
            if order.is_le() {
                self.active.push(index);
            }
        }
        self.choose();
    }

    /// Finds the active source with the smallest entry.
    fn choose(&mut self) {
        if let [only] = self.active[..] {
            self.current = self.sources[only].entry().map(|_| only);
            return;
        }
        let mut best: Option<(usize, EntryKey<'_>)> = None;
        for &index in &self.active {
            let Some(entry) = self.sources[index].entry() else { continue };
            if best.is_none_or(|(_, smallest)| entry.cmp_in_row(&smallest).is_lt()) {
                best = Some((index, entry));
            }
        }
        self.current = best.map(|(index, _)| index);
    }

    /// The source that alone stands on the current row.
    #[inline]
    pub(crate) fn only_source(&self) -> Option<&C> {
        match self.active[..] {
            [only] => Some(&self.sources[only]),
            _ => None,
        }
    }

    /// The same source, which may be moved to any of its rows before another source's next, and
    /// which the merge then stands on. It must be left on the row's first entry.
    #[inline]
    pub(crate) fn only_source_mut(&mut self) -> Option<&mut C> {
        let [only] = self.active[..] else { return None };
        self.current = Some(only);
        Some(&mut self.sources[only])
    }

    /// The same source with the row that another one comes to next in the direction of travel.
    pub(crate) fn only_source_and_next(&mut self) -> Option<(&mut C, Option<&[u8]>)> {
        let [only] = self.active[..] else { return None };
        let (before, rest) = self.sources.split_at_mut(only);
        let (source, after) = rest.split_first_mut()?;
        let rows = before.iter().chain(&*after).filter_map(RowCursor::row);
        let next = match self.direction {
            Direction::Forward => rows.min(),
            Direction::Reverse => rows.max(),
        };
        Some((source, next))
    }

    #[inline]
    fn step_row(&mut self) -> Result<()> {
        for &index in &self.active {
            match self.direction {
                Direction::Forward => self.sources[index].next_row()?,
                Direction::Reverse => self.sources[index].prev_row()?,
            }
        }
        Ok(())
    }

    /// Turns round: afterwards every source stands on the right side of the current row, the
    /// active ones on the row itself.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let Some(row) = self.row().map(<[u8]>::to_vec) else { return Ok(()) };
        self.direction = direction;
        for (index, source) in self.sources.iter_mut().enumerate() {
            if !self.active.contains(&index) {
                match direction {
                    Direction::Forward => source.seek(&row)?,
                    Direction::Reverse => source.seek_before(Some(&row))?,
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn travel(&mut self, direction: Direction) -> Result<()> {
        assert!(!self.active.is_empty(), "stepping needs a row to step from");
        if self.direction != direction {
            self.turn(direction)?;
        }
        self.step_row()
    }

    fn seek_all(&mut self, mut seek: impl FnMut(&mut C) -> Result<()>) -> Result<()> {
        self.sources.iter_mut().try_for_each(&mut seek)
    }
}

impl<C: RowCursor> RowCursor for MergeCursor<C> {
    fn seek(&mut self, row: &[u8]) -> Result<()> {
        self.direction = Direction::Forward;
        let sought = self.seek_all(|source| source.seek(row));
        self.fail(sought)?;
        self.settle();
        Ok(())
    }

    fn seek_before(&mut self, bound: Option<&[u8]>) -> Result<()> {
        self.direction = Direction::Reverse;
        let sought = self.seek_all(|source| source.seek_before(bound));
        self.fail(sought)?;
        self.settle();
        Ok(())
    }

    #[inline]
    fn next_row(&mut self) -> Result<()> {
        let moved = self.travel(Direction::Forward);
        self.fail(moved)?;
        self.settle();
        Ok(())
    }

    fn prev_row(&mut self) -> Result<()> {
        let moved = self.travel(Direction::Reverse);
        self.fail(moved)?;
        self.settle();
        Ok(())
    }

    #[inline]
    fn row(&self) -> Option<&[u8]> {
        self.active.first().and_then(|&index| self.sources[index].row())
    }

    fn entry(&self) -> Option<EntryKey<'_>> {
        self.current.and_then(|index| self.sources[index].entry())
    }

    fn entry_with_value(&mut self) -> Result<Entry<'_>> {
        let current = self.current.expect("called only while there is an entry");
        // On an error the source stands on no row, so this merge must not stand on it either.
        // (Split in two since a borrow that may be returned cannot also be given up.)
        if let Err(error) = self.sources[current].entry_with_value() {
            return self.fail(Err(error));
        }
        self.sources[current].entry_with_value()
    }

    fn next_entry(&mut self) -> Result<()> {
        let current = self.current.expect("called only while there is an entry");
        let moved = self.sources[current].next_entry();
        self.fail(moved)?;
        self.choose();
        Ok(())
    }

    fn skip_to_column(&mut self, column: Column<'_>) -> Result<()> {
        let mut skipped = Ok(());
        for &index in &self.active {
            let source = &mut self.sources[index];
            if source.entry().is_some_and(|entry| entry.column < column) {
                skipped = source.skip_to_column(column);
                if skipped.is_err() {
                    break;
                }
            }
        }
        self.fail(skipped)?;
        self.choose();
        Ok(())
    }

    fn take_loads(&mut self) -> u64 {
        self.sources.iter_mut().map(RowCursor::take_loads).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semantics::row_cursor::testing::{Steps, VecCursor};
    use crate::semantics::row_cursor::testing::{check_against_oracle, entries, sorted};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_merge_walks_like_the_sorted_union(
            entries in entries(60),
            owners in proptest::collection::vec(0usize..4, 60),
            steps in Steps::any(40),
        ) {
            let all = sorted(entries);
            let mut parts = vec![Vec::new(); 4];
            for (entry, owner) in all.iter().zip(owners) {
                parts[owner].push(entry.clone());
            }
            let sources = parts
                .into_iter()
                .map(VecCursor::new)
                .collect();
            check_against_oracle(&mut MergeCursor::new(sources), all, &steps);
        }
    }
}
