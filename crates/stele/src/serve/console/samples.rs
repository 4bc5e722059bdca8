//! Samples of the last minutes: what happened between two readings.
//!
//! Invariants:
//! 1. At most [`SAMPLES_MAX`] samples are kept; a new one takes the place of the oldest.
//! 2. A sample is computed once for all pages. Requests clone pointers.
//! 3. A rate is missing, not wrong, if its counter went back, or if no time has passed.
//! 4. A reading walks all trees. So samples are few while no page asks for them, and readings take at
//!    most a hundredth of the time of a core.

use super::Console;
use super::advice::{Advice, Situation, advise};
#[cfg(feature = "sql")]
use super::readings::SqlReading;
use super::readings::{Durations, EngineReading, LevelReading, Operation, Reading, TableReading};
use base::env::{Clock, SystemClock};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use table::meter::HotTablet;
use tokio::time::Instant;

/// Step of samples while pages ask for them, and while none does.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
const INTERVAL_UNWATCHED: Duration = Duration::from_secs(30);
/// Time for which a page counts that has asked.
const WATCHED_FOR: Duration = Duration::from_secs(60);
/// Steps are so many times as long as a reading takes, at least.
const READINGS_OF_STEP: u32 = 100;
/// Samples that are kept: fifteen minutes and more.
const SAMPLES_MAX: usize = 180;
const HOT_TABLES: usize = 10;
/// Time of the samples that advice looks at.
const RECENT_MS: i64 = 60_000;

/// Rates and latencies of an operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct OperationSample {
    pub(super) per_second: f64,
    /// Percentiles in milliseconds; missing without requests.
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    pub(super) p999_ms: Option<f64>,
}

/// Questions to filters of one granularity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct FilterSample {
    pub(super) granularity: &'static str,
    pub(super) asked_per_second: Option<f64>,
    /// Part of the questions that avoided a file.
    pub(super) useful: Option<f64>,
    /// Part of the questions that a filter answered with a false positive.
    pub(super) wrong: Option<f64>,
}

/// Bytes of memory with their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct OwnedMemory {
    pub(super) owner: &'static str,
    pub(super) bytes: u64,
}

/// Rates and gauges of the engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct EngineSample {
    pub(super) gets_per_second: Option<f64>,
    pub(super) scans_per_second: Option<f64>,
    pub(super) disk_reads_per_get: Option<f64>,
    pub(super) filters: Vec<FilterSample>,
    pub(super) memory_max: Option<u64>,
    pub(super) memory: Vec<OwnedMemory>,
    pub(super) compactions_running: Option<u64>,
    /// Bytes that compactions are behind with.
    pub(super) compaction_debt: Option<u64>,
    pub(super) stalls_per_second: Option<f64>,
    pub(super) slowdowns_per_second: Option<f64>,
    pub(super) committed_bytes_per_second: Option<f64>,
    pub(super) flushed_bytes_per_second: Option<f64>,
    pub(super) compacted_bytes_per_second: Option<f64>,
    pub(super) syncs_per_second: Option<f64>,
    pub(super) levels: [LevelReading; 3],
}

/// Rates and gauges of the door for PostgreSQL clients.
#[cfg(feature = "sql")]
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct SqlSample {
    pub(super) connections: u64,
    pub(super) connections_max: u64,
    pub(super) refused_per_second: Option<f64>,
    /// Bytes that queries hold, and may hold.
    pub(super) memory: u64,
    pub(super) memory_max: u64,
    /// Errors a second by the class of their SQLSTATE.
    pub(super) errors_per_second: BTreeMap<&'static str, f64>,
}

/// Requests, rows and bytes of a table, a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TableSample {
    name: String,
    requests_per_second: f64,
    rows_read_per_second: f64,
    rows_written_per_second: f64,
    bytes_per_second: f64,
}

/// Estimated uses of a tablet's rows, a second, over the last minutes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TabletSample {
    table: String,
    /// Number of the tablet's tree.
    tree: u32,
    reads_per_second: f64,
    writes_per_second: f64,
}

/// Events between two readings, and gauges at the second.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Sample {
    /// Number of the sample since the server started.
    pub(super) number: u64,
    /// End of the interval, in milliseconds since the Unix epoch.
    pub(super) at_ms: i64,
    pub(super) seconds: f64,
    pub(super) operations: BTreeMap<Operation, OperationSample>,
    /// Requests a second by code, without successes.
    pub(super) errors: BTreeMap<String, f64>,
    pub(super) in_flight: Option<f64>,
    /// The tables with the most requests, the hottest first.
    pub(super) tables: Vec<TableSample>,
    pub(super) tablets: Vec<TabletSample>,
    pub(super) engine: Option<EngineSample>,
    #[cfg(feature = "sql")]
    pub(super) sql: Option<SqlSample>,
}

/// Samples that are kept, and advice as of the last one.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    samples: VecDeque<Arc<Sample>>,
    advice: Arc<[Advice]>,
    next: u64,
    /// Moment at which a page asked last.
    asked: Option<Instant>,
}

impl Samples {
    /// Returns the samples after the one of a number, oldest first, and the present advice. Notes that a
    /// page asks.
    pub(super) fn after(&self, number: Option<u64>) -> (Vec<Arc<Sample>>, Arc<[Advice]>) {
        let mut kept = self.0.lock();
        kept.asked = Some(Instant::now());
        let newer = |sample: &&Arc<Sample>| number.is_none_or(|number| sample.number > number);
        let samples = kept.samples.iter().filter(newer).cloned().collect();
        (samples, Arc::clone(&kept.advice))
    }

    /// Keeps a sample. Returns the recent ones, and it in any case.
    fn keep(&self, make: impl FnOnce(u64) -> Sample) -> Vec<Arc<Sample>> {
        let mut kept = self.0.lock();
        let number = kept.next;
        kept.next += 1;
        if kept.samples.len() >= SAMPLES_MAX {
            kept.samples.pop_front();
        }
        let sample = Arc::new(make(number));
        let since = sample.at_ms.saturating_sub(RECENT_MS);
        let recent = kept.samples.iter().filter(|one| one.at_ms > since).cloned();
        let recent = recent.chain([Arc::clone(&sample)]).collect();
        kept.samples.push_back(sample);
        recent
    }

    fn advise(&self, advice: Vec<Advice>) {
        self.0.lock().advice = advice.into();
    }

    /// Returns whether a page has asked a short while before `now`.
    fn are_watched(&self, now: Instant) -> bool {
        let asked = self.0.lock().asked;
        asked.is_some_and(|asked| now.saturating_duration_since(asked) < WATCHED_FOR)
    }
}

/// Takes samples for as long as the server runs.
pub(crate) async fn run(console: Arc<Console>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut before: Option<(Duration, Reading)> = None;
    let mut last: Option<(Instant, Duration)> = None;
    loop {
        ticks.tick().await;
        let now = Instant::now();
        let watched = console.samples.are_watched(now);
        if last.is_some_and(|(at, took)| !is_due(now - at, took, watched)) {
            continue;
        }
        let (console, earlier) = (Arc::clone(&console), before.take());
        let taken = tokio::task::spawn_blocking(move || console.take_sample(earlier)).await;
        before = taken.inspect_err(|error| tracing::warn!(%error, "took no sample")).ok();
        last = Some((now, now.elapsed()));
    }
}

/// Returns whether the next sample is due, `since` the last one, whose reading `took` so long. Called in
/// steps of [`INTERVAL`], of which one comes a little early or late.
fn is_due(since: Duration, took: Duration, watched: bool) -> bool {
    let step = if watched { INTERVAL } else { INTERVAL_UNWATCHED };
    since + INTERVAL / 2 > step.max(took.saturating_mul(READINGS_OF_STEP))
}

impl Console {
    /// Reads the metrics and keeps what happened since the reading of `before`.
    fn take_sample(&self, before: Option<(Duration, Reading)>) -> (Duration, Reading) {
        let (now, reading) = (SystemClock.monotonic(), Reading::take(&self.server));
        let at_ms = SystemClock.now_micros() / 1_000;
        let recent = before.map_or_else(Vec::new, |(then, before)| {
            let seconds = now.saturating_sub(then).as_secs_f64();
            self.samples.keep(|number| between(number, at_ms, seconds, &before, &reading))
        });
        let phase = self.server.phase();
        let (engine, disk) = (reading.engine.as_ref(), reading.disk);
        let situation = Situation { phase, engine, disk, recent: &recent };
        self.samples.advise(advise(&situation));
        (now, reading)
    }
}

/// Returns what happened in the `seconds` between two readings.
fn between(number: u64, at_ms: i64, seconds: f64, before: &Reading, now: &Reading) -> Sample {
    let mut operations: BTreeMap<Operation, Durations> = BTreeMap::new();
    let mut errors = BTreeMap::new();
    for (key @ (operation, code), durations) in &now.requests {
        let none = Durations::default();
        let then = before.requests.get(key).unwrap_or(&none);
        let Some(grown) = growth(then, durations) else { continue };
        if code != "OK"
            && let Some(rate) = rate(Some(grown.count), seconds)
        {
            *errors.entry(code.clone()).or_default() += rate;
        }
        let sum = operations.entry(*operation).or_default();
        sum.count += grown.count;
        if sum.up_to.is_empty() {
            sum.up_to = grown.up_to;
        } else {
            sum.up_to.iter_mut().zip(grown.up_to).for_each(|(sum, part)| sum.1 += part.1);
        }
    }
    let operation = |(operation, durations): (Operation, Durations)| {
        let per_second = rate(Some(durations.count), seconds)?;
        let quantile = |part| quantile(&durations, part).map(|seconds| seconds * 1e3);
        let (p50_ms, p99_ms, p999_ms) = (quantile(0.5), quantile(0.99), quantile(0.999));
        Some((operation, OperationSample { per_second, p50_ms, p99_ms, p999_ms }))
    };
    let engines = before.engine.as_ref().zip(now.engine.as_ref());
    Sample {
        number,
        at_ms,
        seconds,
        operations: operations.into_iter().filter_map(operation).collect(),
        errors,
        in_flight: now.in_flight,
        tables: hot_tables(seconds, before, now),
        tablets: now.tablets.iter().map(hot_tablet).collect(),
        engine: engines.map(|(before, now)| engine_between(seconds, before, now)),
        #[cfg(feature = "sql")]
        sql: before
            .sql
            .as_ref()
            .zip(now.sql.as_ref())
            .map(|(before, now)| sql_between(seconds, before, now)),
    }
}

#[cfg(feature = "sql")]
fn sql_between(seconds: f64, before: &SqlReading, now: &SqlReading) -> SqlSample {
    let errors = now.errors.iter().filter_map(|(class, count)| {
        let then = before.errors.get(class).copied();
        Some((*class, rate(growth_of(then, Some(*count)), seconds)?))
    });
    SqlSample {
        connections: now.connections,
        connections_max: now.connections_max,
        refused_per_second: rate(growth_of(Some(before.refused), Some(now.refused)), seconds),
        memory: now.memory,
        memory_max: now.memory_max,
        errors_per_second: errors.collect(),
    }
}

/// Returns the tables with the most requests between two readings.
fn hot_tables(seconds: f64, before: &Reading, now: &Reading) -> Vec<TableSample> {
    let none = TableReading::default();
    let table = |(name, now): (&String, &TableReading)| {
        let then = before.tables.get(name).unwrap_or(&none);
        let grown =
            |of: fn(&TableReading) -> u64| rate(growth_of(Some(of(then)), Some(of(now))), seconds);
        Some(TableSample {
            name: name.clone(),
            requests_per_second: grown(|of| of.requests).filter(|rate| *rate > 0.0)?,
            rows_read_per_second: grown(|of| of.rows_read)?,
            rows_written_per_second: grown(|of| of.rows_written)?,
            bytes_per_second: grown(|of| of.bytes)?,
        })
    };
    let mut tables: Vec<_> = now.tables.iter().filter_map(table).collect();
    tables.sort_by(|left, right| right.requests_per_second.total_cmp(&left.requests_per_second));
    tables.truncate(HOT_TABLES);
    tables
}

fn hot_tablet(of: &HotTablet) -> TabletSample {
    TabletSample {
        table: of.table.as_str().to_owned(),
        tree: of.tree.0,
        reads_per_second: of.reads,
        writes_per_second: of.writes,
    }
}

fn engine_between(seconds: f64, before: &EngineReading, now: &EngineReading) -> EngineSample {
    let grown = |field: fn(&EngineReading) -> Option<u64>| growth_of(field(before), field(now));
    let per_second = |field| rate(grown(field), seconds);
    let gets = grown(|of| of.gets);
    let filters = before.filters.iter().zip(&now.filters).map(|((_, before), (name, now))| {
        let asked = growth_of(before.asked, now.asked);
        FilterSample {
            granularity: name,
            asked_per_second: rate(asked, seconds),
            useful: part(growth_of(before.useful, now.useful), asked),
            wrong: part(growth_of(before.wrong, now.wrong), asked),
        }
    });
    EngineSample {
        gets_per_second: rate(gets, seconds),
        scans_per_second: per_second(|of| of.scans),
        disk_reads_per_get: part(grown(|of| of.disk_reads), gets),
        filters: filters.collect(),
        memory_max: now.memory_max,
        memory: now
            .memory
            .iter()
            .map(|(owner, bytes)| OwnedMemory { owner, bytes: *bytes })
            .collect(),
        compactions_running: now.compactions_running,
        compaction_debt: now.compaction_debt,
        stalls_per_second: per_second(|of| of.stalls),
        slowdowns_per_second: per_second(|of| of.slowdowns),
        committed_bytes_per_second: per_second(|of| of.committed_bytes),
        flushed_bytes_per_second: per_second(|of| of.flushed_bytes),
        compacted_bytes_per_second: per_second(|of| of.compacted_bytes),
        syncs_per_second: per_second(|of| of.syncs),
        levels: now.levels,
    }
}

/// Returns the growth of a counter; `None` if it went back or is missing.
fn growth_of(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

/// Returns the growth of a histogram; `None` if a bucket went back.
fn growth(before: &Durations, now: &Durations) -> Option<Durations> {
    let then = |at: usize| before.up_to.get(at).map_or(0, |bucket| bucket.1);
    let bucket =
        |(at, (bound, count)): (usize, &(f64, u64))| Some((*bound, count.checked_sub(then(at))?));
    let up_to = now.up_to.iter().enumerate().map(bucket).collect::<Option<_>>()?;
    Some(Durations { up_to, count: now.count.checked_sub(before.count)? })
}

fn rate(growth: Option<u64>, seconds: f64) -> Option<f64> {
    if seconds > 0.0 { growth.map(|growth| growth as f64 / seconds) } else { None }
}

/// Returns which part `some` is of `all`; `None` of nothing.
fn part(some: Option<u64>, all: Option<u64>) -> Option<f64> {
    let all = all.filter(|all| *all > 0)?;
    some.map(|some| some as f64 / all as f64)
}

/// Returns the duration in seconds below which a part of all durations lies, by interpolation within
/// its bucket. Beyond the last bucket it is the end of that.
fn quantile(durations: &Durations, part: f64) -> Option<f64> {
    if durations.count == 0 {
        return None;
    }
    let rank = part * durations.count as f64;
    let mut low = (0.0, 0);
    for (bound, up_to) in &durations.up_to {
        if *up_to as f64 >= rank && *up_to > low.1 {
            let share = (rank - low.1 as f64) / (*up_to - low.1) as f64;
            return Some(low.0 + (bound - low.0) * share.clamp(0.0, 1.0));
        }
        low = (*bound, *up_to);
    }
    durations.up_to.last().map(|(bound, _)| *bound)
}

#[cfg(test)]
mod tests;
