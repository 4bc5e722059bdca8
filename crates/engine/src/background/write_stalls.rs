//! When writers wait: slowed as `pressure` says, stopped when background work must end first.
//!
//! Invariants:
//! 1. A writer waits before its batch is in the log, never after.
//! 2. All slowed writers together keep to the rate of the pressure (`state::pacer`).
//! 3. Who is stopped for lack of memory waits as long as some flush can give memory back. A failure
//!    of another tree is told only when no flush can.

use crate::background::{scheduler, throttle};
use crate::error::{Cause, Error, Result};
use crate::state::{LOOK_AGAIN, Shared};
use crate::tree::TreeState;
use crate::write::pressure::{STOP, rate};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Waits before a write of `bytes` bytes to `tree` as background work demands.
pub(crate) fn wait_for_room(
    shared: &Arc<Shared>,
    tree: &Arc<TreeState>,
    bytes: usize,
) -> Result<()> {
    if shared.is_closing() {
        return Err(Error::Closed);
    }
    shared.health.check()?;
    if throttle::pressure_of(shared, tree) == 0 {
        return Ok(());
    }
    let begin = shared.env.clock.monotonic();
    let outcome = wait_under_pressure(shared, tree, bytes as u64);
    let waited = shared.env.clock.monotonic().saturating_sub(begin);
    shared.stalls.waited.record(waited);
    outcome
}

fn wait_under_pressure(shared: &Arc<Shared>, tree: &Arc<TreeState>, bytes: u64) -> Result<()> {
    let (mut turn, mut stopped) = (None, false);
    loop {
        if shared.is_closing() {
            return Err(Error::Closed);
        }
        shared.health.check()?;
        // Nothing will make room in it any more.
        if tree.is_gone() {
            return Err(Error::UnknownTree(tree.id));
        }
        let pressure = throttle::pressure_of(shared, tree);
        if pressure >= STOP {
            shared.counters.write_stalls.fetch_add(u64::from(!stopped), Ordering::Relaxed);
            stopped = true;
            make_room(shared, tree)?;
            shared.pause(LOOK_AGAIN);
            continue;
        }
        let Some(rate) = rate(pressure) else { return Ok(()) };
        let now = shared.env.clock.monotonic();
        let turn = *turn.get_or_insert_with(|| {
            shared.counters.write_slowdowns.fetch_add(1, Ordering::Relaxed);
            shared.stalls.pacer.turn(now, bytes, rate)
        });
        if turn <= now {
            return Ok(());
        }
        shared.pause(turn - now);
        // The clock of a simulation stands still while nothing is to be done.
        if shared.env.clock.monotonic() == now {
            return Ok(());
        }
    }
}

/// Sees to it that what stops a writer of `tree` is being done, or says why it cannot.
fn make_room(shared: &Arc<Shared>, tree: &Arc<TreeState>) -> Result<()> {
    scheduler::schedule(shared, tree);
    if let Some(refusal) = tree.work.lock().refusal() {
        return Err(refusal);
    }
    if shared.budget().stops_writers() { push_flushes(shared) } else { Ok(()) }
}

/// Sees to it that every frozen memtable is being flushed; an error if none can be.
fn push_flushes(shared: &Arc<Shared>) -> Result<()> {
    let trees: Vec<Arc<TreeState>> = shared.trees.read().values().cloned().collect();
    let mut failed = Ok(());
    for tree in trees.iter().filter(|tree| !tree.look().frozen.is_empty()) {
        scheduler::schedule_flush(shared, tree);
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
