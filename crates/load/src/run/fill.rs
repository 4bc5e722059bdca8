//! The rows that a workload needs before it runs, written in batches.

use super::worker::{Backoff, Streak};
use super::{Control, Progress};
use crate::Error;
use crate::client::{Api, Failure};
use crate::measure::Watch;
use crate::report::Fill;
use crate::workload::{Next, Workload};
use bench_core::SplitMix64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Requests that are in flight at the same time.
const WRITERS_MAX: usize = 16;
/// Pause of a writer that waits for others.
const PAUSE: Duration = Duration::from_millis(5);

/// State that all writers share.
struct Filling {
    workload: Arc<Workload>,
    control: Arc<Control>,
    rows: AtomicU64,
    watch: Watch,
    streak: Streak,
    give_up_after: Duration,
}

/// Writes the rows; returns `None` if the workload needs no rows.
pub(super) async fn fill(
    workload: &Arc<Workload>,
    clients: &[impl Api],
    control: &Arc<Control>,
    give_up_after: Duration,
    progress: &Progress,
) -> Result<Option<Fill>, Error> {
    let total = workload.fill_rows();
    if total == 0 {
        return Ok(None);
    }
    let filling = Arc::new(Filling {
        workload: Arc::clone(workload),
        control: Arc::clone(control),
        rows: AtomicU64::new(0),
        watch: Watch::start(),
        streak: Streak::default(),
        give_up_after,
    });
    let mut writers = JoinSet::new();
    for number in 0..WRITERS_MAX {
        let client = clients[number % clients.len()].clone();
        writers.spawn(write(Arc::clone(&filling), client, number as u64));
    }
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.tick().await;
    let mut failed = None;
    loop {
        tokio::select! {
            done = writers.join_next() => match done {
                None => break,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => failed = failed.or(Some(error)),
                Some(Err(error)) => failed = failed.or(Some(Error::Program(error.to_string()))),
            },
            _ = ticks.tick() => {
                let rows = filling.rows.load(Ordering::Relaxed);
                progress.say(&format!("writing rows: {rows} of {total}"));
            }
        }
    }
    let (rows, seconds) =
        (filling.rows.load(Ordering::Relaxed), filling.watch.elapsed().as_secs_f64());
    match failed {
        Some(error) => Err(error),
        None => Ok(Some(Fill { rows, seconds })),
    }
}

/// Writes batches until none is left. Failed rows go back to the workload and are tried again.
async fn write(filling: Arc<Filling>, mut client: impl Api, number: u64) -> Result<(), Error> {
    let mut backoff = Backoff::new(SplitMix64(number));
    while !filling.control.is_stopped() {
        let batch = match filling.workload.fill() {
            Next::Do(batch) => batch,
            Next::Done => return Ok(()),
            Next::Later => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let outcomes = client.write_many(batch.rows().to_vec()).await;
        let (written, failure): (Vec<bool>, Option<Failure>) = match outcomes {
            Ok(outcomes) => {
                let written = outcomes.iter().map(Result::is_ok).collect();
                (written, outcomes.into_iter().find_map(Result::err))
            }
            Err(failure) => (vec![false; batch.rows().len()], Some(failure)),
        };
        let rows = filling.workload.filled(&batch, &written);
        filling.rows.fetch_add(rows, Ordering::Relaxed);
        let now = filling.watch.elapsed();
        if rows > 0 {
            filling.streak.succeeded();
        }
        let Some(failure) = failure else {
            backoff.reset();
            continue;
        };
        if rows == 0 {
            filling.streak.failed(now);
        }
        if failure.is_permanent() || filling.streak.length(now) > filling.give_up_after {
            filling.control.stop();
            return Err(Error::Fill(format!(
                "could not write the rows that the run needs: {}",
                failure.message()
            )));
        }
        filling.control.sleep(backoff.pause()).await;
    }
    Ok(())
}
