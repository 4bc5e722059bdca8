//! What is drawn from the seed for each cycle: how the engine is opened, what work is done on it,
//! and how the cycle ends.

use crate::names::{GROUP_LEN, WRITER_LEN};
use base::env::{Env, OneByOne, RealFileSystem, Rng};
use engine::TreeId;
use engine::internals::ReadPath;
use engine::{BackgroundRate, Compression, Durability, FilterGranularity, Options, TreeOptions};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// What a run is told, the same for all its cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) writers: u8,
    pub(crate) readers: u8,
    /// Rows of a writer in each tree.
    pub(crate) rows: u16,
}

/// Background threads of a cycle, at most.
pub(crate) const THREADS_MAX: usize = 4;
/// Trees of a run.
pub(crate) const SLOTS: u8 = 3;

/// How a cycle goes.
#[derive(Debug)]
pub(crate) struct Cycle {
    pub(crate) options: Options,
    /// True if reads of files go through io_uring.
    pub(crate) uring: bool,
    /// Background threads.
    pub(crate) threads: usize,
    /// A tree that is dropped, and another created for it, before the work begins.
    pub(crate) replaced: Option<u8>,
    /// How long work goes on between two quiet moments, at most.
    pub(crate) load: Duration,
}

/// How the parent ends a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Killed so long after its start.
    KilledAfterStart(Duration),
    /// Killed so long after it has begun to work.
    KilledAtWork(Duration),
    /// Asked to close after working so long.
    Closed(Duration),
}

fn rng(run: &Run, cycle: u64, what: u64) -> Rng {
    Rng::new(run.seed ^ cycle.rotate_left(24) ^ what.rotate_left(48))
}

/// A time between `min` and `max`, short ones more often.
fn time(rng: &mut Rng, min: Duration, max: Duration) -> Duration {
    let span = (max.as_secs_f64() / min.as_secs_f64()).max(1.0);
    min.mul_f64(span.powf(rng.below(1000) as f64 / 1000.0))
}

impl Cycle {
    /// Cycle `number` of `run`, counted from 1.
    pub(crate) fn draw(run: &Run, number: u64) -> Self {
        let mut rng = rng(run, number, 1);
        let replaced = rng.chance(20).then(|| rng.below(SLOTS.into()) as u8);
        Self {
            options: options(&mut rng),
            uring: rng.chance(70),
            threads: 1 + rng.index(THREADS_MAX),
            replaced,
            load: time(&mut rng, Duration::from_secs(1), Duration::from_secs(30)),
        }
    }

    /// The machine as this cycle has it.
    pub(crate) fn env(&self) -> Env {
        let mut env = Env::real(self.threads);
        if !self.uring {
            env.fs = Arc::new(OneByOne(Arc::new(RealFileSystem)));
        }
        env
    }
}

impl End {
    /// How cycle `number` ends, which may work for `longest`.
    pub(crate) fn draw(run: &Run, number: u64, longest: Duration) -> Self {
        let mut rng = rng(run, number, 2);
        let least = Duration::from_millis(200);
        match rng.below(10) {
            0 => Self::KilledAfterStart(Duration::from_micros(rng.below(400_000))),
            1 | 2 => Self::Closed(time(&mut rng, least, longest)),
            _ => Self::KilledAtWork(time(&mut rng, least, longest)),
        }
    }
}

/// Options of the engine. Files are not so small that thousands would be open, caches at times so
/// small that most reads go to the disk.
fn options(rng: &mut Rng) -> Options {
    let l0_runs_compact = *rng.pick(&[1, 2, 4]);
    let memory_bytes_max = *rng.pick(&[8 << 20, 32 << 20, 64 << 20, 128 << 20]);
    let mut on = || rng.chance(80);
    let read_path = ReadPath {
        huge_pages: on(),
        hints: on(),
        filters: on(),
        point_reads: on(),
        batched_reads: on(),
        readahead: on(),
        prefix_index: on(),
        cache_warming: on(),
        admission: on(),
        counters: true,
    };
    Options {
        durability: *rng.pick(&[
            Durability::Sync,
            Durability::Interval(Duration::from_millis(20)),
            Durability::None,
            Durability::None,
        ]),
        memory_bytes_max,
        cache_bytes_max: *rng.pick(&[None, None, Some(1 << 20), Some(memory_bytes_max / 4)]),
        memtable_bytes_max: *rng.pick(&[64 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20]),
        direct_reads: rng.chance(30),
        open_files_max: rng.chance(25).then_some(16),
        read_path,
        log_segment_bytes: *rng.pick(&[64 << 10, 1 << 20, 16 << 20]),
        l0_runs_compact,
        l0_runs_stall: l0_runs_compact + *rng.pick(&[1, 4, 8]),
        sst_bytes_max: *rng.pick(&[256 << 10, 1 << 20, 8 << 20, 128 << 20]),
        l1_bytes_max: *rng.pick(&[512 << 10, 4 << 20, 64 << 20]),
        subcompactions_max: rng.chance(30).then_some(1),
        background_rate: *rng.pick(&[BackgroundRate::Unlimited, BackgroundRate::Auto]),
        ..Options::default()
    }
}

pub(crate) fn tree_options(run: &Run, tree: TreeId) -> TreeOptions {
    let rng = &mut rng(run, tree.0.into(), 3);
    let compressions = [Compression::None, Compression::Lz4, Compression::Zstd];
    let row_prefix_bytes = *rng.pick(&[0, 0, GROUP_LEN, WRITER_LEN]);
    TreeOptions {
        block_bytes: *rng.pick(&[1 << 10, 4 << 10, 16 << 10, 64 << 10]),
        compression: *rng.pick(&compressions),
        compression_last: *rng.pick(&compressions),
        filter_bits_per_key: *rng.pick(&[0, 4, 12, 12, 20]),
        filter_granularity: *rng.pick(&[
            None,
            None,
            Some(FilterGranularity::Row),
            Some(FilterGranularity::Family),
            Some(FilterGranularity::Column),
        ]),
        row_prefix_bytes,
        prefix_index: row_prefix_bytes > 0 && rng.chance(50),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cycle_has_options_within_their_ranges() {
        let run = Run { seed: 5, writers: 4, readers: 2, rows: 100 };
        let mut replaced = 0;
        for number in 0..2000u32 {
            tree_options(&run, TreeId(number)).validate().unwrap();
            let number = number.into();
            let cycle = Cycle::draw(&run, number);
            cycle.options.validate().unwrap();
            replaced += usize::from(cycle.replaced.is_some());
            assert_eq!(format!("{cycle:?}"), format!("{:?}", Cycle::draw(&run, number)));
        }
        assert!(replaced > 200, "{replaced}");
    }
}
