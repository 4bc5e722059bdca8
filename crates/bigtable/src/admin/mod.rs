//! The admin services: tables, instances, and the operations that run on.

pub(crate) mod instances;
pub(crate) mod operations;
pub(crate) mod schema;
pub(crate) mod tables;
