//! The samples whose memory is in use, each with its size and its stack.

use super::addresses::Addresses;
use super::countdown::{self, Apart};
use super::stack::{self, StackCopy};
use crate::unwind::Unwinder;
use crate::{modules, signal};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Addresses of the samples in use. Written with the lock of [`SAMPLER`].
static KNOWN: Addresses = Addresses::new();
/// The sampler, once it was started. A thread that has its lock takes no other, except in the system's
/// allocator.
static SAMPLER: Mutex<Option<Sampler>> = Mutex::new(None);

/// Finds the stacks of samples, and keeps them.
struct Sampler {
    interval: u64,
    unwinder: Unwinder,
    stack: StackCopy,
    live: HashMap<usize, Sample>,
    lost: u64,
}

struct Sample {
    bytes: usize,
    stack: Box<[u64]>,
}

/// Memory that was allocated by one stack and is in use, estimated.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    objects: f64,
    bytes: f64,
}

impl Sum {
    pub(super) fn objects(self) -> i64 {
        self.objects.round() as i64
    }

    pub(super) fn bytes(self) -> i64 {
        self.bytes.round() as i64
    }

    /// Adds a sample: it stands for all allocations of its size, of which this part was sampled.
    fn add(&mut self, bytes: usize, interval: u64) {
        let bytes = bytes as f64;
        let part = -(-bytes / interval as f64).exp_m1();
        self.objects += 1.0 / part;
        self.bytes += bytes / part;
    }
}

/// All records at one moment.
#[derive(Debug)]
pub(super) struct Records {
    /// Mean of the bytes between two samples.
    pub(super) interval: u64,
    pub(super) stacks: BTreeMap<Box<[u64]>, Sum>,
    pub(super) samples: usize,
    /// Samples that had no place, since the start.
    pub(super) lost: u64,
}

/// Begins to sample one allocation of each `interval` bytes, of a process whose allocator is
/// [`SampledAllocator`](super::SampledAllocator); for good. A second call keeps the interval. Fails where a
/// process may not copy its own memory. The calling thread and new ones begin at once; others within a
/// megabyte.
pub fn start(interval: u64) -> io::Result<()> {
    make(interval)?;
    countdown::look_now();
    Ok(())
}

/// Makes the sampler, unless there is one.
fn make(interval: u64) -> io::Result<()> {
    let _apart = Apart::begin();
    let mut sampler = lock();
    if interval == 0 || sampler.is_some() {
        return Ok(());
    }
    signal::can_copy()?;
    let unwinder = Unwinder::new(&modules::of_this_process()?);
    let stack = StackCopy::new();
    *sampler = Some(Sampler { interval, unwinder, stack, live: HashMap::new(), lost: 0 });
    countdown::set_interval(interval);
    Ok(())
}

fn lock() -> MutexGuard<'static, Option<Sampler>> {
    SAMPLER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether memory at this address may be a sample. The system's allocator aligns to 16 bytes, so
/// about 1 in 128 of all others may be one. Large memory always is: it begins 16 bytes after a page.
#[inline]
pub(super) fn may_be_known(address: usize) -> bool {
    address & 0xfef == 0
}

/// Records memory that is to be handed out, if its address may be known.
#[cold]
pub(super) fn remember(address: usize, bytes: usize) {
    let _apart = Apart::begin();
    // A panic may not leave an allocator. It costs the profile a sample.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let mut sampler = lock();
        let Some(sampler) = sampler.as_mut() else { return };
        if !may_be_known(address) || !KNOWN.insert(address) {
            sampler.lost += 1;
            return;
        }
        let stack = stack::frames(&mut sampler.unwinder, &mut sampler.stack);
        sampler.live.insert(address, Sample { bytes, stack });
    }));
}

/// Forgets memory that is to be freed, if it is known.
pub(super) fn forget(address: usize) {
    if KNOWN.contains(address) {
        forget_known(address);
    }
}

#[cold]
fn forget_known(address: usize) {
    let _apart = Apart::begin();
    let mut sampler = lock();
    KNOWN.remove(address);
    if let Some(sampler) = sampler.as_mut() {
        sampler.live.remove(&address);
    }
}

/// Returns the records of this moment; nothing if no samples are taken.
pub(super) fn read() -> Option<Records> {
    let _apart = Apart::begin();
    let sampler = lock();
    let Sampler { interval, live, lost, .. } = sampler.as_ref()?;
    let mut stacks: BTreeMap<Box<[u64]>, Sum> = BTreeMap::new();
    for Sample { bytes, stack } in live.values() {
        match stacks.get_mut(stack) {
            Some(sum) => sum.add(*bytes, *interval),
            None => {
                let mut sum = Sum::default();
                sum.add(*bytes, *interval);
                stacks.insert(stack.clone(), sum);
            }
        }
    }
    Some(Records { interval: *interval, stacks, samples: live.len(), lost: *lost })
}
