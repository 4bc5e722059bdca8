//! Groups of replicas: consensus of all tablets of a node, as one pure step function.
//!
//! **In:** messages of other nodes, requests of clients, reports of the disk and of the state
//! machines, the time. **Out:** messages, log writes, committed entries, answers. The room uses
//! [`base`] and the `raft` crate, and nothing that waits.
//!
//! A node calls [`Driver::step`] in a loop and carries out what it returns, each kind at its own pace:
//! - messages go to their nodes, in order;
//! - a [`Round`] of log writes goes to disk with one sync for all groups. Several rounds may be on
//!   their way; they are saved in their order, and each is reported by [`Input::Saved`];
//! - committed entries go to the state machines, reported by [`Input::Applied`]. A state machine that
//!   lags delays its own answers and nothing else;
//! - a [`Fetch`] reads the log on disk, reported by [`Input::Fetched`].
//!
//! The caller owes this:
//! 1. The time of a step is read after its inputs came, from a clock that never goes back and goes on
//!    while the machine sleeps.
//! 2. Messages of one connection come in the order in which they were sent. A connection that breaks
//!    may lose some; nothing of an older connection comes after something of a newer one.
//! 3. [`Input::Lost`] comes whenever a connection breaks, or nothing was heard of a node for about an
//!    election timeout: sleeping replicas rely on it.
//! 4. A write that fails, of a round or a vote, ends the process, or at least this driver.
//! 5. Changes of leases take effect before the messages of their step are sent: a handover begins with one, and
//!    with one other nodes learn what is committed.
//! 6. A panic of the driver ends the process, not a thread of it. The `raft` crate panics when it
//!    finds its state broken, and the state of other groups may depend on what it did half.

mod data;
mod driver;
mod message;
mod replica;
mod report;
mod rounds;
mod step;
#[cfg(test)]
mod tests;

pub use data::{
    Entry, EntryId, GroupId, HardState, Member, NodeId, OpenError, ReplicaId, SavedReplica, Ticket,
    Time,
};
pub use driver::{Driver, Options};
pub use message::{Body, Message, ReadContext, VoteKind};
pub use report::{GroupReport, MemberReport};
pub use step::{
    Answer, Committed, Fetch, Input, Keep, LeaseChange, Output, Proof, Refusal, Rejected,
    RoleChange, Round, Seeding, Write,
};
