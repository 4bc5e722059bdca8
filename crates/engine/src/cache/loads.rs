//! Loads in progress: whoever asks for a block that is being loaded waits for that load.

use super::CacheKey;
use crate::error::Result;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;

/// The loads in progress of a share of all keys.
pub(super) struct Loads<T>(Mutex<HashMap<CacheKey, Arc<Load<T>>>>);

impl<T> Default for Loads<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// A load in progress; others wait for its outcome.
struct Load<T> {
    outcome: Mutex<Outcome<T>>,
    done: Condvar,
}

/// `None` in `Done` means that the load was abandoned.
enum Outcome<T> {
    Pending,
    Done(Option<Result<T>>),
}

/// What came of asking to load a key.
pub(super) enum Joined<'a, T> {
    /// The caller loads.
    Leader(Leader<'a, T>),
    /// The outcome of the load waited for; `None` if its thread panicked.
    Follower(Option<Result<T>>),
}

/// The duty to end a load: dropping it, also by a panic, lets the waiters go.
pub(super) struct Leader<'a, T> {
    loads: &'a Loads<T>,
    key: CacheKey,
    load: Arc<Load<T>>,
}

impl<T: Clone> Loads<T> {
    /// Becomes the loader of `key`, or waits for the one there is.
    pub(super) fn join(&self, key: CacheKey) -> Joined<'_, T> {
        let load = {
            let mut loads = self.0.lock();
            match loads.get(&key) {
                Some(load) => Arc::clone(load),
                None => {
                    let outcome = Mutex::new(Outcome::Pending);
                    let load = Arc::new(Load { outcome, done: Condvar::new() });
                    loads.insert(key, Arc::clone(&load));
                    return Joined::Leader(Leader { loads: self, key, load });
                }
            }
        };
        let mut outcome = load.outcome.lock();
        loop {
            match &*outcome {
                Outcome::Pending => load.done.wait(&mut outcome),
                Outcome::Done(result) => return Joined::Follower(result.clone()),
            }
        }
    }
}

impl<T> Leader<'_, T> {
    /// Ends the load with its outcome.
    pub(super) fn finish(self, result: Result<T>) {
        *self.load.outcome.lock() = Outcome::Done(Some(result));
    }
}

impl<T> Drop for Leader<'_, T> {
    fn drop(&mut self) {
        self.loads.0.lock().remove(&self.key);
        let mut outcome = self.load.outcome.lock();
        if matches!(*outcome, Outcome::Pending) {
            *outcome = Outcome::Done(None);
        }
        self.load.done.notify_all();
    }
}
