//! Loads in progress: whoever asks for a block that is being loaded waits for that load.
//!
//! Asking never waits; waiting is a step of its own. A thread that has tickets for several keys ends
//! all of its own loads before it waits for those of others, so tickets cannot wait in a circle.

use super::{CacheKey, KeyMap};
use crate::error::Result;
use crate::locks::{CacheLoad, CacheLoads};
use base::sync::{Condvar, Mutex};
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The loads in progress of a share of all keys, with the meeting point of those that wait for
/// one, if there are any.
pub(super) struct Loads<T>(Mutex<KeyMap<Option<Arc<Load<T>>>>, CacheLoads>);

impl<T> Default for Loads<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// A load in progress for whose outcome others wait.
struct Load<T> {
    outcome: Mutex<Outcome<T>, CacheLoad>,
    done: Condvar,
}

/// `None` in `Done` means that the load was abandoned.
enum Outcome<T> {
    Pending,
    Done(Option<Result<T>>),
}

/// Result of asking to load a key.
pub(super) enum Joined<'a, T: Clone> {
    /// The caller loads.
    Leader(Leader<'a, T>),
    /// Somebody does.
    Follower(Follower<T>),
}

/// The duty to end a load: dropping it, also by a panic, lets the waiters go.
pub(super) struct Leader<'a, T: Clone> {
    loads: &'a Loads<T>,
    key: CacheKey,
    ended: bool,
}

/// A share in the outcome of a load.
pub(super) struct Follower<T>(Arc<Load<T>>);

impl<T: Clone> Loads<T> {
    /// Becomes the loader of `key` unless there is one.
    pub(super) fn join(&self, key: CacheKey) -> Joined<'_, T> {
        match self.0.lock().entry(key) {
            Entry::Occupied(mut load) => {
                let new = || Load { outcome: Mutex::new(Outcome::Pending), done: Condvar::new() };
                let load = load.get_mut().get_or_insert_with(|| Arc::new(new()));
                Joined::Follower(Follower(Arc::clone(load)))
            }
            Entry::Vacant(load) => {
                load.insert(None);
                Joined::Leader(Leader { loads: self, key, ended: false })
            }
        }
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

impl<T: Clone> Leader<'_, T> {
    /// Ends the load with its outcome.
    pub(super) fn finish(mut self, result: &Result<T>) {
        self.ended = true;
        self.end(Some(result));
    }

    fn end(&self, result: Option<&Result<T>>) {
        let waited_for = self.loads.0.lock().remove(&self.key).flatten();
        if let Some(load) = waited_for {
            *load.outcome.lock() = Outcome::Done(result.cloned());
            load.done.notify_all();
        }
    }
}

impl<T: Clone> Drop for Leader<'_, T> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(None);
        }
    }
}
