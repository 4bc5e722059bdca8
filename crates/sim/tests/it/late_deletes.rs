//! Deletes and snapshots that come while a compaction runs: after it has asked whether something
//! deletes versions of a row, and before its outputs are installed. What a snapshot shows never
//! changes, whichever way it is asked.
//!
//! No threads are needed. The compaction asks the rules of its tree about cells; the rules then let
//! the user do something.

use base::env::Rng;
use base::testing::block_on;
use engine::Options;
use engine::OwnedCell;
use engine::elision_policy::{ElisionPolicy, ElisionRules, Verdict};
use engine::internals::OwnedRow;
use engine::{
    Cell, Column, ColumnOf, Engine, FamilyId, RowEnd, RowRange, RowSelection, ScanRequest,
    Snapshot, Timestamp, TimestampRange, Tree, TreeId, TreeOptions, WriteBatch,
};
use engine::{Columns, Direction};
use sim::machine::Machine;
use sim::points::{Point, number, try_all, wanted};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);
const HISTORIES: u64 = 100;
const SNAPSHOTS_MAX: usize = 4;

/// Steps after which snapshots kept files.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Something that the user does in the midst of a compaction.
type Act = Box<dyn FnOnce() + Send>;

/// Keeps so many versions of a column. When a compaction has asked about so many cells, the user
/// acts.
#[derive(Clone, Default)]
struct Rules {
    versions: u32,
    act: Arc<Mutex<Option<(u64, Act)>>>,
}

impl ElisionRules for Rules {
    fn policy(&self, _: i64) -> Box<dyn ElisionPolicy> {
        Box::new(self.clone())
    }
}

impl ElisionPolicy for Rules {
    fn verdict(&self, _: FamilyId, version: u32, _: Timestamp) -> Verdict {
        let due = {
            let mut act = self.act.lock().unwrap();
            if let Some((left, _)) = &mut *act {
                *left = left.saturating_sub(1);
            }
            // Not when rules are asked what is worth a compaction, which is done under a lock.
            act.take_if(|(left, _)| *left == 0 && !base::sync::holds_any())
        };
        if let Some((_, act)) = due {
            act();
        }
        if version < self.versions { Verdict::Keep } else { Verdict::Elide }
    }
}

fn open(machine: &Machine, rules: &Rules) -> Engine {
    let (memory_bytes_max, cache_bytes_max) = (16 << 20, Some(1 << 20));
    let options = Options { memory_bytes_max, cache_bytes_max, ..Options::default() };
    let engine = Engine::open_with_env(machine.env(), Path::new("/data"), options).unwrap();
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    engine.tree(TREE).unwrap().set_elision_rules(Arc::new(rules.clone())).unwrap();
    engine
}

fn column(qualifier: &[u8]) -> Column<'_> {
    Column::of(FAMILY, qualifier)
}

/// One timestamp: a delete of it spares older cells.
fn at(time: i64) -> TimestampRange {
    TimestampRange { start: Timestamp(time), end: Some(Timestamp(time + 1)) }
}

fn write(engine: &Engine, change: impl FnOnce(&mut WriteBatch)) {
    let mut batch = WriteBatch::new();
    change(&mut batch);
    engine.tree(TREE).unwrap().write(&batch).unwrap();
}

fn owned(cell: &Cell<'_>) -> OwnedCell {
    let Cell { family, qualifier, timestamp, value } = *cell;
    OwnedCell { family, qualifier: qualifier.to_vec(), timestamp, value: value.to_vec() }
}

/// The rows from `a` to `e` with the newest `versions` of each column, by a scan.
fn scan(tree: &Tree, snapshot: &Snapshot, versions: u32, way: Direction) -> Vec<OwnedRow> {
    let rows = ScanRequest::rows(RowRange::ALL);
    let request = ScanRequest { versions_max: Some(versions), direction: way, ..rows };
    let mut scan = tree.scan(&request, Some(snapshot)).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = scan.next_row().unwrap().map(<[u8]>::to_vec) {
        let mut cells = Vec::new();
        while let Some(cell) = scan.next_cell().unwrap() {
            cells.push(owned(&cell));
        }
        rows.push((row, cells));
    }
    if way == Direction::Reverse {
        rows.reverse();
    }
    rows
}

/// What differs from `expected` at `snapshot`, asked in every way.
fn difference(
    tree: &Tree,
    snapshot: &Snapshot,
    versions: u32,
    expected: &[OwnedRow],
) -> Result<(), String> {
    let same = |how: &str, same: bool| if same { Ok(()) } else { Err(how.to_owned()) };
    for way in [Direction::Forward, Direction::Reverse] {
        same("a scan", scan(tree, snapshot, versions, way) == expected)?;
    }
    let names: Vec<[u8; 1]> = (b'a'..=b'e').map(|row| [row]).collect();
    let selection =
        RowSelection { versions_max: Some(versions), ..RowSelection::of(&Columns::All) };
    let mut newest = Vec::new();
    for (place, row) in names.iter().enumerate() {
        let known = expected.iter().find(|(name, _)| name == row);
        let known = known.map_or(&[][..], |(_, cells)| cells.as_slice());
        let mut found = Vec::new();
        tree.read_row_with(row, &selection, Some(snapshot), |cell| found.push(owned(cell)))
            .unwrap();
        same("a row read", found == known)?;
        found.clear();
        let next = names[place + 1..].iter().map(<[u8; 1]>::as_slice);
        let mut reads = tree.row_reads(Some(snapshot));
        let read = reads.read(row, next, &selection, |cell| {
            found.push(owned(cell));
            ControlFlow::Continue(())
        });
        let end = block_on(read).unwrap();
        same("a row read as a task", end == RowEnd::Waits || found == known)?;
        for qualifier in [b"p", b"q"] {
            let cell = known.iter().find(|cell| cell.qualifier == qualifier);
            let cell = cell.map(|cell| (cell.timestamp, cell.value.clone()));
            newest.push((ColumnOf { row, family: FAMILY, qualifier }, cell));
        }
    }
    let mut gets = tree.in_flight(3, Some(snapshot));
    for (tag, (of, cell)) in (0..).zip(&newest) {
        same("a get", tree.get(*of, Some(snapshot)).unwrap() == *cell)?;
        gets.submit(tag, *of);
    }
    while let Some((tag, found)) = gets.wait() {
        same("a get in flight", found.unwrap() == newest[tag as usize].1)?;
    }
    let columns: Vec<ColumnOf<'_>> = newest.iter().map(|(of, _)| *of).collect();
    let mut alike = true;
    let all = tree.multi_get_with(&columns, Some(snapshot), |place, found| {
        alike &= found.map(|(time, value)| (time, value.to_vec())) == newest[place].1;
    });
    all.unwrap();
    same("a multi-get", alike)
}

/// A snapshot, and what it showed when it was taken.
struct Seen {
    snapshot: Snapshot,
    rows: Vec<OwnedRow>,
}

impl Seen {
    fn now(engine: &Engine, versions: u32) -> Self {
        let snapshot = engine.snapshot();
        let rows = scan(&engine.tree(TREE).unwrap(), &snapshot, versions, Direction::Forward);
        Self { snapshot, rows }
    }

    fn check(&self, engine: &Engine, versions: u32) -> Result<(), String> {
        difference(&engine.tree(TREE).unwrap(), &self.snapshot, versions, &self.rows)
    }
}

/// Two versions of two columns, of which the rules want one, and the store after a compaction in
/// whose midst the newer version of one column is deleted and a snapshot is taken.
fn compacted_while_deleted(engine: &Engine, rules: &Rules) -> Seen {
    write(engine, |batch| {
        for time in [1, 2] {
            batch.put(b"a", column(b"q"), Timestamp(time), b"value");
            batch.put(b"c", column(b"q"), Timestamp(time), b"value");
        }
    });
    engine.tree(TREE).unwrap().flush().unwrap();
    let seen = Arc::new(Mutex::new(None));
    let (user, sees) = (engine.clone(), Arc::clone(&seen));
    let act = move || {
        write(&user, |batch| batch.delete(b"a", column(b"q"), at(2)));
        *sees.lock().unwrap() = Some(Seen::now(&user, 1));
    };
    // The fourth question is about row "c": row "a" is decided.
    *rules.act.lock().unwrap() = Some((4, Box::new(act)));
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    let seen = seen.lock().unwrap().take();
    let seen = seen.expect("the compaction asked about row c");
    assert_eq!(seen.rows[0].1[0].timestamp, Timestamp(1), "the older version is back");
    seen
}

fn obsolete_ssts(engine: &Engine) -> u64 {
    engine.metrics().get("obsolete_ssts").expect("it is counted")
}

#[test]
fn a_snapshot_with_a_delete_amid_a_compaction_keeps_the_cell_that_it_brings_back() {
    let rules = Rules { versions: 1, ..Rules::default() };
    let engine = open(&Machine::new(1), &rules);
    let Seen { snapshot, rows } = compacted_while_deleted(&engine, &rules);
    let seen = Seen { snapshot: snapshot.clone(), rows };
    seen.check(&engine, 1).unwrap();
    // A later snapshot never saw the cell, also if it is of the same number.
    let tree = engine.tree(TREE).unwrap();
    write(&engine, |batch| batch.put(b"b", column(b"q"), Timestamp(1), b"value"));
    assert_eq!(Seen::now(&engine, 1).rows[0].0, b"b");
    // What comes after does not matter: flushes, compactions, the first of two handles dropped.
    engine.tree(TREE).unwrap().flush().unwrap();
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    drop(snapshot);
    seen.check(&engine, 1).unwrap();
    // Its files go with it.
    assert_eq!(obsolete_ssts(&engine), 1);
    drop((seen, tree));
    assert_eq!(obsolete_ssts(&engine), 0);
}

#[test]
fn a_tree_that_is_dropped_is_kept_by_no_snapshot() {
    let rules = Rules { versions: 1, ..Rules::default() };
    let engine = open(&Machine::new(2), &rules);
    let seen = compacted_while_deleted(&engine, &rules);
    assert_eq!(obsolete_ssts(&engine), 1);
    engine.drop_tree(TREE).unwrap();
    assert_eq!(obsolete_ssts(&engine), 0);
    drop(seen);
}

/// A batch of puts, and of deletes most of which spare older cells.
fn change(rng: &mut Rng, batch: &mut WriteBatch) {
    for _ in 0..1 + rng.below(6) {
        let row = [b'a' + rng.below(5) as u8];
        let qualifier = rng.pick(&[b"p", b"q"]);
        let time = rng.below(5) as i64;
        match rng.below(12) {
            0..=3 => batch.delete(&row, column(*qualifier), at(time)),
            4 => {
                let since = TimestampRange { start: Timestamp(time), end: None };
                batch.delete(&row, Column::family(FAMILY), since);
            }
            5 => batch.delete(&row, column(*qualifier), TimestampRange::ALL),
            6 if rng.chance(30) => batch.delete_row(&row),
            7 if rng.chance(30) => batch.drop_row_range(&row, None),
            _ => batch.put(&row, column(*qualifier), Timestamp(time), &[rng.below(200) as u8]),
        }
    }
    if batch.is_empty() {
        batch.delete_row(b"nobody");
    }
}

/// Deletes the newer versions of a few columns.
fn delete_newer(rng: &mut Rng, batch: &mut WriteBatch) {
    for _ in 0..3 {
        let row = [b'a' + rng.below(3) as u8];
        let since = TimestampRange { start: Timestamp(1 + rng.below(4) as i64), end: None };
        batch.delete(&row, column(*rng.pick(&[b"p", b"q"])), since);
    }
}

/// Lets the user write and take snapshots in the midst of the compaction of all rows.
fn compact(engine: &Engine, rules: &Rules, seen: &Arc<Mutex<Vec<Seen>>>, rng: &mut Rng) {
    let (user, sees, versions) = (engine.clone(), Arc::clone(seen), rules.versions);
    if rng.chance(70) {
        // Only what all snapshots see can be garbage.
        seen.lock().unwrap().clear();
    }
    let (cells, seed) = (1 + rng.below(30), rng.next_u64());
    let act = move || {
        let mut rng = Rng::new(seed);
        write(&user, |batch| delete_newer(&mut rng, batch));
        sees.lock().unwrap().push(Seen::now(&user, versions));
        write(&user, |batch| change(&mut rng, batch));
        sees.lock().unwrap().push(Seen::now(&user, versions));
    };
    *rules.act.lock().unwrap() = Some((cells, Box::new(act)));
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    *rules.act.lock().unwrap() = None;
}

fn history(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed ^ 0xde1e7e);
    let rules = Rules { versions: 1 + rng.below(2) as u32, ..Rules::default() };
    let engine = open(&Machine::new(seed), &rules);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for step in 0..40 {
        match rng.below(12) {
            0 => seen.lock().unwrap().push(Seen::now(&engine, rules.versions)),
            1 | 2 => seen.lock().unwrap().clear(),
            3 => engine.tree(TREE).unwrap().flush().unwrap(),
            4 | 5 => compact(&engine, &rules, &seen, &mut rng),
            _ => {
                write(&engine, |batch| change(&mut rng, batch));
                continue;
            }
        }
        let mut seen = seen.lock().unwrap();
        while seen.len() > SNAPSHOTS_MAX {
            seen.swap_remove(rng.index(SNAPSHOTS_MAX));
        }
        for seen in seen.iter() {
            let checked = seen.check(&engine, rules.versions);
            let number = seen.snapshot.sequence().0;
            checked.map_err(|how| format!("step {step}, at {number}: {how}"))?;
        }
        KEPT.fetch_add(u64::from(obsolete_ssts(&engine) > 0), Ordering::Relaxed);
    }
    Ok(())
}

#[test]
fn what_a_snapshot_shows_does_not_change_whatever_comes_amid_compactions() {
    let histories = number("STELE_HISTORIES").unwrap_or(HISTORIES);
    let points: Vec<Point> = (0..histories).map(|seed| Point { seed, at: 0 }).collect();
    try_all("--test it late_deletes", &points, |Point { seed, .. }| history(seed));
    let few = wanted().is_some() || histories < HISTORIES;
    assert!(few || KEPT.load(Ordering::Relaxed) > 0, "nothing was ever kept");
}
