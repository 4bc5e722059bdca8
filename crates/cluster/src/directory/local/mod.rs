//! The directory of a cluster on one machine: a file that several processes share.
//!
//! 1. The file is replaced by rename, so that a reader sees one state of it. It is synced before a
//!    change is acknowledged.
//! 2. Changes are made under a lock of the file beside it, which the operating system takes back
//!    from a process that dies. A process that waits longer than [`LOCK_MAX`] gives up.
//! 3. Leases end by the clock of the machine. The first process that looks at the file after the end of
//!    a lease removes its keys.
//! 4. A watch looks at the file again and again: at its stamp often, and at its leases sometimes. It breaks
//!    if the file is replaced by an older one.

mod file;

pub(super) use file::{State, fuzz};

use super::error::{Error, Result};
use super::{Change, Directory, Event, Item, Key, LeaseId, Outcome, Revision, Snapshot, Watch};
use async_trait::async_trait;
use base::env::Clock;
use futures::{StreamExt, stream};
use security::Stamp;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for another process that changes the file.
const LOCK_MAX: Duration = Duration::from_secs(5);
/// Pause between two attempts to lock.
const LOCK_AGAIN: Duration = Duration::from_millis(2);
/// Pause between two looks of a watch at the file's stamp.
const POLL: Duration = Duration::from_millis(20);
/// Looks at the stamp after which a watch reads the file even if it did not change.
const POLLS_BLIND: u32 = 25;

/// A directory in a file. Cheap to clone.
#[derive(Clone)]
pub struct LocalDirectory {
    path: Arc<Path>,
    clock: Arc<dyn Clock>,
}

impl LocalDirectory {
    /// Returns the directory in the file at `path`, which the first change creates.
    pub fn new(path: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self { path: path.into().into(), clock }
    }

    /// Runs `call` on the state while no other process changes it, and saves the state if it changed.
    async fn alone<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut State, i64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (path, clock) = (Arc::clone(&self.path), Arc::clone(&self.clock));
        blocking(move || {
            let _lock = lock(&path)?;
            let mut state = State::load(&path)?.unwrap_or_default();
            let before = state.clone();
            let now = clock.now_micros();
            state.end_leases(now);
            let result = call(&mut state, now);
            if state != before {
                state.save(&path)?;
            }
            result
        })
        .await
    }

    /// Returns the state as it is now. If leases have ended that the file still has, they are removed
    /// first, so that all processes know their ends by the same revisions.
    async fn present(&self) -> Result<State> {
        let (path, now) = (Arc::clone(&self.path), self.clock.now_micros());
        let loaded = blocking(move || {
            let mut state = State::load(&path)?.unwrap_or_default();
            let ended = state.end_leases(now);
            Ok((!ended).then_some(state))
        });
        match loaded.await? {
            Some(state) => Ok(state),
            None => self.alone(|state, _| Ok(state.clone())).await,
        }
    }
}

/// A watch of a local directory.
struct Look {
    directory: LocalDirectory,
    prefix: String,
    /// Revision up to which all was told.
    after: Revision,
    /// Stamp of the file when it was last read.
    stamp: Option<Stamp>,
    /// Events that were found before the first was asked for.
    first: Option<Vec<Event>>,
}

impl Look {
    /// Returns the events since the last call, maybe none.
    async fn events(&mut self) -> Result<Vec<Event>> {
        // Before the read: a change in between is found by the next look.
        self.stamp = Some(Stamp::of(&self.directory.path));
        let state = self.directory.present().await?;
        if state.revision() < self.after {
            return Err(Error::Unavailable(format!(
                "{} went back from revision {} to {}",
                self.directory.name(),
                self.after.0,
                state.revision().0
            )));
        }
        let events = state.events(&self.prefix, self.after)?;
        self.after = state.revision();
        Ok(events)
    }

    /// Waits until there are events.
    async fn next(&mut self) -> Result<Vec<Event>> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Ok(first);
        }
        let mut polls = 0;
        loop {
            tokio::time::sleep(POLL).await;
            polls += 1;
            if polls % POLLS_BLIND != 0 && self.stamp == Some(Stamp::of(&self.directory.path)) {
                continue;
            }
            let events = self.events().await?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let task = tokio::task::spawn_blocking(call);
    task.await.map_err(|error| Error::Unavailable(format!("a call ended early: {error}")))?
}

/// Locks the file beside `path` until the result is dropped.
fn lock(path: &Path) -> Result<File> {
    let beside = file::beside(path, ".lock");
    let unusable = |error| Error::Unavailable(format!("{}: {error}", beside.display()));
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&beside);
    let file = file.map_err(unusable)?;
    let mut waited = Duration::ZERO;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if waited < LOCK_MAX => {
                std::thread::sleep(LOCK_AGAIN);
                waited += LOCK_AGAIN;
            }
            Err(TryLockError::WouldBlock) => {
                let text = format!("another process holds {}", beside.display());
                return Err(Error::Unavailable(text));
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
    }
}

#[async_trait]
impl Directory for LocalDirectory {
    async fn read(&self, prefix: &str) -> Result<Snapshot> {
        let state = self.present().await?;
        Ok(Snapshot { items: state.items(prefix), revision: state.revision() })
    }

    async fn get(&self, key: &Key) -> Result<Snapshot> {
        let (state, name) = (self.present().await?, key.to_string());
        let mut items = state.items(&name);
        items.retain(|item| item.key == name);
        Ok(Snapshot { items, revision: state.revision() })
    }

    async fn change(&self, change: Change) -> Result<Outcome> {
        change.check()?;
        self.alone(move |state, _| state.change(change)).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch> {
        let mut look = Look {
            directory: self.clone(),
            prefix: prefix.to_owned(),
            after,
            stamp: None,
            first: None,
        };
        // The first look is part of the call, as it may find that the events are gone.
        look.first = Some(look.events().await?);
        let told = stream::unfold(look, |mut look| async {
            let next = look.next().await;
            Some((next, look))
        });
        Ok(ends_with_error(told.boxed()))
    }

    async fn grant(&self, ttl: Duration) -> Result<LeaseId> {
        self.alone(move |state, now| Ok(state.grant(ttl, now))).await
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        self.alone(move |state, now| state.keep_alive(lease, now)).await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.alone(move |state, _| {
            state.revoke(lease);
            Ok(())
        })
        .await
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// Ends a watch after its first error.
fn ends_with_error(watch: Watch) -> Watch {
    stream::unfold(Some(watch), |watch| async {
        let mut watch = watch?;
        let next = watch.next().await?;
        let goes_on = next.is_ok();
        Some((next, goes_on.then_some(watch)))
    })
    .boxed()
}

/// Returns the item of a key, for the state.
fn item(key: &str, kept: &file::Kept) -> Item {
    Item { key: key.to_owned(), value: kept.value.clone(), revision: Revision(kept.revision) }
}
