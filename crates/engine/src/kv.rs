//! The key-value API, for programs that embed Stele as an ordered map of bytes.
//!
//! A key is a row with one unnamed column and one version, so everything that makes rows fast and
//! safe holds for keys.

use crate::cell::{Column, FamilyId, Timestamp, TreeId};
use crate::engine::{Engine, Scan};
use crate::error::Result;
use crate::ingest::{IngestOptions, SstWriter};
use crate::options::{FilterGranularity, Options, TreeOptions};
use crate::read::drivers::get_pipeline::{Answer, GetPipeline};
use crate::read::drivers::{ColumnOf, Tree};
use crate::request::{Direction, RowRange, ScanRequest};
use crate::{Snapshot, WriteBatch};
use base::env::Env;
use std::path::Path;

const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);
const TIMESTAMP: Timestamp = Timestamp(0);

fn column_of(key: &[u8]) -> ColumnOf<'_> {
    ColumnOf { row: key, family: FAMILY, qualifier: &[] }
}

fn column() -> Column<'static> {
    Column::of(FAMILY, &[])
}

/// An ordered map of byte strings on disk. Cheap to clone; the last clone closes it.
///
/// ```
/// use engine::kv::{Kv, KvBatch};
/// use engine::{Options, RowRange};
///
/// # fn main() -> engine::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let dir = dir.path();
/// let kv = Kv::open(dir, Options::default())?;
/// kv.put(b"fruit/apple", b"red")?;
/// kv.put(b"fruit/plum", b"blue")?;
///
/// // Several changes at once: all of them or none.
/// let mut batch = KvBatch::default();
/// batch.put(b"fruit/quince", b"yellow");
/// batch.delete(b"fruit/apple");
/// kv.write(&batch)?;
///
/// assert_eq!(kv.get(b"fruit/plum")?.as_deref(), Some(&b"blue"[..]));
/// assert_eq!(kv.get(b"fruit/apple")?, None);
///
/// let fruits = kv.range(RowRange::prefix(b"fruit/")).collect::<engine::Result<Vec<_>>>()?;
/// assert_eq!(fruits.len(), 2);
///
/// // What was acknowledged is there when the directory is opened again.
/// kv.close()?;
/// drop(kv);
/// let kv = Kv::open(dir, Options::default())?;
/// assert_eq!(kv.get(b"fruit/quince")?.as_deref(), Some(&b"yellow"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Kv {
    engine: Engine,
    tree: Tree,
}

/// Changes that commit together.
#[derive(Debug, Clone, Default)]
pub struct KvBatch {
    batch: WriteBatch,
}

impl KvBatch {
    /// Sets `key` to `value`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(key, column(), TIMESTAMP, value);
    }

    /// Removes `key` if it is there.
    pub fn delete(&mut self, key: &[u8]) {
        self.batch.delete_row(key);
    }

    /// Removes every key in `[start, end)`; `None` reaches to the end.
    pub fn delete_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        self.batch.drop_row_range(start, end);
    }
}

impl Kv {
    /// Opens the map in directory `dir`, creating it if it does not exist. Errors as
    /// [`Engine::open`].
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::of(Engine::open(dir, options)?)
    }

    /// [`Self::open`] in another environment, as [`Engine::open_with_env`].
    pub fn open_with_env(env: Env, dir: &Path, options: Options) -> Result<Self> {
        Self::of(Engine::open_with_env(env, dir, options)?)
    }

    fn of(engine: Engine) -> Result<Self> {
        // What a server keeps in that tree are no keys.
        engine.shared().check_takes_writes()?;
        let filter_granularity = Some(FilterGranularity::Row);
        let options = TreeOptions { filter_granularity, ..TreeOptions::default() };
        Ok(Self { tree: engine.tree_or_create(TREE, options)?, engine })
    }

    /// Sets `key` (up to 64 KiB) to `value` (up to 256 MiB).
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = KvBatch::default();
        batch.put(key, value);
        self.write(&batch)
    }

    /// Removes `key` if it is there.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = KvBatch::default();
        batch.delete(key);
        self.write(&batch)
    }

    /// Commits `batch`: all of it or nothing. Errors as [`Tree::write`].
    pub fn write(&self, batch: &KvBatch) -> Result<()> {
        self.tree.write(&batch.batch).map(|_| ())
    }

    /// The value of `key`; `None` if it is not there.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_at(key, None)
    }

    /// The value `key` had at `snapshot`.
    pub fn get_at(&self, key: &[u8], snapshot: Option<&Snapshot>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, snapshot, <[u8]>::to_vec)
    }

    /// Lends the value of `key` at `snapshot` (`None`: now) to `use_value`, which should be short.
    /// `None` if the key is not there.
    pub fn get_with<R>(
        &self,
        key: &[u8],
        snapshot: Option<&Snapshot>,
        use_value: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.tree.get_with(column_of(key), snapshot, |_, value| use_value(value))
    }

    /// Reads many keys at one moment, faster than one after the other. Lends each value to
    /// `use_value` with the key's place in `keys`, `None` for a key that is not there, in any
    /// order.
    pub fn multi_get_with(
        &self,
        keys: &[&[u8]],
        snapshot: Option<&Snapshot>,
        mut use_value: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let wanted: Vec<ColumnOf<'_>> = keys.iter().map(|key| column_of(key)).collect();
        self.tree.multi_get_with(&wanted, snapshot, |at, cell| {
            use_value(at, cell.map(|(_, value)| value));
        })
    }

    /// The values of `keys` at one moment, in their order.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        self.multi_get_with(keys, None, |at, value| values[at] = value.map(<[u8]>::to_vec))?;
        Ok(values)
    }

    /// Gets that one thread keeps in flight: see [`Tree::in_flight`].
    pub fn in_flight(&self, depth: usize, snapshot: Option<&Snapshot>) -> KvGetPipeline {
        KvGetPipeline { gets: self.tree.in_flight(depth, snapshot) }
    }

    /// A moment of the map, for reads that must agree with each other.
    pub fn snapshot(&self) -> Snapshot {
        self.engine().snapshot()
    }

    /// The keys in `keys` and their values, ascending, as of now.
    pub fn range(&self, keys: RowRange) -> KvRange {
        self.range_at(keys, Direction::Forward, None)
    }

    /// The same, in either direction, at a snapshot.
    pub fn range_at(
        &self,
        keys: RowRange,
        direction: Direction,
        snapshot: Option<&Snapshot>,
    ) -> KvRange {
        let request = ScanRequest { direction, versions_max: Some(1), ..ScanRequest::rows(keys) };
        KvRange { scan: Some(self.tree.scan(&request, snapshot)) }
    }

    /// The same, lending keys and values instead of copying them: much cheaper for long ranges.
    pub fn scan(
        &self,
        keys: RowRange,
        direction: Direction,
        snapshot: Option<&Snapshot>,
    ) -> Result<KvScan> {
        let request = ScanRequest { direction, versions_max: Some(1), ..ScanRequest::rows(keys) };
        Ok(KvScan { scan: self.tree.scan(&request, snapshot)? })
    }

    /// The engine below, for metrics, flushes and compaction; the map is its tree 1.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Syncs the log, stops background work and refuses further writes.
    pub fn close(&self) -> Result<()> {
        self.engine().close()
    }

    /// A writer for a bulk load of sorted keys, which become visible all at once.
    pub fn sorted_writer(&self, options: &IngestOptions) -> Result<KvSortedWriter> {
        let writer = self.tree.sst_writer(options)?;
        Ok(KvSortedWriter { writer, engine: self.engine.clone() })
    }
}

/// Gets in flight. Dropped, it waits for the disk and gives no more answers.
#[derive(Debug)]
pub struct KvGetPipeline {
    gets: GetPipeline,
}

impl KvGetPipeline {
    /// Asks for the value of `key`. The answer comes out of [`wait`](Self::wait) or
    /// [`poll`](Self::poll) with `tag`; see [`GetPipeline::submit`].
    pub fn submit(&mut self, tag: u64, key: &[u8]) {
        self.gets.submit(tag, column_of(key));
    }

    /// The next answer; waits for the disk if there is none yet. `None` if nothing is in flight.
    pub fn wait(&mut self) -> Option<(u64, Result<Option<Vec<u8>>>)> {
        self.gets.wait().map(value_of)
    }

    /// The next answer, if there is one by now. Does not wait.
    pub fn poll(&mut self) -> Option<(u64, Result<Option<Vec<u8>>>)> {
        self.gets.poll().map(value_of)
    }

    /// Gets that were submitted and whose answer was not taken.
    pub fn in_flight(&self) -> usize {
        self.gets.in_flight()
    }
}

fn value_of((tag, answer): (u64, Answer)) -> (u64, Result<Option<Vec<u8>>>) {
    (tag, answer.map(|cell| cell.map(|(_, value)| value)))
}

/// Writes keys in order, past the log. Dropped without `ingest`, it leaves nothing behind.
pub struct KvSortedWriter {
    engine: Engine,
    writer: SstWriter,
}

impl std::fmt::Debug for KvSortedWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KvSortedWriter").field("writer", &self.writer).finish_non_exhaustive()
    }
}

impl KvSortedWriter {
    /// Sets `key`, which comes after all before it, to `value`. Errors as [`SstWriter::put`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writer.put(key, column(), TIMESTAMP, value)
    }

    /// Makes the keys part of the map, all at once. Errors as [`Engine::ingest`]; the keys are
    /// then not in the map, or it shows at the next open whether they are.
    pub fn ingest(self) -> Result<()> {
        let mut files = self.writer.finish()?;
        self.engine.ingest(&mut files).map(|_| ())
    }
}

/// Keys and values of a range, lent in order. After an error there is nothing more.
pub struct KvScan {
    scan: Scan,
}

impl KvScan {
    /// The next key and its value; `None` at the end.
    pub fn lend_next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let first = self.scan.next_row_and_cell()?;
        Ok(first.map(|(key, cell)| (key, cell.value)))
    }

    /// Starts again at the first key of the range that is not less than `key` (of a reverse scan:
    /// at the last that is less). Cheaper than a new scan; it sees the same moment.
    pub fn seek(&mut self, key: &[u8]) {
        self.scan.seek(key);
    }
}

/// Keys and values of a range, in order. After an error there is nothing more.
pub struct KvRange {
    /// The scan; the error that it could not start is the first item; `None` at the end.
    scan: Option<Result<Scan>>,
}

impl KvRange {
    fn step(scan: &mut Scan) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(key) = scan.next_row()?.map(<[u8]>::to_vec) else { return Ok(None) };
        let cell = scan.next_cell()?.expect("a row that is met has a visible cell");
        Ok(Some((key, cell.value.to_vec())))
    }
}

impl Iterator for KvRange {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = match self.scan.take()? {
            Ok(mut scan) => {
                let item = Self::step(&mut scan);
                if matches!(item, Ok(Some(_))) {
                    self.scan = Some(Ok(scan));
                }
                item
            }
            Err(error) => Err(error),
        };
        item.transpose()
    }
}
