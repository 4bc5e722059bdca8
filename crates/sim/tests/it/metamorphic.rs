//! One history, many options, the same answers: block sizes, compression, filters, memtable and
//! SSTable sizes, caches, compaction limits, pieces of compactions and parts of the read path that are switched off never
//! change what a read yields, whichever way it is asked; nor do direct reads and io_uring, or their
//! absence, on the real file system.

use base::env::Rng;
use base::env::{Env, OneByOne};
use engine::TreeId;
use engine::internals::ReadPath;
use engine::{BackgroundRate, Durability, Options};
use sim::machine::Machine;
use sim::oracle::Trouble;
use sim::points::{Point, number, try_all, wanted};
use sim::session::Session;
use sim::workload::{self, Shape, Step};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Options at random over their ranges, the lower ends more often.
fn options(rng: &mut Rng) -> Options {
    let l0_runs_compact = *rng.pick(&[1, 2, 4]);
    Options {
        durability: *rng.pick(&[
            Durability::Sync,
            Durability::Interval(Duration::from_millis(100)),
            Durability::None,
        ]),
        memtable_bytes_max: *rng.pick(&[64 << 10, 64 << 10, 256 << 10, 64 << 20]),
        memory_bytes_max: *rng.pick(&[1 << 20, 2 << 20, 256 << 20]),
        cache_bytes_max: *rng.pick(&[None, Some(1 << 20)]),
        log_segment_bytes: *rng.pick(&[64 << 10, 1 << 20]),
        l0_runs_compact,
        l0_runs_stall: l0_runs_compact + *rng.pick(&[1, 8]),
        sst_bytes_max: *rng.pick(&[64 << 10, 256 << 10, 128 << 20]),
        l1_bytes_max: *rng.pick(&[64 << 10, 512 << 10, 512 << 20]),
        direct_reads: *rng.pick(&[true, false]),
        open_files_max: *rng.pick(&[None, Some(16)]),
        read_path: ReadPath {
            huge_pages: *rng.pick(&[true, false]),
            hints: *rng.pick(&[true, false]),
            filters: *rng.pick(&[true, false]),
            point_reads: *rng.pick(&[true, false]),
            batched_reads: *rng.pick(&[true, false]),
            readahead: *rng.pick(&[true, false]),
            prefix_index: *rng.pick(&[true, false]),
            cache_warming: *rng.pick(&[true, false]),
            admission: *rng.pick(&[true, false]),
            counters: true,
        },
        subcompactions_max: *rng.pick(&[None, Some(1)]),
        background_rate: *rng.pick(&[BackgroundRate::Unlimited, BackgroundRate::Auto]),
        ..Options::default()
    }
}

/// Questions asked of every tree at the end.
const QUESTIONS: usize = 60;

/// Rounds of questions about rows and columns.
const ROUNDS: usize = 12;

/// Gives the number of pieces into which compactions were divided.
fn run(
    machine: Machine,
    dir: &Path,
    steps: &[Step],
    options: Options,
    rng: &mut Rng,
) -> Result<u64, Trouble> {
    let mut session = Session::new(machine, dir, options);
    session.open()?;
    for step in steps {
        match step {
            Step::Create(tree, _) => {
                session.step(&Step::Create(*tree, workload::tree_options(rng)))?;
            }
            step => session.step(step)?,
        }
    }
    ask_everything(&mut session, rng)?;
    let before = pieces(&session);
    session.close()?;
    session.open()?;
    let trees: Vec<TreeId> = session.oracle().trees().collect();
    for tree in trees {
        session.step(&Step::Compact(tree, engine::RowRange::ALL))?;
    }
    ask_everything(&mut session, rng)?;
    let after = pieces(&session);
    session.close()?;
    Ok(before + after)
}

fn pieces(session: &Session) -> u64 {
    session.engine().metrics().get("subcompactions_total").expect("it is counted")
}

fn ask_everything(session: &mut Session, rng: &mut Rng) -> Result<(), Trouble> {
    session.check()?;
    let trees: Vec<TreeId> = session.oracle().trees().collect();
    for tree in trees {
        for _ in 0..QUESTIONS {
            let request = Box::new(workload::request(rng));
            session.step(&Step::Ask(tree, request, rng.index(100)))?;
        }
        for _ in 0..ROUNDS {
            session.ask_every_way(tree, rng)?;
        }
    }
    Ok(())
}

#[test]
fn options_never_change_an_answer() {
    let (histories, sets) = (number("STELE_HISTORIES").unwrap_or(6), 8);
    let points: Vec<Point> =
        (0..histories * sets).map(|n| Point { seed: n / sets, at: n % sets }).collect();
    try_all("options_never_change_an_answer", &points, |Point { seed, at }| {
        let shape = Shape { steps: 300, trees_max: 2, ..Shape::default() };
        let steps = workload::history(seed, &shape);
        let mut rng = Rng::new(seed << 32 | at);
        let options = options(&mut rng);
        let machine = Machine::new(rng.next_u64());
        run(machine, Path::new("/data"), &steps, options.clone(), &mut rng)
            .map(drop)
            .map_err(|trouble| format!("{trouble:?}\n{options:?}"))
    });
}

/// Values so large that compactions can be divided.
const LARGE: Shape =
    Shape { steps: 120, value_bytes_max: 60_000, trees_max: 1, reopen_percent: 0, ..Shape::USUAL };

#[test]
fn divided_compactions_never_change_an_answer() {
    let histories = number("STELE_HISTORIES").unwrap_or(3u64);
    let points: Vec<Point> = (0..2 * histories).map(|n| Point { seed: n / 2, at: n % 2 }).collect();
    let divided = AtomicU64::new(0);
    try_all("divided_compactions_never_change_an_answer", &points, |Point { seed, at }| {
        let steps = workload::history(seed, &LARGE);
        let mut rng = Rng::new(seed << 32);
        let subcompactions_max = (at == 1).then_some(1);
        let small = workload::small_options(Durability::None);
        let options = Options { subcompactions_max, memory_bytes_max: 16 << 20, ..small };
        let machine = Machine::new(rng.next_u64());
        let pieces = run(machine, Path::new("/data"), &steps, options, &mut rng)
            .map_err(|trouble| format!("pieces at most {subcompactions_max:?}: {trouble:?}"))?;
        divided.fetch_add(pieces, Ordering::Relaxed);
        let undivided = "a compaction was divided that should not be";
        if at == 1 && pieces > 0 { Err(undivided.to_owned()) } else { Ok(()) }
    });
    // One point alone may be asked for again.
    if wanted().is_none() {
        assert!(divided.into_inner() > 0, "compactions were divided");
    }
}

#[test]
fn the_real_file_system_never_changes_an_answer() {
    let (histories, sets) = (number("STELE_HISTORIES").unwrap_or(3), 4);
    let points: Vec<Point> =
        (0..histories * sets).map(|n| Point { seed: n / sets, at: n % sets }).collect();
    try_all("the_real_file_system_never_changes_an_answer", &points, |Point { seed, at }| {
        let shape = Shape { steps: 150, trees_max: 2, ..Shape::default() };
        let steps = workload::history(seed, &shape);
        let mut rng = Rng::new(seed << 32 | at);
        // Each of the four: io_uring or not, past the page cache or not.
        let (uring, direct_reads) = (at % 2 == 0, at / 2 % 2 == 0);
        let durability = Durability::Interval(Duration::from_millis(20));
        let mut options = Options { direct_reads, durability, ..options(&mut rng) };
        options.read_path.batched_reads |= uring;
        let mut env = Env::real(2);
        if !uring {
            env.fs = Arc::new(OneByOne(env.fs));
        }
        // Directories of tests are often in memory, where nothing is read directly.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        run(Machine::real(env), dir.path(), &steps, options.clone(), &mut rng)
            .map(drop)
            .map_err(|trouble| format!("uring {uring}: {trouble:?}\n{options:?}"))
    });
}
