//! Heap profiles: which functions allocated the memory that is in use.
//!
//! A program makes [`SampledAllocator`] its global allocator and calls [`start`]. Then one allocation of
//! each so many bytes is sampled: its stack is kept until the memory is freed.
//!
//! ```text
//! alloc:    countdown --- bytes are left ---> the system's allocator
//!               |
//!               +------- none is left -----> an address that tells, and a record of the stack
//! dealloc:  is it such an address, and known? --- yes ---> forget the record
//!               +---------------------------------------> the system's allocator
//! ```
//!
//! Invariants:
//! 1. All memory comes from the system's allocator, and goes back to it by the same calls as without
//!    samples. A wrong record is a wrong profile, never a wrong free.
//! 2. A sampled allocation lies at an address for which `records::may_be_known` is true. So `dealloc`
//!    looks up about 1 in 128 of all addresses, and without a lock.
//! 3. A record is made before its memory is handed out, and forgotten before its memory is freed. So an
//!    address is known while it is in use, and at no other time.
//! 4. Work on records allocates by the system's allocator directly: its thread is `countdown::Apart`, and
//!    takes no sample. So a thread takes the lock of the records once, and before locks of the system's
//!    allocator.
//! 5. Records are bounded by the places for their addresses. A sample without a place is counted as lost.

mod addresses;
mod allocator;
mod countdown;
mod records;
mod stack;
#[cfg(test)]
mod tests;

pub use allocator::SampledAllocator;
pub use records::start;

use crate::flame::{self, Node};
use crate::symbols::Symbols;
use crate::{Error, Turn, modules, pprof};
use base::env::{Clock, SystemClock};
use records::Records;
use std::sync::atomic::AtomicBool;

/// Part of the names of functions by which a sample was taken, which are no callers.
const OWN: &str = "profile::heap::allocator::";
/// Frames among which the own functions are.
const OWN_FRAMES_MAX: usize = 8;

/// Tells that a thread makes a heap profile.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The stacks by which the memory in use was allocated, estimated from samples.
#[derive(Debug)]
pub struct HeapProfile {
    records: Records,
    symbols: Symbols,
    /// Time of the profile, in microseconds since 1970.
    taken_micros: i64,
}

impl HeapProfile {
    /// Returns the profile of this moment. Ends early, without a profile, soon after `cancelled` returns
    /// true. Takes seconds, most of them to name functions.
    pub fn take(cancelled: &dyn Fn() -> bool) -> Result<Self, Error> {
        let _turn = Turn::take(&TAKEN).ok_or(Error::Running)?;
        let records = records::read().ok_or(Error::Off)?;
        let taken_micros = SystemClock.now_micros();
        let modules = modules::of_this_process().map_err(Error::System)?;
        let addresses = records.stacks.keys().flat_map(|stack| stack.iter().copied()).collect();
        let symbols = Symbols::find(modules, addresses, cancelled).ok_or(Error::Cancelled)?;
        Ok(Self { records, symbols, taken_micros })
    }

    /// Returns the profile as `go tool pprof` and other tools read it.
    pub fn to_pprof(&self) -> Vec<u8> {
        self.message().compressed()
    }

    pub(crate) fn message(&self) -> pprof::message::Profile {
        let stacks = self.records.stacks.iter();
        let samples = stacks.map(|(stack, sum)| pprof::Sample {
            frames: self.callers(stack),
            values: [sum.objects(), sum.bytes()],
            thread: None,
        });
        pprof::Content {
            values: [("inuse_objects", "count"), ("inuse_space", "bytes")],
            samples: samples.collect(),
            period: ("space", "bytes", i64::try_from(self.records.interval).unwrap_or(i64::MAX)),
            time_nanos: self.taken_micros.saturating_mul(1_000),
            duration_nanos: 0,
            lost: self.records.lost,
        }
        .message(&self.symbols)
    }

    /// Returns the profile as a flame graph in SVG.
    pub fn to_svg(&self) -> String {
        let mut root = Node::default();
        for (stack, sum) in &self.records.stacks {
            let functions = self.callers(stack).iter().rev();
            let names = functions.flat_map(|at| self.symbols.names(*at).into_iter().rev());
            root.add(names, sum.bytes().cast_unsigned());
        }
        let (bytes, interval) = (root.count(), self.records.interval);
        let about = format!(
            "about {} in use, by {} samples, one for each {} that were allocated",
            flame::bytes(bytes),
            self.records.samples,
            flame::bytes(interval)
        );
        let legend = flame::Legend { title: "Heap profile", about: &about, amount: flame::bytes };
        flame::draw(&root, &legend)
    }

    /// Returns a stack without the functions of the allocator itself, as far as they have names.
    fn callers<'a>(&self, stack: &'a [u64]) -> &'a [u64] {
        let first = &stack[..stack.len().min(OWN_FRAMES_MAX)];
        let is_own = |at: &u64| self.symbols.names(*at).iter().any(|name| name.contains(OWN));
        let own = first.iter().rposition(is_own).map_or(0, |at| at + 1);
        &stack[own..]
    }
}
