//! How fast background work writes, and how hard writers are held back: what each owes, and waits for.

use crate::state::io_rate::{Feedback, Writer};
use crate::state::{LOOK_AGAIN, Shared};
use crate::tree::TreeState;
use crate::write::pressure::{Backlog, Share, pressure};
use std::time::Duration;

/// Waits as the rate of background work demands of `writer`, who has just written `bytes` bytes
/// for `tree`.
pub(crate) fn keep_to_rate(shared: &Shared, tree: &TreeState, writer: Writer, bytes: u64) {
    wait_for_rate(shared, owes_rate(shared, tree, writer, bytes));
}

/// The same, but does not wait: until when `writer` is to wait, by the monotonic clock.
pub(crate) fn owes_rate(shared: &Shared, tree: &TreeState, writer: Writer, bytes: u64) -> Duration {
    let now = shared.env.clock.monotonic();
    let wait = shared.io_rate.wrote(writer, bytes, now, || Feedback {
        pressure: pressure_of(shared, tree),
        slowness: shared.read_waits.slowness(),
    });
    now.saturating_add(wait)
}

/// Waits until `until`.
pub(crate) fn wait_for_rate(shared: &Shared, until: Duration) {
    let mut at = shared.env.clock.monotonic();
    while at < until && !shared.health.is_over() {
        let mut progress = shared.progress.lock();
        shared.progressed.wait_for(&mut progress, (until - at).min(LOOK_AGAIN));
        drop(progress);
        // The clock of a simulation stands still.
        let before = std::mem::replace(&mut at, shared.env.clock.monotonic());
        at = if at == before { until } else { at };
    }
}

/// What writers of `tree` have to wait for, as a pressure.
pub(crate) fn pressure_of(shared: &Shared, tree: &TreeState) -> u64 {
    let view = tree.look();
    let memory = shared.budget().behind();
    let backlog = Backlog {
        l0_runs: view.version.levels[0].len() as u64,
        frozen: view.frozen.len() as u64,
        active_bytes: view.active.bytes() as u64,
        l1_bytes: view.l1_bytes,
        last_bytes: view.last_bytes,
        memory: memory.map(|(of, whole)| Share { of: of as u64, whole: whole as u64 }),
    };
    pressure(&backlog, &shared.options)
}
