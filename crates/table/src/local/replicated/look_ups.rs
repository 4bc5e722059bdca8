//! Look-ups of tables that this node does not know.
//!
//! Another node may have created such a table just now, so the directory is asked before a request is refused. Clients
//! ask for tables that are not there as often as they like; the directory must not hear of each time.
//!
//! 1. One task asks, for all names that wait. A name that comes meanwhile is asked for in the next round: an answer
//!    is never older than its request.
//! 2. Rounds begin [`ROUND_EVERY`] apart or later, and one asks for at most [`NAMES_MAX`] names, once each.
//! 3. When the directory does not answer, the rest of the round fails, so that none waits for one failure after
//!    the other.
//! 4. Rounds take no place of the pools that requests for known tables need.

use super::super::{Local, Table};
use super::Replicated;
use crate::error::{Error, Result};
use crate::schema::TableName;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Shortest time between the ends of two rounds.
const ROUND_EVERY: Duration = Duration::from_millis(50);
/// Names that one round asks for.
const NAMES_MAX: usize = 32;

/// Told when the directory was asked.
type Waiter = oneshot::Sender<Result<()>>;

/// The header of this file describes it.
#[derive(Default)]
pub(super) struct LookUps(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: BTreeMap<TableName, Vec<Waiter>>,
    /// True while a task asks.
    works: bool,
}

impl LookUps {
    /// Takes the names of the next round; without any, the task ends.
    fn take(&self) -> Vec<(TableName, Vec<Waiter>)> {
        let mut state = self.0.lock();
        let mut names = Vec::new();
        while names.len() < NAMES_MAX
            && let Some(name) = state.waiting.pop_first()
        {
            names.push(name);
        }
        state.works = !names.is_empty();
        names
    }
}

impl Local {
    /// Returns a table that this node did not know of, as the directory has it.
    pub(in crate::local) async fn look_up(&self, name: &TableName) -> Result<Arc<Table>> {
        let Some(replicated) = self.core.replicated() else { return self.core.table(name) };
        let (done, answer) = oneshot::channel();
        let begins = {
            let mut state = replicated.look_ups.0.lock();
            state.waiting.entry(name.clone()).or_default().push(done);
            !std::mem::replace(&mut state.works, true)
        };
        if begins {
            tokio::spawn(rounds(self.clone()));
        }
        let ended = |_| Error::Unavailable("the store is closing".to_owned());
        answer.await.map_err(ended)??;
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
    let mut answer = Ok(());
    for (name, waiters) in names {
        if !matches!(answer, Err(Error::Unavailable(_))) {
            answer = ask(local, replicated, &name);
        }
        for waiter in waiters {
            // It may have gone away.
            let _ = waiter.send(answer.clone());
        }
    }
}

fn ask(local: &Local, replicated: &Replicated, name: &TableName) -> Result<()> {
    match replicated.meta.versioned_table(name)? {
        Some(known) => local.learn(known),
        None => Ok(()),
    }
}
