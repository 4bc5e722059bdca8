//! A directory with failures of etcd that a file does not have.

use async_trait::async_trait;
use cluster::directory::{
    Change, Directory, Error, Key, LeaseId, LocalDirectory, Outcome, Result, Revision, Snapshot,
    Watch,
};
use futures::{StreamExt, stream};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

pub(super) struct Faulty {
    now: RwLock<LocalDirectory>,
    is_full: AtomicBool,
    /// Time that each call takes, but a keep-alive.
    slow: RwLock<Duration>,
    /// When leases were kept alive.
    kept: RwLock<Vec<Instant>>,
    /// Watches break when this changes.
    replaced: watch::Sender<()>,
}

impl Faulty {
    pub(super) fn new(directory: LocalDirectory) -> Arc<Self> {
        let (is_full, replaced) = (AtomicBool::new(false), watch::Sender::new(()));
        let (slow, kept) = Default::default();
        Arc::new(Self { now: RwLock::new(directory), is_full, slow, kept, replaced })
    }

    /// Lets another directory answer from now on, as after a restore of etcd.
    pub(super) fn replace(&self, by: &LocalDirectory) {
        *self.now.write() = by.clone();
        self.replaced.send_replace(());
    }

    /// Refuses all changes from now on, as an etcd whose database is full; or takes them again.
    pub(super) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// Takes so long for each call from now on.
    pub(super) fn set_slow(&self, slow: Duration) {
        *self.slow.write() = slow;
    }

    /// Returns when leases were kept alive.
    pub(super) fn kept(&self) -> Vec<Instant> {
        self.kept.read().clone()
    }

    async fn take_time(&self) {
        let slow = *self.slow.read();
        if !slow.is_zero() {
            tokio::time::sleep(slow).await;
        }
    }

    fn now(&self) -> LocalDirectory {
        self.now.read().clone()
    }
}

#[async_trait]
impl Directory for Faulty {
    async fn read(&self, prefix: &str) -> Result<Snapshot> {
        self.take_time().await;
        self.now().read(prefix).await
    }

    async fn get(&self, key: &Key) -> Result<Snapshot> {
        self.take_time().await;
        self.now().get(key).await
    }

    async fn change(&self, change: Change) -> Result<Outcome> {
        self.take_time().await;
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(Error::Full("the database is full".to_owned())),
            false => self.now().change(change).await,
        }
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch> {
        let mut replaced = self.replaced.subscribe();
        let there = self.now();
        // Etcd takes a watch that begins in its future, and is silent until then.
        let events = match there.read("").await?.revision < after {
            true => stream::pending().boxed(),
            false => there.watch(prefix, after).await?,
        };
        let broken = Err(Error::Unavailable("another etcd answers".to_owned()));
        let events = events.take_until(async move { replaced.changed().await });
        Ok(events.chain(stream::iter([broken])).boxed())
    }

    async fn grant(&self, ttl: Duration) -> Result<LeaseId> {
        self.now().grant(ttl).await
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        self.kept.write().push(Instant::now());
        self.now().keep_alive(lease).await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.now().revoke(lease).await
    }

    fn name(&self) -> String {
        "etcd".to_owned()
    }
}
