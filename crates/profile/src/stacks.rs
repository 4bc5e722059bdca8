//! Equal stacks, counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The samples of a profile.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    counts: HashMap<Stack, u64>,
    /// Names of threads by their numbers, as they were when first seen.
    threads: BTreeMap<i32, Arc<str>>,
    lost: u64,
}

/// The functions in which a thread was.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Stack {
    /// Name that the thread had.
    pub(crate) thread: Arc<str>,
    /// Addresses of its functions, the innermost first.
    pub(crate) frames: Vec<u64>,
}

impl Stacks {
    /// Counts a sample of a thread.
    pub(crate) fn count(&mut self, thread: i32, frames: Vec<u64>) {
        let thread = Arc::clone(self.threads.entry(thread).or_insert_with(|| name(thread)));
        *self.counts.entry(Stack { thread, frames }).or_default() += 1;
    }

    /// Notes that so many samples were not kept.
    pub(crate) fn lost(&mut self, samples: u64) {
        self.lost = samples;
    }

    /// Returns the number of samples that were not kept.
    pub(crate) fn lost_count(&self) -> u64 {
        self.lost
    }

    /// Returns each stack with its number of samples, in order.
    pub(crate) fn counts(&self) -> BTreeMap<&Stack, u64> {
        self.counts.iter().map(|(stack, count)| (stack, *count)).collect()
    }

    /// Returns all addresses, each once.
    pub(crate) fn addresses(&self) -> BTreeSet<u64> {
        self.counts.keys().flat_map(|stack| stack.frames.iter().copied()).collect()
    }
}

/// Returns the name of a thread; that of one that has ended is not known.
fn name(thread: i32) -> Arc<str> {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
    name.as_deref().map_or("ended thread", str::trim_end).into()
}
