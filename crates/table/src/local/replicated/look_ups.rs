//! Look-ups of tables that this node does not know.
//!
//! Another node may have created such a table just now, so the directory is asked before a request is refused. Clients
//! ask for tables that are not there as often as they like; the directory must not hear of each time.
//!
//! 1. One task asks, for all names that wait, in the order in which they came. A name that comes meanwhile is asked for
//!    in the next round: an answer is never older than its request.
//! 2. Rounds begin [`ROUND_EVERY`] apart or later, and one asks for at most [`NAMES_MAX`] names, once each.
//! 3. When the directory does not answer, all that waits fails: none waits for one failure after the other.
//! 4. A request waits for at most [`WAIT_MAX`], and at most [`WAITING_MAX`] names wait. A name is dropped
//!    when no request waits for it any more.
//! 5. Rounds take no place of the pools that requests for known tables need.

use super::super::{Local, Table};
use super::Replicated;
use crate::error::{Error, Result};
use crate::schema::TableName;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Shortest time between the ends of two rounds.
const ROUND_EVERY: Duration = Duration::from_millis(50);
/// Names that one round asks for.
const NAMES_MAX: usize = 32;
/// Longest wait of a request: longer than the directory takes to say that it does not answer.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Most names that wait: what rounds can ask for in that time.
const WAITING_MAX: usize = 4_096;

/// Told when the directory was asked.
type Waiter = oneshot::Sender<Result<()>>;

/// The header of this file describes it.
#[derive(Default)]
pub(super) struct LookUps(Mutex<State>);

#[derive(Default)]
struct State {
    /// The names that wait, in the order in which they came.
    order: VecDeque<TableName>,
    waiting: HashMap<TableName, Vec<Waiter>>,
    /// True while a task asks.
    works: bool,
}

impl LookUps {
    /// Adds a request. Returns what tells it of the answer, and true if the caller is to begin the task that asks.
    /// `Busy` if too many names wait.
    fn add(&self, name: &TableName) -> Result<(oneshot::Receiver<Result<()>>, bool)> {
        let mut state = self.0.lock();
        let state = &mut *state;
        let (done, answer) = oneshot::channel();
        match state.waiting.get_mut(name) {
            Some(waiters) => waiters.push(done),
            None if state.order.len() >= WAITING_MAX => {
                let text = "too many tables that are not known are asked for; try again later";
                return Err(Error::Busy(text.to_owned()));
            }
            None => {
                state.order.push_back(name.clone());
                state.waiting.insert(name.clone(), vec![done]);
            }
        }
        Ok((answer, !std::mem::replace(&mut state.works, true)))
    }

    /// Takes the names of the next round; without any, the task ends.
    fn take(&self) -> Vec<(TableName, Vec<Waiter>)> {
        let mut state = self.0.lock();
        let mut names = Vec::new();
        while names.len() < NAMES_MAX
            && let Some(name) = state.order.pop_front()
        {
            let mut waiters = state.waiting.remove(&name).unwrap_or_default();
            waiters.retain(|waiter| !waiter.is_closed());
            if !waiters.is_empty() {
                names.push((name, waiters));
            }
        }
        state.works = !names.is_empty();
        names
    }

    /// Takes the requests for all names that wait.
    fn take_all(&self) -> Vec<Waiter> {
        let mut state = self.0.lock();
        state.order.clear();
        std::mem::take(&mut state.waiting).into_values().flatten().collect()
    }
}

impl Local {
    /// Returns a table that this node did not know of, as the directory has it. `Unavailable` if the directory does
    /// not tell in time.
    pub(in crate::local) async fn look_up(&self, name: &TableName) -> Result<Arc<Table>> {
        let Some(replicated) = self.core.replicated() else { return self.core.table(name) };
        let (answer, begins) = replicated.look_ups.add(name)?;
        if begins {
            tokio::spawn(rounds(self.clone()));
        }
        let unavailable = |text: &str| Error::Unavailable(text.to_owned());
        let answer = tokio::time::timeout(WAIT_MAX, answer).await;
        let late =
            |_| unavailable("the cluster's directory does not tell in time if the table is there");
        answer.map_err(late)?.map_err(|_| unavailable("the store is closing"))??;
        self.core.table(name)
    }
}

/// Asks the directory until no request waits.
async fn rounds(local: Local) {
    let Some(replicated) = local.core.replicated() else { return };
    loop {
        let names = replicated.look_ups.take();
        if names.is_empty() {
            return;
        }
        let asking = local.clone();
        // Waiters that are dropped with a call that ended early hear of it.
        let _ = tokio::task::spawn_blocking(move || round(&asking, names)).await;
        tokio::time::sleep(ROUND_EVERY).await;
    }
}

fn round(local: &Local, names: Vec<(TableName, Vec<Waiter>)>) {
    let Some(replicated) = local.core.replicated() else { return };
    // Waiters may have gone away.
    let tell = |waiters: Vec<Waiter>, answer: &Result<()>| {
        waiters.into_iter().for_each(|waiter| drop(waiter.send(answer.clone())));
    };
    let mut names = names.into_iter();
    while let Some((name, waiters)) = names.next() {
        let answer = ask(local, replicated, &name);
        tell(waiters, &answer);
        if matches!(answer, Err(Error::Unavailable(_))) {
            names.by_ref().for_each(|(_, waiters)| tell(waiters, &answer));
            tell(replicated.look_ups.take_all(), &answer);
        }
    }
}

fn ask(local: &Local, replicated: &Replicated, name: &TableName) -> Result<()> {
    match replicated.meta.versioned_table(name)? {
        Some(known) => local.learn(known),
        None => Ok(()),
    }
}
