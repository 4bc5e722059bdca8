//! The keys of one tree of a database, wherever the store keeps them.
//!
//! 1. Callers see keys without what the store puts before them: nothing where the tree is one of the engine's,
//!    and the number of the tree where all share one ([`super::Store`]).
//! 2. No read leaves the keys of its tree.

use super::blocking;
use crate::catalog::KeyPlace;
use crate::error::{Error, Result};
use crate::format::FAMILY;
use crate::format::key::after_prefix;
use engine::{
    ColumnOf, Columns, Direction, RowEnd, RowRange, RowSelection, Scan, ScanRequest, Snapshot,
    StepBudget, Stepped, Tree,
};
use std::borrow::Cow;
use std::ops::ControlFlow;

static ALL: Columns = Columns::All;

/// Work of a step of a scan past keys that were deleted, in units of [`StepBudget`]: about a millisecond, or
/// the load of 256 blocks.
const STEP_WORK: u64 = 1 << 14;

/// The keys of a tree. Cheap to clone.
#[derive(Clone)]
pub(crate) struct TreeKeys {
    tree: Tree,
    number: u32,
    /// True if the tree of the engine has other trees of the database too.
    is_shared: bool,
}

/// Returns a key as it is where several trees share one of the engine.
pub(super) fn shared_key(tree: u32, key: &[u8]) -> Vec<u8> {
    [&tree.to_be_bytes()[..], key].concat()
}

/// Returns the end of a range as it is where several trees share one of the engine.
pub(super) fn shared_end(tree: u32, end: Option<&[u8]>) -> Option<Vec<u8>> {
    match end {
        Some(end) => Some(shared_key(tree, end)),
        None => after_prefix(&tree.to_be_bytes()),
    }
}

impl TreeKeys {
    /// Returns the keys of a tree of the engine.
    pub(super) fn own(tree: Tree) -> Self {
        Self { number: tree.id().0, tree, is_shared: false }
    }

    /// Returns the keys of tree `number`, of the trees that share `tree`.
    pub(super) fn shared(tree: &Tree, number: u32) -> Self {
        Self { number, tree: tree.clone(), is_shared: true }
    }

    /// Returns the number of the tree.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    fn key<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match self.is_shared {
            true => shared_key(self.number, key).into(),
            false => key.into(),
        }
    }

    fn rows(&self, rows: RowRange) -> RowRange {
        match self.is_shared {
            true => RowRange {
                start: shared_key(self.number, &rows.start),
                end: shared_end(self.number, rows.end.as_deref()),
            },
            false => rows,
        }
    }

    fn prefix_len(&self) -> usize {
        if self.is_shared { size_of::<u32>() } else { 0 }
    }

    /// Reads the value of a key, as the last commit left it without a snapshot, and gives it to `use_value`.
    /// The future is ready at once if what it needs is in memory.
    pub(crate) async fn read<R: Send + 'static>(
        &self,
        snapshot: Option<&Snapshot>,
        key: &[u8],
        mut use_value: impl FnMut(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let mut found = None;
        let key = self.key(key);
        let mut reads = self.tree.row_reads(snapshot);
        let selection = RowSelection::of(&ALL);
        let use_cell = |cell: &engine::Cell<'_>| {
            found = Some(use_value(cell.value));
            ControlFlow::Break(())
        };
        let end = reads.read(&key, std::iter::empty(), &selection, use_cell).await?;
        if end != RowEnd::Waits {
            return Ok(found);
        }
        // A row that has to be merged from disk: on a thread that may block.
        let (tree, snapshot, key) = (self.tree.clone(), snapshot.cloned(), key.into_owned());
        let value = blocking(move || {
            let mut value = None;
            let selection = RowSelection::of(&ALL);
            tree.read_row_with(&key, &selection, snapshot.as_ref(), |cell| {
                value.get_or_insert_with(|| cell.value.to_vec());
            })?;
            Ok(value)
        });
        Ok(value.await?.map(|value| use_value(&value)))
    }

    /// Reads the value of a key, as [`Self::read`] does. Blocks.
    pub(crate) fn get<R>(
        &self,
        snapshot: Option<&Snapshot>,
        key: &[u8],
        use_value: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let key = self.key(key);
        let at = ColumnOf::new(&key, FAMILY, b"");
        Ok(self.tree.get_with(at, snapshot, |_, value| use_value(value))?)
    }

    /// Reads the values of many keys, and lends each with the place of its key, nothing for a key that is not
    /// there, in any order. Blocks.
    pub(crate) fn get_many(
        &self,
        snapshot: &Snapshot,
        keys: &[&[u8]],
        mut use_value: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let keys: Vec<Cow<'_, [u8]>> = keys.iter().map(|key| self.key(key)).collect();
        let wanted: Vec<_> = keys.iter().map(|key| ColumnOf::new(key, FAMILY, b"")).collect();
        let use_cell = |at, cell: Option<(_, &[u8])>| use_value(at, cell.map(|(_, value)| value));
        Ok(self.tree.multi_get_with(&wanted, Some(snapshot), use_cell)?)
    }

    /// Begins a scan of a range, as the last commit left it without a snapshot.
    pub(crate) fn scan(
        &self,
        snapshot: Option<&Snapshot>,
        rows: RowRange,
        direction: Direction,
    ) -> Result<KeyScan> {
        let request = ScanRequest { direction, ..ScanRequest::rows(self.rows(rows)) };
        let scan = self.tree.scan(&request, snapshot)?;
        let budget = StepBudget::of_work(STEP_WORK);
        Ok(KeyScan { scan, budget, prefix_len: self.prefix_len() })
    }

    /// Returns where the keys of a range are in the tree of the engine.
    pub(crate) fn place(&self, rows: RowRange) -> KeyPlace {
        KeyPlace { tree: self.tree.id(), rows: self.rows(rows), is_shared: self.is_shared }
    }

    /// Returns the bytes of a range on disk and in memory, roughly.
    pub(crate) fn approximate_bytes(&self, rows: RowRange) -> Result<u64> {
        Ok(self.tree.approximate_bytes(&self.rows(rows))?)
    }
}

/// A scan over the keys of a tree.
pub(crate) struct KeyScan {
    scan: Scan,
    /// Budget that is left of the step. Only keys that were deleted take of it.
    budget: StepBudget<'static>,
    prefix_len: usize,
}

impl KeyScan {
    /// Returns the next key and its value. Nothing at the end. Blocks.
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.next_unless(|| Ok(()))
    }

    /// Returns the next key and its value as [`Self::next`] does, and asks `go_on` after each step past keys that
    /// were deleted. Fails as it does; then the scan keeps its place.
    pub(crate) fn next_unless(
        &mut self,
        mut go_on: impl FnMut() -> Result<()>,
    ) -> Result<Option<(&[u8], &[u8])>> {
        while self.scan.step_to_row(&mut self.budget)? == Stepped::NotYet {
            self.budget = StepBudget::of_work(STEP_WORK);
            go_on()?;
        }
        let Some((key, cell)) = self.scan.row_and_cell()? else { return Ok(None) };
        let key = key.get(self.prefix_len..);
        let key = key.ok_or_else(|| Error::corrupted("a key has no number of its tree"))?;
        Ok(Some((key, cell.value)))
    }

    /// Returns the next key, and reads no value. Nothing at the end. Blocks.
    pub(crate) fn next_key(&mut self) -> Result<Option<&[u8]>> {
        let Some(key) = self.scan.next_row()? else { return Ok(None) };
        let key = key.get(self.prefix_len..);
        key.map(Some).ok_or_else(|| Error::corrupted("a key has no number of its tree"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Column, Engine, Options, Timestamp, TreeId, TreeOptions, WriteBatch};

    const KEYS: u32 = 40_000;

    /// A tree of [`KEYS`] keys that were deleted, and one behind them that was not.
    fn tree(engine: &Engine, on_disk: bool) -> Tree {
        let tree = engine.create_tree(TreeId(16), TreeOptions::default()).unwrap();
        let column = Column::of(FAMILY, b"");
        let mut puts = WriteBatch::new();
        for key in 0..=KEYS {
            puts.put(&key.to_be_bytes(), column, Timestamp(0), b"value");
        }
        tree.write(&puts).unwrap();
        if on_disk {
            tree.flush().unwrap();
        }
        let mut deletes = WriteBatch::new();
        (0..KEYS).for_each(|key| deletes.delete_row(&key.to_be_bytes()));
        tree.write(&deletes).unwrap();
        tree
    }

    #[test]
    fn a_scan_past_deleted_keys_asks_whether_to_go_on() {
        for on_disk in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let engine = Engine::open(dir.path(), Options::default()).unwrap();
            let keys = TreeKeys::own(tree(&engine, on_disk));
            let mut scan = keys.scan(None, RowRange::ALL, Direction::Forward).unwrap();
            let ends = || -> Result<()> { Err(Error::internal("it ends")) };
            assert_eq!(scan.next_unless(ends).unwrap_err().message, "it ends", "{on_disk}");
            let mut asked = 0;
            let (key, value) = scan
                .next_unless(|| {
                    asked += 1;
                    Ok(())
                })
                .unwrap()
                .unwrap();
            assert_eq!((key, value), (&KEYS.to_be_bytes()[..], &b"value"[..]), "{on_disk}");
            assert!(asked > 0, "{on_disk}");
            assert!(scan.next().unwrap().is_none());
        }
    }
}
