//! Expressions over rows: DEFAULT, CHECK, the values of INSERT and UPDATE, conditions of fast paths.
//!
//! DataFusion binds an expression with the rules of `query/bind`; then it is turned into a tree that
//! computes single values with the same function bodies. So a query and a statement agree.
//!
//! 1. [`Compiled::evaluate`] allocates only for its values, and does no I/O.

mod compile;
pub(crate) mod context;
pub(crate) mod functions;
mod picture;
mod picture_of_interval;
pub(crate) mod registry;
pub(crate) mod resolve;

pub use compile::{Compiled, Scope, ScopeColumn, compile, compile_text};
pub use context::{Acting, EvalContext, Sequences, Server, Set, Show};
