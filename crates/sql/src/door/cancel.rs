//! Sessions by the key with which their statements can be cancelled.
//!
//! Invariants:
//! 1. A cancel request that names no session or the wrong secret does nothing, and is not answered.
//! 2. A cancel that comes between two statements is forgotten when the next one starts.
//! 3. Secrets are compared in constant time.

use super::activity::{Activity, SessionInfo};
use bytes::Bytes;
use parking_lot::Mutex;
use pgwire::messages::startup::SecretKey;
use relational::CancelFlag;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use subtle::ConstantTimeEq;
use tokio::sync::Notify;

/// Means to stop the statement of a session.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    flag: Mutex<CancelFlag>,
    wake: Notify,
    /// True once the session is to end.
    is_over: AtomicBool,
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

    /// Stops the statement in progress, and has the session end behind it.
    pub(crate) fn end_session(&self) {
        self.is_over.store(true, Ordering::Release);
        self.cancel();
    }

    /// Waits until the session is to end.
    pub(crate) async fn session_ends(&self) {
        loop {
            let woken = self.wake.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            woken.await;
        }
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
    by_pid: HashMap<i32, Session>,
}

#[derive(Debug, Clone)]
struct Session {
    secret: Bytes,
    cancel: Arc<Cancel>,
    activity: Arc<Activity>,
}

/// A session in the list. Dropping it removes the session.
#[derive(Debug)]
pub(crate) struct Registered {
    sessions: Arc<Sessions>,
    pub(crate) pid: i32,
    pub(crate) secret: Bytes,
    pub(crate) cancel: Arc<Cancel>,
    pub(crate) activity: Arc<Activity>,
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
        let activity = Arc::new(Activity::new(pid));
        let session = Session {
            secret: secret.clone(),
            cancel: Arc::clone(&cancel),
            activity: Arc::clone(&activity),
        };
        known.by_pid.insert(pid, session);
        Some(Registered { sessions: Arc::clone(self), pid, secret, cancel, activity })
    }

    /// Cancels the statement of the session `pid`, if `secret` is its secret.
    pub(crate) fn cancel(&self, pid: i32, secret: &SecretKey) {
        let session = self.0.lock().by_pid.get(&pid).cloned();
        if let Some(session) = session
            && bool::from(session.secret.ct_eq(&secret.to_bytes()))
        {
            session.cancel.cancel();
        }
    }

    /// Returns what all sessions do, in the order of their numbers.
    pub(crate) fn infos(&self) -> Vec<SessionInfo> {
        let all: Vec<_> = self.0.lock().by_pid.values().map(|s| Arc::clone(&s.activity)).collect();
        let mut infos: Vec<_> = all.iter().map(|activity| activity.info()).collect();
        infos.sort_unstable_by_key(|info| info.pid);
        infos
    }

    /// Returns the means to stop the session `pid`.
    pub(crate) fn stop_of(&self, pid: i32) -> Option<Arc<Cancel>> {
        self.0.lock().by_pid.get(&pid).map(|session| Arc::clone(&session.cancel))
    }

    /// Cancels the statements of all sessions.
    pub(crate) fn cancel_all(&self) {
        let all: Vec<_> = self.0.lock().by_pid.values().map(|s| Arc::clone(&s.cancel)).collect();
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
