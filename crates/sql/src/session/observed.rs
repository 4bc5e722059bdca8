//! The statement under way, for metrics, the log and traces: from its message to the moment before its client is told of
//! its end.

use super::Session;
use crate::door::{Kind, Underway};
use engine::perf_context::{self, PerfContext};
use relational::SqlState;
use std::sync::Arc;

impl Session {
    /// Begins a statement; returns the context for its work.
    pub(super) fn begin_statement(&mut self, kind: Kind, text: &Arc<str>) -> Work {
        let observer = self.shared.options.observer.as_ref();
        let underway = Underway::begin(kind, Arc::clone(text), observer);
        let work = Work(underway.context());
        self.underway = Some(underway);
        work
    }

    /// Returns the context for more work of the statement under way.
    pub(super) fn more_work(&self) -> Work {
        Work(self.underway.as_ref().and_then(Underway::context))
    }

    /// Ends the statement under way: well, with a tag if it was not only a part of its rows, or with an error.
    pub(super) fn end_statement(&mut self, outcome: Result<Option<&str>, SqlState>) {
        let (tag, error) = match outcome {
            Ok(tag) => (tag, None),
            Err(state) => (None, Some(state)),
        };
        if let Some(underway) = self.underway.take() {
            let (kind, took) = underway.end(self.registered.pid, tag, error);
            self.shared.counts.took(kind.label(), error, took);
            if tag.is_some() {
                self.shared.counts.statement(kind);
            }
        }
    }
}

/// The context for work of a statement, if anybody observes it.
pub(super) struct Work(Option<Arc<PerfContext>>);

impl Work {
    /// Does the work of `future` within the context.
    pub(super) async fn on<F: Future>(mut self, future: F) -> F::Output {
        perf_context::within(&mut self.0, || perf_context::carried(future)).await
    }
}
