//! The data sets, and how the same files are opened many times.

use super::AnyError;
use base::env::Env;
use bench_core::{KeyKind, random_key, random_value};
use clap::ValueEnum;
use engine::internals::ReadPath;
use engine::{
    Column, Durability, Engine, FamilyId, FilterGranularity, IngestOptions, Options, Result,
    RowRange, Timestamp, Tree, TreeId, TreeOptions, WriteBatch,
};
use std::fs;
use std::path::{Path, PathBuf};

const TREE: TreeId = TreeId(1);
/// The family of data sets that have one column, and the first of wide rows.
pub(super) const FAMILY: FamilyId = FamilyId(1);
/// Families of a wide row, from [`FAMILY`] on.
pub(super) const FAMILIES: u16 = 3;
/// Columns of each family of a wide row.
pub(super) const QUALIFIERS: [&[u8]; 4] = [b"column-0", b"column-1", b"column-2", b"column-3"];
/// Length of each row key.
pub(super) const KEY_BYTES: usize = 50;
/// Length of each value, of data sets with one column and of wide rows.
const VALUE_BYTES: usize = 256;
const WIDE_VALUE_BYTES: usize = 32;
/// Overlapping runs of [`DataSet::Runs`].
const RUNS: u64 = 8;
/// Bytes of a row prefix of [`DataSet::Prefixes`].
pub(super) const PREFIX_BYTES: u16 = 8;
/// Rows of the smallest data sets.
pub(super) const ROWS_MIN: u64 = 1000;
/// More runs of level 0 than any data set has: nothing is merged behind the reads.
const L0_RUNS_UNMERGED: usize = 32;
const BATCH_ROWS: usize = 100;
const CACHE_BYTES_MIN: u64 = 1 << 20;
const THREADS: usize = 2;

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DataSet {
    /// Rows of one column, in one run.
    Keys,
    /// Rows of [`FAMILIES`] families of four columns, in one run.
    Wide,
    /// Rows of one column, in [`RUNS`] runs of which each reaches over all keys.
    Runs,
    /// The same as `Runs` in a tree with row prefixes of [`PREFIX_BYTES`] bytes and a prefix index.
    Prefixes,
}

/// How much memory the cache has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// More than the data.
    Everything,
    /// 5 % of the data.
    Twentieth,
}

impl DataSet {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Wide => "wide",
            Self::Runs => "runs",
            Self::Prefixes => "prefixes",
        }
    }

    /// Runs that its rows lie in.
    pub(super) fn runs(self) -> u64 {
        match self {
            Self::Keys | Self::Wide => 1,
            Self::Runs | Self::Prefixes => RUNS,
        }
    }

    /// Writes it into the new directory `dir`; `rows` are those of [`DataSet::Keys`].
    pub(super) fn load(self, rows: u64, dir: &Path) -> std::result::Result<Loaded, AnyError> {
        let rows = match self {
            Self::Keys => rows,
            Self::Wide => rows / 8,
            Self::Runs | Self::Prefixes => rows / 4 / RUNS * RUNS,
        };
        fs::create_dir_all(dir)?;
        let engine = Engine::open_with_env(Env::real(THREADS), dir, options(1 << 28))?;
        let filter_granularity = Some(match self {
            Self::Wide => FilterGranularity::Column,
            Self::Keys | Self::Runs | Self::Prefixes => FilterGranularity::Row,
        });
        let prefixes = self == Self::Prefixes;
        let tree = TreeOptions {
            filter_granularity,
            row_prefix_bytes: if prefixes { PREFIX_BYTES } else { 0 },
            prefix_index: prefixes,
            ..TreeOptions::default()
        };
        engine.create_tree(TREE, tree)?;
        match self {
            Self::Keys | Self::Wide => self.ingest(&engine, rows)?,
            Self::Runs | Self::Prefixes => self.flush_runs(&engine, rows)?,
        }
        engine.close()?;
        check_runs(self, &engine)?;
        let bytes = engine.metrics().get("level_bytes").ok_or("no gauge level_bytes")?;
        Ok(Loaded { set: self, rows, bytes, dir: dir.to_owned() })
    }

    /// Writes all rows in their order, past the log, into one run.
    fn ingest(self, engine: &Engine, rows: u64) -> Result<()> {
        let mut sorted: Vec<([u8; KEY_BYTES], u64)> =
            (0..rows).map(|number| (row(number, KeyKind::Present), number)).collect();
        sorted.sort_unstable();
        let mut writer = engine.tree(TREE)?.sst_writer(&IngestOptions::default())?;
        for (row, number) in &sorted {
            self.cells(*number, |column, value| writer.put(row, column, Timestamp(0), value))?;
        }
        engine.ingest(&mut writer.finish()?)?;
        engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL))
    }

    /// Writes an eighth of the rows, flushes them, and so on.
    fn flush_runs(self, engine: &Engine, rows: u64) -> Result<()> {
        let numbers: Vec<u64> = (0..rows).collect();
        for run in numbers.chunks((rows / RUNS) as usize) {
            for rows in run.chunks(BATCH_ROWS) {
                let mut batch = WriteBatch::new();
                for &number in rows {
                    let row = row(number, KeyKind::Present);
                    self.cells(number, |column, value| {
                        batch.put(&row, column, Timestamp(0), value);
                        Ok(())
                    })?;
                }
                engine.tree(TREE)?.write(&batch)?;
            }
            engine.tree(TREE)?.flush()?;
        }
        Ok(())
    }

    /// Makes the cells of row `number`, in their order.
    fn cells(
        self,
        number: u64,
        mut each: impl FnMut(Column<'_>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if self != Self::Wide {
            let mut bytes = [0; VALUE_BYTES];
            random_value(number, &mut bytes);
            return each(Column::of(FAMILY, b""), &bytes);
        }
        let mut bytes = [0; WIDE_VALUE_BYTES];
        for family in 0..FAMILIES {
            for (at, qualifier) in QUALIFIERS.iter().enumerate() {
                random_value(number << 8 | u64::from(family) << 4 | at as u64, &mut bytes);
                each(Column::of(FamilyId(FAMILY.0 + family), qualifier), &bytes)?;
            }
        }
        Ok(())
    }
}

/// That the rows lie in as many runs as the data set has.
fn check_runs(set: DataSet, engine: &Engine) -> std::result::Result<(), AnyError> {
    let want = if set.runs() > 1 { RUNS } else { 0 };
    match engine.metrics().get("level_runs{level=\"0\"}") {
        Some(runs) if runs == want => Ok(()),
        runs => Err(format!("{runs:?} runs in level 0 of {}, not {want}", set.name()).into()),
    }
}

/// The key of row `number`.
pub(super) fn row(number: u64, kind: KeyKind) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    random_key(number, kind, &mut bytes);
    bytes
}

fn options(cache_bytes_max: u64) -> Options {
    Options {
        durability: Durability::None,
        memory_bytes_max: cache_bytes_max as usize + (4 << 30),
        cache_bytes_max: Some(cache_bytes_max as usize),
        memtable_bytes_max: 1 << 30,
        l0_runs_compact: L0_RUNS_UNMERGED,
        l0_runs_stall: 2 * L0_RUNS_UNMERGED,
        ..Options::default()
    }
}

/// A data set that was written.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) set: DataSet,
    pub(super) rows: u64,
    /// Bytes of its SSTables.
    pub(super) bytes: u64,
    /// Where it is. Not opened any more.
    pub(super) dir: PathBuf,
}

impl Loaded {
    /// Opens it in the new directory `dir` with the read path that `change` makes.
    pub(super) fn open(
        &self,
        dir: &Path,
        room: Room,
        change: fn(&mut ReadPath),
    ) -> std::result::Result<Opened, AnyError> {
        fs::create_dir(dir)?;
        for entry in fs::read_dir(&self.dir)? {
            let (from, to) = (entry?.path(), &mut dir.to_owned());
            to.push(from.file_name().unwrap_or_default());
            // SSTables never change; the other files may be written to.
            match from.extension().is_some_and(|extension| extension == "sst") {
                true => fs::hard_link(&from, to)?,
                false => drop(fs::copy(&from, to)?),
            }
        }
        let cache = match room {
            // Blocks are larger in memory than compressed, and frames larger than blocks.
            Room::Everything => self.bytes * 2 + (64 << 20),
            Room::Twentieth => (self.bytes / 20).max(CACHE_BYTES_MIN),
        };
        let mut options = options(cache);
        // What is not in the cache is then on disk, and not in the system's page cache.
        options.direct_reads = room == Room::Twentieth;
        change(&mut options.read_path);
        let engine = Engine::open_with_env(Env::real(THREADS), dir, options)?;
        // Else reads of a tree that nobody writes would have its runs merged.
        engine.pause_compactions();
        let tree = engine.tree(TREE)?;
        Ok(Opened { engine, tree, set: self.set, rows: self.rows, room, dir: dir.to_owned() })
    }
}

/// An open data set.
pub(super) struct Opened {
    pub(super) engine: Engine,
    pub(super) tree: Tree,
    set: DataSet,
    pub(super) rows: u64,
    pub(super) room: Room,
    dir: PathBuf,
}

impl Opened {
    /// A counter of its engine.
    pub(super) fn counter(&self, name: &str) -> std::result::Result<u64, AnyError> {
        self.engine.metrics().get(name).ok_or_else(|| format!("no counter {name}").into())
    }

    /// Closes it and removes its directory. An error if it was not read as it was written.
    pub(super) fn remove(self) -> std::result::Result<(), AnyError> {
        check_runs(self.set, &self.engine)?;
        self.engine.close()?;
        let dir = self.dir.clone();
        drop(self);
        Ok(fs::remove_dir_all(dir)?)
    }
}
