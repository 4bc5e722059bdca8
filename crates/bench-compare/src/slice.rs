//! One slice: a workload on one engine for a second or two, measured and checked.
//!
//! Keys are drawn and answers are worked out between the measured intervals, a chunk of calls at
//! a time, so neither is charged to an engine. What an engine lends must sum to what the data
//! set says; anything else ends the run.

use crate::data::Data;
use crate::engines::{BenchEngine, DiskReads, InFlight, Reader, Result};
use crate::measure::{SystemReads, latencies};
use crate::touched::Touched;
use bench_core::{KeyKind, Spent, SplitMix64, Stopwatch};
use hdrhistogram::Histogram;
use std::sync::Barrier;
use std::time::Instant;

/// Keys of some calls, in one buffer.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// A key that was drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drawn {
    pub(crate) number: u64,
    /// Whether it was loaded.
    pub(crate) kind: KeyKind,
    /// Its place in key order, where the workload draws places.
    pub(crate) place: usize,
}

impl Keys {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a key.
    pub(crate) fn push(&mut self, data: &Data, drawn: Drawn) {
        data.append_key(drawn.number, drawn.kind, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Key `index`.
    #[inline]
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// A workload that reads: what a call asks, does, and must answer.
pub(crate) trait Reads: Sync {
    fn keys_per_call(&self) -> usize {
        1
    }

    /// Operations that one call counts for.
    fn operations_per_call(&self, _data: &Data) -> u64 {
        1
    }

    /// Reads in flight at once.
    fn in_flight(&self) -> usize {
        1
    }

    /// Calls between two measured intervals.
    fn calls_per_chunk(&self) -> u64 {
        (CHUNK_KEYS / self.keys_per_call()) as u64
    }

    /// Draws one key.
    fn draw(&self, data: &Data, draw: &mut SplitMix64) -> Drawn;

    /// Does one call, whose keys begin at `first`.
    fn call(
        &self,
        reader: &mut dyn Reader,
        keys: &Keys,
        first: usize,
        touched: &mut Touched,
    ) -> Result<()>;

    /// Adds what a key of a call must touch.
    fn expect(&self, data: &Data, drawn: Drawn, touched: &mut Touched);

    /// Does all calls of `keys`. A method of the trait, so that each workload has its own loop
    /// and pays for no indirect call but the engine's.
    fn calls(&self, reader: &mut dyn Reader, keys: &Keys, touched: &mut Touched) -> Result<()> {
        for first in (0..keys.len()).step_by(self.keys_per_call()) {
            self.call(reader, keys, first, touched)?;
        }
        Ok(())
    }

    /// The same, and records how long each took.
    fn timed_calls(
        &self,
        reader: &mut dyn Reader,
        keys: &Keys,
        touched: &mut Touched,
        each: &mut Histogram<u64>,
    ) -> Result<()> {
        for first in (0..keys.len()).step_by(self.keys_per_call()) {
            let start = Instant::now();
            self.call(reader, keys, first, touched)?;
            each.saturating_record(start.elapsed().as_nanos() as u64);
        }
        Ok(())
    }
}

/// Whether each call is timed, which costs some 50 ns a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    /// Only the whole.
    Whole,
    /// Each call too.
    EachCall,
}

/// What a slice measured.
pub(crate) struct Slice {
    /// Operations done.
    pub(crate) operations: u64,
    /// Calls made.
    pub(crate) calls: u64,
    /// What they cost.
    pub(crate) spent: Spent,
    /// Latency of calls, if it was asked for.
    pub(crate) each: Histogram<u64>,
    /// Disk reads the system counted.
    pub(crate) system: SystemReads,
    /// Disk reads the engine counted.
    pub(crate) engine: Option<DiskReads>,
}

impl Slice {
    /// CPU nanoseconds an operation.
    pub(crate) fn cpu_ns(&self) -> f64 {
        self.spent.cpu.as_nanos() as f64 / self.operations.max(1) as f64
    }

    /// Operations a second on the clock.
    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.spent.wall.as_secs_f64().max(1e-9)
    }
}

/// Keys drawn between two measured intervals.
const CHUNK_KEYS: usize = 4_096;

/// Runs `calls` calls of `reads`.
pub(crate) fn run_reads(
    engine: &dyn BenchEngine,
    data: &Data,
    reads: &dyn Reads,
    calls: u64,
    seed: u64,
    timing: Timing,
) -> Result<Slice> {
    let (system, counted) = (SystemReads::now(), engine.disk_reads());
    let (spent, each) = if reads.in_flight() > 1 {
        in_flight(engine, data, reads, calls, seed)?
    } else {
        one_by_one(engine, data, reads, calls, seed, timing)?
    };
    let counted = counted.zip(engine.disk_reads()).map(|(before, after)| DiskReads {
        reads: after.reads - before.reads,
        bytes: after.bytes.zip(before.bytes).map(|(after, before)| after - before),
    });
    let operations = calls * reads.operations_per_call(data);
    Ok(Slice {
        operations,
        calls,
        spent,
        each,
        system: SystemReads::now().since(system),
        engine: counted,
    })
}

fn one_by_one(
    engine: &dyn BenchEngine,
    data: &Data,
    reads: &dyn Reads,
    calls: u64,
    seed: u64,
    timing: Timing,
) -> Result<(Spent, Histogram<u64>)> {
    let mut reader = engine.reader()?;
    let (mut keys, mut draw) = (Keys::default(), SplitMix64(seed));
    let (mut spent, mut each) = (Spent::default(), latencies());
    let mut left = calls;
    while left > 0 {
        let now = left.min(reads.calls_per_chunk());
        left -= now;
        let expected = draw_keys(data, reads, now, &mut draw, &mut keys);
        let mut touched = Touched::default();
        let watch = Stopwatch::start();
        match timing {
            Timing::Whole => reads.calls(&mut *reader, &keys, &mut touched)?,
            Timing::EachCall => reads.timed_calls(&mut *reader, &keys, &mut touched, &mut each)?,
        }
        spent.add(watch.spent());
        check(&expected, &touched)?;
    }
    Ok((spent, each))
}

/// Draws the keys of `calls` calls and returns what they must touch.
fn draw_keys(
    data: &Data,
    reads: &dyn Reads,
    calls: u64,
    draw: &mut SplitMix64,
    keys: &mut Keys,
) -> Touched {
    keys.clear();
    let mut expected = Touched::default();
    for _ in 0..calls * reads.keys_per_call() as u64 {
        let drawn = reads.draw(data, draw);
        keys.push(data, drawn);
        reads.expect(data, drawn, &mut expected);
    }
    expected
}

fn check(expected: &Touched, touched: &Touched) -> Result<()> {
    if expected == touched {
        return Ok(());
    }
    Err(format!("wrong answers: expected {expected:?}, the engine gave {touched:?}").into())
}

/// Several threads, each with a get or a multi-get in flight; all keys are drawn before they
/// start.
fn in_flight(
    engine: &dyn BenchEngine,
    data: &Data,
    reads: &dyn Reads,
    calls: u64,
    seed: u64,
) -> Result<(Spent, Histogram<u64>)> {
    let threads = match engine.in_flight() {
        InFlight::Threads => reads.in_flight() as u64,
        InFlight::Batches(keys) => (reads.in_flight() / keys).max(1) as u64,
        InFlight::Queues(threads) => threads.min(reads.in_flight()) as u64,
    };
    let begin = Barrier::new(threads as usize + 1);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (begin, mut draw) = (&begin, SplitMix64(seed ^ (thread + 1) << 32));
                let calls = calls / threads + u64::from(thread < calls % threads);
                scope.spawn(move || -> Result<Histogram<u64>> {
                    let (mut keys, mut each) = (Keys::default(), latencies());
                    let expected = draw_keys(data, reads, calls, &mut draw, &mut keys);
                    let reader = engine.reader();
                    // Met by all threads, also by one that fails: the others would wait for it.
                    begin.wait();
                    let (mut reader, mut touched) = (reader?, Touched::default());
                    match engine.in_flight() {
                        InFlight::Threads => {
                            reads.timed_calls(&mut *reader, &keys, &mut touched, &mut each)?;
                        }
                        InFlight::Batches(size) => {
                            batches(&mut *reader, &keys, size, &mut touched, &mut each)?;
                        }
                        InFlight::Queues(_) => {
                            let all: Vec<&[u8]> = (0..keys.len()).map(|at| keys.key(at)).collect();
                            let depth = reads.in_flight() / threads as usize;
                            reader.get_queued(&all, depth, &mut touched, &mut each)?;
                        }
                    }
                    check(&expected, &touched)?;
                    Ok(each)
                })
            })
            .collect();
        begin.wait();
        let watch = Stopwatch::start();
        let done: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
        let spent = watch.spent();
        let mut each = latencies();
        for thread in done {
            each.add(thread.map_err(|_| "a reading thread panicked")??)?;
        }
        Ok((spent, each))
    })
}

/// Gets all of `keys`, `size` in a call. A key's latency is that of its call.
fn batches(
    reader: &mut dyn Reader,
    keys: &Keys,
    size: usize,
    touched: &mut Touched,
    each: &mut Histogram<u64>,
) -> Result<()> {
    let all: Vec<&[u8]> = (0..keys.len()).map(|index| keys.key(index)).collect();
    for batch in all.chunks(size) {
        let start = Instant::now();
        reader.multi_get(batch, touched)?;
        each.saturating_record_n(start.elapsed().as_nanos() as u64, batch.len() as u64);
    }
    Ok(())
}
