//! Loading: a data set into an engine, as preparation or as the measured work itself.

use crate::data::{Arrival, Cell, Data, What};
use crate::engines::{BenchEngine, Result};
use crate::measure::{latencies, wait_until_quiet};
use crate::source::Source;
use bench_core::{Spent, Stopwatch};
use hdrhistogram::Histogram;
use std::time::Instant;

/// Cells of one batch of a load in random order.
pub(crate) const BATCH: usize = 100;

/// Loads all of `data` in the way it arrives and waits until nothing works any more.
pub(crate) fn prepare(engine: &dyn BenchEngine, data: &Data) -> Result<()> {
    match data.spec.arrival {
        Arrival::Sorted => engine.bulk_load(&mut Source::new(data, What::First, data.sorted()))?,
        Arrival::Runs(runs) => {
            for run in 0..runs {
                let numbers = data.shuffled().filter(move |number| number % runs == run);
                write_all(engine, data, What::First, numbers)?;
                engine.flush()?;
            }
        }
        Arrival::OverwrittenOlder => {
            engine.bulk_load(&mut Source::new(data, What::First, data.sorted()))?;
            write_all(engine, data, What::Older, data.overwritten())?;
            engine.flush()?;
        }
        Arrival::Deleted => {
            engine.bulk_load(&mut Source::new(data, What::First, data.sorted()))?;
            write_all(engine, data, What::Deletion, data.deleted())?;
            engine.flush()?;
        }
    }
    wait_until_quiet().map(|_| ()).ok_or_else(|| "background work never came to rest".into())
}

fn write_all<'a>(
    engine: &dyn BenchEngine,
    data: &'a Data,
    what: What,
    numbers: impl Iterator<Item = u64> + 'a,
) -> Result<()> {
    let mut source = Source::new(data, what, numbers);
    while let Some(cells) = source.next_chunk() {
        for batch in cells.chunks(BATCH) {
            engine.write(batch)?;
        }
    }
    Ok(())
}

/// What a measured load cost.
pub(crate) struct Loaded {
    /// Cells loaded.
    pub(crate) cells: u64,
    /// What it cost, without making the cells and without waiting for nothing.
    pub(crate) spent: Spent,
    /// Latency of calls: of each batch, or of the whole bulk load.
    pub(crate) each: Histogram<u64>,
}

/// Loads `data` in batches in random order, flushes, and waits until merging rests.
pub(crate) fn random(engine: &dyn BenchEngine, data: &Data) -> Result<Loaded> {
    let mut source = Source::new(data, What::First, data.shuffled());
    measured(&mut source, |source, each| {
        while let Some(cells) = source.next_chunk() {
            cells.chunks(BATCH).try_for_each(|batch| timed_write(engine, batch, each))?;
        }
        engine.flush()
    })
}

fn timed_write(
    engine: &dyn BenchEngine,
    batch: &[Cell<'_>],
    each: &mut Histogram<u64>,
) -> Result<()> {
    let start = Instant::now();
    engine.write(batch)?;
    each.saturating_record(start.elapsed().as_nanos() as u64);
    Ok(())
}

/// Loads `data` in key order by the engine's fastest way.
pub(crate) fn bulk(engine: &dyn BenchEngine, data: &Data) -> Result<Loaded> {
    let mut source = Source::new(data, What::First, data.sorted());
    measured(&mut source, |source, each| {
        let start = Instant::now();
        engine.bulk_load(source)?;
        each.saturating_record(start.elapsed().as_nanos() as u64);
        Ok(())
    })
}

fn measured<'a>(
    source: &mut Source<'a>,
    load: impl FnOnce(&mut Source<'a>, &mut Histogram<u64>) -> Result<()>,
) -> Result<Loaded> {
    let mut each = latencies();
    let watch = Stopwatch::start();
    load(source, &mut each)?;
    let idle = wait_until_quiet().ok_or("background work never came to rest")?;
    let spent = watch.spent().without(idle).without(source.making());
    Ok(Loaded { cells: source.cells(), spent, each })
}
