//! Loads in progress: whoever asks for a block that is being loaded waits for that load.
//!
//! Asking never waits; waiting is a step of its own. A thread that has claimed several keys ends
//! all of its own loads before it waits for those of others, so claims cannot wait in a circle.

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
    /// Somebody does.
    Follower(Follower<T>),
}

/// The duty to end a load: dropping it, also by a panic, lets the waiters go.
pub(super) struct Leader<'a, T> {
    loads: &'a Loads<T>,
    key: CacheKey,
    load: Arc<Load<T>>,
}

/// A share in the outcome of a load.
pub(super) struct Follower<T>(Arc<Load<T>>);

impl<T: Clone> Loads<T> {
    /// Becomes the loader of `key` unless there is one.
    pub(super) fn join(&self, key: CacheKey) -> Joined<'_, T> {
        let mut loads = self.0.lock();
        if let Some(load) = loads.get(&key) {
            return Joined::Follower(Follower(Arc::clone(load)));
        }
        let outcome = Mutex::new(Outcome::Pending);
        let load = Arc::new(Load { outcome, done: Condvar::new() });
        loads.insert(key, Arc::clone(&load));
        Joined::Leader(Leader { loads: self, key, load })
    }
}

impl<T: Clone> Follower<T> {
    /// Waits for the outcome; `None` if the load was abandoned.
    pub(super) fn wait(self) -> Option<Result<T>> {
        let mut outcome = self.0.outcome.lock();
        loop {
            match &*outcome {
                Outcome::Pending => self.0.done.wait(&mut outcome),
                Outcome::Done(result) => return result.clone(),
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
