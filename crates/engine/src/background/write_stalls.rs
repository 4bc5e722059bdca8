//! When writers wait: slowed as `pressure` says, stopped when background work must end first.
//!
//! Invariants:
//! 1. A writer waits before its batch is in the log, never after.
//! 2. All slowed writers together keep to the rate of the pressure (`state::pacer`).
//! 3. Who is stopped for lack of memory waits as long as some flush can give memory back. A failure
//!    of another tree is told only when no flush can.
//! 4. Of the stopped writers of a tree one in `LOOK_AGAIN` looks for work that is to start; the others
//!    only look whether they are refused. A job that ends starts what follows from it, so that no
//!    writer waits for this look.

use crate::background::{scheduler, throttle};
use crate::counters::perf_context::{self, PerfTime};
use crate::counters::tree_counters::WorkCount;
use crate::error::{Cause, Error, Result};
use crate::state::pacer::{TASK_DELAY_MAX, THREAD_DELAY_MAX};
use crate::state::{LOOK_AGAIN, Shared};
use crate::tree::TreeState;
use crate::write::pressure::{STOP, rate};
use std::sync::Arc;
use std::time::Duration;

/// Waits before a write of `bytes` bytes to `tree` as background work demands.
pub(crate) fn wait_for_room(
    shared: &Arc<Shared>,
    tree: &Arc<TreeState>,
    bytes: usize,
) -> Result<()> {
    let mut stall = Stall::new(shared, tree, bytes, THREAD_DELAY_MAX);
    let outcome = loop {
        match stall.look() {
            Ok(Some(pause)) => shared.pause(pause),
            outcome => break outcome,
        }
    };
    stall.end(outcome)
}

/// The same for a writer that is a task: it holds no thread while it waits.
pub(crate) async fn room_for_task(
    shared: &Arc<Shared>,
    tree: &Arc<TreeState>,
    bytes: usize,
) -> Result<()> {
    let mut stall = Stall::new(shared, tree, bytes, TASK_DELAY_MAX);
    let outcome = loop {
        match stall.look() {
            Ok(Some(pause)) => {
                perf_context::waiting(PerfTime::WriteStall, shared.pause_task(pause)).await;
            }
            outcome => break outcome,
        }
    };
    stall.end(outcome)
}

/// The wait of one writer.
struct Stall<'a> {
    shared: &'a Arc<Shared>,
    tree: &'a Arc<TreeState>,
    bytes: u64,
    /// Longest that it waits for its turn.
    delay_max: Duration,
    /// When it began to wait.
    begun: Option<Duration>,
    /// When it may go on, if it was slowed.
    turn: Option<Duration>,
    /// When it last began to wait for its turn.
    waits_since: Option<Duration>,
    stopped: bool,
}

impl<'a> Stall<'a> {
    fn new(
        shared: &'a Arc<Shared>,
        tree: &'a Arc<TreeState>,
        bytes: usize,
        delay_max: Duration,
    ) -> Self {
        let (bytes, stopped) = (bytes as u64, false);
        Self { shared, tree, bytes, delay_max, begun: None, turn: None, waits_since: None, stopped }
    }

    /// Returns how long the writer is to wait before it looks again; `None` if it may go on.
    fn look(&mut self) -> Result<Option<Duration>> {
        let Self { shared, tree, .. } = self;
        if shared.is_closing() {
            return Err(Error::Closed);
        }
        shared.health.check()?;
        let pressure = throttle::pressure_of(shared, tree);
        // Nothing will make room any more in a tree that is gone.
        if (pressure > 0 || self.begun.is_some()) && tree.is_gone() {
            return Err(Error::UnknownTree(tree.id));
        }
        let Some(rate) = rate(pressure) else { return Ok(None) };
        let now = shared.env.clock.monotonic();
        self.begun.get_or_insert(now);
        if pressure >= STOP {
            if !self.stopped {
                tree.counters.add(WorkCount::Stalls, 1);
            }
            self.stopped = true;
            make_room(shared, tree, now)?;
            return Ok(Some(LOOK_AGAIN));
        }
        let turn = *self.turn.get_or_insert_with(|| {
            tree.counters.add(WorkCount::Slowdowns, 1);
            shared.stalls.pacer.turn(now, self.bytes, rate, self.delay_max)
        });
        // The clock of a simulation stands still while nothing is to be done.
        if turn <= now || self.waits_since == Some(now) {
            return Ok(None);
        }
        self.waits_since = Some(now);
        Ok(Some(turn - now))
    }

    /// Counts the wait, if there was one.
    fn end(self, outcome: Result<Option<Duration>>) -> Result<()> {
        if let Some(begun) = self.begun {
            let waited = self.shared.env.clock.monotonic().saturating_sub(begun);
            self.shared.stalls.waited.record_time(waited);
        }
        outcome.map(|_| ())
    }
}

/// Sees to it, in its turn, that what stops a writer of `tree` is being done; or says why it cannot.
fn make_room(shared: &Arc<Shared>, tree: &Arc<TreeState>, now: Duration) -> Result<()> {
    let in_turn = tree.is_to_make_room(now, LOOK_AGAIN);
    if in_turn {
        scheduler::schedule(shared, tree);
    }
    if let Some(refusal) = tree.work.lock().refusal() {
        return Err(refusal);
    }
    if shared.budget().stops_writers() { push_flushes(shared, in_turn) } else { Ok(()) }
}

/// Sees to it, if that is its turn, that a frozen memtable is being flushed; an error if none can be.
fn push_flushes(shared: &Arc<Shared>, in_turn: bool) -> Result<()> {
    let trees: Vec<Arc<TreeState>> = shared.trees.read().values().cloned().collect();
    let mut failed = Ok(());
    for tree in trees.iter().filter(|tree| !tree.look().frozen.is_empty()) {
        if in_turn {
            scheduler::schedule_flush(shared, tree);
        }
        let refusal = tree.work.lock().refusal();
        match refusal {
            None => return Ok(()),
            Some(Error::Unavailable(cause)) => {
                let why = format!(
                    "memory for memtables is exhausted, and tree {} cannot be flushed: {cause}",
                    tree.id.0
                );
                failed = failed.and(Err(Error::Unavailable(Cause { why, ..cause })));
            }
            Some(other) => failed = failed.and(Err(other)),
        }
    }
    failed
}
