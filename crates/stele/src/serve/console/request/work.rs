//! The work of a request for data, and the text of its answer.
//!
//! Invariants:
//! 1. A request has a [`Place`] until the last byte of its answer is taken or its connection ends. Work
//!    that goes on after its request is gone keeps the place too.
//! 2. An answer is made within [`TIME_MAX`].
//! 3. No thread of the runtime makes the text of an answer.

use super::failure::Failure;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Code;

/// Time until the answer to a request is made.
pub(in super::super) const TIME_MAX: Duration = Duration::from_secs(15);

/// Places of requests, which are few at a time.
#[derive(Debug)]
pub(in super::super) struct Places(Arc<Semaphore>);

/// The place of one request.
#[derive(Debug)]
pub(in super::super) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(in super::super) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Takes a place, or refuses the request.
    pub(in super::super) fn take(&self) -> Result<Place, Failure> {
        let permit = Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            let text = "too many requests of the console at a time; retry soon";
            Failure::new(Code::ResourceExhausted, text)
        })?;
        Ok(Place { _permit: permit })
    }

    /// Returns the number of places that are free.
    #[cfg(test)]
    pub(in super::super) fn free(&self) -> usize {
        self.0.available_permits()
    }
}

/// The text of an answer, and the place of its request.
struct Text {
    text: Vec<u8>,
    _place: Place,
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Does a part of the work of a request, in time.
pub(in super::super) async fn within<T, E: Into<Failure>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(TIME_MAX, work).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => {
            let text = format!("the request took longer than {} s", TIME_MAX.as_secs());
            Err(Failure::new(Code::DeadlineExceeded, text))
        }
    }
}

/// Answers with what `make` returns, as JSON. Calls it on a blocking thread.
pub(in super::super) async fn answer<T: Serialize>(
    place: Place,
    make: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<Response, Failure> {
    let internal = |error: String| Failure::new(Code::Internal, error);
    let work = tokio::task::spawn_blocking(move || -> Result<Bytes, Failure> {
        let text = serde_json::to_vec(&make()?).map_err(|error| internal(error.to_string()))?;
        Ok(Bytes::from_owner(Text { text, _place: place }))
    });
    let text = within(async { work.await.map_err(|error| internal(error.to_string()))? }).await?;
    Ok(([(CONTENT_TYPE, "application/json")], Body::from(text)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// The clock goes on while a thread blocks only if a test says so.
    #[tokio::test(start_paused = true)]
    async fn work_that_takes_too_long_is_refused_and_keeps_its_place() {
        let places = Places::new(1);
        let (go_on, waits) = mpsc::channel::<()>();
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let make = move || {
            let _ = waits.recv();
            let _ = ended.send(());
            Ok(1)
        };
        let late = tokio::spawn(answer(places.take().unwrap(), make));
        tokio::task::yield_now().await;
        tokio::time::advance(TIME_MAX).await;
        assert_eq!(late.await.unwrap().unwrap_err().code, Code::DeadlineExceeded);
        assert_eq!(places.take().unwrap_err().code, Code::ResourceExhausted);
        go_on.send(()).unwrap();
        has_ended.await.unwrap();
        while places.free() == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_answer_keeps_its_place_until_its_last_byte_is_gone() {
        let places = Places::new(1);
        let told = answer(places.take().unwrap(), || Ok("x".repeat(100))).await.unwrap();
        assert_eq!(places.free(), 0);
        let text = axum::body::to_bytes(told.into_body(), 200).await.unwrap();
        let last = text.slice(101..);
        drop(text);
        assert_eq!((places.free(), &last[..]), (0, &b"\""[..]));
        drop(last);
        assert_eq!(places.free(), 1);
    }
}
