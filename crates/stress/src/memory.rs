//! How much memory a worker may have, and what it is made of.
//!
//! What counts is what the process has allocated and touched (`RssAnon`: no text of the program),
//! less what it had when the expected state was loaded and the engine not yet open, and less what
//! that state has grown by since. The engine is told of it as by a server, and blocks give way to
//! what is beside its account. So it may be the budget and a tenth; where the budget is too small for
//! what threads need whatever it is, that may come on top. There free memory that the allocator keeps
//! between pieces in use does not count ([`base::allocator::give_back_free`]): how much there is follows
//! from the machine's load, not from the engine.

use crate::look::Judged;
use crate::plan::{Run, THREADS_MAX};
use engine::Engine;

/// A budget of so much for each thread is kept to, but for a tenth: half of it is for memtables, an
/// eighth for blocks, and what is left and a tenth are as much as threads need at a time.
const KEPT_BYTES: u64 = 8 << 20;
/// Beside a smaller one and a tenth, what each thread may have: buffers of reads, its batch, blocks
/// that it holds and the cache has no room for, contexts of Zstandard. Of a budget of 8 MiB with 13
/// threads, 20 to 40 MiB are mostly seen with what the allocator keeps, and up to 79 on a machine that
/// has several times as much to do as it can. Half of it is in use; the other half is freed memory
/// between pieces in use, of two heaps of glibc, which gives back only what lies at the end.
const BESIDE_BYTES: u64 = 6 << 20;

/// Threads of a worker of `run`: one of them keeps house, another watches.
fn threads(run: &Run) -> u64 {
    u64::from(run.writers) + u64::from(run.readers) + 2 + THREADS_MAX as u64
}

/// Bytes that a worker of `run` may have with a budget of `budget` bytes.
fn allowed(run: &Run, budget: u64) -> u64 {
    let beside = if budget < threads(run) * KEPT_BYTES { threads(run) * BESIDE_BYTES } else { 0 };
    budget + budget / 10 + beside
}

/// What the engine says it uses its budget for, in bytes.
#[derive(Debug)]
pub(crate) struct Account(Vec<(&'static str, u64)>);

impl Account {
    const BESIDE: &'static str = "memory_bytes{owner=\"untracked\"}";

    /// What `engine` says now.
    pub(crate) fn of(engine: &Engine) -> Self {
        let metrics = engine.metrics();
        let names = [
            Self::BESIDE,
            "memory_bytes{owner=\"blocks\"}",
            "memory_bytes{owner=\"active_memtables\"}",
            "memory_bytes{owner=\"frozen_memtables\"}",
            "memory_bytes{owner=\"outlived_memtables\"}",
            "memory_bytes{owner=\"metadata\"}",
            "memory_bytes{owner=\"building\"}",
        ];
        Self(names.map(|name| (name, metrics.get(name).unwrap_or_default())).to_vec())
    }

    /// All that is charged.
    pub(crate) fn sum(&self) -> u64 {
        let charged = self.0.iter().filter(|(name, _)| *name != Self::BESIDE);
        charged.map(|(_, bytes)| bytes).sum()
    }
}

impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = self.0.iter().map(|(name, bytes)| format!("{name} {}", Mib(*bytes)));
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}

/// What of `all` is the engine's, where `before` was there before and has `grown` since.
pub(crate) fn by_engine(all: u64, before: u64, grown: i64) -> u64 {
    all.saturating_sub(before.saturating_add_signed(grown))
}

/// Memory of a worker at some moment, in bytes.
#[derive(Debug)]
pub(crate) struct Used {
    /// What the process has.
    pub(crate) all: u64,
    /// What it had before the engine was opened.
    pub(crate) before: u64,
    /// What the expected state has grown by since.
    pub(crate) grown: i64,
    pub(crate) account: Account,
}

impl Used {
    /// What is the engine's of it.
    pub(crate) fn by_engine(&self) -> u64 {
        by_engine(self.all, self.before, self.grown)
    }

    /// True if a worker of `run` may not have this with a budget of `budget` bytes, and free memory may
    /// be a part of it that does not count.
    pub(crate) fn is_in_doubt(&self, run: &Run, budget: u64) -> bool {
        budget < threads(run) * KEPT_BYTES && self.by_engine() > allowed(run, budget)
    }

    /// An error, which tells the parts, if it is more than a worker of `run` may have with a budget of
    /// `budget` bytes.
    pub(crate) fn judge(&self, run: &Run, budget: u64) -> Judged<()> {
        let (used, allowed) = (self.by_engine(), allowed(run, budget));
        if used <= allowed {
            return Ok(());
        }
        let Self { all, before, grown, account } = self;
        let [used, allowed, all, before, budget] = [used, allowed, *all, *before, budget].map(Mib);
        let grown = *grown as f64 / f64::from(1 << 20);
        Err(format!(
            "{used} of memory where {allowed} may be, with a budget of {budget}. Measured: {all}, less \
             {before} before the engine was opened and {grown:.1} MiB that the expected state has grown \
             by. The engine's account has {}: {account}",
            Mib(account.sum())
        ))
    }
}

/// Shown in MiB.
struct Mib(u64);

impl std::fmt::Display for Mib {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / f64::from(1 << 20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn more_than_may_be_is_told_by_its_parts() {
        let run = Run { seed: 1, writers: 4, readers: 2, rows: 10 };
        let account = || {
            Account(vec![(Account::BESIDE, 70 * MIB), ("memory_bytes{owner=\"blocks\"}", 60 * MIB)])
        };
        let used = |all| Used { all, before: 5 * MIB, grown: 2 << 20, account: account() };
        let most = 110 * MIB + 7 * MIB;
        assert_eq!(used(most).judge(&run, 100 * MIB), Ok(()));
        // A large budget is kept to with what the allocator keeps; a small one is looked at twice.
        assert!(!used(most + MIB).is_in_doubt(&run, 100 * MIB));
        assert!(!used(87 * MIB).is_in_doubt(&run, 8 * MIB));
        assert!(used(89 * MIB).is_in_doubt(&run, 8 * MIB));
        assert_eq!(allowed(&run, 8 * MIB), 8 * MIB + 8 * MIB / 10 + 72 * MIB);
        assert_eq!(allowed(&run, 96 * MIB), 96 * MIB + 96 * MIB / 10);
        let what = used(most + MIB).judge(&run, 100 * MIB).unwrap_err();
        let parts = [
            "111.0 MiB of memory where 110.0 MiB may be, with a budget of 100.0 MiB",
            "less 5.0 MiB before",
            "2.0 MiB that the expected state",
            "account has 60.0 MiB: memory_bytes{owner=\"untracked\"} 70.0 MiB, \
             memory_bytes{owner=\"blocks\"} 60.0 MiB",
        ];
        parts.iter().for_each(|part| assert!(what.contains(part), "{part}: {what}"));
        // A state that shrank is no memory of the engine's.
        assert_eq!(Used { grown: -(20 << 20), ..used(30 * MIB) }.by_engine(), 30 * MIB);
        assert_eq!(used(6 * MIB).by_engine(), 0);
    }
}
