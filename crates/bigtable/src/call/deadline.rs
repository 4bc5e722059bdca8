//! Deadlines of calls, by the header `grpc-timeout`.
//!
//! The transport ends a late call with `Cancelled`, which clients do not retry, and only until the
//! answer's headers are sent. Here a call ends with `DeadlineExceeded`, its stream included.
//!
//! Invariants:
//! 1. Work that has come to its deadline is dropped before the client is answered.
//! 2. A deadline is fixed before the transport's own timer is, and looked at before it: of the two it
//!    is the one that ends a call.
//! 3. A timer is made when a call first has to wait: a read of resident rows never has one.

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::server::NamedService;
use tower_service::Service;

const GRPC_TIMEOUT: &str = "grpc-timeout";
/// Most digits of a timeout.
const DIGITS_MAX: usize = 8;

/// A gRPC service whose calls end at their deadlines.
#[derive(Debug, Clone)]
pub(crate) struct InTime<S>(pub(crate) S);

impl<S: NamedService> NamedService for InTime<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for InTime<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Unpin,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let timeout = timeout(request.headers());
        let at = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Answer { work: Some(self.0.call(request)), deadline: at.map(Deadline::at) }
    }
}

/// The time at which a call ends.
#[derive(Debug)]
struct Deadline {
    at: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    fn at(at: Instant) -> Self {
        Self { at, timer: None }
    }

    /// Returns whether the deadline is over by the clock, without a timer.
    fn has_passed(&self) -> bool {
        Instant::now() >= self.at
    }

    /// Returns whether the deadline is over; else wakes the task when it is.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.at)));
        timer.as_mut().poll(context).is_ready()
    }
}

fn late() -> Status {
    Status::deadline_exceeded("the deadline of the call is over")
}

/// The answer of a call until its headers are there.
#[derive(Debug)]
pub(crate) struct Answer<F> {
    /// `None` when the answer was given.
    work: Option<F>,
    deadline: Option<Deadline>,
}

impl<F> Future for Answer<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let Some(work) = &mut this.work else { return Poll::Pending };
        if let Poll::Ready(answer) = Pin::new(work).poll(context) {
            this.work = None;
            let deadline = this.deadline.take();
            return Poll::Ready(answer.map(|answer| match deadline {
                Some(deadline) if !answer.body().is_end_stream() => {
                    answer.map(|body| Body::new(TimedBody { body: Some(body), deadline }))
                }
                _ => answer,
            }));
        }
        if this.deadline.as_mut().is_some_and(|deadline| deadline.is_over(context)) {
            this.work = None;
            return Poll::Ready(Ok(late().into_http()));
        }
        Poll::Pending
    }
}

/// The body of an answer that may still come to its deadline.
#[derive(Debug)]
struct TimedBody {
    /// The inner body; `None` after the deadline.
    body: Option<Body>,
    deadline: Deadline,
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        // A stream that never waits would never come to a timer.
        if !this.deadline.has_passed() {
            if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
                return Poll::Ready(frame);
            }
            if !this.deadline.is_over(context) {
                return Poll::Pending;
            }
        }
        this.body = None;
        let mut trailers = HeaderMap::new();
        let added = late().add_header(&mut trailers);
        Poll::Ready(Some(added.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

/// Returns the time that the client gives the call. A header that is no timeout gives it none.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(GRPC_TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || digits.len() > DIGITS_MAX || !all_digits {
        return None;
    }
    let number = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{poll_fn, ready};
    use std::sync::Arc;
    use tonic::Code;

    #[test]
    fn timeouts_are_read() {
        for (text, want) in [
            ("100m", Some(Duration::from_millis(100))),
            ("1S", Some(Duration::from_secs(1))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("2M", Some(Duration::from_secs(120))),
            ("5u", Some(Duration::from_micros(5))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("1", None),
            ("1s", None),
            ("+1S", None),
            ("-1S", None),
            ("100000000S", None),
            ("1\u{e9}", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(GRPC_TIMEOUT, text.parse().unwrap());
            assert_eq!(timeout(&headers), want, "{text}");
        }
        assert_eq!(timeout(&HeaderMap::new()), None);
    }

    /// Answers each call with what the function makes of nothing.
    #[derive(Clone)]
    struct Fake<F>(F);

    type Boxed = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    impl<F: Fn() -> Boxed> Service<Request<Body>> for Fake<F> {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Boxed;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Boxed {
            (self.0)()
        }
    }

    async fn call(service: impl Fn() -> Boxed, timeout: Option<&str>) -> Response<Body> {
        let mut request = Request::new(Body::empty());
        if let Some(timeout) = timeout {
            request.headers_mut().insert(GRPC_TIMEOUT, timeout.parse().unwrap());
        }
        InTime(Fake(service)).call(request).await.unwrap()
    }

    async fn next(body: &mut Body) -> Option<Frame<Bytes>> {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        frame.await.map(|frame| frame.unwrap())
    }

    /// A body of one frame and then nothing, for ever, with something to drop.
    struct Endless(Option<Bytes>, #[expect(dead_code, reason = "counts its owners")] Arc<()>);

    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            match self.0.take() {
                Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                None => Poll::Pending,
            }
        }
    }

    #[tokio::test]
    async fn a_call_without_an_answer_ends_at_its_deadline() {
        let work = Arc::new(());
        let held = Arc::clone(&work);
        let answer = call(
            move || {
                let held = Arc::clone(&held);
                Box::pin(async move {
                    let _held = held;
                    std::future::pending().await
                })
            },
            Some("50m"),
        );
        let answer = answer.await;
        let status = Status::from_header_map(answer.headers()).unwrap();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(Arc::strong_count(&work), 1, "the work is dropped");
    }

    #[tokio::test]
    async fn a_stream_ends_at_the_deadline_of_its_call() {
        let work = Arc::new(());
        let held = Arc::clone(&work);
        let stream = move || -> Boxed {
            let body = Endless(Some(Bytes::from_static(b"row")), Arc::clone(&held));
            Box::pin(ready(Ok(Response::new(Body::new(body)))))
        };
        let mut body = call(&stream, Some("50m")).await.into_body();
        assert_eq!(next(&mut body).await.unwrap().into_data().unwrap(), "row");
        let trailers = next(&mut body).await.unwrap().into_trailers().unwrap();
        assert_eq!(Status::from_header_map(&trailers).unwrap().code(), Code::DeadlineExceeded);
        assert!(next(&mut body).await.is_none());
        drop(stream);
        assert_eq!(Arc::strong_count(&work), 1, "the stream is dropped");
    }

    #[tokio::test]
    async fn answers_in_time_are_left_alone() {
        let ready_now = || -> Boxed { Box::pin(ready(Ok(Response::new(Body::empty())))) };
        for timeout in [None, Some("1H"), Some("0n")] {
            let answer = call(ready_now, timeout).await;
            assert!(Status::from_header_map(answer.headers()).is_none());
        }
    }
}
