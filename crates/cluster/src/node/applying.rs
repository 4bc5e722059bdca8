//! The task of a replica that applies committed entries: decodes commands, feeds batches to the trees,
//! and changes the schema.
//!
//! 1. Entries are applied in their order, each once; after a restart the engine passes over what it has.
//! 2. The newest time of batches is noted before they are visible, so the next leader gives later ones.
//! 3. What the engine cannot take now, it gets again. What it can never take ends the node.

use super::hosted::{Committed, Hosted};
use super::inbox::Event;
use super::log_thread::{Alone, Job};
use super::open::Shared;
use crate::format::{Batches, Command, Descriptor, SlotBatch};
use crate::group::{Entry, EntryId};
use bytes::Bytes;
use engine::{Fed, LogPosition, ReadyBatch};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Pause before the engine is asked again to take what it could not.
const PAUSE: Duration = Duration::from_millis(100);

/// Counts the tasks at work.
#[derive(Default)]
pub(super) struct TaskCount {
    running: Mutex<usize>,
    ended: Condvar,
}

/// A task that is counted until this is dropped.
pub(super) struct CountedTask(Arc<TaskCount>);

impl TaskCount {
    pub(super) fn begin(self: &Arc<Self>) -> CountedTask {
        *self.running.lock() += 1;
        CountedTask(Arc::clone(self))
    }

    /// Returns the number of tasks that run.
    #[cfg(test)]
    pub(super) fn running(&self) -> usize {
        *self.running.lock()
    }

    /// Waits until no task runs.
    pub(super) fn wait(&self) {
        let mut running = self.running.lock();
        while *running > 0 {
            self.ended.wait(&mut running);
        }
    }
}

impl Drop for CountedTask {
    fn drop(&mut self) {
        *self.0.running.lock() -= 1;
        self.0.ended.notify_all();
    }
}

/// The reason why a task ends.
pub(super) enum Ended {
    /// The node ends, or the replica is removed.
    Asked,
    /// The node must end, for this reason.
    Failed(String),
}

/// Applies entries until an empty list of them, which marks the end.
pub(super) async fn run(shared: Arc<Shared>, hosted: Arc<Hosted>, mut committed: Committed) {
    let mut task = Task { newest: shared.engine.commit_micros(), shared, hosted };
    while let Some(entries) = committed.recv().await {
        let Some(last) = entries.last().map(|entry| entry.id.index) else { return };
        match task.apply(entries).await {
            Ok(()) => {
                task.shared.inbox.push(Event::Applied(Arc::clone(&task.hosted), last));
                task.hosted.set_applied(last);
            }
            Err(Ended::Failed(why)) if !task.hosted.is_removed() => {
                return task.shared.fail(format!("group {}: {why}", task.hosted.group.0));
            }
            Err(_) => return,
        }
    }
}

fn broken(id: EntryId, what: &dyn std::fmt::Display) -> Ended {
    Ended::Failed(format!("command {} of the log cannot be applied: {what}", id.index))
}

struct Task {
    shared: Arc<Shared>,
    hosted: Arc<Hosted>,
    /// Newest time of the batches so far, or of all commits before the task began.
    newest: u64,
}

/// Entries that are fed together.
#[derive(Default)]
struct Portion {
    /// The last entry of the portion.
    last: EntryId,
    /// Batches by entry and slot.
    batches: Vec<(u64, usize, ReadyBatch)>,
    /// Newest time of the batches.
    newest: u64,
    /// Terms that begin here, with the newest time before each.
    terms: Vec<(u64, u64)>,
}

impl Task {
    async fn apply(&mut self, entries: Vec<Entry>) -> Result<(), Ended> {
        let mut portion = Portion::default();
        for Entry { id, command } in entries {
            let begins = (portion.last.term != id.term).then_some((id.term, self.newest));
            if !command.is_empty() {
                let decoded = Command::decode(&command).map_err(|error| broken(id, &error))?;
                match decoded {
                    Command::Batches(batches) => self.add(id, batches, &mut portion)?,
                    Command::Schema { version, record } => {
                        // Positions up to this one come to the trees after the descriptor is on disk.
                        self.feed(std::mem::take(&mut portion)).await?;
                        self.set_schema(version, &command, record).await?;
                    }
                }
            }
            portion.terms.extend(begins);
            portion.last = id;
        }
        self.feed(portion).await
    }

    /// Adds the batches of the command of entry `id`.
    fn add(
        &mut self,
        id: EntryId,
        batches: Batches<'_>,
        portion: &mut Portion,
    ) -> Result<(), Ended> {
        for SlotBatch { slot, batch } in batches.batches {
            if slot >= self.hosted.trees.len() {
                return Err(broken(id, &"it names a tree that the group does not have"));
            }
            let batch = ReadyBatch::decode(batch).map_err(|error| broken(id, &error))?;
            portion.batches.push((id.index, slot, batch));
        }
        self.newest = self.newest.max(batches.newest_micros);
        portion.newest = portion.newest.max(batches.newest_micros);
        Ok(())
    }

    async fn feed(&self, portion: Portion) -> Result<(), Ended> {
        let Portion { last, batches, newest, terms } = portion;
        if last.index == 0 {
            return Ok(());
        }
        let trees = &self.hosted.trees;
        let mut bytes = vec![0; trees.len()];
        for (_, slot, batch) in &batches {
            bytes[*slot] += batch.encoded_len();
        }
        let fed = batches.iter().map(|(index, slot, batch)| Fed {
            tree: trees[*slot].id(),
            position: LogPosition(*index),
            batch: Some(batch),
        });
        let position = LogPosition(last.index);
        let ends = trees.iter().map(|tree| Fed { tree: tree.id(), position, batch: None });
        let fed: Vec<Fed<'_>> = fed.chain(ends).collect();
        self.shared.engine.note_commit_micros(newest);
        let mut told = false;
        loop {
            let offered = self.shared.unless_ended(self.offer(&bytes, &fed)).await;
            match offered.ok_or(Ended::Asked)? {
                Ok(()) => break,
                Err(error) => self.pause_after(error, &mut told).await?,
            }
        }
        for (term, floor) in terms {
            self.hosted.set_applied_term(term, floor);
        }
        Ok(())
    }

    /// Feeds the trees when each has room for its bytes.
    async fn offer(&self, bytes: &[usize], fed: &[Fed<'_>]) -> engine::Result<()> {
        for (tree, bytes) in self.hosted.trees.iter().zip(bytes) {
            if *bytes > 0 {
                tree.room_for(*bytes).await?;
            }
        }
        self.shared.engine.apply(fed)
    }

    /// Pauses if the engine may take later what it did not take for `error`.
    async fn pause_after(&self, error: engine::Error, told: &mut bool) -> Result<(), Ended> {
        match error {
            engine::Error::NoSpace { .. } | engine::Error::Unavailable(_) => {
                if !std::mem::replace(told, true) {
                    tracing::warn!("group {} waits: {error}", self.hosted.group.0);
                }
                let pause = tokio::time::sleep(PAUSE);
                self.shared.unless_ended(pause).await.ok_or(Ended::Asked)
            }
            error => Err(Ended::Failed(error.to_string())),
        }
    }

    /// Takes a newer schema: into the descriptor on disk, then to the layer of tables.
    async fn set_schema(&self, version: u64, command: &Bytes, record: &[u8]) -> Result<(), Ended> {
        let before = self.hosted.descriptor();
        if version <= before.schema_version {
            return Ok(());
        }
        let record = command.slice_ref(record);
        let schema = Bytes::copy_from_slice(&record);
        let new = Descriptor { schema_version: version, schema, ..(*before).clone() };
        let Hosted { group, replica, .. } = &*self.hosted;
        let (done, saved) = oneshot::channel();
        let write = Alone::Describe(*group, *replica, Arc::new(new.clone()));
        self.shared.log_jobs.push(Job::Alone(write, done));
        let written = saved.await.map_err(|_| Ended::Asked)?;
        written.map_err(|why| Ended::Failed(format!("the descriptor was refused: {why}")))?;
        self.hosted.set_descriptor(new);
        self.shared.tables.schema_applied(*group, version, &record);
        Ok(())
    }
}
