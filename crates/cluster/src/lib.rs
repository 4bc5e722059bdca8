//! Replicated tablets. A tablet of a cluster is a **group**: replicas on several nodes that agree on
//! one log, entry by entry, and apply it to a tree each.
//!
//! [`group`] holds the driver of all groups of a node. It is a pure step function: messages, requests
//! and the time go in; messages, log writes, committed entries and answers come out. It has no
//! threads, no clock and no I/O, so that tests can drive a whole cluster through any order of events.
//! [`node`] carries out for one node what its driver asks for. [`mod@format`] holds the bytes that nodes
//! send each other and keep in the group log.
//! [`link`] connects nodes. [`directory`] holds what all nodes must agree on and that changes seldom, in etcd or in a file.
//! [`route`] serves the tables of a cluster on any node: it takes each call to the leaders of its tablets.
//! [`member`] puts a node together from the other rooms.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod dial;
pub mod directory;
pub mod format;
pub mod group;
pub mod link;
mod marks;
pub mod member;
#[doc(hidden)]
pub mod mutants;
pub mod node;
pub mod route;
mod shape;

pub use marks::Mark;
pub use shape::Shape;
