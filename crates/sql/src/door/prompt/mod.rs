//! Prompts: one statement each that only reads, for callers without a connection, such as a page of the server.
//!
//! ```text
//! Door::prompt ─ place, watch ─▶ work.rs ─ reads.rs ─▶ rows or a plan
//!                                   └─ view_of_server.rs: what functions may ask the server
//! ```
//!
//! Invariants:
//! 1. A prompt reads in a READ ONLY transaction that is never committed, and takes no lock.
//! 2. It acts as [`Acting::Reader`](crate::expression::Acting::Reader): it may read every relation, and nothing else.
//! 3. It sees no Bigtable table: the rights on those are asked for elsewhere.
//! 4. It ends when its time is over, when its caller drops the future, or as a session does: by
//!    `pg_cancel_backend` or with its door. It is among the sessions meanwhile.
//! 5. At most [`PROMPTS_MAX`] run at one time.
//! 6. Nothing of its work goes on behind its answer, also if the query has more rows than were wanted.
//! 7. An answer has at most the rows and about the bytes of its limits, and no more is read for it.

mod reads;
mod view_of_server;
mod work;

use super::{Cancel, Door, Watch};
use crate::statement::PlanNode;
use relational::{Error, Result, SqlState};
use std::sync::Arc;
use std::time::Duration;

/// Prompts that run at one time.
pub(super) const PROMPTS_MAX: usize = 4;
/// Length of the secret of a session, which is told to no client here.
const SECRET_LEN: usize = 32;

/// A statement that is asked without a session.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// Text of the only statement.
    pub text: String,
    /// True if its plan is asked for, rather than its rows.
    pub is_explained: bool,
    /// Bounds of the work and of the answer.
    pub limits: PromptLimits,
}

/// Bounds of a prompt and of its answer.
#[derive(Debug, Clone, Copy)]
pub struct PromptLimits {
    /// Most rows of the answer.
    pub rows: usize,
    /// Most bytes that are kept of each value.
    pub value_bytes: usize,
    /// Bytes that a value takes of the answer beside its own.
    pub node_bytes: usize,
    /// Bytes after which the answer ends.
    pub bytes: usize,
    /// Longest time of the statement.
    pub time: Duration,
}

/// The answer to a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptAnswer {
    /// The first rows of a query.
    Rows(PromptRows),
    /// The plan of a query.
    Plan(PlanNode),
}

/// The first rows of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptRows {
    /// The columns in their order.
    pub columns: Vec<PromptColumn>,
    /// A value for each column, or nothing for NULL. The last row has less values if the answer ends within it.
    pub rows: Vec<Vec<Option<PromptValue>>>,
    /// True if the query has more rows, or more of the last row.
    pub more: bool,
}

/// A column of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptColumn {
    /// Name of the column, as a client sees it.
    pub name: String,
    /// Name of the type of its values.
    pub data_type: String,
}

/// A value in the text form of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptValue {
    /// The first bytes of the text.
    pub text: Vec<u8>,
    /// Length of the whole text in bytes.
    pub bytes: usize,
}

/// Stops the statement of a caller that is gone.
struct Ends(Arc<Cancel>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Door {
    /// Runs one statement that only reads, and returns its first rows or its plan. 53300 if too many run already.
    /// Dropping the future stops the statement.
    pub async fn prompt(&self, prompt: Prompt) -> Result<PromptAnswer> {
        let shared = Arc::clone(&self.0);
        let place = Arc::clone(&shared.prompts).try_acquire_owned().map_err(|_| {
            let message = format!("{PROMPTS_MAX} prompts run already");
            Error::new(SqlState::TOO_MANY_CONNECTIONS, message).with_hint("Retry soon.")
        })?;
        let registered = shared.sessions.register(SECRET_LEN);
        let registered =
            registered.ok_or_else(|| Error::internal("the system gives no random numbers"))?;
        let threads = shared.threads.handle().clone();
        let watch = {
            let _threads = threads.enter();
            Watch::begin(&registered.cancel, Some(prompt.limits.time))
        };
        let _ends = Ends(Arc::clone(&registered.cancel));
        let flag = watch.flag().clone();
        let done = threads.spawn(async move {
            let answer = work::answer(&shared, &prompt, &registered, watch).await;
            // A query of which only the first rows were wanted works on: joins look at nothing but the flag.
            flag.cancel();
            drop(place);
            answer
        });
        done.await.unwrap_or_else(|error| {
            Err(Error::internal(format!("the work of a prompt ended: {error}")))
        })
    }
}
