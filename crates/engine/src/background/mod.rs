//! Background work: when memtables are frozen, and how jobs run and end.
//!
//! In: trees whose memtables are full or whose shape asks for a compaction. Out: new SSTables, edits
//! of the manifest, and new views of the trees. `scheduler` decides what starts, `by_hand` does what a
//! caller asks for, `flush_jobs` and `compaction_jobs` do the work, `subcompaction_threads` divides a
//! compaction among threads, `throttle` and `write_stalls` hold back background work and writers. May
//! use `state`, `compaction`, `tree`, `write` and the rooms below them.
//!
//! Invariants:
//! 1. Per tree at most one flush runs at a time (`Work::flushing`), and compactions whose inputs and
//!    outputs have nothing to do with each other (`Work::busy`).
//! 2. New files are opened before the manifest names them, so installing cannot fail half-way:
//!    the edit is durable, then the view changes, both under the manifest's lock.
//! 3. A flush that nobody asked for starts only while its tree has a place for one more sorted run
//!    (`pick::is_full`); then it writes all memtables that wait, as one run. While it waits a
//!    compaction that makes the place runs or has failed, and writers wait as memory fills
//!    (`pressure`). So a scan meets `pick::runs_max` runs at most, but for runs made by
//!    `Tree::flush`, by ingests, and by a replay that memory was too small for.
//! 4. Whoever waits (a stalled writer, a flush on demand) waits on `progressed`, which is
//!    signalled after every change of a flag; before sleeping it offers to run a queued job itself
//!    (`Tasks::help`), so that a single-threaded simulation makes progress. It looks whether the
//!    engine closes, or writes were stopped.
//! 5. What marks work as under way is a value that ends with it, also by a panic, so that nobody waits
//!    for work that is gone.

pub(crate) mod by_hand;
mod compaction_jobs;
pub(crate) mod flush_jobs;
mod jobs;
pub(crate) mod scheduler;
mod started;
mod subcompaction_threads;
pub(crate) mod throttle;
pub(crate) mod write_stalls;

use crate::health::failure_policy::Task;
use crate::options::Durability;
use crate::state::Shared;
use std::sync::Arc;
use std::time::Duration;

/// After open: starts what is due, and the regular sync if the durability mode has one.
pub(crate) fn start_background(shared: &Arc<Shared>) {
    let trees: Vec<_> = shared.trees.read().values().cloned().collect();
    trees.iter().for_each(|tree| scheduler::schedule(shared, tree));
    scheduler::keep_to_budget(shared);
    scheduler::keep_looking(shared);
    if let Durability::Interval(every) = shared.options.durability {
        sync_after(shared, every);
    }
}

fn sync_after(shared: &Arc<Shared>, every: Duration) {
    jobs::run_later(shared, every, Task::Log, "a sync of the log", move |shared| {
        if shared.is_closing() {
            return;
        }
        match shared.commits.sync() {
            Ok(()) => sync_after(shared, every),
            Err(error) => {
                shared.failed(Task::Log, error);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::batch::WriteBatch;
    use crate::cell::{Column, FamilyId, Timestamp, TreeId};
    use crate::engine::Engine;
    use crate::options::{Options, TreeOptions};
    use crate::shape::Shape;
    use base::env::SimEnv;
    use std::path::Path;

    #[test]
    fn log_that_only_a_checkpoint_keeps_is_no_reason_to_flush() {
        const TREE: TreeId = TreeId(1);
        let shape = Shape { log_segments_max: 2, ..Shape::DEFAULT };
        let options = Options { log_segment_bytes: 64 << 10, shape, ..Options::default() };
        let machine = SimEnv::new(1);
        let engine = Engine::open_with_env(machine.env(), Path::new("/data"), options).unwrap();
        engine.create_tree(TREE, TreeOptions::default()).unwrap();
        let (shared, tree) = (engine.shared(), engine.shared().tree(TREE).unwrap());
        let write = |batches: u8| {
            for row in 0..batches {
                let mut batch = WriteBatch::new();
                batch.put(&[row], Column::of(FamilyId(1), b"q"), Timestamp(1), &[7; 20 << 10]);
                engine.tree(TREE).unwrap().write(&batch).unwrap();
            }
        };
        let pinned = shared.log_segments.pin();
        write(20);
        engine.tree(TREE).unwrap().flush().unwrap();
        assert!(shared.log_segments.numbers().len() > 5, "they are kept for the checkpoint");
        write(1);
        assert!(tree.look().frozen.is_empty() && !tree.look().active.is_empty());
        write(20);
        assert!(!tree.look().frozen.is_empty(), "the tree itself needs too much log");
        drop(pinned);
    }
}
