//! Tells clients for how long the server worked on a call, in the header `server-timing`.
//!
//! Google's clients read it into their metrics of server latency, and count a call without it as one
//! whose server was not reached.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tonic::body::Body;
use tonic::codegen::http::{HeaderName, HeaderValue, Request, Response};
use tonic::server::NamedService;
use tower_service::Service;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
/// The value of most calls.
const NO_MILLISECOND: HeaderValue = HeaderValue::from_static("gfet4t7; dur=0");

/// A gRPC service that tells the time until the headers of its answers.
#[derive(Debug, Clone)]
pub(crate) struct Timed<S>(pub(crate) S);

impl<S: NamedService> NamedService for Timed<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Timed<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Unpin,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Timing<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Timing { started: Instant::now(), work: self.0.call(request) }
    }
}

/// The answer of a call that is timed.
#[derive(Debug)]
pub(crate) struct Timing<F> {
    started: Instant,
    work: F,
}

impl<F> Future for Timing<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Ok(mut response) = ready!(Pin::new(&mut self.work).poll(context));
        response.headers_mut().insert(SERVER_TIMING, value(self.started.elapsed()));
        Poll::Ready(Ok(response))
    }
}

/// Returns the header's value: a name that clients look for, and whole milliseconds.
fn value(time: Duration) -> HeaderValue {
    match time.as_millis() {
        0 => NO_MILLISECOND,
        millis => {
            HeaderValue::from_str(&format!("gfet4t7; dur={millis}")).unwrap_or(NO_MILLISECOND)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_whole_milliseconds() {
        for (micros, text) in [
            (0, "gfet4t7; dur=0"),
            (999, "gfet4t7; dur=0"),
            (1_000, "gfet4t7; dur=1"),
            (61_234_999, "gfet4t7; dur=61234"),
        ] {
            assert_eq!(value(Duration::from_micros(micros)), text);
        }
    }
}
