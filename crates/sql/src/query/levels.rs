//! The threads on which queries compute, so that sessions are heard meanwhile.
//!
//! 1. A query without subqueries that run by row has height 0, and another one is above the highest body of its
//!    subqueries. Each height has threads of its own, which are started when they are needed.
//! 2. A call of a subquery keeps its thread while the body runs. The body's tasks and scans run on the threads of
//!    its own, lower height. So however many calls wait, what they wait for has threads.

use parking_lot::Mutex;
use relational::{Error, Result, SqlState};
use tokio::runtime::{Builder, Handle, Runtime};

/// Heights of queries, without height 0.
const HEIGHT_MAX: usize = 16;

/// The header of this file describes it.
pub(super) struct Levels {
    /// Threads of each height that compute.
    workers: usize,
    /// Threads of each height beside them, which read, and stand in for the ones that wait.
    blocking: usize,
    started: Mutex<Vec<Runtime>>,
}

impl Levels {
    /// Returns levels that have no threads yet.
    pub(super) fn new(workers: usize, blocking: usize) -> Self {
        Self { workers, blocking, started: Mutex::default() }
    }

    /// Returns the threads of a height. 54001 without threads so high.
    pub(super) fn at(&self, height: usize) -> Result<Handle> {
        if height > HEIGHT_MAX {
            let message =
                format!("subqueries that run by row are nested more than {HEIGHT_MAX} deep");
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        let mut started = self.started.lock();
        while started.len() <= height {
            started.push(self.start()?);
        }
        Ok(started[height].handle().clone())
    }

    fn start(&self) -> Result<Runtime> {
        let started = Builder::new_multi_thread()
            .worker_threads(self.workers)
            .max_blocking_threads(self.blocking)
            .thread_name("sql-query")
            .thread_stack_size(crate::STACK_BYTES)
            .enable_all()
            .build();
        started.map_err(|error| {
            Error::internal(format!("the threads of queries cannot be started: {error}"))
        })
    }
}

impl Drop for Levels {
    fn drop(&mut self) {
        self.started.get_mut().drain(..).for_each(Runtime::shutdown_background);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_have_threads_of_their_own_up_to_a_bound() {
        let levels = Levels::new(1, 1);
        let ids: std::collections::HashSet<_> =
            (0..=HEIGHT_MAX).map(|height| levels.at(height).unwrap().id()).collect();
        assert_eq!(ids.len(), HEIGHT_MAX + 1);
        let error = levels.at(HEIGHT_MAX + 1).unwrap_err();
        assert_eq!(error.state, SqlState::STATEMENT_TOO_COMPLEX);
    }
}
