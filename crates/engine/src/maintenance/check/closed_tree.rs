//! Reads one small tree of a directory that nobody has open, and changes nothing: so that a layer
//! above can compare what it keeps in a tree with the trees that there are.
//!
//! 1. Nothing is written, no log is replayed into SSTables. The lock file, if there is one, is held
//!    meanwhile.
//! 2. What is read is bounded: a tree that has more than the caller expects, or anything else, is
//!    given up.

use super::lock;
use crate::batch::Mutation;
use crate::cache::{CacheFeatures, CacheFill};
use crate::cell::{Entry, SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::log::LogReader;
use crate::manifest::{self, LogPosition, SstMeta, State};
use crate::recovery::decode;
use crate::request::{RowRange, ScanRequest};
use crate::semantics::model::{Model, OwnedEntry, OwnedRow};
use crate::semantics::row_cursor::RowCursor;
use crate::sstable::{BlockCache, SstReader};
use base::env::Env;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Bytes of rows and values that are read at most, in all versions.
const BYTES_MAX: usize = 64 << 20;
/// Entries of a row that are read at most: each is compared with all others.
const ROW_ENTRIES_MAX: usize = 10_000;
/// Memory for blocks of the SSTable being read.
const CACHE_BYTES: usize = 4 << 20;

/// What [`read_tree`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeReading {
    /// The trees that exist, in order.
    pub trees: Vec<TreeId>,
    /// What a scan of the tree would yield. `None` if it does not exist, or has a row that was not
    /// expected, or more than is read.
    pub rows: Option<Vec<OwnedRow>>,
}

/// Reads all of `tree` in the data directory `dir`, as long as all its rows are `expected`: a few
/// tens of megabytes at most.
///
/// `Unusable` if the directory is in use, of a newer format, or no data directory; `Corruption` or
/// `Io` if the manifest, the log or a file of the tree cannot be read.
pub fn read_tree(
    env: &Env,
    dir: &Path,
    tree: TreeId,
    expected: &dyn Fn(&[u8]) -> bool,
) -> Result<TreeReading> {
    let _lock = lock(&*env.fs, dir)?;
    let state = manifest::load(&*env.fs, dir)?;
    let state =
        state.ok_or_else(|| super::unusable(dir, "no data directory: it has no CURRENT"))?;
    let trees = state.trees.keys().copied().collect();
    if !state.trees.contains_key(&tree) {
        return Ok(TreeReading { trees, rows: None });
    }
    let (model, entries) = (Model::default(), BTreeMap::new());
    let mut gathering = Gathering { expected, bytes: 0, entries, model };
    let all = gathering.ssts(env, dir, &state, tree)? && gathering.log(env, dir, &state, tree)?;
    let scan = |model: Model| model.scan(&ScanRequest::rows(RowRange::ALL), SequenceNumber::MAX);
    Ok(TreeReading { trees, rows: all.then(|| scan(gathering.model)) })
}

struct Gathering<'a> {
    expected: &'a dyn Fn(&[u8]) -> bool,
    bytes: usize,
    /// How many entries of each row came.
    entries: BTreeMap<Vec<u8>, usize>,
    model: Model,
}

impl Gathering<'_> {
    /// Adds what the SSTables of `tree` have; `false` if that is not expected, or too much.
    fn ssts(&mut self, env: &Env, dir: &Path, state: &State, tree: TreeId) -> Result<bool> {
        for sst in state.trees[&tree].runs().flat_map(|run| &run.ssts) {
            if !self.sst(env, dir, sst)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn sst(&mut self, env: &Env, dir: &Path, meta: &SstMeta) -> Result<bool> {
        let path = meta.number.sst_path(dir);
        let file = env.fs.open_read(&path).map_err(|error| Error::io("open", &path, &error))?;
        let cache = BlockCache::new(CACHE_BYTES, CacheFeatures::PASSING);
        let sst = SstReader::open(file, &path, meta.number, cache)?;
        let sst = SstReader::numbered(sst, meta.sequence_max);
        sst.range_tombstones().iter().for_each(|range| self.model.drop_range(range.clone()));
        let mut cursor = sst.cursor(CacheFill::Bypass);
        cursor.seek(&[])?;
        while let Some(row) = cursor.row().map(<[u8]>::to_vec) {
            while cursor.entry().is_some() {
                let entry = cursor.entry_with_value()?;
                if !self.takes(&row, &entry) {
                    return Ok(false);
                }
                self.model.add(&row, OwnedEntry::copy_of(&entry));
                cursor.next_entry()?;
            }
            cursor.next_row()?;
        }
        Ok(true)
    }

    /// Adds what the log has of `tree` beyond its SSTables, likewise.
    fn log(&mut self, env: &Env, dir: &Path, state: &State, tree: TreeId) -> Result<bool> {
        let mut reader = LogReader::open(Arc::clone(&env.fs), dir)?;
        while let Some(item) = reader.next()? {
            let first = item.record.first;
            if item.record.tree != tree {
                continue;
            }
            let batch = decode(dir, &item)?;
            let last = first.0.saturating_add(batch.len() as u64).saturating_sub(1);
            if state.trees[&tree].flushed >= LogPosition(last) {
                continue;
            }
            for mutation in batch.mutations(first) {
                match mutation {
                    Mutation::Entry { row, entry } if !self.takes(row, &entry) => return Ok(false),
                    Mutation::Entry { row, entry } => {
                        self.model.add(row, OwnedEntry::copy_of(&entry));
                    }
                    Mutation::DropRange(range) => self.model.drop_range(range),
                }
            }
        }
        Ok(true)
    }

    /// Returns whether `entry` of `row` may come too.
    fn takes(&mut self, row: &[u8], entry: &Entry<'_>) -> bool {
        let bytes = row.len() + entry.column.qualifier.len() + entry.value.len();
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > BYTES_MAX || !(self.expected)(row) {
            return false;
        }
        let entries = self.entries.entry(row.to_vec()).or_default();
        *entries += 1;
        *entries <= ROW_ENTRIES_MAX
    }
}
