//! The receiving end of a node: messages and calls of other nodes, and news of its groups.

use super::asks::{Ask, encode_leader};
use super::status::Led;
use crate::directory::MetaNews;
use crate::format::{Descriptor, decode_frame};
use crate::group::{GroupId, NodeId, ReplicaId};
use crate::link::{Answers, CallError, CallKind, Receiver};
use crate::node::{Node, Tables};
use crate::route::Forwarded;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use table::wire::Answer;
use table::{Error, Local, RecordChange, Result, TableName, TableSchema, Versioned};

/// Longest wait for the condition of this node's groups.
const REPORT_MAX: Duration = Duration::from_secs(1);

/// The parts of a node that take what comes. They are set once, while the node starts; what comes before
/// is lost or refused.
#[derive(Default)]
pub(super) struct Hub {
    node: OnceLock<Arc<Node>>,
    local: OnceLock<Local>,
    forwarded: OnceLock<Forwarded>,
}

impl Hub {
    pub(super) fn set_node(&self, node: Arc<Node>) {
        let _ = self.node.set(node);
    }

    /// Takes calls of rows from now on, and tells the tables of schemas that the groups apply.
    pub(super) fn set_tables(&self, local: Local, forwarded: Forwarded) {
        let _ = self.local.set(local);
        let _ = self.forwarded.set(forwarded);
    }

    fn node(&self) -> Result<&Arc<Node>, CallError> {
        self.node.get().ok_or_else(starting)
    }
}

fn starting() -> CallError {
    CallError::NotDone("the node is starting".to_owned())
}

/// Carries out an order about a group.
async fn carry_out(node: Arc<Node>, ask: Ask) -> Result<()> {
    match ask {
        Ask::Create { group, descriptor } => {
            let descriptor = Descriptor::decode(&descriptor);
            let descriptor = descriptor.map_err(|error| Error::Internal(error.to_string()))?;
            node.create(group, descriptor).await
        }
        Ask::Remove { group, least: ReplicaId(0), version } => {
            node.may_remove(group, version).await
        }
        Ask::Remove { group, least, version } => node.remove(group, least, version).await,
        Ask::SetSchema { group, version, record } => node.set_schema(group, version, &record).await,
        Ask::Leader { .. } => Ok(()),
    }
}

#[async_trait]
impl Receiver for Hub {
    fn receive(&self, from: NodeId, frame: Bytes) -> Result<(), String> {
        let messages = decode_frame(&frame).map_err(|error| error.to_string())?;
        if let Some(node) = self.node.get() {
            node.receive(from, messages);
        }
        Ok(())
    }

    fn lost(&self, from: NodeId) {
        if let Some(node) = self.node.get() {
            node.lost(from);
        }
    }

    fn heard(&self, from: NodeId) {
        if let Some(node) = self.node.get() {
            node.receive(from, Vec::new());
        }
    }

    async fn call(&self, _: NodeId, kind: CallKind, request: Bytes) -> Result<Answers, CallError> {
        if kind == CallKind::Forward {
            return Ok(self.forwarded.get().ok_or_else(starting)?.answer(request).await);
        }
        if kind == CallKind::Status {
            let node = Arc::clone(self.node()?);
            let reports = tokio::task::spawn_blocking(move || node.report(REPORT_MAX)).await;
            let Ok(Some(reports)) = reports else {
                return Err(CallError::NotDone("the node does not tell how it is".to_owned()));
            };
            return Ok(stream::iter([Ok(Led::of(&reports).encode())]).boxed());
        }
        let ask =
            Ask::decode(kind, &request).map_err(|error| CallError::NotDone(error.to_string()))?;
        let node = Arc::clone(self.node()?);
        let answer = match ask {
            Ask::Leader { group } => encode_leader(node.leader(group)),
            order => {
                // It runs to its end, also if the caller goes away.
                let done = tokio::spawn(carry_out(node, order)).await;
                let done = done.map_err(|error| CallError::Unknown(error.to_string()))?;
                done.map_or_else(Answer::Failed, |()| Answer::Done).encode().into()
            }
        };
        Ok(stream::iter([Ok(answer)]).boxed())
    }
}

impl Tables for Hub {
    fn schema_applied(&self, group: GroupId, version: u64, record: &Bytes) {
        let Some(local) = self.local.get() else { return };
        let learned = TableSchema::from_record(record)
            .and_then(|schema| local.learn(Versioned { schema, version }));
        if let Err(error) = learned {
            tracing::error!(%error, group = group.0, "the schema of a group is not usable");
        }
    }
}

/// Tells the tables of a node what other nodes change in the directory.
pub(super) struct News {
    pub(super) local: Local,
    /// True if tables that are gone may still be known here.
    stale: AtomicBool,
}

impl News {
    /// Returns the news of a node that may know tables which were deleted while it was away.
    pub(super) fn new(local: Local) -> Self {
        Self { local, stale: AtomicBool::new(true) }
    }

    /// Takes over the directory's tables, if that is needed, and forgets all others.
    pub(super) async fn refresh_if_asked(&self) -> Result<()> {
        if !self.stale.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let refreshed = self.local.refresh().await;
        if refreshed.is_err() {
            self.stale.store(true, Ordering::Release);
        }
        refreshed
    }
}

impl MetaNews for News {
    fn tables(&self, changed: Vec<Versioned>, gone: Vec<TableName>) {
        for known in changed {
            let name = known.schema.name.clone();
            if let Err(error) = self.local.learn(known) {
                tracing::error!(%error, table = %name, "the schema of a table is not usable");
            }
        }
        if gone.is_empty() {
            return;
        }
        if let Err(error) = self.local.verify_gone(&gone) {
            tracing::warn!(%error, "tables that were deleted are still known here; asking again");
            self.stale.store(true, Ordering::Release);
        }
    }

    fn records(&self, changed: Vec<(String, Bytes)>, gone: Vec<String>) {
        let changed = changed.into_iter().map(|(name, value)| RecordChange::put(name, value));
        let gone = gone.into_iter().map(RecordChange::remove);
        self.local.learn_records(changed.chain(gone).collect());
    }
}
