//! Reads with random filters, GC rules and row sets against the reference evaluator. Batches are
//! a few cells long here, so that every way of cutting a read is taken.

use super::super::read::Reader;
use super::super::*;
use crate::filter::reference::{RefCell, filter_row};
use crate::filter::{ColumnRange, Condition, RowFilter, ValueRange};
use crate::gc::GcRule;
use crate::mutate::{RowMutation, WriteTime};
use crate::row::{RowBatch, RowPiece};
use crate::row_output::Pieces;
use crate::row_set::{KeyRange, RowSet};
use crate::schema::FamilySpec;
use crate::shape::Shape;
use crate::subset::{Qualifiers, Subset};
use base::env::Env;
use base::testing::block_on;
use engine::{Direction, Durability, Options, RowRange, ScanRequest, Timestamp, TimestampRange};
use proptest::prelude::*;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock whose date stands still, and on which each look takes some milliseconds.
pub(super) struct LookedAt {
    date_micros: i64,
    looks: AtomicU64,
}

impl LookedAt {
    pub(super) fn at(date_micros: i64) -> Self {
        Self { date_micros, looks: AtomicU64::new(0) }
    }
}

impl Clock for LookedAt {
    fn now_micros(&self) -> i64 {
        self.date_micros
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(7 * self.looks.fetch_add(1, Ordering::Relaxed))
    }

    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

/// Family `old` loses cells older than timestamp 3000.
const NOW: i64 = 13_000;
const FAMILIES: [&str; 4] = ["all", "two", "old", "gone"];

fn rule(family: &str) -> GcRule {
    match family {
        "two" => GcRule::MaxVersions(2),
        "old" => GcRule::MaxAge(Duration::from_millis(10)),
        _ => GcRule::KeepAll,
    }
}

type Written = (Bytes, usize, Bytes, i64, Bytes);

/// Batches are cut every few cells.
const SHAPE: Shape = Shape {
    batch_bytes: 60,
    batch_steps: 5,
    task_steps: 5,
    task_bytes: 20,
    held_bytes: 50,
    task_copies: 2,
    ..Shape::DEFAULT
};

/// A store with `cells`, split at `b`, whose family `gone` is dropped after writing.
fn store(cells: &[Written]) -> (Local, TableName, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::None, ..Options::default() };
    let clock = Arc::new(LookedAt::at(NOW));
    let env = Env { clock: clock.clone(), ..Env::real(1) };
    let engine = Engine::open_with_env(env, dir.path(), options).unwrap();
    let local = Local::open_shaped(engine, clock, SHAPE).unwrap();
    let name = TableName::new("p/t").unwrap();
    let spec = |family: &&str| {
        let spec = FamilySpec { gc: rule(family), ..FamilySpec::default() };
        (family.to_string(), spec)
    };
    let table = CreateTable {
        name: name.clone(),
        families: FAMILIES.iter().map(spec).collect(),
        splits: vec!["b".into()],
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    local.core.create_table(table).unwrap();
    let rows: Vec<RowMutations> = cells
        .iter()
        .map(|(row, family, qualifier, timestamp, value)| RowMutations {
            row: row.clone(),
            mutations: vec![RowMutation::SetCell {
                family: FAMILIES[*family].into(),
                qualifier: qualifier.clone(),
                timestamp: WriteTime::At(Timestamp(*timestamp)),
                value: value.clone(),
            }],
        })
        .collect();
    let written = block_on(local.mutate_rows(&name, rows)).unwrap();
    written.into_iter().for_each(|result| result.unwrap());
    let drop = FamilyChange::Drop { name: "gone".into() };
    local.core.modify_families(&name, vec![drop]).unwrap();
    (local, name, dir)
}

/// The rows that GC rules leave of `cells`, in order.
fn visible(cells: &[Written]) -> BTreeMap<Bytes, Vec<RefCell>> {
    let mut sorted = BTreeMap::new();
    for (row, family, qualifier, timestamp, value) in cells {
        let key = (row.clone(), *family, qualifier.clone(), -timestamp);
        sorted.insert(key, value.clone());
    }
    let mut rows: BTreeMap<Bytes, Vec<RefCell>> = BTreeMap::new();
    let mut column = None;
    let mut version = 0;
    for ((row, family, qualifier, timestamp), value) in sorted {
        let this = Some((row.clone(), family, qualifier.clone()));
        version = if column == this { version + 1 } else { 0 };
        column = this;
        let (name, timestamp) = (FAMILIES[family], -timestamp);
        let hidden = name == "gone"
            || name == "two" && version >= 2
            || name == "old" && timestamp < NOW - 10_000;
        if !hidden {
            let cells = rows.entry(row).or_default();
            let (at, family) = (cells.len(), name.to_owned());
            cells.push(RefCell { at, family, qualifier, timestamp, value, label: None });
        }
    }
    rows
}

type Batches = Vec<RowBatch<Vec<RowPiece>>>;

/// All batches of a read by scans.
fn read(local: &Local, name: &TableName, request: &ReadRows) -> Result<Batches> {
    let table = local.core.table(name)?;
    let plan = Arc::new(Plan::compile(request.filter.as_ref(), &table.schema, &local.core.shape)?);
    let ranges = request.rows.normalize()?;
    let (direction, limit) = (request.direction, request.rows_limit);
    let mut reader = Reader::new(&local.core, table, plan, &ranges, direction, limit);
    let (mut batches, mut output) = (Vec::new(), Pieces::default());
    loop {
        let filled = reader.fill(&mut output)?;
        batches.extend(filled.batch);
        if filled.done {
            return Ok(batches);
        }
    }
}

/// All batches of a read as clients get them: named rows are read in the task.
async fn stream(local: &Local, name: &TableName, request: ReadRows) -> Result<Batches> {
    let mut stream = local.read_rows(name, request, Pieces::default()).await?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next_batch().await {
        batches.push(batch?);
    }
    Ok(batches)
}

/// The rows of a read, and a check that its pieces come in a legal order.
fn rows_of(batches: Batches, direction: Direction) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let (mut open, mut last): (bool, Option<Bytes>) = (false, None);
    let stats = batches.last().unwrap().stats;
    for piece in batches.into_iter().flat_map(|batch| batch.rows) {
        if let RowPiece::Start(key) | RowPiece::Scanned(key) = &piece {
            assert!(!open);
            let ahead = last.as_ref().is_none_or(|last| match direction {
                Direction::Forward => last < key,
                Direction::Reverse => last > key,
            });
            assert!(ahead, "{key:?} after {last:?}");
            last = Some(key.clone());
        }
        match piece {
            RowPiece::Start(key) => {
                open = true;
                rows.push(Row { key, cells: Vec::new() });
            }
            RowPiece::Cell(cell) => {
                assert!(open);
                rows.last_mut().unwrap().cells.push(cell);
            }
            RowPiece::End => {
                assert!(open && !rows.last().unwrap().cells.is_empty());
                open = false;
            }
            RowPiece::Scanned(_) => {}
        }
    }
    assert!(!open);
    assert_eq!(stats.rows_returned, rows.len() as u64);
    assert_eq!(stats.cells_returned, rows.iter().map(|row| row.cells.len() as u64).sum::<u64>());
    rows
}

fn text(choices: &'static [&'static str]) -> impl Strategy<Value = Bytes> {
    proptest::sample::select(choices).prop_map(Bytes::from)
}

const KEYS: &[&str] = &["a", "ab", "b\n", "c"];
const QUALIFIERS: &[&str] = &["", "a", "ab", "b\n"];
const VALUES: &[&str] = &["", "x", "xy", "y", "x\n"];
const PATTERNS: &[&str] = &[
    "", "a", "a.*", "a\\C*", "b", ".*", "\\C*", "a|b", "a|ab|c", "[^a]+", "x?", "xy|\\C", "b\\n?",
    "(a|b)b*", "a.", "x\\C*",
];

fn written() -> impl Strategy<Value = Vec<Written>> {
    let cell = (text(KEYS), 0..4usize, text(QUALIFIERS), 0i64..6, text(VALUES))
        .prop_map(|(row, family, qualifier, ts, value)| (row, family, qualifier, ts * 1000, value));
    proptest::collection::vec(cell, 0..150)
}

fn bound(choices: &'static [&'static str]) -> impl Strategy<Value = Bound<Bytes>> {
    prop_oneof![
        text(choices).prop_map(Bound::Included),
        text(choices).prop_map(Bound::Excluded),
        Just(Bound::Unbounded)
    ]
}

fn timestamps() -> impl Strategy<Value = TimestampRange> {
    (0i64..6, proptest::option::of(0i64..7)).prop_map(|(start, end)| TimestampRange {
        start: Timestamp(start * 1000),
        end: end.map(|end| Timestamp(end.max(start) * 1000)),
    })
}

fn leaf() -> impl Strategy<Value = RowFilter> {
    let families = proptest::sample::select(&["all", "two", "old", ".*", "two|old", "no", "gone"]);
    prop_oneof![
        1 => Just(RowFilter::PassAll),
        1 => Just(RowFilter::BlockAll),
        1 => text(PATTERNS).prop_map(RowFilter::RowKeyRegex),
        2 => families.prop_map(|name| RowFilter::FamilyNameRegex(name.to_string())),
        2 => text(PATTERNS).prop_map(RowFilter::ColumnQualifierRegex),
        1 => (0..4usize, bound(QUALIFIERS), bound(QUALIFIERS)).prop_map(|(family, start, end)| {
            RowFilter::ColumnRange(ColumnRange { family: FAMILIES[family].into(), start, end })
        }),
        4 => timestamps().prop_map(RowFilter::TimestampRange),
        2 => text(PATTERNS).prop_map(RowFilter::ValueRegex),
        1 => (bound(VALUES), bound(VALUES))
            .prop_map(|(start, end)| RowFilter::ValueRange(ValueRange { start, end })),
        2 => (0i32..4).prop_map(RowFilter::CellsPerRowOffset),
        3 => (1i32..6).prop_map(RowFilter::CellsPerRowLimit),
        4 => (1i32..3).prop_map(RowFilter::CellsPerColumnLimit),
        1 => Just(RowFilter::StripValue),
        1 => proptest::sample::select(&["l1", "l2"])
            .prop_map(|label| RowFilter::ApplyLabel(label.to_string())),
    ]
}

fn some(filters: impl Strategy<Value = RowFilter>) -> impl Strategy<Value = Vec<RowFilter>> {
    proptest::collection::vec(filters, 2..4)
}

/// Conditions of shallow parts, so that both branches and what follows them matter; some parts are
/// conditions themselves.
fn condition() -> impl Strategy<Value = RowFilter> {
    let flat = || prop_oneof![leaf(), some(leaf()).prop_map(RowFilter::Chain)];
    let inner = condition_of(flat().boxed()).boxed();
    condition_of(prop_oneof![4 => flat(), 1 => inner].boxed())
}

fn condition_of(part: BoxedStrategy<RowFilter>) -> impl Strategy<Value = RowFilter> {
    let part = || part.clone();
    let branch = || proptest::option::weighted(0.8, part());
    (part(), branch(), branch()).prop_map(|(predicate, on_true, on_false)| {
        RowFilter::Condition(Box::new(Condition { predicate, on_true, on_false }))
    })
}

/// Chains, what interests most of them: every pair of neighbours is a case of narrowing.
fn filter() -> impl Strategy<Value = RowFilter> {
    let chain = || some(leaf()).prop_map(RowFilter::Chain);
    let newest_in_time = (timestamps(), 1i32..3).prop_map(|(range, count)| {
        let limit = RowFilter::CellsPerColumnLimit(count);
        RowFilter::Chain(vec![RowFilter::TimestampRange(range), limit])
    });
    let newest_in_time = newest_in_time.boxed();
    let pool = || {
        let part = prop_oneof![leaf(), chain(), newest_in_time.clone()];
        prop_oneof![some(part), some(newest_in_time.clone())].prop_map(RowFilter::Interleave)
    };
    let sinks =
        some(prop_oneof![1 => Just(RowFilter::Sink), 2 => leaf()]).prop_map(RowFilter::Interleave);
    let deep = prop_oneof![6 => leaf(), 1 => condition()].prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            some(inner.clone()).prop_map(RowFilter::Chain),
            some(inner).prop_map(RowFilter::Interleave),
        ]
    });
    prop_oneof![
        2 => chain(),
        2 => some(prop_oneof![2 => leaf(), 1 => pool()]).prop_map(RowFilter::Chain),
        2 => some(prop_oneof![2 => leaf(), 1 => condition()]).prop_map(RowFilter::Chain),
        2 => some(prop_oneof![2 => leaf(), 1 => sinks]).prop_map(RowFilter::Chain),
        1 => pool(),
        1 => condition(),
        1 => deep,
    ]
}

fn row_set() -> impl Strategy<Value = RowSet> {
    let range = (bound(KEYS), bound(KEYS)).prop_map(|(start, end)| KeyRange { start, end });
    let keys = proptest::collection::vec(text(KEYS), 0..3);
    (keys, proptest::collection::vec(range, 0..3))
        .prop_map(|(keys, ranges)| RowSet { keys, ranges })
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Forward), Just(Direction::Reverse)]
}

/// Parts of the table, as authorized views show them: some with all rows, or all of a family.
fn part() -> impl Strategy<Value = Subset> {
    let texts = |choices| proptest::collection::vec(text(choices), 0..3);
    let columns = (texts(QUALIFIERS), texts(QUALIFIERS))
        .prop_map(|(exact, prefixes)| Qualifiers { exact, prefixes });
    let families = (proptest::sample::select(&FAMILIES), columns);
    let families = proptest::collection::vec(families, 0..5).prop_map(|families| {
        families.into_iter().map(|(name, columns)| (name.to_owned(), columns)).collect()
    });
    let prefixes = prop_oneof![Just(vec![Bytes::new()]), texts(&["a", "ab", "b", "b\n", "d"])];
    (prefixes, families).prop_map(|(prefixes, families)| Subset::new(&prefixes, families))
}

fn request() -> impl Strategy<Value = ReadRows> {
    let filter = (proptest::option::weighted(0.3, part()), filter());
    let filter = filter.prop_map(|(part, filter)| match part {
        Some(part) => RowFilter::Within(Arc::new(part), Box::new(filter)),
        None => filter,
    });
    let filter = proptest::option::weighted(0.95, filter);
    let named = proptest::collection::vec(text(KEYS), 1..4);
    let named = named.prop_map(|keys| RowSet { keys, ranges: Vec::new() });
    let rows = prop_oneof![Just(RowSet::all()), row_set(), named];
    (rows, filter, prop_oneof![Just(0u64), 0u64..4], direction()).prop_map(
        |(rows, filter, rows_limit, direction)| ReadRows { rows, filter, rows_limit, direction },
    )
}

/// Returns the rows that the reference yields for `request`.
fn wanted(
    visible: &BTreeMap<Bytes, Vec<RefCell>>,
    request: &ReadRows,
) -> Vec<(Bytes, Vec<RefCell>)> {
    let ranges = request.rows.normalize().unwrap();
    let filter = request.filter.clone().unwrap_or(RowFilter::PassAll);
    let mut want: Vec<(Bytes, Vec<RefCell>)> = visible
        .iter()
        .filter(|(key, _)| ranges.iter().any(|range| range.contains(key)))
        .map(|(key, cells)| (key.clone(), filter_row(&filter, key, cells.clone())))
        .filter(|(_, cells)| !cells.is_empty())
        .collect();
    if request.direction == Direction::Reverse {
        want.reverse();
    }
    if request.rows_limit > 0 {
        want.truncate(request.rows_limit as usize);
    }
    want
}

/// A row as the reference has it, after a check that its cells come in order.
fn comparable(row: Row, visible: &BTreeMap<Bytes, Vec<RefCell>>) -> (Bytes, Vec<RefCell>) {
    let all = &visible[&row.key];
    let convert = |cell: crate::row::Cell| {
        let same = |other: &RefCell| {
            (other.family.as_str(), &other.qualifier, other.timestamp)
                == (&*cell.family, &cell.qualifier, cell.timestamp.0)
        };
        RefCell {
            at: all.iter().position(same).unwrap(),
            family: cell.family.to_string(),
            qualifier: cell.qualifier.clone(),
            timestamp: cell.timestamp.0,
            value: cell.value,
            label: cell.label.map(|label| label.to_string()),
        }
    };
    let mut cells: Vec<RefCell> = row.cells.into_iter().map(convert).collect();
    assert!(cells.is_sorted_by_key(|cell| cell.at), "cells of {:?} are out of order", row.key);
    cells.sort();
    (row.key, cells)
}

/// Compacts the table; returns how many cells the engine then has.
fn compacted(local: &Local, name: &TableName) -> usize {
    let engine = &local.core.engine;
    let mut cells = 0;
    for tablet in &local.core.table(name).unwrap().schema.tablets {
        engine.tree(tablet.tree).unwrap().compact_range(&RowRange::ALL).unwrap();
        let mut scan =
            engine.tree(tablet.tree).unwrap().scan(&ScanRequest::default(), None).unwrap();
        while scan.next_row().unwrap().is_some() {
            while scan.next_cell().unwrap().is_some() {
                cells += 1;
            }
        }
    }
    cells
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn reads_yield_what_the_reference_does(
        cells in written(),
        requests in proptest::collection::vec(request(), 40),
    ) {
        let (local, name, _dir) = store(&cells);
        let visible = visible(&cells);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        for (at, request) in requests.into_iter().enumerate() {
            if at == 20 {
                // From here on there are rows in files.
                for tablet in &local.core.table(&name).unwrap().schema.tablets {
                    local.core.engine.tree(tablet.tree).unwrap().flush().unwrap();
                }
            }
            let direction = request.direction;
            let batches = match read(&local, &name, &request) {
                Ok(batches) => batches,
                // Inverted ranges and two labels in a chain.
                Err(Error::InvalidArgument { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            let got = rows_of(batches, direction).into_iter();
            let got: Vec<_> = got.map(|row| comparable(row, &visible)).collect();
            prop_assert_eq!(&got, &wanted(&visible, &request), "{:?}", request);
            let batches = runtime.block_on(stream(&local, &name, request.clone())).unwrap();
            let streamed = rows_of(batches, direction).into_iter();
            let streamed: Vec<_> = streamed.map(|row| comparable(row, &visible)).collect();
            prop_assert_eq!(streamed, got, "{:?}", request);
        }
        // Compaction leaves exactly what reads showed.
        prop_assert_eq!(compacted(&local, &name), visible.values().map(Vec::len).sum::<usize>());
        let all = rows_of(read(&local, &name, &ReadRows::default()).unwrap(), Direction::Forward);
        let all: Vec<_> = all.into_iter().map(|row| comparable(row, &visible)).collect();
        prop_assert_eq!(all, wanted(&visible, &ReadRows::default()));
    }
}

fn cell(row: &'static str, qualifier: String, value: &'static str) -> Written {
    (row.into(), 0, qualifier.into(), 1_000, value.into())
}

fn if_all(then: RowFilter) -> RowFilter {
    let (predicate, on_true) = (RowFilter::PassAll, Some(then));
    RowFilter::Condition(Box::new(Condition { predicate, on_true, on_false: None }))
}

fn plan(local: &Local, name: &TableName, filter: &RowFilter) -> Result<Plan> {
    let table = local.core.table(name)?;
    Plan::compile(Some(filter), &table.schema, &local.core.shape)
}

#[test]
fn copies_of_a_row_under_a_condition_go_out_batch_by_batch() {
    let cells: Vec<_> = (0..40).map(|i| cell("r", format!("q{i:02}"), "value")).collect();
    let (local, name, _dir) = store(&cells);
    let copies = RowFilter::Interleave(vec![RowFilter::PassAll; 100]);
    for filter in [copies.clone(), if_all(copies)] {
        let request = ReadRows { filter: Some(filter), ..ReadRows::default() };
        let batches = read(&local, &name, &request).unwrap();
        let most = batches.iter().map(|batch| batch.rows.len()).max().unwrap();
        assert!(most <= 10, "a batch of {most} pieces");
        assert_eq!(rows_of(batches, Direction::Forward)[0].cells.len(), 4_000);
    }
    let first = RowFilter::CellsPerRowLimit(1);
    let one = RowFilter::Chain(vec![
        if_all(RowFilter::Interleave(vec![RowFilter::PassAll; 1_000])),
        first,
    ]);
    let request = ReadRows { filter: Some(one), ..ReadRows::default() };
    let rows = rows_of(read(&local, &name, &request).unwrap(), Direction::Forward);
    assert_eq!(rows[0].cells.len(), 1);
}

#[test]
fn whether_a_read_yields_anything_is_known_at_its_first_cell() {
    let cells: Vec<_> = (0..40).map(|i| cell("r", format!("q{i:02}"), "v")).collect();
    let (local, name, _dir) = store(&cells);
    let table = local.core.table(&name).unwrap();
    let plan = Arc::new(Plan::compile(None, &table.schema, &local.core.shape).unwrap());
    let ranges = RowSet::all().normalize().unwrap();
    let mut reader = Reader::new(&local.core, table, plan, &ranges, Direction::Forward, 0);
    assert!(reader.yields_anything().unwrap());
    let next = reader.fill(&mut Pieces::default()).unwrap().batch.unwrap();
    assert_eq!(next.stats.cells_seen, 2, "one by each batch");
}

#[test]
fn conditions_that_depend_on_each_other_are_limited() {
    let (local, name, _dir) = store(&[]);
    let chain = |count| RowFilter::Chain(vec![if_all(RowFilter::PassAll); count]);
    assert!(plan(&local, &name, &chain(20)).is_ok());
    let refusal = plan(&local, &name, &chain(21)).unwrap_err().to_string();
    assert!(refusal.contains("more than 20 conditions depend on each other"), "{refusal}");
    let beside = RowFilter::Interleave(vec![if_all(RowFilter::PassAll); 500]);
    assert!(plan(&local, &name, &beside).is_ok());
}

#[test]
fn patterns_that_no_name_and_no_key_can_match_are_refused() {
    let (local, name, _dir) = store(&[]);
    for (filter, field) in [
        (RowFilter::RowKeyRegex(Bytes::new()), "row_key_regex_filter"),
        (RowFilter::FamilyNameRegex(String::new()), "family_name_regex_filter"),
    ] {
        let refusal = plan(&local, &name, &filter).unwrap_err();
        assert_eq!(
            refusal,
            Error::invalid(format!("filter.{field}"), "argument must not be empty")
        );
    }
    // Qualifiers and values may be empty.
    for filter in
        [RowFilter::ColumnQualifierRegex(Bytes::new()), RowFilter::ValueRegex(Bytes::new())]
    {
        assert!(plan(&local, &name, &filter).is_ok());
    }
}

#[test]
fn filters_with_much_to_compile_are_known_as_such() {
    let light = RowFilter::Chain(vec![RowFilter::RowKeyRegex("user-.*[0-9]{4}".into()); 2]);
    assert!(compile::is_light(&light));
    let many = RowFilter::Interleave(vec![RowFilter::ValueRegex("a.*b".into()); 300]);
    let deep = RowFilter::ValueRegex("(a|b.*){1000}x".into());
    for heavy in [many, deep] {
        assert!(!compile::is_light(&heavy));
    }
}
