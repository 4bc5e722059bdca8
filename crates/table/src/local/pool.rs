//! Blocking calls of the store, a bounded number at a time.

use crate::error::{Error, Result};
use engine::perf_context::{self, PerfTime};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A bounded number of blocking calls.
#[derive(Clone)]
pub(super) struct Pool {
    pub(super) places: Arc<Semaphore>,
    /// The runtime whose blocking threads run the calls; without one, that of the caller.
    threads: Option<Handle>,
}

impl Pool {
    pub(super) fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), threads: None }
    }

    /// The same places, whose calls run on the blocking threads of `runtime`.
    pub(super) fn on_threads_of(self, runtime: &Handle) -> Self {
        Self { threads: Some(runtime.clone()), ..self }
    }

    /// Runs `call` on a blocking thread when there is a place. It runs to its end even if the
    /// caller goes away.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let place = self.place().await?;
        self.run_in(place, call).await
    }

    /// Waits until a place is free.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.places).acquire_owned();
        let place = perf_context::waiting(PerfTime::Place, place).await;
        place.map_err(|_| Error::Unavailable("the store is closing".into()))
    }

    /// Runs `call` on a blocking thread, and then leaves the place.
    pub(super) async fn run_in<T: Send + 'static>(
        &self,
        place: OwnedSemaphorePermit,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let threads = self.threads.clone().unwrap_or_else(Handle::current);
        let mut context = perf_context::current();
        let task = threads.spawn_blocking(move || {
            let result = perf_context::within(&mut context, || {
                let begun = perf_context::now();
                let result = call();
                perf_context::timed(PerfTime::Step, begun);
                result
            });
            drop(place);
            result
        });
        task.await.map_err(|error| Error::Internal(format!("a call ended early: {error}")))?
    }
}
