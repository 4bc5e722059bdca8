//! Tasks that sleep for a while, unless they are woken before. They need neither a thread each nor a
//! runtime.
//!
//! 1. A sleep is over when its time has come or when all are woken, whichever is first. It does not
//!    miss a wake-up from its beginning on, polled or not.
//! 2. One thread counts the time of all. It starts with the first sleep, and ends when the sleepers are
//!    dropped, who are woken then.
//! 3. However many sleep, to begin a sleep, to end one and to find the sleeps that are due takes little: they
//!    are in the order of their ends. A sleep that is dropped leaves nothing behind.
//! 4. Tasks are woken without a lock: a waker may do what it likes.

use super::task::start_thread;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The sleeping tasks of one engine, or of another owner that wakes them.
#[derive(Default)]
pub struct Sleepers {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when the thread has to look again.
    changed: Condvar,
    /// Length of `State::asleep`. Relaxed: who begins to sleep while others are woken looks again
    /// when its time has come.
    count: AtomicUsize,
}

#[derive(Default)]
struct State {
    asleep: BTreeMap<End, Arc<Sleep>>,
    /// The number of sleeps that were begun.
    begun: u64,
    /// When the thread looks again by itself.
    looks_at: Option<Instant>,
    thread: Option<JoinHandle<()>>,
    closed: bool,
}

/// When a sleep ends by itself, and the number that tells it from others of that time.
type End = (Instant, u64);

#[derive(Default)]
struct Sleep {
    waits: Mutex<Waits>,
}

#[derive(Default)]
struct Waits {
    over: bool,
    waker: Option<Waker>,
}

/// The sleep of one task.
pub struct Asleep {
    shared: Arc<Shared>,
    end: End,
    sleep: Arc<Sleep>,
}

impl Sleepers {
    /// Sleeps for `longest`, or until all are woken.
    pub fn sleep(&self, longest: Duration) -> Asleep {
        let until = Instant::now() + longest;
        let sleep = Arc::<Sleep>::default();
        let mut state = self.shared.state.lock();
        if state.thread.is_none() && !state.closed {
            let shared = Arc::clone(&self.shared);
            match start_thread("stele-sleepers", move || shared.run()) {
                Ok(thread) => state.thread = Some(thread),
                Err(error) => tracing::warn!(%error, "could not start a thread for stalled tasks"),
            }
        }
        state.begun += 1;
        let end = (until, state.begun);
        let asleep = Asleep { shared: Arc::clone(&self.shared), end, sleep: Arc::clone(&sleep) };
        if state.thread.is_none() {
            drop(state);
            // Without the thread it would not be woken.
            std::thread::sleep(longest);
            sleep.end();
            return asleep;
        }
        state.asleep.insert(end, sleep);
        self.shared.count.store(state.asleep.len(), Ordering::Relaxed);
        if state.looks_at.is_none_or(|at| until < at) {
            self.shared.changed.notify_one();
        }
        asleep
    }

    /// Ends every sleep that is not over.
    pub fn wake_all(&self) {
        if self.shared.count.load(Ordering::Relaxed) > 0 {
            self.shared.wake_all();
        }
    }

    /// The number of sleeps that are not over.
    pub fn len(&self) -> usize {
        self.shared.state.lock().asleep.len()
    }

    /// Returns whether no task sleeps.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shared {
    fn wake_all(&self) {
        let asleep = {
            let mut state = self.state.lock();
            self.count.store(0, Ordering::Relaxed);
            std::mem::take(&mut state.asleep)
        };
        asleep.values().for_each(|sleep| sleep.end());
    }

    /// Ends sleeps when their time has come, until the sleepers are dropped.
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.closed {
            let now = Instant::now();
            let mut due = Vec::new();
            while let Some(first) = state.asleep.first_entry()
                && first.key().0 <= now
            {
                due.push(first.remove());
            }
            self.count.store(state.asleep.len(), Ordering::Relaxed);
            if !due.is_empty() {
                parking_lot::MutexGuard::unlocked(&mut state, || {
                    due.iter().for_each(|sleep| sleep.end());
                });
                continue;
            }
            state.looks_at = state.asleep.first_key_value().map(|((until, _), _)| *until);
            match state.looks_at {
                Some(at) => {
                    self.changed.wait_until(&mut state, at);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }
}

impl Sleep {
    fn end(&self) {
        let waker = {
            let mut waits = self.waits.lock();
            waits.over = true;
            waits.waker.take()
        };
        let wake = || waker.into_iter().for_each(Waker::wake);
        if catch_unwind(AssertUnwindSafe(wake)).is_err() {
            tracing::error!("the waker of a task panicked");
        }
    }
}

impl Future for Asleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut waits = self.sleep.waits.lock();
        if waits.over {
            return Poll::Ready(());
        }
        waits.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        if !self.sleep.waits.lock().over {
            let mut state = self.shared.state.lock();
            state.asleep.remove(&self.end);
            self.shared.count.store(state.asleep.len(), Ordering::Relaxed);
        }
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        let thread = {
            let mut state = self.shared.state.lock();
            state.closed = true;
            state.thread.take()
        };
        self.shared.changed.notify_one();
        self.shared.wake_all();
        let this = std::thread::current().id();
        // A waker may be what drops us: that thread ends when it returns.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != this) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Sleepers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sleepers").field("asleep", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::task::Wake;

    struct Tell(Sender<()>);

    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_sleep_ends_when_its_time_has_come_or_all_are_woken() {
        let sleepers = Sleepers::default();
        let (send, woken) = channel();
        let waker = Waker::from(Arc::new(Tell(send)));
        let mut context = Context::from_waker(&waker);
        let mut long = sleepers.sleep(LONG);
        let mut short = sleepers.sleep(Duration::from_millis(1));
        // The thread may have ended it before it was polled: then the waker is not called.
        if Pin::new(&mut short).poll(&mut context).is_pending() {
            woken.recv().unwrap();
        }
        assert!(Pin::new(&mut short).poll(&mut context).is_ready());
        assert!(Pin::new(&mut long).poll(&mut context).is_pending());
        assert_eq!(sleepers.len(), 1);
        sleepers.wake_all();
        woken.recv().unwrap();
        assert!(Pin::new(&mut long).poll(&mut context).is_ready());
        assert!(sleepers.is_empty());
    }

    #[test]
    fn a_wake_up_before_the_first_poll_counts_and_dropped_sleepers_wake_all() {
        let sleepers = Sleepers::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut early = sleepers.sleep(LONG);
        sleepers.wake_all();
        assert!(Pin::new(&mut early).poll(&mut context).is_ready());
        let mut left = sleepers.sleep(LONG);
        assert!(Pin::new(&mut left).poll(&mut context).is_pending());
        drop(sleepers);
        assert!(Pin::new(&mut left).poll(&mut context).is_ready());
    }

    #[test]
    fn short_sleeps_end_among_many_and_dropped_ones_are_forgotten() {
        let sleepers = Sleepers::default();
        let mut long: Vec<_> = (0..100).map(|_| sleepers.sleep(LONG)).collect();
        // Thousands that are dropped do not stay until their time has come.
        (0..1000).for_each(|_| drop(sleepers.sleep(LONG)));
        assert_eq!(sleepers.len(), 100);
        let (send, woken) = channel();
        let waker = Waker::from(Arc::new(Tell(send)));
        let mut context = Context::from_waker(&waker);
        let short = [3, 1, 2].map(|millis| sleepers.sleep(Duration::from_millis(millis)));
        for mut short in short {
            while Pin::new(&mut short).poll(&mut context).is_pending() {
                woken.recv().unwrap();
            }
        }
        assert_eq!(sleepers.len(), 100);
        let pending = |sleep: &mut Asleep| Pin::new(sleep).poll(&mut context).is_pending();
        assert!(long.iter_mut().all(pending));
    }
}
