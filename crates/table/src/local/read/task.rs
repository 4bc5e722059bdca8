//! The task of a read whose first step did not end it: it goes on step by step, until the read ends,
//! or its stream is dropped, or its client takes nothing for too long.
//!
//! Invariants:
//! 1. There is room for a batch before a step is made, so a slow client holds no more than the channel.
//! 2. A dropped stream ends the task at once, also while it queues for a place or finds nothing. A
//!    step that runs then is the last.
//! 3. When the task ends the snapshot of the read is free, whatever of its batches was taken.
//! 4. A stream ends without an error only after the read's last batch. A task that panics, or that a
//!    runtime drops, leaves an error in the place that it has kept for it ([`LastWord`]).

use super::places::ReadPlaces;
use super::{Filled, Reader};
use crate::error::{Error, Result};
use crate::row::{RowBatch, RowStream};
use crate::row_output::RowOutput;
use engine::perf_context::carried;
use std::time::Duration;
use tokio::sync::mpsc::{self, OwnedPermit};

/// Time after which a read ends whose client takes nothing, unless set otherwise.
pub const READ_IDLE_MAX: Duration = Duration::from_secs(300);

/// Limits of the stream of a read.
#[derive(Clone, Copy)]
pub(in crate::local) struct StreamLimits {
    /// Batches that wait for the client.
    pub(in crate::local) batches_ahead: usize,
    /// Time after which the read ends whose client takes nothing.
    pub(in crate::local) idle_max: Duration,
}

/// Returns the stream of a read whose first step was made.
pub(in crate::local) fn stream<S: RowOutput>(
    places: &ReadPlaces,
    limits: StreamLimits,
    (reader, output, first): (Reader, S, Filled<S::Batch>),
) -> RowStream<S::Batch> {
    if first.done {
        return RowStream::ready(first.batch);
    }
    // One place more, for the last word to a client that takes nothing.
    let (sender, stream) = RowStream::channel_after(first.batch, limits.batches_ahead + 1);
    let places = places.clone();
    tokio::spawn(carried(async move {
        let mut last_word = LastWord(sender.clone().try_reserve_owned().ok());
        let ended = steps(&places, limits, &sender, (reader, output)).await;
        last_word.say(ended);
    }));
    stream
}

/// The place of a task's last word in its stream.
struct LastWord<T>(Option<OwnedPermit<Result<T>>>);

impl<T> LastWord<T> {
    /// Tells the error that ended the read; nothing if it came to its end.
    fn say(&mut self, ended: Result<()>) {
        if let (Some(place), Err(error)) = (self.0.take(), ended) {
            place.send(Err(error));
        }
    }
}

impl<T> Drop for LastWord<T> {
    fn drop(&mut self) {
        let text = "the read ended early; resume it after the last row that came";
        self.say(Err(Error::Unavailable(text.into())));
    }
}

/// Makes the steps of a read; returns the error that ended it.
async fn steps<S: RowOutput>(
    places: &ReadPlaces,
    limits: StreamLimits,
    sender: &mpsc::Sender<Result<RowBatch<S::Batch>>>,
    (mut reader, mut output): (Reader, S),
) -> Result<()> {
    let mut room = None;
    loop {
        let free = match room.take() {
            Some(free) => free,
            None => match room_in(sender, limits.idle_max).await? {
                Some(free) => free,
                None => return Ok(()),
            },
        };
        let filled;
        (reader, output, filled) = tokio::select! {
            biased;
            () = sender.closed() => return Ok(()),
            next = places.fill(reader, output) => next?,
        };
        match filled.batch {
            Some(batch) => free.send(Ok(batch)),
            None => room = Some(free),
        }
        if filled.done {
            return Ok(());
        }
        // Batches that are resident are read in this task.
        tokio::task::yield_now().await;
    }
}

/// Waits for room for a batch; `None` if the stream was dropped. A timer is made only where the client
/// is behind.
async fn room_in<T>(
    sender: &mpsc::Sender<T>,
    idle_max: Duration,
) -> Result<Option<mpsc::Permit<'_, T>>> {
    if let Ok(free) = sender.try_reserve() {
        return Ok(Some(free));
    }
    let room = tokio::time::timeout(idle_max, sender.reserve()).await;
    room.map(|room| room.ok()).map_err(|_| nothing_taken(idle_max))
}

/// The end of a read whose client takes nothing.
fn nothing_taken(idle_max: Duration) -> Error {
    let seconds = idle_max.as_secs_f64();
    Error::Unavailable(format!(
        "the client took nothing of the read for {seconds} s, so it was ended; resume it after the last \
         row that came"
    ))
}
