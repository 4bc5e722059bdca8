//! Stele's engine: one tree, read through its lending APIs. A key is a row with one unnamed
//! column, as in the engine's own key-value API.

use crate::data::{Cell as Given, Model, QUALIFIERS};
use crate::engines::{
    BenchEngine, DiskReads, Entry, InFlight, Merging, Part, Reader, Result, Setup, Sizes, Written,
};
use crate::source::Source;
use crate::touched::Touched;
use engine::{
    Cell, Column, ColumnOf, Columns, Compression, Durability, Engine, FamilyId, FilterGranularity,
    IngestOptions, Options, QualifierRange, RowRange, RowSelection, Scan, ScanRequest, Timestamp,
    Tree, TreeId, TreeOptions, WriteBatch,
};
use hdrhistogram::Histogram;
use std::path::Path;
use std::time::Instant;

/// See [`Entry`].
pub(crate) const ENTRY: Entry = Entry { name: "stele", configurations, open };

const TREE: TreeId = TreeId(1);
/// Two threads share the gets in flight; else one has them all.
const TWO_THREADS: &str = "-2-threads";
/// Bytes of a block of which the reads that a device makes of it are mostly one page.
const BLOCK_IN_A_PAGE: u32 = 3500;
const BACKGROUND_THREADS: usize = 2;
/// More runs than any workload makes.
const RUNS_UNMERGED: usize = 64;

fn configurations(setup: &Setup) -> std::result::Result<Vec<&'static str>, &'static str> {
    let mut all = vec!["4k", "16k"];
    if setup.disk_bound {
        all.extend(["4k-2-threads", "page", "page-2-threads"]);
    }
    Ok(all)
}

fn open(dir: &Path, setup: &Setup, configuration: &str) -> Result<Box<dyn BenchEngine>> {
    let mut options = Options {
        durability: Durability::None,
        memory_bytes_max: setup.cache_bytes + 4 * setup.memtable_bytes,
        cache_bytes_max: Some(setup.cache_bytes),
        memtable_bytes_max: setup.memtable_bytes,
        direct_reads: setup.disk_bound,
        background_threads: BACKGROUND_THREADS,
        ..Options::default()
    };
    if setup.merging == Merging::Never {
        options.l0_runs_compact = RUNS_UNMERGED;
        options.l0_runs_stall = 2 * RUNS_UNMERGED;
    }
    if let Sizes::Parts(parts) = setup.sizes {
        options.sst_bytes_max /= parts;
        options.l1_bytes_max /= parts;
    }
    let tree_options = TreeOptions {
        block_bytes: block_bytes(configuration),
        compression: Compression::None,
        compression_last: Compression::None,
        filter_granularity: Some(match setup.model {
            Model::Keys | Model::Versions => FilterGranularity::Row,
            Model::Columns => FilterGranularity::Column,
        }),
        ..TreeOptions::default()
    };
    let engine = Engine::open(dir, options.clone())?;
    if setup.merging == Merging::Never {
        // Else reads of a tree that nobody writes would have its runs merged.
        engine.pause_compactions();
    }
    let tree = engine.tree_or_create(TREE, tree_options.clone())?;
    let options = format!("{options:?} {tree_options:?}");
    let threads = if configuration.ends_with(TWO_THREADS) { 2 } else { 1 };
    Ok(Box::new(Stele { engine, tree, options, model: setup.model, threads }))
}

struct Stele {
    engine: Engine,
    tree: Tree,
    options: String,
    model: Model,
    /// Threads that share the gets in flight.
    threads: usize,
}

fn block_bytes(configuration: &str) -> u32 {
    match configuration.split('-').next() {
        Some("4k") => 4 << 10,
        Some("page") => BLOCK_IN_A_PAGE,
        _ => 16 << 10,
    }
}

/// Family 0 is not a valid id.
fn family(number: u8) -> FamilyId {
    FamilyId(u16::from(number) + 1)
}

impl BenchEngine for Stele {
    fn options(&self) -> String {
        self.options.clone()
    }

    fn write(&self, cells: &[Given<'_>]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for cell in cells {
            let column = Column::of(family(cell.family), cell.qualifier);
            let timestamp = Timestamp(cell.timestamp.cast_signed());
            match cell.value {
                Some(value) => batch.put(cell.row, column, timestamp, value),
                None => batch.delete_row(cell.row),
            }
        }
        self.tree.write(&batch)?;
        Ok(())
    }

    fn bulk_load(&self, source: &mut Source<'_>) -> Result<()> {
        let mut writer = self.tree.sst_writer(&IngestOptions::default())?;
        while let Some(cells) = source.next_chunk() {
            for cell in &cells {
                let column = Column::of(family(cell.family), cell.qualifier);
                let timestamp = Timestamp(cell.timestamp.cast_signed());
                writer.put(cell.row, column, timestamp, cell.value.unwrap_or_default())?;
            }
        }
        self.engine.ingest(&mut writer.finish()?)?;
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(self.tree.flush()?)
    }

    fn in_flight(&self) -> InFlight {
        InFlight::Queues(self.threads)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(SteleReader { tree: self.tree.clone(), model: self.model, seeking: None }))
    }

    fn disk_reads(&self) -> Option<DiskReads> {
        let reads = self.engine.metrics().get("cache_misses_total")?;
        Some(DiskReads { reads, bytes: None })
    }

    fn written(&self) -> Option<Written> {
        let metrics = self.engine.metrics();
        Some(Written {
            flushed: metrics.get("flushed_bytes_total")?,
            compacted: metrics.get("compacted_bytes_total")?,
            runs: metrics.get("level_runs")?,
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.engine.close()?)
    }
}

struct SteleReader {
    tree: Tree,
    model: Model,
    /// The scan that every seek uses again.
    seeking: Option<Scan>,
}

impl SteleReader {
    fn touch_column(&self, of: ColumnOf<'_>, touched: &mut Touched) -> Result<()> {
        if self.tree.get_with(of, None, |_, value| touched.value(value))?.is_none() {
            touched.missing();
        }
        Ok(())
    }
}

/// Every row, its newest cells only.
fn rows() -> ScanRequest {
    ScanRequest { versions_max: Some(1), ..ScanRequest::rows(RowRange::ALL) }
}

/// Touches the next `count` rows, each of one cell.
fn touch_rows(scan: &mut Scan, count: usize, touched: &mut Touched) -> Result<()> {
    for _ in 0..count {
        let Some((row, cell)) = scan.next_row_and_cell()? else { break };
        touched.entry(row, cell.value);
    }
    Ok(())
}

/// The one column of a key.
fn column_of(row: &[u8]) -> ColumnOf<'_> {
    ColumnOf { row, family: family(0), qualifier: b"" }
}

impl Reader for SteleReader {
    fn get(&mut self, key: &[u8], touched: &mut Touched) -> Result<()> {
        self.touch_column(column_of(key), touched)
    }

    fn multi_get(&mut self, keys: &[&[u8]], touched: &mut Touched) -> Result<()> {
        let wanted: Vec<ColumnOf<'_>> = keys.iter().map(|key| column_of(key)).collect();
        Ok(self.tree.multi_get_with(&wanted, None, |_, cell| match cell {
            Some((_, value)) => touched.value(value),
            None => touched.missing(),
        })?)
    }

    fn get_queued(
        &mut self,
        keys: &[&[u8]],
        depth: usize,
        touched: &mut Touched,
        each: &mut Histogram<u64>,
    ) -> Result<()> {
        let mut gets = self.tree.in_flight(depth, None);
        let mut started = vec![Instant::now(); keys.len()];
        let mut next = 0;
        loop {
            while next < keys.len() && gets.in_flight() < depth {
                started[next] = Instant::now();
                gets.submit(next as u64, column_of(keys[next]));
                next += 1;
            }
            let Some((tag, answer)) = gets.wait() else { return Ok(()) };
            each.saturating_record(started[tag as usize].elapsed().as_nanos() as u64);
            match answer? {
                Some((_, value)) => touched.value(&value),
                None => touched.missing(),
            }
        }
    }

    fn seek(&mut self, key: &[u8], count: usize, touched: &mut Touched) -> Result<()> {
        let mut scan = match self.seeking.take() {
            Some(scan) => scan,
            None => self.tree.scan(&rows(), None)?,
        };
        scan.seek(key);
        touch_rows(&mut scan, count, touched)?;
        self.seeking = Some(scan);
        Ok(())
    }

    fn scan(&mut self, touched: &mut Touched) -> Result<()> {
        let mut scan = self.tree.scan(&rows(), None)?;
        if self.model != Model::Columns {
            return touch_rows(&mut scan, usize::MAX, touched);
        }
        let mut key = Vec::new();
        while let Some(row) = scan.next_row()? {
            key.clear();
            key.extend_from_slice(row);
            while let Some(cell) = scan.next_cell()? {
                touched.entry(&key, cell.value);
            }
        }
        Ok(())
    }

    fn row(&mut self, row: &[u8], part: Part, touched: &mut Touched) -> Result<()> {
        let columns = match part {
            Part::Column(number, column) => {
                let qualifier = QUALIFIERS[usize::from(column)];
                let of = ColumnOf { row, family: family(number), qualifier };
                return self.touch_column(of, touched);
            }
            Part::Family(number) => Columns::Ranges(vec![QualifierRange::family(family(number))]),
            Part::Row => Columns::All,
        };
        let selection = RowSelection { versions_max: Some(1), ..RowSelection::of(&columns) };
        let touch = |cell: &Cell<'_>| touched.entry(cell.qualifier, cell.value);
        if self.tree.read_row_with(row, &selection, None, touch)? == 0 {
            touched.missing();
        }
        Ok(())
    }
}
