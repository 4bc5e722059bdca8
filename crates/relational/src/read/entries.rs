//! Keys and cells of a range of a tree, with what a transaction wrote over them.
//!
//! Invariant: a walk looks at its [`CancelFlag`] after each step past keys that were deleted, however many there are.

use super::scan::{CANCEL_EVERY, CancelFlag};
use crate::database::{KeyScan, TreeKeys};
use crate::error::Result;
use crate::transaction::Entries;
use bytes::Bytes;
use engine::{Direction, RowRange, Snapshot};
use std::ops::Bound;
use std::sync::Arc;

/// Walks a range of a tree. A key that the transaction wrote hides that of the tree.
pub(super) struct EntryCursor {
    scan: KeyScan,
    direction: Direction,
    cancel: CancelFlag,
    /// Entries that the transaction wrote in the range, with the next of them. Nothing if it wrote nothing
    /// there.
    own: Option<OwnEntries>,
    /// The entry of the tree that was read and not yet lent.
    ahead: Option<(Vec<u8>, Vec<u8>)>,
    is_at_end: bool,
}

struct OwnEntries {
    entries: Arc<Entries>,
    range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    next: Option<(Bytes, Option<Bytes>)>,
}

impl OwnEntries {
    fn advance(&mut self, direction: Direction) {
        let range = (self.range.0.as_ref(), self.range.1.as_ref());
        let range = (range.0.map(Vec::as_slice), range.1.map(Vec::as_slice));
        let mut found = self.entries.range::<[u8], _>(range);
        let next = match direction {
            Direction::Forward => found.next(),
            Direction::Reverse => found.next_back(),
        };
        self.next = next.map(|(key, value)| (key.clone(), value.clone()));
        if let Some((key, _)) = &self.next {
            let beyond = Bound::Excluded(key.to_vec());
            match direction {
                Direction::Forward => self.range.0 = beyond,
                Direction::Reverse => self.range.1 = beyond,
            }
        }
    }
}

impl EntryCursor {
    /// Begins at the first key of a range that is not empty, in the direction. The walk fails with 57014 once
    /// `cancel` says so.
    pub(super) fn new(
        keys: &TreeKeys,
        snapshot: &Snapshot,
        own: Option<&Arc<Entries>>,
        rows: RowRange,
        direction: Direction,
        cancel: CancelFlag,
    ) -> Result<Self> {
        let upper = rows.end.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let range = (Bound::Included(rows.start.clone()), upper);
        let own = own.filter(|_| !rows.is_empty()).map(|entries| {
            let mut own = OwnEntries { entries: Arc::clone(entries), range, next: None };
            own.advance(direction);
            own
        });
        let own = own.filter(|own| own.next.is_some());
        let scan = keys.scan(Some(snapshot), rows, direction)?;
        Ok(Self { scan, direction, cancel, own, ahead: None, is_at_end: false })
    }

    /// Lends the next key and its cell to `use_entry`, and returns its result. Nothing at the end.
    pub(super) fn next<R>(
        &mut self,
        mut use_entry: impl FnMut(&[u8], &[u8]) -> Result<R>,
    ) -> Result<Option<R>> {
        if self.own.is_none() {
            if let Some((key, cell)) = self.ahead.take() {
                return use_entry(&key, &cell).map(Some);
            }
            if self.is_at_end {
                return Ok(None);
            }
            return match self.scan.next_unless(|| self.cancel.check())? {
                Some((key, cell)) => use_entry(key, cell).map(Some),
                None => {
                    self.is_at_end = true;
                    Ok(None)
                }
            };
        }
        self.next_merged(use_entry)
    }

    fn next_merged<R>(
        &mut self,
        mut use_entry: impl FnMut(&[u8], &[u8]) -> Result<R>,
    ) -> Result<Option<R>> {
        let mut hidden = 0u64;
        loop {
            self.look_ahead()?;
            let Some(own) = &mut self.own else { return self.next(use_entry) };
            let Some((own_key, _)) = &own.next else {
                self.own = None;
                return self.next(use_entry);
            };
            let order = match &self.ahead {
                None => std::cmp::Ordering::Less,
                Some((key, _)) => match self.direction {
                    Direction::Forward => own_key[..].cmp(key),
                    Direction::Reverse => key[..].cmp(own_key),
                },
            };
            if order.is_gt() {
                let Some((key, cell)) = self.ahead.take() else { continue };
                return use_entry(&key, &cell).map(Some);
            }
            if order.is_eq() {
                self.ahead = None;
            }
            let next = own.next.take();
            own.advance(self.direction);
            if let Some((key, Some(cell))) = next {
                return use_entry(&key, &cell).map(Some);
            }
            hidden += 1;
            if hidden.is_multiple_of(CANCEL_EVERY) {
                self.cancel.check()?;
            }
        }
    }

    /// Reads the next entry of the tree, if none is ready.
    fn look_ahead(&mut self) -> Result<()> {
        if self.ahead.is_none() && !self.is_at_end {
            match self.scan.next_unless(|| self.cancel.check())? {
                Some((key, cell)) => self.ahead = Some((key.to_vec(), cell.to_vec())),
                None => self.is_at_end = true,
            }
        }
        Ok(())
    }
}
