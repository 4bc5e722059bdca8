//! The door for PostgreSQL clients: SQL over tables of rows and over Bigtable's tables.
//!
//! ```text
//! door ─▶ session ─▶ statement ─▶ access      rows of one table, by their keys
//!                       │     └─▶ query       everything else, by DataFusion
//!                       └─▶ expression, values, catalogs; wide: Bigtable's tables
//! ```
//!
//! A tour: `door` accepts connections and speaks the protocol; `session` has the state of one client;
//! `statement` plans statements and carries them out.
#![forbid(unsafe_code)]

mod access;
pub mod catalogs;
mod door;
pub mod expression;
pub mod fuzz;
pub mod query;
mod session;
mod statement;
mod threads;
pub mod values;
pub mod wide;

pub use door::{
    Bounds, Counts, CurrentTls, Door, EndedStatement, Kept, NodeDoor, Observer,
    Options as DoorOptions, Parts as DoorParts, PlanNode, Prompt, PromptAnswer, PromptColumn,
    PromptLimits, PromptRows, PromptValue, Seat, Trust,
};
pub use query::QueryMemory;
pub use threads::STACK_BYTES;
