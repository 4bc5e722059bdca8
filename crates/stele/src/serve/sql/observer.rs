//! Statements of PostgreSQL clients in the log of slow requests and in traces.

use super::super::explain::{Ended, Explain, Protocol, Traced, detail};
use super::super::request_id::RequestIds;
use ::sql::{EndedStatement, Kept, Observer};
use anyhow::Context;
use engine::perf_context::Detail;

/// Code of a statement that ended well.
const SUCCESS: &str = "00000";

/// Explains statements as other requests are.
#[derive(Debug)]
pub(super) struct StatementObserver {
    explain: Explain,
    ids: RequestIds,
}

impl StatementObserver {
    /// Fails if the system gives no random numbers.
    pub(super) fn new(explain: Explain) -> anyhow::Result<Self> {
        let ids = RequestIds::new().context("the system gives no random numbers")?;
        Ok(Self { explain, ids })
    }
}

impl Observer for StatementObserver {
    fn begin(&self) -> (Detail, Option<Kept>) {
        let traced = self.explain.choose(|| None);
        (detail(traced.as_ref()), traced.map(|traced| Box::new(traced) as Kept))
    }

    fn ended(&self, ended: EndedStatement<'_>) {
        let error = ended.error.map(|state| state.to_string());
        let text = || ended.text();
        self.explain.ended(&Ended {
            protocol: Protocol::Sql { session: ended.session, text: &text },
            method: ended.kind,
            code: error.as_deref().unwrap_or(SUCCESS),
            id: &self.ids.own(),
            took: ended.took,
            answered_after: None,
            context: ended.context,
            traced: ended.kept.as_ref().and_then(|kept| kept.downcast_ref::<Traced>()).copied(),
        });
    }
}
