//! Tests of the relational layer through its public API.
#![expect(clippy::unwrap_used, reason = "a failure is the test's own verdict")]

mod builds;
mod conflicts;
mod crash;
mod definitions;
mod group;
mod harness;
mod histories;
mod loads;
mod model;
mod references;
mod rows;
mod secret;
mod terms;
mod transactions;
