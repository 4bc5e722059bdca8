//! Inputs of the driver on their way to its thread, in the order in which they came.

use super::hosted::{Committed, Hosted};
use crate::group::{GroupId, GroupReport, Input, OpenError, SavedReplica, Ticket};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// An input of the driver, or an order to its thread.
pub(super) enum Event {
    /// An input that needs no check.
    Input(Input),
    /// The state machine of a replica has applied up to an index.
    Applied(Arc<Hosted>, u64),
    /// The state machine of a replica has flushed up to an index.
    Flushed(Arc<Hosted>, u64),
    /// A replica is to be opened.
    Open(Box<Opening>),
    /// The condition of all groups is asked for.
    Report(std::sync::mpsc::Sender<Vec<GroupReport>>),
    /// A replica is to be closed; the answer has its requests.
    Close(GroupId, oneshot::Sender<Vec<Ticket>>),
}

/// A replica that is to be opened, and its caller.
pub(super) struct Opening {
    pub(super) saved: SavedReplica,
    pub(super) hosted: Arc<Hosted>,
    pub(super) committed: Committed,
    pub(super) done: oneshot::Sender<Result<(), OpenError>>,
}

/// The header of this file describes it.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    closed: bool,
}

impl Inbox {
    /// Adds an event after all others.
    pub(super) fn push(&self, event: Event) {
        self.push_all([event]);
    }

    /// Adds events after all others, with none between them. After the end they are dropped.
    pub(super) fn push_all(&self, events: impl IntoIterator<Item = Event>) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let before = state.events.len();
        state.events.extend(events);
        let wakes = before == 0 && !state.events.is_empty();
        drop(state);
        if wakes {
            self.arrived.notify_one();
        }
    }

    /// Waits for events for at most `longest`, and takes all of them. None at the end.
    pub(super) fn take(&self, longest: Option<Duration>) -> Option<Vec<Event>> {
        let mut state = self.state.lock();
        if state.events.is_empty() && !state.closed {
            match longest {
                Some(longest) => {
                    let _ = self.arrived.wait_for(&mut state, longest);
                }
                None => self.arrived.wait(&mut state),
            }
        }
        match state.closed {
            true => None,
            false => Some(std::mem::take(&mut state.events)),
        }
    }

    /// Ends all waiting; events that were not taken are dropped.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.events);
        drop(state);
        drop(dropped);
        self.arrived.notify_all();
    }
}
