//! The contract of everything that yields entries row by row: a memtable, a sorted run of
//! SSTables, and the merge of several of them.
//!
//! Rules, for every implementation:
//! 1. A new cursor stands on no row. `seek` and `seek_before` may be called at any time; every
//!    other verb only while the cursor stands on a row.
//! 2. A cursor that has just come to a row stands on the row's first entry (every row has one).
//!    `next_entry` moves to the next one in the order of `crate::cell`, in the end past the last
//!    (`entry` is then `None`, and the cursor still stands on the row). Within a row the direction
//!    is always forward, also in reverse scans, since tombstones must come before what they hide.
//! 3. `next_row` and `prev_row` may be called before the row's entries are used up, and in any
//!    mixture.
//! 4. `row`, `entry` and `entry_with_value` lend bytes until the next call that moves the cursor.
//!    `entry_with_value` may have to read the disk (large values lie apart), so entries are judged
//!    by their key first.
//! 5. After an error the cursor stands on no row; only a seek is legal. Going on without the
//!    broken part could resurrect what it was hiding.
//! 6. A row that holds only tombstones is still a row here. Range tombstones are not entries and
//!    are not seen through cursors.

use crate::cell::{Column, Entry, EntryKey};
use crate::error::Result;

/// Walks rows in order, forwards or backwards, and each row's entries forwards.
pub trait RowCursor {
    /// Moves to the first row that is not less than `row`, or to no row.
    fn seek(&mut self, row: &[u8]) -> Result<()>;

    /// Moves to the last row less than `bound` (`None`: to the last row), or to no row.
    fn seek_before(&mut self, bound: Option<&[u8]>) -> Result<()>;

    /// Moves to the following row, or to no row.
    fn next_row(&mut self) -> Result<()>;

    /// Moves to the preceding row, or to no row.
    fn prev_row(&mut self) -> Result<()>;

    /// The row the cursor stands on.
    fn row(&self) -> Option<&[u8]>;

    /// The entry the cursor stands on; `None` past the row's last.
    fn entry(&self) -> Option<EntryKey<'_>>;

    /// That entry with its value. Call only while `entry` is `Some`.
    fn entry_with_value(&mut self) -> Result<Entry<'_>>;

    /// Moves to the row's next entry, or past the last. Call only while `entry` is `Some`.
    fn next_entry(&mut self) -> Result<()>;

    /// Moves to the row's first entry at or after the current one whose column is not less than
    /// `column`, or past the last. Never moves backwards.
    fn skip_to_column(&mut self, column: Column<'_>) -> Result<()>;

    /// Returns the number of blocks that had to be loaded since this was last asked, roughly.
    fn take_loads(&mut self) -> u64 {
        0
    }
}

impl<C: RowCursor + ?Sized> RowCursor for Box<C> {
    fn seek(&mut self, row: &[u8]) -> Result<()> {
        (**self).seek(row)
    }

    fn seek_before(&mut self, bound: Option<&[u8]>) -> Result<()> {
        (**self).seek_before(bound)
    }

    fn next_row(&mut self) -> Result<()> {
        (**self).next_row()
    }

    fn prev_row(&mut self) -> Result<()> {
        (**self).prev_row()
    }

    fn row(&self) -> Option<&[u8]> {
        (**self).row()
    }

    fn entry(&self) -> Option<EntryKey<'_>> {
        (**self).entry()
    }

    fn entry_with_value(&mut self) -> Result<Entry<'_>> {
        (**self).entry_with_value()
    }

    fn next_entry(&mut self) -> Result<()> {
        (**self).next_entry()
    }

    fn skip_to_column(&mut self, column: Column<'_>) -> Result<()> {
        (**self).skip_to_column(column)
    }

    fn take_loads(&mut self) -> u64 {
        (**self).take_loads()
    }
}

/// An oracle for cursors, and the steps that compare a cursor with it.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::cell::{FamilyId, Kind, Scope, SequenceNumber, Timestamp};
    use crate::semantics::model::OwnedEntry;
    use proptest::prelude::*;

    /// A row and one of its entries.
    pub(crate) type Owned = (Vec<u8>, OwnedEntry);

    /// The plainest cursor: over a sorted vector.
    pub(crate) struct VecCursor {
        entries: Vec<Owned>,
        row: Option<Vec<u8>>,
        at: usize,
    }

    impl VecCursor {
        /// A cursor over `entries`, which are sorted.
        pub(crate) fn new(entries: Vec<Owned>) -> Self {
            Self { entries, row: None, at: 0 }
        }

        fn land(&mut self, at: usize) {
            self.at = at;
            self.row = self.entries.get(at).map(|(row, _)| row.clone());
        }

        fn current(&self) -> Option<&OwnedEntry> {
            let (row, entry) = self.entries.get(self.at)?;
            (Some(row) == self.row.as_ref()).then_some(entry)
        }
    }

    impl RowCursor for VecCursor {
        fn seek(&mut self, row: &[u8]) -> Result<()> {
            self.land(self.entries.partition_point(|(r, _)| r.as_slice() < row));
            Ok(())
        }

        fn seek_before(&mut self, bound: Option<&[u8]>) -> Result<()> {
            let end = self
                .entries
                .partition_point(|(r, _)| bound.is_none_or(|bound| r.as_slice() < bound));
            match end.checked_sub(1).map(|last| self.entries[last].0.clone()) {
                Some(row) => self.seek(&row),
                None => {
                    self.row = None;
                    Ok(())
                }
            }
        }

        fn next_row(&mut self) -> Result<()> {
            let row = self.row.clone().expect("on a row");
            self.land(self.entries.partition_point(|(r, _)| *r <= row));
            Ok(())
        }

        fn prev_row(&mut self) -> Result<()> {
            let row = self.row.clone().expect("on a row");
            self.seek_before(Some(&row))
        }

        fn row(&self) -> Option<&[u8]> {
            self.row.as_deref()
        }

        fn entry(&self) -> Option<EntryKey<'_>> {
            self.current().map(|entry| entry.borrow().key())
        }

        fn entry_with_value(&mut self) -> Result<Entry<'_>> {
            Ok(self.current().expect("on an entry").borrow())
        }

        fn next_entry(&mut self) -> Result<()> {
            self.at += 1;
            Ok(())
        }

        fn skip_to_column(&mut self, column: Column<'_>) -> Result<()> {
            while self.entry().is_some_and(|entry| entry.column < column) {
                self.at += 1;
            }
            Ok(())
        }
    }

    /// Puts entries in the order of the tree.
    pub(crate) fn sorted(mut entries: Vec<Owned>) -> Vec<Owned> {
        entries.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.borrow().cmp_in_row(&y.borrow())));
        entries
    }

    /// Up to `max` entries over few rows and columns, each with its own sequence number.
    pub(crate) fn entries(max: usize) -> impl Strategy<Value = Vec<Owned>> {
        let one = (0u8..6, 0u8..5, 0u8..3, -3i64..4, proptest::bool::weighted(0.2));
        proptest::collection::vec(one, 0..max).prop_map(|all| {
            let numbered = (1u64..).map(SequenceNumber).zip(all);
            numbered.map(|(sequence, parts)| owned(sequence, parts)).collect()
        })
    }

    fn owned(
        sequence: SequenceNumber,
        (row, family, qualifier, timestamp, tombstone): (u8, u8, u8, i64, bool),
    ) -> Owned {
        let scope = match (tombstone, qualifier) {
            (true, 0) if family == 0 => Scope::Row,
            (true, 1) => Scope::Family,
            _ => Scope::Column,
        };
        let family =
            if scope == Scope::Row { FamilyId::ROW } else { FamilyId(1 + u16::from(family)) };
        let qualifier = if scope == Scope::Column { vec![b'q'; qualifier.into()] } else { vec![] };
        let kind = if tombstone { Kind::Tombstone } else { Kind::Put };
        let value = if tombstone { (-9i64).to_le_bytes().to_vec() } else { vec![7; 3] };
        let timestamp = Timestamp(timestamp);
        let entry = OwnedEntry { family, scope, qualifier, timestamp, sequence, kind, value };
        (vec![b'r'; row.into()], entry)
    }

    /// One call on a cursor.
    #[derive(Debug, Clone)]
    pub(crate) enum Steps {
        Seek(Vec<u8>),
        SeekBefore(Option<Vec<u8>>),
        NextRow,
        PrevRow,
        NextEntry,
        SkipTo(u16, Option<Vec<u8>>),
    }

    impl Steps {
        /// Up to `max` steps.
        pub(crate) fn any(max: usize) -> impl Strategy<Value = Vec<Self>> {
            let row = || (0usize..7).prop_map(|len| vec![b'r'; len]);
            let qualifier = proptest::option::of((0usize..4).prop_map(|len| vec![b'q'; len]));
            let step = prop_oneof![
                2 => row().prop_map(Self::Seek),
                2 => proptest::option::of(row()).prop_map(Self::SeekBefore),
                4 => Just(Self::NextRow),
                4 => Just(Self::PrevRow),
                6 => Just(Self::NextEntry),
                2 => (1u16..7, qualifier).prop_map(|(family, q)| Self::SkipTo(family, q)),
            ];
            proptest::collection::vec(step, 1..max)
        }

        fn take(&self, cursor: &mut dyn RowCursor) {
            let done = match self {
                Self::Seek(row) => cursor.seek(row),
                Self::SeekBefore(bound) => cursor.seek_before(bound.as_deref()),
                _ if cursor.row().is_none() => Ok(()),
                Self::NextRow => cursor.next_row(),
                Self::PrevRow => cursor.prev_row(),
                Self::NextEntry if cursor.entry().is_some() => cursor.next_entry(),
                Self::NextEntry => Ok(()),
                Self::SkipTo(family, None) => {
                    cursor.skip_to_column(Column::family(FamilyId(*family)))
                }
                Self::SkipTo(family, Some(qualifier)) => {
                    cursor.skip_to_column(Column::of(FamilyId(*family), qualifier))
                }
            };
            done.expect("nothing fails here");
        }
    }

    /// Takes the same steps on `cursor` and on the oracle over `entries`; both must agree.
    pub(crate) fn check_against_oracle(
        cursor: &mut dyn RowCursor,
        entries: Vec<Owned>,
        steps: &[Steps],
    ) {
        let mut oracle = VecCursor::new(entries);
        for step in steps {
            step.take(cursor);
            step.take(&mut oracle);
            assert_eq!(cursor.row(), oracle.row(), "row after {step:?}");
            assert_eq!(cursor.entry(), oracle.entry(), "entry after {step:?}");
            if oracle.entry().is_some() {
                let got = OwnedEntry::copy_of(&cursor.entry_with_value().expect("nothing fails"));
                let want = oracle.entry_with_value().expect("nothing fails");
                assert_eq!(got, OwnedEntry::copy_of(&want), "value after {step:?}");
            }
        }
    }
}
