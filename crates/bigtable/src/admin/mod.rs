//! The admin services: tables, instances, and the operations that run on.

pub(crate) mod directory;
pub(crate) mod instances;
mod message;
pub(crate) mod operations;
mod policies;
pub(crate) mod schema;
pub(crate) mod tables;
mod types;
