//! What the cache counts, striped so that cores do not fight over a line.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const STRIPES: usize = 16;

/// Something that is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    Hit,
    Miss,
    Inserted,
    Evicted,
    NotKept,
}

/// One number for each [`Counted`] and stripe.
#[derive(Default)]
pub(super) struct Counters([CachePadded<[AtomicU64; 5]>; STRIPES]);

thread_local! {
    static STRIPE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
}

impl Counters {
    #[inline]
    pub(super) fn add(&self, counted: Counted, count: u64) {
        let stripe = STRIPE.with(|stripe| *stripe);
        self.0[stripe][counted as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn read(&self, counted: Counted) -> u64 {
        self.0.iter().map(|stripe| stripe[counted as usize].load(Ordering::Relaxed)).sum()
    }
}

/// A reading of the cache's counters and gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Reads answered from memory.
    pub hits: u64,
    /// Reads that had to load, those that joined another's load included.
    pub misses: u64,
    /// Blocks put in.
    pub inserted: u64,
    /// Blocks removed to make room.
    pub evicted: u64,
    /// Blocks that were loaded, lent and not kept, since no room came free in time.
    pub not_kept: u64,
    /// Bytes held now.
    pub bytes: u64,
    /// Bytes it may hold.
    pub bytes_max: u64,
    /// Bytes of memory on huge pages now; `None` where the system does not tell.
    pub huge_bytes: Option<u64>,
}
