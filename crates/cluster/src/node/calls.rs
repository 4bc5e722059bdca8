//! Requests of clients to the replicas of this node: reads, proposals, and who leads.

use super::Node;
use super::driver_thread;
use super::hosted::{Hosted, Ready, Status};
use super::inbox::Event;
use crate::format::{Batches, Command, SCHEMA_BYTES_MAX, SlotBatch};
use crate::group::{Answer, GroupId, Input, NodeId, Proof, Refusal};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::Arc;
use table::{Error, GroupWrite, Result, TreeId};
use tokio::sync::oneshot;

impl Node {
    /// Returns the node that leads a group, as far as it is known here.
    pub fn leader(&self, group: GroupId) -> Option<NodeId> {
        let hosted = self.shared.replicas.of_group(group)?;
        let status = *hosted.status.borrow();
        status.leader.map(|leader| leader.node)
    }

    /// Returns the group of a tree of this node.
    pub fn group_of(&self, tree: TreeId) -> Option<GroupId> {
        Some(self.shared.replicas.of_tree(tree)?.group)
    }

    /// Waits until a read of `tree` sees what was acknowledged before the call. Errors are as of
    /// [`table::Groups::readable`]: nothing is proposed here, so where no leader is known in time it is
    /// `NotLeader`.
    pub async fn readable(&self, tree: TreeId) -> Result<Ready> {
        let hosted = self.hosted(tree)?;
        self.within_bound(self.read(&hosted)).await
    }

    /// Waits until this node may propose without reading. Errors are as of
    /// [`table::Groups::readable`].
    pub async fn writable(&self, tree: TreeId) -> Result<Ready> {
        let hosted = self.hosted(tree)?;
        self.within_bound(self.lead(&hosted)).await
    }

    /// Proposes a batch: see [`table::Groups::commit`].
    pub fn commit(&self, write: GroupWrite) -> BoxFuture<'static, Result<()>> {
        let GroupWrite { tree, term, batch, newest_micros, kept } = write;
        let proposed = self.hosted(tree).map(|hosted| {
            let slot = hosted.trees.iter().position(|of| of.id() == tree).unwrap_or(0);
            let batches = vec![SlotBatch { slot, batch: batch.encoding() }];
            let command = Command::Batches(Batches { newest_micros, batches }).encode();
            (self.propose(&hosted, Some(term.number), command.into(), Some(kept)), hosted)
        });
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let (answer, hosted) = proposed?;
            shared.within_bound(outcome(&shared, &hosted, answer)).await
        })
    }

    /// Gives a group that this node leads a schema, unless it has that version or a newer one. Returns
    /// when this node has applied it.
    ///
    /// # Errors
    ///
    /// `NotLeader` if another node leads. `Unavailable` if the outcome is not known: it can be repeated.
    pub async fn set_schema(&self, group: GroupId, version: u64, record: &[u8]) -> Result<()> {
        check_schema(record)?;
        let hosted =
            self.shared.replicas.of_group(group).ok_or(Error::NotLeader { leader: None })?;
        let set = async {
            let ready = self.lead(&hosted).await?;
            if hosted.descriptor().schema_version >= version {
                return Ok(());
            }
            let command = Command::Schema { version, record }.encode();
            let answer = self.propose(&hosted, Some(ready.term), command.into(), None);
            outcome(&self.shared, &hosted, answer).await
        };
        self.within_bound(set).await
    }

    fn hosted(&self, tree: TreeId) -> Result<Arc<Hosted>> {
        self.shared.replicas.of_tree(tree).ok_or(Error::NotLeader { leader: None })
    }

    async fn within_bound<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.shared.within_bound(call).await
    }

    /// Returns the term of this node if its lease proves that the trees have all that was acknowledged before
    /// the call: no other leader was elected, and all that this one committed is applied here. That also has what a
    /// former leader showed, whose read came late and found entries that are not applied here yet.
    fn leased(&self, hosted: &Hosted) -> Option<Ready> {
        let ready = hosted.status.borrow().ready()?;
        let now = driver_thread::now(&self.shared);
        let holds = hosted.has_lease(ready.term, now);
        let alone = holds && !hosted.tells_read(now, self.shared.read_told_every);
        alone.then_some(ready)
    }

    /// Answers a read by the lease, or asks the driver until it has an answer other than that there is no
    /// leader.
    async fn read(&self, hosted: &Arc<Hosted>) -> Result<Ready> {
        if let Some(ready) = self.leased(hosted) {
            return Ok(ready);
        }
        loop {
            self.lead(hosted).await?;
            let (ticket, answer) = self.shared.requests.begin(None);
            let (group, proof) = (hosted.group, Proof::Lease);
            self.shared.inbox.push(Event::Input(Input::Read { group, ticket, proof }));
            match answer.await.map_err(|_| self.shared.ended())? {
                Answer::Readable { term, .. } => {
                    // Another term may have begun since; then another node may lead.
                    if let Some(ready) = hosted.status.borrow().ready().filter(|at| at.term == term)
                    {
                        return Ok(ready);
                    }
                }
                Answer::Refused(Refusal::NotLeader { .. }) => {}
                other => return self.shared.refused(hosted, other).map(|()| Ready::default()),
            }
        }
    }

    /// Waits until this node leads and has applied all of earlier terms.
    /// `NotLeader` where another replica leads, or where no leader is known within the bound for that:
    /// nothing was proposed.
    async fn lead(&self, hosted: &Arc<Hosted>) -> Result<Ready> {
        let mut status = hosted.status.subscribe();
        let decided = |status: &Status| {
            status.ready().is_some() || status.other_leader(hosted.replica).is_some()
        };
        let bound = self.pause(self.shared.leader_wait_max);
        let status = tokio::select! {
            biased;
            waited = status.wait_for(decided) => *waited.map_err(|_| self.shared.ended())?,
            () = bound => *hosted.status.borrow(),
        };
        status.ready().ok_or_else(|| not_leader(&status))
    }

    /// Gives the driver a command. It has its place in the order when this returns.
    pub(super) fn propose(
        &self,
        hosted: &Hosted,
        term: Option<u64>,
        command: Bytes,
        kept: Option<table::Kept>,
    ) -> oneshot::Receiver<Answer> {
        let (ticket, answer) = self.shared.requests.begin(kept);
        let group = hosted.group;
        self.shared.inbox.push(Event::Input(Input::Propose { group, ticket, term, command }));
        answer
    }
}

impl super::open::Shared {
    /// Waits for a call for at most `wait_max`.
    async fn within_bound<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let bound = {
            let _timers = self.runtime.enter();
            tokio::time::sleep(self.wait_max)
        };
        tokio::select! {
            biased;
            done = call => done,
            () = self.health.until_end() => Err(self.ended()),
            () = bound => Err(Error::Unavailable(format!(
                "the group of the tablet did not answer within {:?}; send the request again",
                self.wait_max
            ))),
        }
    }

    /// Returns the error of a request that the end of the node left without an answer.
    fn ended(&self) -> Error {
        let why = self.health.failure().unwrap_or_else(|| "it is closing".to_owned());
        Error::Unavailable(format!("this node serves no tablets any more: {why}"))
    }

    /// Returns what an answer to a proposal says.
    fn refused(&self, hosted: &Hosted, answer: Answer) -> Result<()> {
        match answer {
            Answer::Applied { .. } | Answer::Readable { .. } => Ok(()),
            Answer::Refused(Refusal::TooLarge { bytes_max }) => Err(Error::invalid(
                "",
                format!("a request changes at most {bytes_max} bytes of one tablet at once"),
            )),
            Answer::Refused(Refusal::Full) => {
                Err(Error::Busy("too many requests of the tablet are under way".to_owned()))
            }
            Answer::Refused(Refusal::Empty) => {
                Err(Error::Internal("an empty command was proposed".to_owned()))
            }
            Answer::Superseded
            | Answer::Refused(
                Refusal::UnknownGroup
                | Refusal::NotLeader { .. }
                | Refusal::TermChanged { .. }
                | Refusal::Transferring { .. },
            ) => Err(not_leader(&hosted.status.borrow())),
        }
    }
}

/// Waits for the outcome of a proposal.
async fn outcome(
    shared: &super::open::Shared,
    hosted: &Hosted,
    answer: oneshot::Receiver<Answer>,
) -> Result<()> {
    let answer = answer.await.map_err(|_| shared.ended())?;
    shared.refused(hosted, answer)
}

/// Checks that the record of a table fits a descriptor.
pub(super) fn check_schema(record: &[u8]) -> Result<()> {
    match record.len() {
        0..=SCHEMA_BYTES_MAX => Ok(()),
        len => Err(Error::FailedPrecondition(format!(
            "the record of the table has {len} bytes, more than the {SCHEMA_BYTES_MAX} that a group keeps"
        ))),
    }
}

fn not_leader(status: &Status) -> Error {
    let other = status.leader.filter(|_| !status.leads);
    Error::NotLeader { leader: other.map(|leader| leader.node.0) }
}
