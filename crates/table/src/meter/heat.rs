//! Samples of the rows that requests use, by time: which keys are hot.
//!
//! Every use of a row counts down a number of its thread. At zero, its key is kept as a sample, and the
//! next distance is drawn at random around the stride. Samples of half a minute make a slice. A slice that
//! is full keeps every second sample, and doubles the stride.
//!
//! Invariants:
//! 1. A sample stands for as many uses as the weight of its slice, which is the stride: samples of one slice
//!    have one weight. A thread draws a new distance when the stride has changed.
//! 2. A slice has at most [`SAMPLES_MAX`] samples of at most [`KEY_BYTES_MAX`] bytes, and [`SLICES_MAX`] slices
//!    are kept, so that memory is bounded, whatever clients do.
//! 3. A use that is no sample touches nothing that another thread writes, but for the number of the stride,
//!    which changes a few times a minute.

use crate::schema::TableName;
use base::checksum::xxh3;
use base::env::Clock;
use engine::TreeId;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Length of the time that a slice covers.
pub const SLICE: Duration = Duration::from_secs(30);
/// Slices that are kept: a quarter of an hour, and the present one.
pub const SLICES_MAX: usize = 31;
/// Samples of a slice at most.
const SAMPLES_MAX: usize = 2_048;
/// Bytes of a key that a sample keeps.
const KEY_BYTES_MAX: usize = 128;
/// Greatest stride, so that no distance overflows.
const STRIDE_MAX: u32 = 1 << 24;

/// Ways in which a request uses a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
}

/// A use of a row that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    pub table: TableName,
    pub tree: TreeId,
    pub kind: Use,
    pub key: SampledKey,
}

/// A key of a row, of which the first bytes are kept. Keys that differ later are still told apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampledKey {
    /// First bytes of the key.
    pub first: Box<[u8]>,
    /// Bytes of the whole key.
    pub len: usize,
    /// Hash of the whole key, if it is longer than what is kept.
    hash: u64,
}

impl SampledKey {
    fn of(key: &[u8]) -> Self {
        let first = &key[..key.len().min(KEY_BYTES_MAX)];
        let hash = if first.len() < key.len() { xxh3(key) } else { 0 };
        Self { first: first.into(), len: key.len(), hash }
    }
}

/// Samples of a stretch of time, of one weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Begin and end, by the monotonic clock.
    pub begin: Duration,
    pub end: Duration,
    /// Uses that each sample stands for.
    pub weight: u32,
    pub samples: Vec<Sample>,
}

/// The samples of the last minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slices {
    /// The oldest first. A time without uses has no slice; the last slice may end after `now`.
    pub slices: Vec<Arc<Slice>>,
    /// Begin of the time that the slices are of, also where there was no use.
    pub since: Duration,
    /// Present moment, by the same clock.
    pub now: Duration,
}

impl Slices {
    /// Returns the time that the slices are of, in seconds.
    pub fn seconds(&self) -> f64 {
        self.now.saturating_sub(self.since).as_secs_f64().max(1.0)
    }

    /// Returns the slices that end after `since`, with the time that they are of.
    fn recent(mut self, since: Duration) -> Self {
        self.slices.retain(|slice| slice.end > since);
        let first = self.slices.first().map_or(since, |slice| slice.begin);
        self.since = self.since.max(since.min(first));
        self
    }
}

/// The samples of a store, and how they are taken.
pub struct Heat {
    clock: Arc<dyn Clock>,
    /// The stride, and the number that it has among all strides of the process; 0 for no samples.
    /// Relaxed: a thread that sees an old one samples a little more or less for a moment.
    epoch: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Begin of the first slice.
    born: Duration,
    past: VecDeque<Arc<Slice>>,
    /// Begin of the present slice, which may have no sample yet.
    begin: Duration,
    /// The present slice with its samples; it ends later.
    present: Option<Slice>,
}

/// Numbers of strides that were given out.
static EPOCHS: AtomicU32 = AtomicU32::new(1);

/// A thread's way to its next sample.
#[derive(Clone, Copy)]
struct Countdown {
    epoch: u64,
    left: u32,
    random: u64,
}

thread_local! {
    static COUNTDOWN: Cell<Countdown> = const { Cell::new(Countdown { epoch: 0, left: 0, random: 0 }) };
}

/// Returns a new epoch with this stride.
fn epoch(stride: u32) -> u64 {
    let number = EPOCHS.fetch_add(1, Ordering::Relaxed).max(1);
    u64::from(number) << 32 | u64::from(stride)
}

fn stride_of(epoch: u64) -> u32 {
    epoch as u32
}

impl Countdown {
    /// Returns a number from 1 to `most`.
    fn draw(&mut self, most: u32) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15 ^ self.epoch);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        1 + (((z >> 32) * u64::from(most)) >> 32) as u32
    }
}

impl Heat {
    /// Returns the heat of a store, without samples.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let now = clock.monotonic();
        let kept = Kept { born: now, begin: now, ..Kept::default() };
        Self { clock, epoch: AtomicU64::new(epoch(1)), kept: Mutex::new(kept) }
    }

    /// Takes no samples from now on, and forgets all samples.
    pub(crate) fn turn_off(&self) {
        let mut kept = self.kept.lock();
        self.epoch.store(0, Ordering::Relaxed);
        *kept = Kept::default();
    }

    /// Counts a use of a row.
    #[inline]
    pub(crate) fn used(&self, table: &TableName, tree: TreeId, kind: Use, key: &[u8]) {
        let epoch = self.epoch.load(Ordering::Relaxed);
        COUNTDOWN.with(|countdown| {
            let mut now = countdown.get();
            if now.epoch == epoch && now.left > 1 {
                now.left -= 1;
                countdown.set(now);
            } else if epoch != 0 {
                self.end_of_distance(countdown, epoch, || Sample {
                    table: table.clone(),
                    tree,
                    kind,
                    key: SampledKey::of(key),
                });
            }
        });
    }

    /// Keeps a sample, or begins to count again after the stride has changed.
    #[cold]
    fn end_of_distance(
        &self,
        countdown: &Cell<Countdown>,
        epoch: u64,
        sample: impl FnOnce() -> Sample,
    ) {
        let mut next = countdown.get();
        let stride = stride_of(epoch);
        if next.epoch != epoch {
            next.epoch = epoch;
            next.left = next.draw(stride);
            if next.left > 1 {
                next.left -= 1;
                return countdown.set(next);
            }
        }
        // From 1 to twice the stride less one: the stride in the middle.
        next.left = next.draw(2 * stride - 1);
        countdown.set(next);
        self.keep(epoch, sample());
    }

    fn keep(&self, of: u64, sample: Sample) {
        let now = self.clock.monotonic();
        let mut kept = self.kept.lock();
        self.turn(&mut kept, now);
        if self.epoch.load(Ordering::Relaxed) != of {
            return; // A sample of another weight.
        }
        let (begin, weight) = (kept.begin, stride_of(of));
        let new = || Slice { begin, end: begin + SLICE, weight, samples: Vec::new() };
        let present = kept.present.get_or_insert_with(new);
        if present.samples.len() < SAMPLES_MAX {
            present.samples.push(sample);
        } else if present.weight < STRIDE_MAX {
            let mut is_kept = false;
            present.samples.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            present.weight *= 2;
            self.epoch.store(epoch(present.weight), Ordering::Relaxed);
        }
    }

    /// Ends the present slice if its time is over at `now`. The next one begins with half of the stride for
    /// each slice that has passed, since there may be less to do.
    fn turn(&self, kept: &mut Kept, now: Duration) {
        let passed = now.saturating_sub(kept.begin).as_secs() / SLICE.as_secs();
        if passed == 0 {
            return;
        }
        kept.begin = now;
        kept.past.extend(kept.present.take().map(Arc::new));
        while kept.past.len() >= SLICES_MAX {
            kept.past.pop_front();
        }
        let before = self.epoch.load(Ordering::Relaxed);
        if before != 0 && stride_of(before) > 1 {
            let stride = stride_of(before).checked_shr(passed as u32).unwrap_or(0).max(1);
            self.epoch.store(epoch(stride), Ordering::Relaxed);
        }
    }

    /// Returns the slices of the last minutes.
    pub fn slices(&self) -> Slices {
        let now = self.clock.monotonic();
        let mut kept = self.kept.lock();
        self.turn(&mut kept, now);
        let present = kept.present.clone().map(Arc::new);
        let since = now.saturating_sub(SLICE * SLICES_MAX as u32);
        let slices = kept.past.iter().filter(|slice| slice.begin >= since).cloned();
        Slices { slices: slices.chain(present).collect(), since: since.max(kept.born), now }
    }
}

impl fmt::Debug for Heat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stride = stride_of(self.epoch.load(Ordering::Relaxed));
        f.debug_struct("Heat").field("stride", &stride).finish_non_exhaustive()
    }
}

/// Estimated uses of a tablet's rows a second.
#[derive(Debug, Clone, PartialEq)]
pub struct HotTablet {
    pub table: TableName,
    pub tree: TreeId,
    pub reads: f64,
    pub writes: f64,
}

impl Heat {
    /// Returns the tablets with the most uses of rows in the last two minutes, the hottest first.
    pub fn hottest_tablets(&self, most: usize) -> Vec<HotTablet> {
        let all = self.slices();
        let since = all.now.saturating_sub(4 * SLICE);
        let recent = all.recent(since);
        let seconds = recent.seconds();
        let mut tablets = BTreeMap::<TreeId, HotTablet>::new();
        for slice in &recent.slices {
            for sample in &slice.samples {
                let tablet = tablets.entry(sample.tree).or_insert_with(|| HotTablet {
                    table: sample.table.clone(),
                    tree: sample.tree,
                    reads: 0.0,
                    writes: 0.0,
                });
                let rate = match sample.kind {
                    Use::Read => &mut tablet.reads,
                    Use::Write => &mut tablet.writes,
                };
                *rate += f64::from(slice.weight);
            }
        }
        let per_second = |tablet: HotTablet| HotTablet {
            reads: tablet.reads / seconds,
            writes: tablet.writes / seconds,
            ..tablet
        };
        let mut tablets: Vec<_> = tablets.into_values().map(per_second).collect();
        let uses = |tablet: &HotTablet| tablet.reads + tablet.writes;
        tablets.sort_by(|left, right| uses(right).total_cmp(&uses(left)));
        tablets.truncate(most);
        tablets
    }
}

#[cfg(test)]
mod tests;
