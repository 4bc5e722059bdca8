//! Requests of clients that wait for the driver's answer.
//!
//! 1. What a proposal keeps (`Kept`) is dropped after its outcome is known, also if its caller no longer waits.
//! 2. When the node ends, every request is answered: its outcome is not known.

use crate::group::{Answer, Ticket};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use table::Kept;
use tokio::sync::oneshot;

/// A request without an answer.
struct Waiting {
    answer: oneshot::Sender<Answer>,
    /// Dropped after the answer is there.
    kept: Option<Kept>,
}

/// The header of this file describes it.
#[derive(Default)]
pub(super) struct Requests {
    last: AtomicU64,
    waiting: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<Ticket, Waiting>,
    closed: bool,
}

impl Requests {
    /// Begins a request. The receiver fails if the node ends before there is an answer.
    pub(super) fn begin(&self, kept: Option<Kept>) -> (Ticket, oneshot::Receiver<Answer>) {
        let ticket = Ticket(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (answer, receiver) = oneshot::channel();
        let mut state = self.waiting.lock();
        if !state.closed {
            state.waiting.insert(ticket, Waiting { answer, kept });
        }
        drop(state);
        (ticket, receiver)
    }

    /// Gives the driver's answers to those who wait.
    pub(super) fn answer(&self, answers: Vec<(Ticket, Answer)>) {
        if answers.is_empty() {
            return;
        }
        let found: Vec<(Option<Waiting>, Answer)> = {
            let mut state = self.waiting.lock();
            let take = |(ticket, answer)| (state.waiting.remove(&ticket), answer);
            answers.into_iter().map(take).collect()
        };
        for (waiting, answer) in found {
            if let Some(Waiting { answer: sender, kept }) = waiting {
                // The lock that is kept goes first: a caller that is told may ask for it again.
                drop(kept);
                let _ = sender.send(answer);
            }
        }
    }

    /// Forgets requests that will have no answer.
    pub(super) fn forget(&self, tickets: &[Ticket]) {
        let mut state = self.waiting.lock();
        let gone: Vec<_> =
            tickets.iter().filter_map(|ticket| state.waiting.remove(ticket)).collect();
        drop(state);
        drop(gone);
    }

    /// Forgets all requests, and takes no more.
    pub(super) fn close(&self) {
        let mut state = self.waiting.lock();
        state.closed = true;
        let gone = std::mem::take(&mut state.waiting);
        drop(state);
        drop(gone);
    }
}
