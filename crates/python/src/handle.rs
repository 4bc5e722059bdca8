//! One open engine, and how everything that belongs to it reaches it.
//!
//! 1. All objects of an engine hold its handle, not the engine. Closing takes the engine out of the
//!    handle when no call is under way, and ends what keeps the directory open or its files alive
//!    (writers, finished files, scans). So when `close` returns, the directory can be opened again,
//!    and later calls of every object raise `ClosedError`.
//! 2. Locks are waited for without the interpreter's lock, and given back before that is taken
//!    again. Their order: the handle's, then a slot's.

use crate::errors::Failure;
use parking_lot::{Mutex, RwLock};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// An engine that can be closed while objects of it live on.
pub(crate) struct Handle {
    engine: RwLock<Option<engine::Engine>>,
    /// Set before `close` waits for the calls under way, so that no new ones begin.
    closing: AtomicBool,
    slots: Mutex<Slots>,
}

/// A value that ends with its engine, or before; `None` from then on.
pub(crate) type Slot<T> = Mutex<Option<T>>;

/// What there is to end, and when to forget those that are gone.
#[derive(Default)]
struct Slots {
    all: Vec<Weak<dyn End>>,
    forget_at: usize,
}

trait End: Send + Sync {
    fn end(&self);
}

impl<T: Send> End for Slot<T> {
    fn end(&self) {
        self.lock().take();
    }
}

/// Slots below which it is not worth looking for those that are gone.
const SLOTS_MIN: usize = 64;

/// Lets other threads of Python run while `work` waits, as ending a value may for a disk. For what
/// Python frees, which it does at any time.
pub(crate) fn while_others_run(work: impl FnOnce() + Send) {
    let mut work = Some(work);
    Python::try_attach(|py| py.detach(|| work.take().map(|work| work())));
    // The interpreter is ending: no other thread runs.
    if let Some(work) = work {
        work();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.get_mut().take() {
            while_others_run(|| drop(engine));
        }
    }
}

impl Handle {
    pub(crate) fn new(engine: engine::Engine) -> Arc<Self> {
        let engine = RwLock::new(Some(engine));
        Arc::new(Self { engine, closing: AtomicBool::new(false), slots: Mutex::default() })
    }

    /// Calls `work` with the engine while other threads of Python run. `ClosedError` if the engine
    /// was closed.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&engine::Engine) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let outcome = py.detach(|| {
            if self.closing.load(Ordering::Acquire) {
                return Err(engine::Error::Closed.into());
            }
            match &*self.engine.read() {
                Some(engine) => work(engine),
                None => Err(engine::Error::Closed.into()),
            }
        });
        outcome.map_err(|failure| failure.raise(py))
    }

    /// Keeps `value` until it is taken out of its slot or the engine is closed. Called by the work
    /// of [`Self::call`], so that the engine is open.
    pub(crate) fn keep<T: Send + 'static>(&self, value: T) -> Arc<Slot<T>> {
        let slot = Arc::new(Mutex::new(Some(value)));
        let weak: Weak<Slot<T>> = Arc::downgrade(&slot);
        let mut slots = self.slots.lock();
        if slots.all.len() >= slots.forget_at {
            slots.all.retain(|slot| slot.strong_count() > 0);
            slots.forget_at = (2 * slots.all.len()).max(SLOTS_MIN);
        }
        slots.all.push(weak);
        slot
    }

    /// Waits for the calls under way, ends what belongs to the engine, and closes it. Does nothing
    /// the second time.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| {
            self.closing.store(true, Ordering::Release);
            let mut open = self.engine.write();
            let Some(engine) = open.take() else { return Ok(()) };
            for slot in std::mem::take(&mut self.slots.lock().all) {
                if let Some(slot) = slot.upgrade() {
                    slot.end();
                }
            }
            engine.close().map_err(Failure::from)
        });
        closed.map_err(|failure| failure.raise(py))
    }

    /// Returns whether it was closed, or is about to be.
    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}
