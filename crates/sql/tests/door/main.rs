//! The door as clients see it: a server in this process, and the client of `tokio-postgres`.
#![allow(clippy::unwrap_used)]

mod bounds;
mod clients;
mod meaning;
mod node;
mod privileges;
mod protocol;
mod rows;
mod server;
mod settings;
mod statements;
mod transactions;
mod wide;
