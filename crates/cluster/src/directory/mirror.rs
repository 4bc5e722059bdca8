//! A copy of the whole directory in memory, kept up to date by a watch.
//!
//! 1. The copy is the directory's state at one revision, and its revision never falls. It changes by
//!    whole changes.
//! 2. While the directory does not answer, the copy stays as it is and [`MirrorState::trouble`] says
//!    why. A watch that broke begins again where it ended, after a pause that grows.
//! 3. Marks of nodes are not in the copy: they change every few seconds, and only a start reads its own. They
//!    raise the revision and are no news.
//! 4. A copy on disk lets a node start without the directory. It is older than the directory may be,
//!    and only hints are taken from it.

use super::error::{Error, Result};
use super::local::State;
use super::{Directory, Event, Item, Key, Revision};
use futures::StreamExt;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Pauses before a watch begins again: the first one, and the longest.
const AGAIN_FIRST: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(2);
/// Shortest time between two copies on disk.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Condition of a mirror now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MirrorState {
    /// Last change that the copy shows.
    pub revision: Revision,
    /// True once the copy came from the directory itself, not from a copy on disk.
    pub is_current: bool,
    /// Reason why the directory is not watched now.
    pub trouble: Option<String>,
}

/// A copy of a directory. It is kept up to date until the last clone is dropped.
#[derive(Clone)]
pub struct Mirror {
    inner: Arc<Inner>,
    _task: Arc<EndTask>,
}

struct Inner {
    directory: Arc<dyn Directory>,
    items: RwLock<Arc<BTreeMap<String, Item>>>,
    state: watch::Sender<MirrorState>,
}

/// Ends the task of a mirror when the mirror goes.
struct EndTask(JoinHandle<()>);

impl Drop for EndTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Mirror {
    /// Begins a copy of `directory`. `saved` is a file for a copy on disk: the mirror starts with its
    /// content, and writes it again after changes. A file that cannot be read is passed over.
    pub async fn start(directory: Arc<dyn Directory>, saved: Option<PathBuf>) -> Self {
        let (items, revision) = match &saved {
            Some(path) => load(path.clone()).await,
            None => Default::default(),
        };
        let state = MirrorState { revision, ..MirrorState::default() };
        let inner = Arc::new(Inner {
            directory,
            items: RwLock::new(Arc::new(items)),
            state: watch::Sender::new(state),
        });
        // Before the first change, so that none is missed.
        let changes = inner.state.subscribe();
        let task = tokio::spawn(keep(Arc::downgrade(&inner), Arc::clone(&inner.directory)));
        if let Some(path) = saved {
            // Ends by itself when the sender of the state goes.
            tokio::spawn(save_changes(Arc::downgrade(&inner), changes, path));
        }
        Self { inner, _task: Arc::new(EndTask(task)) }
    }

    /// Returns the directory that is copied.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.inner.directory
    }

    /// Returns all items as they are now, by key.
    pub fn items(&self) -> Arc<BTreeMap<String, Item>> {
        Arc::clone(&self.inner.items.read())
    }

    /// Returns the item of one key.
    pub fn get(&self, key: &Key) -> Option<Item> {
        self.inner.items.read().get(&key.to_string()).cloned()
    }

    /// Returns the items whose keys begin with `prefix`, in order of key.
    pub fn below(&self, prefix: &str) -> Vec<Item> {
        let items = self.items();
        let from = items.range(prefix.to_owned()..);
        from.take_while(|(key, _)| key.starts_with(prefix)).map(|(_, item)| item.clone()).collect()
    }

    /// Returns the condition of the mirror, and news of it.
    pub fn state(&self) -> watch::Receiver<MirrorState> {
        self.inner.state.subscribe()
    }

    /// Waits until the copy shows the change `revision`. `Unavailable` if it does not within `bound`.
    pub async fn reaches(&self, revision: Revision, bound: Duration) -> Result<()> {
        self.wait(bound, |state| state.is_current && state.revision >= revision).await
    }

    /// Waits until the copy comes from the directory itself. `Unavailable` if it does not within
    /// `bound`: the directory does not answer.
    pub async fn current(&self, bound: Duration) -> Result<()> {
        self.wait(bound, |state| state.is_current).await
    }

    async fn wait(&self, bound: Duration, until: impl Fn(&MirrorState) -> bool) -> Result<()> {
        let mut state = self.state();
        let reached = tokio::time::timeout(bound, state.wait_for(|state| until(state))).await;
        if matches!(reached, Ok(Ok(_))) {
            return Ok(());
        }
        let why = self.inner.state.borrow().trouble.clone();
        let why = why.unwrap_or_else(|| format!("{} does not answer", self.directory().name()));
        Err(Error::Unavailable(why))
    }
}

impl Inner {
    fn replace(&self, items: Vec<Item>, revision: Revision) {
        let items = items.into_iter().filter(|item| !is_mark(&item.key));
        let items = items.map(|item| (item.key.clone(), item)).collect();
        *self.items.write() = Arc::new(items);
        self.publish(revision);
    }

    fn apply(&self, events: Vec<Event>) {
        let Some(revision) = events.iter().map(Event::revision).max() else { return };
        if events.iter().all(|event| is_mark(event.key())) {
            self.state.send_if_modified(|state| {
                let is_news = !state.is_current || state.trouble.is_some();
                *state = MirrorState { revision, is_current: true, trouble: None };
                is_news
            });
            return;
        }
        {
            let mut shared = self.items.write();
            let items = Arc::make_mut(&mut shared);
            for event in events.into_iter().filter(|event| !is_mark(event.key())) {
                match event {
                    Event::Put(item) => {
                        items.insert(item.key.clone(), item);
                    }
                    Event::Gone { key, .. } => {
                        items.remove(&key);
                    }
                }
            }
        }
        self.publish(revision);
    }

    /// Tells waiters about a revision, after its items are there.
    fn publish(&self, revision: Revision) {
        self.state.send_replace(MirrorState { revision, is_current: true, trouble: None });
    }

    fn tell_trouble(&self, error: &Error) {
        self.state.send_if_modified(|state| {
            let text = error.to_string();
            let is_new = state.trouble.as_ref() != Some(&text);
            if is_new {
                tracing::warn!(%error, "the cluster's directory cannot be watched; trying again");
            }
            state.trouble = Some(text);
            is_new
        });
    }
}

fn is_mark(key: &str) -> bool {
    key.starts_with(Key::MARKS)
}

/// Keeps the copy up to date.
async fn keep(inner: Weak<Inner>, directory: Arc<dyn Directory>) {
    let mut pause = AGAIN_FIRST;
    // The revision to watch from; `None` to read all first.
    let mut from = None;
    loop {
        let error = match follow(&inner, &*directory, &mut from, &mut pause).await {
            None => return,
            Some(error) => error,
        };
        if matches!(error, Error::Compacted) {
            from = None;
        } else {
            let Some(inner) = inner.upgrade() else { return };
            inner.tell_trouble(&error);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(AGAIN_MAX);
    }
}

/// Reads if need be, then applies events until the watch breaks. `None` if the mirror is gone.
async fn follow(
    inner: &Weak<Inner>,
    directory: &dyn Directory,
    from: &mut Option<Revision>,
    pause: &mut Duration,
) -> Option<Error> {
    let after = match *from {
        Some(after) => after,
        None => match directory.read("").await {
            Ok(all) => {
                let inner = inner.upgrade()?;
                if inner.state.borrow().is_current && all.revision < inner.state.borrow().revision {
                    return Some(Error::Unavailable(format!(
                        "{} went back from revision {} to {}: it was restored, or another one \
                         answers",
                        directory.name(),
                        inner.state.borrow().revision.0,
                        all.revision.0
                    )));
                }
                inner.replace(all.items, all.revision);
                all.revision
            }
            Err(error) => return Some(error),
        },
    };
    *from = Some(after);
    let mut watch = match directory.watch("", after).await {
        Ok(watch) => watch,
        Err(error) => return Some(error),
    };
    // The watch is there: what the copy shows is current again.
    inner.upgrade()?.publish(after);
    *pause = AGAIN_FIRST;
    loop {
        match watch.next().await {
            Some(Ok(events)) => {
                *from = events.iter().map(Event::revision).max().max(*from);
                inner.upgrade()?.apply(events);
            }
            Some(Err(error)) => return Some(error),
            None => return Some(Error::Unavailable("a watch ended".to_owned())),
        }
    }
}

/// Reads the copy on disk. Without one, or with one that cannot be read, there is nothing.
async fn load(path: PathBuf) -> (BTreeMap<String, Item>, Revision) {
    let loaded = tokio::task::spawn_blocking(move || State::load(&path)).await;
    match loaded {
        Ok(Ok(Some(state))) => {
            let items = state.items("").into_iter().map(|item| (item.key.clone(), item));
            (items.collect(), state.revision())
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "the copy of the cluster's directory is passed over");
            Default::default()
        }
        _ => Default::default(),
    }
}

/// Writes the copy on disk after changes, until the mirror is gone.
async fn save_changes(inner: Weak<Inner>, mut state: watch::Receiver<MirrorState>, path: PathBuf) {
    while state.changed().await.is_ok() {
        let (is_current, revision) = {
            let state = state.borrow_and_update();
            (state.is_current, state.revision)
        };
        let Some(items) = inner.upgrade().map(|inner| Arc::clone(&inner.items.read())) else {
            return;
        };
        if !is_current {
            continue;
        }
        let copy = State::of(items.values().cloned(), revision);
        let file = path.clone();
        let saved = tokio::task::spawn_blocking(move || copy.save(&file)).await;
        if let Ok(Err(error)) = saved {
            tracing::warn!(%error, "could not save the copy of the cluster's directory");
        }
        tokio::time::sleep(SAVE_EVERY).await;
    }
}
