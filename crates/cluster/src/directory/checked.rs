//! The directory as a node may use it after it has read it: only while what answers is the directory that
//! the node's copy is of.
//!
//! An etcd that was restored from an older backup, or founded again, gives ids a second time. Tables that
//! are made by it would be laid over the tables that have these ids. So:
//! 1. Nothing is asked before the mirror has read the directory of the node's cluster, and nothing while the
//!    mirror says that another one answers.
//! 2. An answer is of no earlier revision than the mirror's when the question began.
//! 3. A change is made only if the record of the cluster is the one that the mirror shows.

use super::error::Result;
use super::mirror::Inner;
use super::{Change, Directory, Key, LeaseId, Outcome, Revision, Snapshot, Watch};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the first read of the mirror.
const CURRENT_MAX: Duration = Duration::from_secs(3);

/// The header of this file describes it.
pub(super) struct Checked(pub(super) Arc<Inner>);

impl Checked {
    /// Returns the revision that an answer has at least.
    async fn begin(&self) -> Result<Revision> {
        self.0.current(CURRENT_MAX).await?;
        self.0.vouched()
    }

    fn check(&self, least: Revision, answer: Snapshot) -> Result<Snapshot> {
        if answer.revision < least {
            return Err(self.0.went_back(least, answer.revision));
        }
        Ok(answer)
    }
}

#[async_trait]
impl Directory for Checked {
    async fn read(&self, prefix: &str) -> Result<Snapshot> {
        let least = self.begin().await?;
        self.check(least, self.0.directory.read(prefix).await?)
    }

    async fn get(&self, key: &Key) -> Result<Snapshot> {
        let least = self.begin().await?;
        self.check(least, self.0.directory.get(key).await?)
    }

    async fn change(&self, change: Change) -> Result<Outcome> {
        let least = self.begin().await?;
        let there = self.check(least, self.0.directory.get(&Key::Cluster).await?)?;
        let Some(cluster) = there.item().filter(|item| self.0.is_our_cluster(item)) else {
            return Err(self.0.has_another_cluster());
        };
        self.0.directory.change(change.expect(&Key::Cluster, cluster.revision)).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch> {
        self.0.directory.watch(prefix, after).await
    }

    async fn grant(&self, ttl: Duration) -> Result<LeaseId> {
        self.0.directory.grant(ttl).await
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        self.0.directory.keep_alive(lease).await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.0.directory.revoke(lease).await
    }

    fn name(&self) -> String {
        self.0.directory.name()
    }
}
