//! Subqueries that run once for each row of the outer query.
//!
//! DataFusion turns many subqueries into joins. The others become calls of [`Apply`], whose arguments are
//! the outer columns that the subquery names. `convert.rs` chooses and replaces them when a query is
//! planned, `joinable.rs` knows which joins are right, `ready.rs` plans their bodies when it is executed, `call.rs` asks them and `run.rs` runs
//! them. `unknown.rs` comes before: it lets IN be NULL where that differs from false.
//!
//! ```text
//! plan ─convert─▶ plan with calls ─ready─▶ calls with physical plans ─▶ rows
//! ```
//!
//! 1. A subquery is joined if that is known to be right, and DataFusion can. The latter is tried, not guessed.
//! 2. In the body an outer column is a placeholder named [`OUTER`] and a number, so that the optimizer
//!    moves it as it moves a constant. It becomes a [`slot::Slot`] before the body runs.
//! 3. One call runs its body once at a time. Equal outer values give the remembered answer.

mod call;
mod convert;
mod joinable;
mod lateral;
mod outer;
mod ready;
mod run;
mod slot;
mod unknown;
mod watched;

pub(super) use call::{Apply, Kind};
pub(super) use convert::convert;
pub(super) use ready::{Planner, ready};
pub(super) use slot::OUTER;
pub(super) use unknown::with_unknown;
pub(super) use watched::cancellable;

use datafusion::logical_expr::Expr;

/// Calls that hold a subquery which `convert` always replaces, and what they ask of it.
pub(super) const MARKS: &[(&str, Kind)] =
    &[("__any_of", Kind::Any), ("__all_of", Kind::All), ("__array_of", Kind::Array)];

/// Returns what a marked call asks of its subquery; nothing for other expressions.
fn mark_of(expr: &Expr) -> Option<Kind> {
    let Expr::ScalarFunction(call) = expr else { return None };
    MARKS.iter().find(|(name, _)| *name == call.func.name()).map(|(_, kind)| *kind)
}
