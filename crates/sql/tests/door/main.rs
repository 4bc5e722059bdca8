//! The door as clients see it: a server in this process, and the client of `tokio-postgres`.
#![allow(clippy::unwrap_used)]

mod bounds;
mod clients;
mod columnar;
mod columnar_copy;
mod foreign_keys;
#[allow(dead_code, reason = "it has faults that this suite does not need")]
#[path = "../../../relational/tests/it/group.rs"]
mod group;
mod meaning;
mod node;
mod observed;
mod plans;
mod privileges;
mod prompt;
mod protocol;
mod refusals;
mod rows;
mod server;
mod sessions;
mod settings;
mod statements;
mod transactions;
mod wide;
