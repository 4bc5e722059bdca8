//! The server as the expressions of a session see it, and the session as others see it.

use super::Session;
use crate::door::{Build, SessionInfo, Shared};
use crate::expression::{EvalContext, Server};
use crate::threads::{aside, result_of};
use relational::catalog::Sequence;
use relational::{AdvisoryHold, AdvisoryKey, AdvisoryLocks, Result, Wait};
use std::sync::Arc;
use std::time::Duration;

/// Longest time until a wait for a key sees that its statement is to end.
const LOOK: Duration = Duration::from_millis(20);

/// The server, for one statement.
pub(super) struct Live {
    pub(super) shared: Arc<Shared>,
    pub(super) advisory: Arc<AdvisoryLocks>,
    pub(super) lock_timeout: Option<Duration>,
    pub(super) transaction: u64,
}

impl Server for Live {
    fn last_value(&self, sequence: &Sequence) -> Result<(i64, bool)> {
        let (shared, of) = (Arc::clone(&self.shared), sequence.clone());
        let work = async move { shared.database.last_value(&of).await };
        result_of(self.shared.threads.handle(), work)
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        self.shared.sessions.infos()
    }

    fn stop(&self, pid: i32, ends_session: bool) -> bool {
        let Some(cancel) = self.shared.sessions.stop_of(pid) else { return false };
        match ends_session {
            true => cancel.end_session(),
            false => cancel.cancel(),
        }
        true
    }

    fn started(&self) -> i64 {
        self.shared.started
    }

    fn transaction(&self) -> u64 {
        self.transaction
    }

    fn builds(&self) -> Vec<Build> {
        self.shared.builds.all()
    }

    fn lock(
        &self,
        key: AdvisoryKey,
        hold: AdvisoryHold,
        is_tried: bool,
        context: &EvalContext,
    ) -> Result<bool> {
        let how = if is_tried { Wait::Skip } else { Wait::Wait };
        let taken = async {
            let taken = self.advisory.take(key, hold, how, self.lock_timeout, self.transaction);
            tokio::pin!(taken);
            loop {
                tokio::select! {
                    biased;
                    taken = &mut taken => return taken,
                    () = tokio::time::sleep(LOOK) => context.check_interrupts()?,
                }
            }
        };
        aside(|| self.shared.threads.handle().block_on(taken))
    }

    fn unlock(&self, key: AdvisoryKey, is_shared: bool) -> bool {
        self.advisory.give_back(key, is_shared)
    }

    fn unlock_all(&self) {
        self.advisory.give_back_all();
    }
}

impl Session {
    /// Gives back the keys that a transaction held, if it has ended. A client is told of the end after this.
    pub(super) fn settle_advisory(&self) {
        if !self.block.holds_transaction() {
            self.advisory.end_transaction();
        }
    }

    /// Notes a statement that begins, for others to see.
    pub(super) fn note_statement(&mut self, text: &Arc<str>) {
        self.settle_advisory();
        let now = self.now();
        let transaction = if self.block.is_idle() { now } else { self.started };
        self.registered.activity.begin(text, now, transaction);
    }

    /// Notes that the session waits for its client.
    pub(super) fn note_rest(&mut self) {
        let state = match (self.block.is_failed(), self.block.is_open()) {
            (true, _) => "idle in transaction (aborted)",
            (_, true) => "idle in transaction",
            _ => "idle",
        };
        self.settle_advisory();
        self.registered.activity.rest(state, self.now());
    }
}
