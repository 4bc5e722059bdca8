//! Queries: planned and executed by DataFusion with PostgreSQL's semantics.
//!
//! A query goes through four steps. `rewrite/` turns PostgreSQL's constructs into calls. DataFusion
//! makes a logical plan, with tables from `provider.rs`. `bind/` binds the calls. For each execution
//! `plan.rs` sets parameters, context and view; DataFusion optimises and runs the plan. `tables.rs` reads rows,
//! `columnar/` reads segments of columnar tables.
//!
//! 1. A plan holds no rows and no snapshot: one plan may run many times, each on its own view.
//! 2. Memory of all queries is one pool; beyond it sorts, joins and aggregates spill to files.

mod apply;
mod arrow;
pub(crate) mod bind;
mod columnar;
mod dialect;
mod engine;
mod errors;
mod levels;
mod origins;
mod plan;
mod provider;
mod rewrite;
mod tables;

pub(crate) use arrow::{
    INTERVAL_BYTES, array_of, arrow_type, encode_interval, encode_numeric, field_of, from_stored,
    read_column, scalar_value, stored_type, to_stored, type_of_arrow, type_of_field,
};
pub(crate) use bind::{BoundFunction, external};
pub(crate) use dialect::Dialect;
pub use engine::{Engine, EngineOptions, QueryMemory};
pub(crate) use errors::{from_datafusion, position_of};
pub use plan::{OutColumn, Planned, QueryContext, RowStream, Run, plan};
pub(crate) use provider::Provider;
pub(crate) use rewrite::rewrite_expr;
pub(crate) use tables::{CHANGED, ROW_ID, batch_of};

use datafusion::sql::sqlparser::ast::{Query, SetExpr, Values};

/// Returns a query whose body is to be replaced.
pub(crate) fn empty_query() -> Query {
    Query {
        with: None,
        body: Box::new(SetExpr::Values(Values {
            explicit_row: false,
            value_keyword: false,
            rows: Vec::new(),
        })),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
