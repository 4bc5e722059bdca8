//! How much memory a worker may have, and what it is made of.
//!
//! What counts is what the process has allocated and touched (`RssAnon`: no text of the program),
//! less what it had when the expected state was loaded and the engine not yet open, and less what
//! that state has grown by since. It may be the engine's budget, a tenth of it, and what decision 15
//! lists as beside the budget ([`Beside`]), which follows from the number of threads and not from
//! the data.

use super::look::Judged;
use super::plan::Run;
use super::work::COPY_BYTES;
use engine::Engine;

/// Of a thread that asks something of the engine: buffers of reads that it keeps (1 MiB), its batch
/// or row, blocks that it holds and the cache has no room for, its stack.
const THREAD_BYTES: u64 = 3 << 19;
/// Of a background thread: what it reads ahead (64 KiB a run), a block and 256 KiB to be written, a
/// context of Zstandard (1 MiB).
const JOB_BYTES: u64 = 2 << 20;
/// What the allocator has for itself: free between what lives, or for alignment; and what nobody has
/// found yet. With 12 threads that ask and two in the background 80 MiB were seen beside the engine's
/// account, of a budget of 32, on a machine that had five times as much to do as it could.
const FREED_BYTES: u64 = 96 << 20;

/// Memory that a worker may have beside a budget and a tenth of it, in bytes.
#[derive(Debug)]
pub(super) struct Beside {
    threads: u64,
    jobs: u64,
    /// The engine that opens a checkpoint, with a tenth more.
    copy: u64,
}

impl Beside {
    /// That of a worker of `run` with so many background threads.
    pub(super) fn of(run: &Run, background: usize) -> Self {
        // One thread keeps house, another watches.
        let threads = u64::from(run.writers) + u64::from(run.readers) + 2;
        Self {
            threads: threads * THREAD_BYTES,
            jobs: background as u64 * JOB_BYTES,
            copy: (COPY_BYTES + COPY_BYTES / 10) as u64,
        }
    }

    /// All of it.
    pub(super) fn sum(&self) -> u64 {
        self.threads + self.jobs + self.copy + FREED_BYTES
    }
}

impl std::fmt::Display for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [threads, jobs, copy] = [self.threads, self.jobs, self.copy].map(Mib);
        let freed = Mib(FREED_BYTES);
        write!(
            f,
            "{threads} for threads that ask, {jobs} for background threads, {copy} for the engine \
             of a checkpoint, {freed} that the allocator has not given back"
        )
    }
}

/// What the engine says it uses its budget for, in bytes.
#[derive(Debug)]
pub(super) struct Account(Vec<(&'static str, u64)>);

impl Account {
    /// What `engine` says now.
    pub(super) fn of(engine: &Engine) -> Self {
        let metrics = engine.metrics();
        let names = [
            "memory_blocks_bytes",
            "memory_memtables_active_bytes",
            "memory_memtables_frozen_bytes",
            "memory_memtables_outlived_bytes",
            "memory_metadata_bytes",
            "memory_building_bytes",
        ];
        Self(names.map(|name| (name, metrics.get(name).unwrap_or_default())).to_vec())
    }

    /// All of it.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = self.0.iter().map(|(name, bytes)| format!("{name} {}", Mib(*bytes)));
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}

/// Memory of a worker at some moment, in bytes.
#[derive(Debug)]
pub(super) struct Used {
    /// What the process has.
    pub(super) all: u64,
    /// What it had before the engine was opened.
    pub(super) before: u64,
    /// What the expected state has grown by since.
    pub(super) grown: i64,
    pub(super) account: Account,
}

impl Used {
    /// What is the engine's of it.
    pub(super) fn by_engine(&self) -> u64 {
        self.all.saturating_sub(self.before.saturating_add_signed(self.grown))
    }

    /// An error, which tells the parts, if it is more than `budget`, a tenth, and `beside`.
    pub(super) fn judge(&self, budget: u64, beside: &Beside) -> Judged<()> {
        let tenth = budget / 10;
        let (used, allowed) = (self.by_engine(), budget + tenth + beside.sum());
        if used <= allowed {
            return Ok(());
        }
        let Self { all, before, grown, account } = self;
        let [used, allowed, all, before, budget, tenth] =
            [used, allowed, *all, *before, budget, tenth].map(Mib);
        let grown = *grown as f64 / f64::from(1 << 20);
        Err(format!(
            "{used} of memory where {allowed} may be. Measured: {all}, less {before} before the \
             engine was opened and {grown:.1} MiB that the expected state has grown by. Allowed: the \
             budget of {budget}, a tenth of it, {tenth}, and beside it {beside}. Of what is used the \
             engine's account has {}: {account}",
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
        let beside = Beside::of(&run, 2);
        assert_eq!(
            beside.sum(),
            12 * MIB + 4 * MIB + (COPY_BYTES + COPY_BYTES / 10) as u64 + 96 * MIB
        );
        let account = || Account(vec![("memory_blocks_bytes", 60 * MIB)]);
        let used = |all| Used { all, before: 5 * MIB, grown: 2 << 20, account: account() };
        let allowed = 100 * MIB + 10 * MIB + beside.sum() + 7 * MIB;
        assert_eq!(used(allowed).judge(100 * MIB, &beside), Ok(()));
        let what = used(allowed + 1).judge(100 * MIB, &beside).unwrap_err();
        let parts = [
            "226.4 MiB of memory where 226.4 MiB may be",
            "less 5.0 MiB before",
            "2.0 MiB that the expected state",
            "the budget of 100.0 MiB",
            "12.0 MiB for threads that ask",
            "memory_blocks_bytes 60.0 MiB",
        ];
        parts.iter().for_each(|part| assert!(what.contains(part), "{part}: {what}"));
        // A state that shrank is no memory of the engine's.
        assert_eq!(Used { grown: -(20 << 20), ..used(30 * MIB) }.by_engine(), 30 * MIB);
        assert_eq!(used(6 * MIB).by_engine(), 0);
    }
}
