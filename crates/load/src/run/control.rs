//! The end of a run: asked for by a signal, a limit, or a failure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// A switch that stops all tasks of a run.
#[derive(Default)]
pub(crate) struct Control {
    stopped: AtomicBool,
    changed: Notify,
}

impl Control {
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Returns whether the run was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Returns the switch itself, for threads.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.stopped
    }

    /// Waits until the run is stopped.
    pub(crate) async fn stopped(&self) {
        loop {
            // Registered before the switch is read, so that no stop is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.is_stopped() {
                return;
            }
            changed.await;
        }
    }

    /// Sleeps for `pause`, or until the run is stopped.
    pub(crate) async fn sleep(&self, pause: Duration) {
        tokio::select! {
            () = self.stopped() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_sleeps_before_and_after_it() {
        let control = Arc::new(Control::default());
        let other = Arc::clone(&control);
        let sleeper = tokio::spawn(async move { other.sleep(Duration::from_secs(3600)).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let begin = tokio::time::Instant::now();
        control.stop();
        sleeper.await.unwrap();
        control.sleep(Duration::from_secs(3600)).await;
        control.stopped().await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
}
