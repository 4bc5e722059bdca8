//! Statements: from text to a plan, from a plan to rows or a tag.
//!
//! ```text
//! parse.rs ─ tree ─▶ Prepared (plan) ─ start ─▶ Output: a tag, rows, or COPY
//!                       │
//!                       ├─ select.rs   point and range access by itself, all else by `query`
//!                       ├─ change/     INSERT, UPDATE, DELETE
//!                       ├─ copy/       COPY
//!                       └─ define/     tables, indexes, sequences, views, roles
//! ```
//!
//! Invariants:
//! 1. A plan is made from one version of the catalog, and started with no other.
//! 2. A statement that fails leaves what it did to its caller, who takes the whole transaction back, or
//!    returns to a savepoint.

mod bind;
mod change;
mod copy;
mod define;
mod explain;
mod names;
mod parse;
mod plan;
pub(crate) mod privilege;
mod rows;
mod select;
mod sequence_words;
mod without_values;

pub(crate) use self::copy::{CopyIn, CopyOut, fuzz as copy_fuzz};
pub(crate) use bind::{Binder, Bound, Eval, literal};
pub(crate) use define::{names_in, new_name};
pub use explain::PlanNode;
pub(crate) use explain::plan_of;
pub(crate) use names::{cut, data_type, name_of};
pub(crate) use parse::{Parsed, TO_SCHEMA, parse};
pub(crate) use plan::Prepared;
pub(crate) use rows::{Column, Kept, Rows, Source};
pub(crate) use sequence_words::{AlterSequence, Restart};
pub(crate) use without_values::without_values;

use crate::door::{Identity, Notice, Shared};
use crate::expression::EvalContext;
use crate::session::{Given, Settings};
use parking_lot::Mutex;
use relational::{CancelFlag, Catalog, Error, Oid, Result, Transaction};
use std::sync::Arc;

/// Everything that planning depends on.
pub(crate) struct Environment<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) catalog: &'a Arc<Catalog>,
    pub(crate) settings: &'a Settings,
    pub(crate) identity: &'a Identity,
    /// Context of expressions, without a catalog.
    pub(crate) evaluation: &'a EvalContext,
}

impl Environment<'_> {
    /// Returns what expressions are bound and evaluated with.
    pub(crate) fn context(&self) -> EvalContext {
        EvalContext { catalog: Some(Arc::clone(self.catalog)), ..self.evaluation.clone() }
    }
}

/// Everything that a statement runs with.
pub(crate) struct Run<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) transaction: &'a mut Transaction,
    pub(crate) settings: &'a Settings,
    pub(crate) identity: &'a Identity,
    pub(crate) eval: Eval,
    pub(crate) given: &'a Arc<Mutex<Given>>,
    pub(crate) flag: CancelFlag,
    pub(crate) notices: &'a mut Vec<Notice>,
    /// True within a block that `BEGIN` opened.
    pub(crate) is_in_block: bool,
}

/// The answer of a started statement.
pub(crate) enum Output {
    /// It is done; its tag.
    Done(String),
    Rows(Box<Rows>),
    /// It takes rows from the client.
    CopyIn(Box<CopyIn>),
    /// It gives lines to the client.
    CopyOut(Box<CopyOut>),
}

impl Run<'_> {
    /// Returns what expressions are evaluated with.
    pub(crate) fn eval(&self) -> Eval {
        self.eval.clone()
    }

    /// Returns the next number of a sequence, and keeps it for `currval`.
    pub(crate) async fn nextval(&mut self, sequence: Oid) -> Result<i64> {
        let catalog = self.transaction.catalog();
        let sequence = catalog.sequence(sequence);
        let sequence = sequence.ok_or_else(|| Error::internal("a sequence is gone"))?;
        let number = match self.transaction.restarts().next(sequence)? {
            Some(number) => number,
            None => self.shared.database.next_value(sequence).await?,
        };
        self.given.lock().note(sequence.oid, number);
        Ok(number)
    }

    /// Tells the client something beside the result.
    pub(crate) fn notice(&mut self, message: impl Into<String>) {
        self.notices.push(Notice::new(message));
    }
}
