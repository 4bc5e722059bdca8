//! Blocking calls of the store, a bounded number at a time.

use crate::error::{Error, Result};
use crate::meter::{Queue, StoreMeter};
use base::env::Clock;
use engine::perf_context::{self, PerfTime};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A bounded number of blocking calls.
#[derive(Clone)]
pub(super) struct Pool {
    pub(super) places: Arc<Semaphore>,
    /// The runtime whose blocking threads run the calls; without one, that of the caller.
    threads: Option<Handle>,
    /// The queue in which `meter` counts the waits for places.
    queue: Queue,
    meter: Arc<StoreMeter>,
    clock: Arc<dyn Clock>,
}

/// A wait for a place, counted when it ends or is given up.
struct Wait<'a> {
    pool: &'a Pool,
    came: Duration,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Pool { queue, meter, clock, .. } = self.pool;
        meter.waited(*queue, clock.monotonic().saturating_sub(self.came));
    }
}

impl Pool {
    /// So many places, for which calls wait in `queue`.
    pub(super) fn new(
        places: usize,
        queue: Queue,
        meter: &Arc<StoreMeter>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let (meter, clock) = (Arc::clone(meter), Arc::clone(clock));
        Self { places: Arc::new(Semaphore::new(places)), threads: None, queue, meter, clock }
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

    /// Waits until a place is free. Looks at the clock only if none is free at once.
    async fn place(&self) -> Result<OwnedSemaphorePermit> {
        // No other call is passed over: a place that is given back goes to the call that waits longest.
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            self.meter.waited(self.queue, Duration::ZERO);
            return Ok(place);
        }
        let _wait = Wait { pool: self, came: self.clock.monotonic() };
        let place = Arc::clone(&self.places).acquire_owned();
        let place = perf_context::waiting(PerfTime::Place, place).await;
        place.map_err(|_| Error::Unavailable("the store is closing".into()))
    }

    /// Runs `call` on a blocking thread, and then leaves the place.
    async fn run_in<T: Send + 'static>(
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::SimEnv;

    #[tokio::test]
    async fn only_a_call_that_finds_no_place_waits_and_one_that_gives_up_has_waited() {
        let machine = SimEnv::new(1);
        let (meter, clock) = (Arc::<StoreMeter>::default(), machine.env().clock);
        let pool = Pool::new(1, Queue::Filters, &meter, &clock);
        let waits = || {
            let mut all = meter.queue_waits();
            let (_, waits) = all.find(|(queue, _)| *queue == Queue::Filters).unwrap();
            (waits.count(), waits.sum)
        };
        let place = pool.place().await.unwrap();
        assert_eq!(waits(), (1, 0));
        let (mut next, mut given_up) = (Box::pin(pool.place()), Box::pin(pool.place()));
        assert!(futures::poll!(&mut next).is_pending());
        assert!(futures::poll!(&mut given_up).is_pending());
        machine.clock.advance(Duration::from_secs(3));
        drop((given_up, place));
        drop(next.await.unwrap());
        assert_eq!(waits(), (3, 6_000_000));
        pool.run(|| Ok(())).await.unwrap();
        assert_eq!(waits(), (4, 6_000_000), "a place that is free is no wait");
    }
}
