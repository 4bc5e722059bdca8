//! What is charged to the budget is what is allocated. A program of its own: it counts every
//! allocation.

#![allow(unsafe_code)]

use engine::WriteBatch;
use engine::internals::LogPosition;
use engine::internals::Memtable;
use engine::internals::{Budget, Use};
use engine::{
    Column, Durability, Engine, FamilyId, Options, RowRange, SequenceNumber, Timestamp, TreeId,
    TreeOptions,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes that are allocated, as they were asked for.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The same of this thread alone: what it allocated less what it freed.
    static BY_THREAD: Cell<isize> = const { Cell::new(0) };
}

impl Counting {
    /// A thread that is ending may have no count any more.
    fn count(bytes: isize) {
        let _ = BY_THREAD.try_with(|all| all.set(all.get() + bytes));
    }
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        Self::count(layout.size().cast_signed());
        // SAFETY: the caller keeps to the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        Self::count(-layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The tests count for themselves alone.
static ALONE: Mutex<()> = Mutex::new(());

/// Rows of `columns` columns with values of `value` bytes, `rows` of them in each batch.
struct Shape {
    batches: u64,
    rows: u64,
    columns: u64,
    value: usize,
}

fn batch(shape: &Shape, number: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    let value = vec![1; shape.value];
    for row in 0..shape.rows {
        let key = (number * shape.rows + row).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        for column in 0..shape.columns {
            let qualifier = column.to_be_bytes();
            let column = Column::of(FamilyId(1), &qualifier);
            batch.put(&key, column, Timestamp(number as i64), &value);
        }
    }
    if number % 50 == 3 {
        batch.drop_row_range(&number.to_be_bytes(), None);
    }
    batch
}

#[test]
fn memtables_are_charged_as_they_are_allocated() {
    let _alone = ALONE.lock().unwrap();
    let budget = Budget::new(1 << 40, None);
    for (name, shape) in [
        ("empty", Shape { batches: 0, rows: 0, columns: 0, value: 0 }),
        ("one small row", Shape { batches: 1, rows: 1, columns: 1, value: 10 }),
        ("a few rows", Shape { batches: 40, rows: 1, columns: 1, value: 10 }),
        (
            "small cells, each committed alone",
            Shape { batches: 9_000, rows: 1, columns: 1, value: 4 },
        ),
        ("wide rows", Shape { batches: 700, rows: 2, columns: 24, value: 30 }),
        ("large values", Shape { batches: 200, rows: 3, columns: 1, value: 9_000 }),
    ] {
        let before = BY_THREAD.get();
        let memtable = Memtable::new(&budget);
        for number in 0..shape.batches {
            let position = (number + 1) * 100;
            let frozen = batch(&shape, number).freeze().unwrap();
            memtable.apply(&frozen, SequenceNumber(position), LogPosition(position));
        }
        // The memtable itself lies in a frame of this function.
        let allocated = (BY_THREAD.get() - before).cast_unsigned() + size_of::<Memtable>();
        let charged = budget.charged(Use::Active) + budget.charged(Use::Metadata);
        let off = charged.abs_diff(allocated);
        assert!(off <= allocated / 20 + 512, "{name}: {charged} charged, {allocated} allocated");
        drop(memtable);
        assert_eq!(budget.charged(Use::Active) + budget.charged(Use::Metadata), 0, "{name}");
    }
}

#[test]
fn range_tombstones_are_charged_as_they_are_allocated() {
    let _alone = ALONE.lock().unwrap();
    let budget = Budget::new(1 << 40, None);
    for (name, batches, in_batch) in [("one batch", 1, 5_000), ("a few", 9, 500), ("each", 800, 1)]
    {
        let before = BY_THREAD.get();
        let memtable = Memtable::new(&budget);
        let all: u64 = batches * in_batch;
        for first in (0..all).step_by(in_batch as usize) {
            let mut batch = WriteBatch::new();
            for number in first..first + in_batch {
                let (start, end) = (number.to_be_bytes(), (9 * all - number).to_be_bytes());
                batch.drop_row_range(&start, Some(&end));
            }
            let position = first + in_batch;
            let frozen = batch.freeze().unwrap();
            memtable.apply(&frozen, SequenceNumber(first + 1), LogPosition(position));
        }
        let allocated = (BY_THREAD.get() - before).cast_unsigned() + size_of::<Memtable>();
        let charged = budget.charged(Use::Active) + budget.charged(Use::Metadata);
        let off = charged.abs_diff(allocated);
        assert!(off <= allocated / 10 + 2_048, "{name}: {charged} charged, {allocated} allocated");
        assert!(memtable.bytes() > all as usize * 16, "{name}: they count as bytes in use");
    }
}

#[test]
fn what_an_engine_allocates_stays_near_its_budget() {
    const MIB: usize = 1 << 20;
    let _alone = ALONE.lock().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        durability: Durability::None,
        memory_bytes_max: 16 * MIB,
        // The arena is one allocation, of which memory is taken as needed: blocks are not counted.
        cache_bytes_max: Some(MIB),
        ..Options::default()
    };
    let before = ALLOCATED.load(Ordering::Relaxed);
    let engine = Engine::open_with_env(base::env::Env::real(1), dir.path(), options).unwrap();
    let trees: Vec<TreeId> = (0..200).map(TreeId).collect();
    trees.iter().for_each(|id| drop(engine.create_tree(*id, TreeOptions::default()).unwrap()));
    let shape = Shape { batches: 0, rows: 8, columns: 3, value: 100 };
    for number in 0..4_000u64 {
        let tree = trees[(number % 200) as usize];
        engine.tree(tree).unwrap().write(&batch(&shape, number / 200 * 50)).unwrap();
    }
    trees.iter().take(100).for_each(|tree| {
        engine.tree(*tree).unwrap().compact_range(&RowRange::ALL).unwrap();
    });
    let allocated = ALLOCATED.load(Ordering::Relaxed) - before;
    let metrics = engine.metrics();
    let owners = ["active_memtables", "frozen_memtables", "outlived_memtables", "metadata"];
    let charged = owners
        .map(|owner| metrics.get(&format!("memory_bytes{{owner=\"{owner}\"}}")).unwrap() as usize);
    let charged: usize = charged.iter().sum();
    // Beside: the cache of 1 MiB, threads, the log's and the manifest's buffers, scratch memory.
    let untracked = 4 * MIB;
    assert!(charged <= allocated, "{charged} charged, {allocated} allocated");
    assert!(allocated <= charged + untracked, "{charged} charged, {allocated} allocated");
    assert!(charged > 2 * MIB, "{charged}");
}
