//! The LSM tree of a tablet, level by level, with the compactions that run in it; or that of a table of SQL.

use super::super::Console;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::params::Params;
use super::super::request::shown::{Allowance, Shown};
use super::super::request::work::{answer, within};
use super::of_store;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use engine::{Engine, RowRange, RunFiles, RunningCompaction, SstFile, TreeFiles, TreeId};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use table::{Error, Store, TableSchema};
use tonic::Code;

/// Tablets and files of one answer.
const TABLETS_MAX: usize = 500;
const FILES_MAX: usize = 2_000;
/// Bytes of all row keys of an answer, and of one.
pub(super) const KEYS_BYTES_MAX: usize = 1 << 20;
const KEY_BYTES_MAX: usize = 256;

/// A file of a run.
#[derive(Debug, Serialize)]
struct File {
    number: u64,
    bytes: u64,
    entries: u64,
    tombstones: u64,
    first: Shown,
    last: Shown,
    /// True while a compaction reads it.
    compacting: bool,
}

/// A sorted run. Its sums are of all files, listed or not.
#[derive(Debug, Serialize)]
struct Run {
    level: usize,
    files: usize,
    bytes: u64,
    entries: u64,
    listed: Vec<File>,
}

/// A compaction that runs in the tree.
#[derive(Debug, Serialize)]
struct CompactionView {
    reason: &'static str,
    to_level: usize,
    files: usize,
    bytes: u64,
    bytes_written: u64,
    seconds: u64,
}

/// A tree, or the files of it that have keys of a range. Memtables and compactions are of the whole tree.
#[derive(Debug, Serialize)]
pub(super) struct Drawn {
    active_bytes: u64,
    frozen_bytes: Vec<u64>,
    runs: Vec<Run>,
    compactions: Vec<CompactionView>,
    paused: bool,
}

/// The tree of a tablet.
#[derive(Debug, Serialize)]
struct TreeView {
    tablet: usize,
    /// First keys of the first tablets.
    tablets: Vec<Shown>,
    tablet_count: usize,
    #[serde(flatten)]
    drawn: Drawn,
}

/// Answers with the tree of the tablet of a number, the first one that is here unless the request says another, of the table
/// `name`. The keys of its files are keys of rows, so the visitor must be one who may sample them.
pub(in super::super) async fn tree(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["name", "tablet"])?;
    let name = params.required("name")?;
    let wanted = params.number("tablet", u64::from(u32::MAX))?;
    let table = bigtable::table_name("name", name).map_err(of_store)?;
    visitor.needs("stele.compactions.get")?;
    visitor.needs_on("bigtable.tables.sampleRowKeys", name)?;
    let store = console.server.store().ok_or_else(Failure::opening)?;
    let place = console.reads.take()?;
    let schema = within(async { store.get_table(&table).await.map_err(of_store) }).await?;
    let engine = console.server.engine().ok_or_else(Failure::opening)?.clone();
    let tablet = match wanted {
        Some(wanted) => wanted as usize,
        None => first_here(&schema, |tree| engine.tree(tree).is_ok()),
    };
    let Some(id) = schema.tablets.get(tablet).map(|tablet| tablet.tree) else {
        let last = schema.tablets.len() - 1;
        return Err(Failure::parameter("tablet", format!("must be a number from 0 to {last}")));
    };
    let told = move || {
        told(&engine, id, tablet, &schema).map_err(|error| match error {
            engine::Error::UnknownTree(_) => elsewhere(tablet),
            error => of_store(Error::from(error)),
        })
    };
    answer(place, told).await
}

/// Returns the number of the first tablet that has its tree here; 0 if other nodes of the cluster have all of them.
fn first_here(schema: &TableSchema, is_here: impl Fn(TreeId) -> bool) -> usize {
    schema.tablets.iter().position(|tablet| is_here(tablet.tree)).unwrap_or(0)
}

fn elsewhere(tablet: usize) -> Failure {
    let text = format!(
        "this server has no replica of tablet {tablet}; ask a node of the cluster that has one, or another tablet"
    );
    Failure::new(Code::FailedPrecondition, text)
}

fn told(
    engine: &Engine,
    id: TreeId,
    tablet: usize,
    schema: &TableSchema,
) -> engine::Result<TreeView> {
    let mut left = Allowance::of(KEYS_BYTES_MAX);
    let tablets = schema.tablets.iter().take(TABLETS_MAX);
    let tablets =
        tablets.map(|tablet| left.show(&tablet.start, tablet.start.len(), KEY_BYTES_MAX)).collect();
    let drawn = drawn(engine, id, &RowRange::ALL, &mut left)?;
    Ok(TreeView { tablet, tablets, tablet_count: schema.tablets.len(), drawn })
}

/// Returns the files of a tree that may have keys of a range. Blocks.
pub(super) fn drawn(
    engine: &Engine,
    id: TreeId,
    rows: &RowRange,
    left: &mut Allowance,
) -> engine::Result<Drawn> {
    let mut files = engine.tree(id)?.files()?;
    for run in &mut files.runs {
        run.ssts.retain(|sst| has_part_of(sst, rows));
    }
    files.runs.retain(|run| !run.ssts.is_empty());
    let mut running = engine.compactions();
    running.retain(|one| one.tree == id);
    let runs = runs(&files, &running, left);
    Ok(Drawn {
        active_bytes: files.active_bytes,
        frozen_bytes: files.frozen_bytes,
        runs,
        compactions: running.iter().map(compaction).collect(),
        paused: engine.compactions_paused(),
    })
}

/// Returns whether the keys of a file reach into a range.
fn has_part_of(sst: &SstFile, rows: &RowRange) -> bool {
    let begins_before_its_end = rows.end.as_ref().is_none_or(|end| sst.first_row < *end);
    begins_before_its_end && sst.last_row >= rows.start
}

/// Returns the runs, with as many files as an answer may list: the newest runs first.
fn runs(files: &TreeFiles, running: &[RunningCompaction], left: &mut Allowance) -> Vec<Run> {
    let compacting: BTreeSet<u64> =
        running.iter().flat_map(|one| one.inputs.iter().copied()).collect();
    let mut room = FILES_MAX;
    let mut run = |run: &RunFiles| {
        let listed = run.ssts.iter().take(room).map(|sst| File {
            number: sst.number,
            bytes: sst.bytes,
            entries: sst.entries,
            tombstones: sst.tombstones,
            first: left.show(&sst.first_row, sst.first_row.len(), KEY_BYTES_MAX),
            last: left.show(&sst.last_row, sst.last_row.len(), KEY_BYTES_MAX),
            compacting: compacting.contains(&sst.number),
        });
        let listed: Vec<_> = listed.collect();
        room -= listed.len();
        Run {
            level: run.level,
            files: run.ssts.len(),
            bytes: run.ssts.iter().map(|sst| sst.bytes).sum(),
            entries: run.ssts.iter().map(|sst| sst.entries).sum(),
            listed,
        }
    };
    files.runs.iter().map(&mut run).collect()
}

fn compaction(one: &RunningCompaction) -> CompactionView {
    CompactionView {
        reason: super::super::super::admin::reason(one.reason),
        to_level: one.level,
        files: one.ssts,
        bytes: one.bytes_total,
        bytes_written: one.bytes_written,
        seconds: one.running_for.as_secs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::CompactionReason;
    use std::time::Duration;

    #[test]
    fn the_tablet_that_is_drawn_first_is_one_that_is_here() {
        let tablet =
            |tree| table::schema::Tablet { start: table::Bytes::new(), tree: TreeId(tree) };
        let schema = TableSchema {
            name: table::TableName::new("projects/p/instances/i/tables/t").unwrap(),
            families: std::collections::BTreeMap::new(),
            next_family: 1,
            tablets: vec![tablet(16), tablet(17), tablet(18)],
            deletion_protection: false,
            created_micros: 0,
            granularity: table::Granularity::Millis,
            row_key_schema: None,
        };
        assert_eq!(first_here(&schema, |_| true), 0);
        assert_eq!(first_here(&schema, |tree| tree >= TreeId(17)), 1);
        assert_eq!(first_here(&schema, |_| false), 0);
        assert!(elsewhere(2).message.contains("no replica of tablet 2"));
    }

    #[test]
    fn files_that_have_keys_of_the_range_are_drawn() {
        let rows = |start: &str, end: Option<&str>| RowRange {
            start: Vec::from(start),
            end: end.map(Vec::from),
        };
        let sst =
            SstFile { first_row: Vec::from("c"), last_row: Vec::from("e"), ..SstFile::default() };
        for (start, end, want) in [
            ("", None, true),
            ("e", None, true),
            ("f", None, false),
            ("", Some("c"), false),
            ("", Some("ca"), true),
            ("d", Some("da"), true),
            ("ea", Some("f"), false),
        ] {
            assert_eq!(has_part_of(&sst, &rows(start, end)), want, "{start} {end:?}");
        }
    }

    #[test]
    fn files_beyond_the_bound_are_summed_and_not_listed() {
        let sst = |number| SstFile { number, bytes: 10, entries: 2, ..SstFile::default() };
        let files = TreeFiles {
            runs: vec![
                RunFiles { level: 0, ssts: (0..1_500).map(sst).collect() },
                RunFiles { level: 2, ssts: (1_500..3_000).map(sst).collect() },
            ],
            ..TreeFiles::default()
        };
        let running = [RunningCompaction {
            tree: TreeId(1),
            reason: CompactionReason::Shape,
            bytes_total: 20,
            bytes_written: 0,
            ssts: 2,
            inputs: vec![3, 1_500],
            level: 2,
            running_for: Duration::ZERO,
        }];
        let runs = runs(&files, &running, &mut Allowance::of(100));
        let told: Vec<_> =
            runs.iter().map(|run| (run.files, run.bytes, run.listed.len())).collect();
        assert_eq!(told, [(1_500, 15_000, 1_500), (1_500, 15_000, 500)]);
        assert!(runs[0].listed[3].compacting && runs[1].listed[0].compacting);
        assert!(!runs[0].listed[4].compacting);
    }
}
