//! Scrapes take turns, on a blocking thread.
//!
//! Invariants:
//! 1. No thread of the runtime gathers: a scrape of many tables holds up no request.
//! 2. One scrape is made at a time, also when its client is gone before its end.
//! 3. A few scrapes wait for their turn, and not for long. Further ones are refused.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Scrapes that are made or wait.
const PLACES: usize = 8;
/// Longest wait for a turn. Scrapers give up after ten seconds.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The places and the turns of scrapes.
#[derive(Debug)]
pub(crate) struct Scrapes {
    places: Semaphore,
    turn: Arc<Semaphore>,
}

/// There are too many scrapes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

impl Default for Scrapes {
    fn default() -> Self {
        Self { places: Semaphore::new(PLACES), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl Scrapes {
    /// Runs `gather` on a blocking thread in its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        gather: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let _place = self.places.try_acquire().map_err(|_| Busy)?;
        let turn = tokio::time::timeout(WAIT_MAX, Arc::clone(&self.turn).acquire_owned()).await;
        let turn = turn.ok().and_then(Result::ok).ok_or(Busy)?;
        let gathering = tokio::task::spawn_blocking(move || {
            let gathered = gather();
            drop(turn);
            gathered
        });
        // A runtime that stops drops what it has not begun.
        gathering.await.map_err(|_| Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    /// The only thread of this runtime is the test's, and it is free while a scrape blocks.
    #[tokio::test]
    async fn a_scrape_runs_on_no_thread_of_the_runtime() {
        let runtime = std::thread::current().id();
        let (go_on, waits) = mpsc::channel();
        let scrapes = Scrapes::default();
        let scrape = scrapes.run(move || {
            waits.recv().expect("the runtime goes on while the scrape blocks");
            std::thread::current().id()
        });
        let (thread, ()) = tokio::join!(scrape, async move { go_on.send(()).unwrap() });
        assert_ne!(thread, Ok(runtime));
    }

    #[tokio::test]
    async fn scrapes_take_turns_and_one_that_finds_no_place_is_refused() {
        let scrapes = Arc::new(Scrapes::default());
        let (begun, first_begun) = tokio::sync::oneshot::channel();
        let (go_on, waits) = mpsc::channel::<()>();
        let at_once = Arc::new(AtomicUsize::new(0));
        let of_first = Arc::clone(&scrapes);
        let first = tokio::spawn(async move {
            let gather = move || {
                begun.send(()).unwrap();
                let _ = waits.recv();
            };
            of_first.run(gather).await
        });
        first_begun.await.unwrap();
        let mut others: Vec<_> = (1..PLACES)
            .map(|_| {
                let at_once = Arc::clone(&at_once);
                let scrape = scrapes.run(move || {
                    let others = at_once.fetch_add(1, Ordering::SeqCst);
                    at_once.fetch_sub(1, Ordering::SeqCst);
                    others
                });
                Box::pin(scrape)
            })
            .collect();
        // Each takes its place when it is polled first.
        for other in &mut others {
            assert!(futures::poll!(other).is_pending());
        }
        assert_eq!(scrapes.run(|| ()).await, Err(Busy));
        go_on.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(()));
        for other in others {
            assert_eq!(other.await, Ok(0), "no other scrape runs beside it");
        }
        assert_eq!(scrapes.run(|| 7).await, Ok(7));
    }

    /// The clock is paused: it goes on when all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn a_scrape_waits_for_its_turn_no_longer_than_its_client() {
        let scrapes = Scrapes::default();
        let turn = Arc::clone(&scrapes.turn).acquire_owned().await.unwrap();
        assert_eq!(scrapes.run(|| ()).await, Err(Busy));
        drop(turn);
        assert_eq!(scrapes.run(|| ()).await, Ok(()));
    }
}
