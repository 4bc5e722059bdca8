//! A copy of the whole directory in memory, kept up to date by a watch.
//!
//! 1. The copy is the directory's state at one revision, and its revision never falls. It changes by
//!    whole changes.
//! 2. While the directory does not answer, the copy stays as it is and [`MirrorState::trouble`] says
//!    why. After a pause that grows, the mirror reads all again and watches from there.
//! 3. Marks of nodes are not in the copy: they change often, and only a node reads its own. They
//!    raise the revision and are no news.
//! 4. A copy on disk lets a node start without the directory. It is older than the directory may be,
//!    and only hints are taken from it.
//! 5. A directory of another cluster, or without one, is not taken over. Neither is one that does not
//!    continue what the copy shows, once the copy came from the directory: it went back, or an item that is as old
//!    as the copy is another one. Etcd that was restored from a backup, or founded again, is told by this.

use super::checked::Checked;
use super::error::{Error, Result};
use super::local::State;
use super::records::ClusterRecord;
use super::{Directory, Event, Item, Key, Revision, Snapshot, Watch};
use engine::ClusterId;
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
    /// True while what answers is not the directory that the copy is of.
    pub is_foreign: bool,
}

/// A copy of a directory. It is kept up to date until the last clone is dropped.
#[derive(Clone)]
pub struct Mirror {
    inner: Arc<Inner>,
    _task: Arc<EndTask>,
}

/// The state that the tasks of a mirror and its users share.
pub(super) struct Inner {
    pub(super) directory: Arc<dyn Directory>,
    /// The cluster whose directory it is.
    cluster: ClusterId,
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
    /// Begins a copy of `directory`, which is that of `cluster`. `saved` is a file for a copy on disk: the
    /// mirror starts with its content, and writes it again after changes. A file that cannot be read is passed over.
    pub async fn start(
        directory: Arc<dyn Directory>,
        cluster: ClusterId,
        saved: Option<PathBuf>,
    ) -> Self {
        let (items, revision) = match &saved {
            Some(path) => load(path.clone()).await,
            None => Default::default(),
        };
        let state = MirrorState { revision, ..MirrorState::default() };
        let inner = Arc::new(Inner {
            directory,
            cluster,
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

    /// Returns the directory that is copied. Its calls are `Unavailable` before the mirror has read it, and
    /// `Foreign` while what answers is not the directory that the copy is of.
    pub fn directory(&self) -> Arc<dyn Directory> {
        Arc::new(Checked(Arc::clone(&self.inner)))
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
        let reached = |state: &MirrorState| state.is_current && state.revision >= revision;
        self.inner.wait(bound, reached).await
    }

    /// Waits until the copy comes from the directory itself. `Unavailable` if it does not within
    /// `bound`: the directory does not answer.
    pub async fn current(&self, bound: Duration) -> Result<()> {
        self.inner.current(bound).await
    }
}

impl Inner {
    /// Waits for the directory, as [`Mirror::current`] does.
    pub(super) async fn current(&self, bound: Duration) -> Result<()> {
        self.wait(bound, |state| state.is_current).await
    }

    async fn wait(&self, bound: Duration, until: impl Fn(&MirrorState) -> bool) -> Result<()> {
        let mut state = self.state.subscribe();
        let reached = tokio::time::timeout(bound, state.wait_for(|state| until(state))).await;
        if matches!(reached, Ok(Ok(_))) {
            return Ok(());
        }
        let why = self.state.borrow().trouble.clone();
        let why = why.unwrap_or_else(|| format!("{} does not answer", self.directory.name()));
        Err(Error::Unavailable(why))
    }

    /// Returns the revision of the copy. `Foreign` while what answers is another directory.
    pub(super) fn vouched(&self) -> Result<Revision> {
        let state = self.state.borrow();
        match (state.is_foreign, &state.trouble) {
            (true, why) => Err(Error::Foreign(why.clone().unwrap_or_default())),
            (false, _) => Ok(state.revision),
        }
    }

    /// Returns true for the record of the cluster whose directory this is.
    pub(super) fn is_our_cluster(&self, item: &Item) -> bool {
        ClusterRecord::decode(&item.value).is_ok_and(|record| record.id == self.cluster)
    }

    pub(super) fn has_another_cluster(&self) -> Error {
        Error::Foreign(format!(
            "{} does not have cluster {}: it lost its data, or another one answers; restore its backup",
            self.directory.name(),
            self.cluster
        ))
    }

    pub(super) fn went_back(&self, from: Revision, to: Revision) -> Error {
        Error::Foreign(format!(
            "{} went back from revision {} to {}: it was restored from an older backup, or another one \
             answers; restore its newest state",
            self.directory.name(),
            from.0,
            to.0
        ))
    }

    /// Checks that what was read is this cluster's, and a later state of what the copy shows if that came
    /// from the directory.
    fn check(&self, read: &Snapshot) -> Result<()> {
        let cluster = read.items.iter().find(|item| item.key == Key::Cluster.to_string());
        if !cluster.is_some_and(|item| self.is_our_cluster(item)) {
            return Err(self.has_another_cluster());
        }
        let known = self.state.borrow().clone();
        let went_back = read.revision < known.revision;
        if !known.is_current {
            if went_back {
                let error = self.went_back(known.revision, read.revision);
                tracing::error!(%error, "this start takes the older state as it is");
            }
            return Ok(());
        }
        if went_back {
            return Err(self.went_back(known.revision, read.revision));
        }
        match contradiction(&self.items.read(), known.revision, &read.items) {
            None => Ok(()),
            Some(key) => Err(Error::Foreign(format!(
                "{} has another past: '{key}' is not what it was at revision {}. It was restored from an \
                 older backup and changed since, or another one answers; restore its newest state",
                self.directory.name(),
                known.revision.0
            ))),
        }
    }

    fn replace(&self, all: Snapshot) {
        let items = all.items.into_iter().filter(|item| !is_mark(&item.key));
        let items = items.map(|item| (item.key.clone(), item)).collect();
        *self.items.write() = Arc::new(items);
        self.publish(all.revision);
    }

    fn apply(&self, events: Vec<Event>) {
        let Some(revision) = events.iter().map(Event::revision).max() else { return };
        if events.iter().all(|event| is_mark(event.key())) {
            self.state.send_if_modified(|state| {
                let is_news = !state.is_current || state.trouble.is_some();
                *state = current_at(revision);
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
        self.state.send_replace(current_at(revision));
    }

    fn tell_trouble(&self, error: &Error) {
        self.state.send_if_modified(|state| {
            let text = error.to_string();
            let is_new = state.trouble.as_ref() != Some(&text);
            if is_new {
                tracing::warn!(%error, "the cluster's directory cannot be watched; trying again");
            }
            state.trouble = Some(text);
            state.is_foreign = matches!(error, Error::Foreign(_));
            is_new
        });
    }
}

fn is_mark(key: &str) -> bool {
    key.starts_with(Key::MARKS)
}

fn current_at(revision: Revision) -> MirrorState {
    MirrorState { revision, is_current: true, trouble: None, is_foreign: false }
}

/// Returns a key of `read`, a later state, that is no later than the copy and is not in it. A key that the copy
/// alone has may have been removed since.
fn contradiction(
    copy: &BTreeMap<String, Item>,
    revision: Revision,
    read: &[Item],
) -> Option<String> {
    let old = read.iter().filter(|item| item.revision <= revision && !is_mark(&item.key));
    let mut other = old.filter(|item| copy.get(&item.key) != Some(*item));
    other.next().map(|item| item.key.clone())
}

/// Keeps the copy up to date.
async fn keep(inner: Weak<Inner>, directory: Arc<dyn Directory>) {
    let mut pause = AGAIN_FIRST;
    loop {
        let error = match begin(&inner, &*directory).await {
            Ok(watch) => {
                pause = AGAIN_FIRST;
                apply_all(&inner, watch).await
            }
            Err(error) => Some(error),
        };
        let (Some(error), Some(inner)) = (error, inner.upgrade()) else { return };
        if error != Error::Compacted {
            inner.tell_trouble(&error);
        }
        drop(inner);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(AGAIN_MAX);
    }
}

/// Reads all, takes it over, and watches what comes after it.
async fn begin(inner: &Weak<Inner>, directory: &dyn Directory) -> Result<Watch> {
    let gone = || Error::Unavailable("the mirror is gone".to_owned());
    let all = directory.read("").await?;
    let revision = all.revision;
    {
        let inner = inner.upgrade().ok_or_else(gone)?;
        inner.check(&all)?;
        inner.replace(all);
    }
    let watch = directory.watch("", revision).await?;
    // Another directory may answer since the first read, and etcd takes a watch that begins in its future. This
    // read finds it: what answers now continues what was read.
    let there = directory.read("").await?;
    let inner = inner.upgrade().ok_or_else(gone)?;
    inner.check(&there)?;
    inner.publish(revision);
    Ok(watch)
}

/// Applies events until the watch breaks. `None` if the mirror is gone.
async fn apply_all(inner: &Weak<Inner>, mut watch: Watch) -> Option<Error> {
    loop {
        match watch.next().await {
            Some(Ok(events)) => inner.upgrade()?.apply(events),
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
