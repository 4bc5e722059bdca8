//! Life of a node: at work, asked to end, or failed.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// The header of this file describes it.
pub(super) struct Health {
    /// True once nothing more is to be done. Written before the threads are woken.
    ended: AtomicBool,
    end: watch::Sender<bool>,
    failed: watch::Sender<Option<String>>,
}

impl Health {
    pub(super) fn new() -> Self {
        Self {
            ended: AtomicBool::new(false),
            end: watch::Sender::new(false),
            failed: watch::Sender::new(None),
        }
    }

    /// Returns true if the node failed or is to end.
    pub(super) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Notes the end; returns true at the first call.
    pub(super) fn end(&self) -> bool {
        let first = !self.ended.swap(true, Ordering::AcqRel);
        self.end.send_replace(true);
        first
    }

    /// Notes a failure. The first one counts.
    pub(super) fn fail(&self, text: String) {
        self.failed.send_if_modified(|failed| match failed {
            Some(_) => false,
            None => {
                tracing::error!("the groups of this node stop: {text}");
                *failed = Some(text);
                true
            }
        });
        self.end();
    }

    /// Returns the text of the failure, if there was one.
    pub(super) fn failure(&self) -> Option<String> {
        self.failed.borrow().clone()
    }

    pub(super) fn failed(&self) -> watch::Receiver<Option<String>> {
        self.failed.subscribe()
    }

    /// Waits until the node ends.
    pub(super) async fn until_end(&self) {
        let mut end = self.end.subscribe();
        // The sender lives as long as `self`.
        let _ = end.wait_for(|end| *end).await;
    }
}
