//! Statements as others see them: a server that counts, logs and traces what its clients ask for.
//!
//! 1. All work of a statement is done within its perf context, with its commit. What it does while its client is to
//!    send data, or takes rows slowly, is part of its time.
//! 2. An observer gets no value: literals of the text are replaced before it sees any of it.

use super::counts::Kind;
use crate::statement::without_values;
use engine::perf_context::{Detail, PerfContext};
use relational::SqlState;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something that an observer keeps for a statement until its end.
pub type Kept = Box<dyn Any + Send + Sync>;

/// Is told of each statement at its begin and its end.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Begins a statement; returns the detail that its perf context is to have.
    fn begin(&self) -> (Detail, Option<Kept>);

    /// Takes note of a statement that has ended.
    fn ended(&self, ended: EndedStatement<'_>);
}

/// A statement that has ended, or a part of its rows that was fetched.
pub struct EndedStatement<'a> {
    /// Kind of the statement, as metrics name it.
    pub kind: &'static str,
    /// The error that it ended with; nothing if it ended well.
    pub error: Option<SqlState>,
    /// Time from its first message to its end.
    pub took: Duration,
    /// Work that was done for it.
    pub context: &'a PerfContext,
    /// Process number of the session, as clients know it.
    pub session: i32,
    /// The value that [`Observer::begin`] returned.
    pub kept: Option<Kept>,
    text: &'a str,
}

impl fmt::Debug for EndedStatement<'_> {
    /// Shows no text: it has values.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, error, took, session, .. } = self;
        let mut shown = out.debug_struct("EndedStatement");
        shown.field("kind", kind).field("error", error).field("took", took);
        shown.field("session", session).finish_non_exhaustive()
    }
}

impl EndedStatement<'_> {
    /// Returns the beginning of the statement's text, with `?` for each literal. Nothing of a text that is very long
    /// or has no meaning.
    pub fn text(&self) -> Option<String> {
        without_values(self.text)
    }
}

/// A statement that has not ended yet.
pub(crate) struct Underway {
    kind: Kind,
    text: Arc<str>,
    begun: Instant,
    observed: Option<Observed>,
}

struct Observed {
    observer: Arc<dyn Observer>,
    context: Arc<PerfContext>,
    kept: Option<Kept>,
}

impl Underway {
    /// Returns a statement that begins now.
    pub(crate) fn begin(kind: Kind, text: Arc<str>, observer: Option<&Arc<dyn Observer>>) -> Self {
        let observed = observer.map(|observer| {
            let (detail, kept) = observer.begin();
            let context = Arc::new(PerfContext::new(detail));
            Observed { observer: Arc::clone(observer), context, kept }
        });
        Self { kind, text, begun: Instant::now(), observed }
    }

    /// Returns the context in which its work is to be done.
    pub(crate) fn context(&self) -> Option<Arc<PerfContext>> {
        self.observed.as_ref().map(|observed| Arc::clone(&observed.context))
    }

    /// Ends it in a session. `tag` is what its client is told if it ended well. Returns its kind and its time.
    pub(crate) fn end(
        self,
        session: i32,
        tag: Option<&str>,
        error: Option<SqlState>,
    ) -> (Kind, Duration) {
        let Self { kind, text, begun, observed } = self;
        let (kind, took) = (tag.map_or(kind, Kind::of_tag), begun.elapsed());
        if let Some(Observed { observer, context, kept }) = observed {
            let (kind, text) = (kind.label(), &*text);
            let context = &context;
            observer.ended(EndedStatement { kind, error, took, context, session, kept, text });
        }
        (kind, took)
    }
}
