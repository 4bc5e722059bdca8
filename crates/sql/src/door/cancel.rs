//! Sessions by the key with which their statements can be cancelled.
//!
//! Invariants:
//! 1. A cancel request that names no session or the wrong secret does nothing, and is not answered.
//! 2. A cancel that comes between two statements is forgotten when the next one starts.
//! 3. Secrets are compared in constant time.

use bytes::Bytes;
use parking_lot::Mutex;
use pgwire::messages::startup::SecretKey;
use relational::CancelFlag;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio::sync::Notify;

/// Means to stop the statement of a session.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    flag: Mutex<CancelFlag>,
    wake: Notify,
}

impl Cancel {
    /// Starts a statement. Returns the flag that its scans look at.
    pub(crate) fn begin(&self) -> CancelFlag {
        let fresh = CancelFlag::default();
        *self.flag.lock() = fresh.clone();
        fresh
    }

    /// Ends a statement: a request that comes from now on changes nothing of it.
    pub(crate) fn end(&self) {
        *self.flag.lock() = CancelFlag::default();
    }

    /// Has [`Cancel::cancelled`] look at its flag again.
    pub(crate) fn wake(&self) {
        self.wake.notify_waiters();
    }

    /// Stops the statement in progress.
    pub(crate) fn cancel(&self) {
        self.flag.lock().cancel();
        self.wake();
    }

    /// Waits until the statement of `flag` is cancelled.
    pub(crate) async fn cancelled(&self, flag: &CancelFlag) {
        loop {
            let woken = self.wake.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if flag.is_cancelled() {
                return;
            }
            woken.await;
        }
    }
}

/// All sessions of a server.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    last_pid: i32,
    by_pid: HashMap<i32, (Bytes, Arc<Cancel>)>,
}

/// A session in the list. Dropping it removes the session.
#[derive(Debug)]
pub(crate) struct Registered {
    sessions: Arc<Sessions>,
    pub(crate) pid: i32,
    pub(crate) secret: Bytes,
    pub(crate) cancel: Arc<Cancel>,
}

impl Sessions {
    /// Adds a session with a secret of `secret_len` bytes. Fails if the system gives no random numbers.
    pub(crate) fn register(self: &Arc<Self>, secret_len: usize) -> Option<Registered> {
        let mut secret = vec![0; secret_len];
        SystemRandom::new().fill(&mut secret).ok()?;
        let (secret, cancel) = (Bytes::from(secret), Arc::<Cancel>::default());
        let mut known = self.0.lock();
        loop {
            known.last_pid = known.last_pid.checked_add(1).unwrap_or(1);
            if !known.by_pid.contains_key(&known.last_pid) {
                break;
            }
        }
        let pid = known.last_pid;
        known.by_pid.insert(pid, (secret.clone(), Arc::clone(&cancel)));
        Some(Registered { sessions: Arc::clone(self), pid, secret, cancel })
    }

    /// Cancels the statement of the session `pid`, if `secret` is its secret.
    pub(crate) fn cancel(&self, pid: i32, secret: &SecretKey) {
        let session = self.0.lock().by_pid.get(&pid).cloned();
        if let Some((known, cancel)) = session
            && bool::from(known.ct_eq(&secret.to_bytes()))
        {
            cancel.cancel();
        }
    }

    /// Cancels the statements of all sessions.
    pub(crate) fn cancel_all(&self) {
        let all: Vec<_> = self.0.lock().by_pid.values().map(|(_, c)| Arc::clone(c)).collect();
        all.iter().for_each(|cancel| cancel.cancel());
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.sessions.0.lock().by_pid.remove(&self.pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_right_secret_cancels_and_only_the_statement_in_progress() {
        let sessions = Arc::<Sessions>::default();
        let session = sessions.register(4).unwrap();
        let other = sessions.register(32).unwrap();
        assert_ne!(session.pid, other.pid);
        let flag = session.cancel.begin();
        sessions.cancel(session.pid, &SecretKey::Bytes(other.secret.clone()));
        sessions.cancel(-1, &SecretKey::Bytes(session.secret.clone()));
        assert!(!flag.is_cancelled());
        sessions.cancel(session.pid, &SecretKey::Bytes(session.secret.clone()));
        session.cancel.cancelled(&flag).await;
        assert!(!session.cancel.begin().is_cancelled());
        let pid = session.pid;
        drop(session);
        sessions.cancel(pid, &SecretKey::I32(0));
    }
}
