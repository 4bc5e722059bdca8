//! The watch over one statement: it ends the statement on a cancel request, or when its time is over.
//!
//! Invariants:
//! 1. The flag is set also while the statement keeps its thread busy, so that code without awaits can look
//!    at it.
//! 2. A request that comes after the end of a statement changes nothing that the statement left behind,
//!    such as an open cursor.
//! 3. A panic of a statement is an error of it, and the session goes on.

use super::Cancel;
use futures::FutureExt;
use parking_lot::Mutex;
use relational::{CancelFlag, Error};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The watch over a statement, from its text to its end.
pub(crate) struct Watch {
    cancel: Arc<Cancel>,
    flag: CancelFlag,
    alarm: Option<Alarm>,
}

/// A clock that sets the flag of a statement.
struct Alarm {
    is_over: Arc<Mutex<bool>>,
    clock: JoinHandle<()>,
}

impl Watch {
    /// Begins to watch a statement that may take `time`.
    pub(crate) fn begin(cancel: &Arc<Cancel>, time: Option<Duration>) -> Self {
        let (cancel, flag) = (Arc::clone(cancel), cancel.begin());
        let alarm = time.map(|time| {
            let (cancel, flag) = (Arc::clone(&cancel), flag.clone());
            let is_over = Arc::new(Mutex::new(false));
            let is_late = Arc::clone(&is_over);
            let clock = tokio::spawn(async move {
                tokio::time::sleep(time).await;
                let is_over = is_late.lock();
                if !*is_over {
                    flag.expire();
                    cancel.wake();
                }
            });
            Alarm { is_over, clock }
        });
        Self { cancel, flag, alarm }
    }

    /// Returns the flag that the parts of the statement look at.
    pub(crate) fn flag(&self) -> &CancelFlag {
        &self.flag
    }

    /// Carries out `work` to its end, or until the flag is set.
    pub(crate) async fn over<T, E: From<Error>>(
        self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let done = tokio::select! {
            biased;
            done = AssertUnwindSafe(work).catch_unwind() => done,
            () = self.cancel.cancelled(&self.flag) => {
                let stopped = self.flag.check().err();
                let stopped = stopped.unwrap_or_else(|| Error::internal("a statement was stopped"));
                return Err(stopped.into());
            }
        };
        let done = done.unwrap_or_else(|_| {
            Err(Error::internal("the statement met a defect of the server").into())
        });
        if done.is_ok() {
            self.end();
            self.flag.reset();
        }
        done
    }

    /// Ends the watch: nothing sets the flag any more.
    fn end(&self) {
        if let Some(alarm) = &self.alarm {
            *alarm.is_over.lock() = true;
            alarm.clock.abort();
        }
        self.cancel.end();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relational::SqlState;

    #[tokio::test]
    async fn what_a_statement_left_is_not_stopped_by_a_late_request() {
        let cancel = Arc::<Cancel>::default();
        let watch = Watch::begin(&cancel, Some(Duration::from_secs(3_600)));
        let flag = watch.flag().clone();
        watch.over(async { Ok::<_, Error>(()) }).await.unwrap();
        cancel.cancel();
        assert!(!flag.is_cancelled());
    }

    #[tokio::test]
    async fn a_statement_ends_by_request_by_time_and_by_panic() {
        let cancel = Arc::<Cancel>::default();
        let never = std::future::pending::<Result<(), Error>>;
        let watch = Watch::begin(&cancel, None);
        cancel.cancel();
        let error = watch.over(never()).await.unwrap_err();
        assert_eq!(error.message, "canceling statement due to user request");
        let watch = Watch::begin(&cancel, Some(Duration::from_millis(1)));
        let error = watch.over(never()).await.unwrap_err();
        assert_eq!(error.message, "canceling statement due to statement timeout");
        let watch = Watch::begin(&cancel, None);
        let broken = async { panic!("a test of panics") };
        let error = watch.over::<(), Error>(broken).await.unwrap_err();
        assert_eq!(error.state, SqlState::INTERNAL_ERROR);
    }
}
