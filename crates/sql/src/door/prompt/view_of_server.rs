//! The server as the expressions of a prompt see it: they look at it, and change nothing of it.

use crate::door::{Build, SessionInfo, Shared};
use crate::expression::{EvalContext, Server};
use crate::threads::result_of;
use relational::catalog::Sequence;
use relational::{AdvisoryHold, AdvisoryKey, Error, Result};
use std::sync::Arc;

/// The server, for one prompt.
pub(super) struct ViewOfServer {
    pub(super) shared: Arc<Shared>,
    pub(super) transaction: u64,
}

impl Server for ViewOfServer {
    fn last_value(&self, sequence: &Sequence) -> Result<(i64, bool)> {
        let (shared, of) = (Arc::clone(&self.shared), sequence.clone());
        let work = async move { shared.database.last_value(&of).await };
        result_of(self.shared.threads.handle(), work)
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        self.shared.sessions.infos()
    }

    /// Stops nothing: no session is the prompt's to stop.
    fn stop(&self, _pid: i32, _ends_session: bool) -> bool {
        false
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
        _key: AdvisoryKey,
        _hold: AdvisoryHold,
        _is_tried: bool,
        _context: &EvalContext,
    ) -> Result<bool> {
        Err(Error::unsupported("a prompt takes no advisory locks"))
    }

    fn unlock(&self, _key: AdvisoryKey, _is_shared: bool) -> bool {
        false
    }

    fn unlock_all(&self) {}
}
