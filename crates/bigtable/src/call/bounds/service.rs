//! The bounds around a service: a call enters, its request is gathered, its answer is counted.
//!
//! A call is in flight until its answer is made. An answer that may be large, with stored data, counts
//! until its client has taken it, or gone. So does any answer of a service whose bounds were set apart.

use super::answers::Answer;
use super::shares::InFlight;
use super::upload::{Held, Upload, message_bytes_max};
use super::{Bounds, Refusal};
use crate::call::caller::CallerHandle;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tower_service::Service;

/// Methods whose answers have stored data.
const COUNTED: [&str; 4] = [
    "/google.bigtable.v2.Bigtable/ReadRows",
    "/google.bigtable.v2.Bigtable/ReadModifyWriteRow",
    "/google.bigtable.v2.Bigtable/ExecuteQuery",
    "/google.bigtable.v2.Bigtable/ReadChangeStream",
];

/// A gRPC service whose calls, requests and answers are bounded.
#[derive(Debug, Clone)]
pub(crate) struct Bounded<S> {
    service: S,
    bounds: Bounds,
}

impl<S> Bounded<S> {
    /// Bounds `service`, together with all other services of `bounds`.
    pub(crate) fn new(service: S, bounds: &Bounds) -> Self {
        Self { service, bounds: bounds.clone() }
    }
}

impl<S: NamedService> NamedService for Bounded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Unpin,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Holding<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Bounds { shares, uploads, answers, message_bytes_max: apart, .. } = &self.bounds;
        let caller = request.extensions().get::<CallerHandle>();
        let share = shares.of(caller.map(|CallerHandle(caller)| caller.name()));
        let call = match shares.enter(&share) {
            Ok(call) => call,
            Err((refusal, max)) => return Holding::Refused(self.bounds.refuse(refusal, max)),
        };
        let bytes_max = apart.unwrap_or_else(|| message_bytes_max(request.uri().path()));
        let held = Arc::new(Held::nothing(uploads, &share));
        let counted = apart.is_some() || COUNTED.contains(&request.uri().path());
        let answer = counted.then(|| Answer::new(answers, &share));
        if let Some(answer) = &answer {
            request.extensions_mut().insert(Arc::clone(answer));
        }
        let upload = |body| Body::new(Upload::new(body, bytes_max, Arc::clone(&held)));
        let work = self.service.call(request.map(upload));
        Holding::Working(Working { work, parts: Some(Parts { answer, call, _held: held }) })
    }
}

impl Bounds {
    /// Counts a call that is refused. Returns the status that names the bound.
    fn refuse(&self, refusal: Refusal, max: usize) -> Status {
        self.refusals.count(refusal);
        refusal.status(max)
    }
}

/// The answer of a call, or its refusal.
#[derive(Debug)]
pub(crate) enum Holding<F> {
    Working(Working<F>),
    Refused(Status),
}

/// A call that is worked on.
#[derive(Debug)]
pub(crate) struct Working<F> {
    work: F,
    /// `None` when the answer was given.
    parts: Option<Parts>,
}

/// The parts of the bounds that a call has until its answer is made.
#[derive(Debug)]
struct Parts {
    /// The answer, if its bytes are counted.
    answer: Option<Arc<Answer>>,
    call: InFlight,
    _held: Arc<Held>,
}

impl<F> Future for Holding<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let working = match &mut *self {
            Self::Working(working) => working,
            Self::Refused(status) => return Poll::Ready(Ok(status.clone().into_http())),
        };
        let answer = ready!(Pin::new(&mut working.work).poll(context));
        let parts = working.parts.take();
        Poll::Ready(answer.map(|whole| match parts {
            Some(Parts { answer: Some(answer), call, .. }) => {
                whole.map(|body| Body::new(CountedBody { body, answer, _call: call }))
            }
            _ => whole,
        }))
    }
}

/// The body of an answer, whose frames are counted until they are sent.
#[derive(Debug)]
struct CountedBody {
    body: Body,
    answer: Arc<Answer>,
    _call: InFlight,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let count = |frame: Frame<Bytes>| frame.map_data(|bytes| self.answer.count(bytes));
        Poll::Ready(frame.map(|frame| frame.map(count)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
