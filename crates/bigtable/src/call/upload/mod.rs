//! Requests on their way in: their memory is bounded, each by its method and all together.
//!
//! The transport reserves what the first five bytes of a message claim, and takes whatever comes.
//! Here a message is gathered first, and handed on when it is whole. A message that comes in one
//! piece, as most do, passes as it is.
//!
//! Invariants:
//! 1. Memory is taken for bytes that came, never for bytes that were claimed.
//! 2. A message that claims more than its method may have is refused before it comes.
//! 3. Bytes count (`pool.rs`) from their arrival until the call is answered, unless the message came
//!    in one piece, which is small. When all uploads together have as much as they may, the next
//!    to grow is refused; one alone never is.
//! 4. A message that comes too slowly is refused.
//! 5. A request has one message. A piece of another is refused.

mod gather;
mod pool;

pub(crate) use pool::Uploads;

use super::answers::{Answer, Answers, CountedBody};
use crate::server::REQUEST_BYTES_MAX;
use gather::Upload;
use pool::Held;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tower_service::Service;

/// Largest message of a method that reads.
const READ_BYTES_MAX: usize = 16 << 20;
/// Largest message of a method of the admin services.
const ADMIN_BYTES_MAX: usize = 4 << 20;

const DATA_SERVICE: &str = "/google.bigtable.v2.Bigtable/";
const READ_ROWS: &str = "/google.bigtable.v2.Bigtable/ReadRows";
/// Methods of the data service that bring rows.
const WRITES: [&str; 4] = ["MutateRow", "MutateRows", "CheckAndMutateRow", "ReadModifyWriteRow"];

/// Returns how many bytes the message of the method at `path` may have.
fn message_bytes_max(path: &str) -> usize {
    match path.strip_prefix(DATA_SERVICE) {
        Some(method) if WRITES.contains(&method) => REQUEST_BYTES_MAX,
        Some(_) => READ_BYTES_MAX,
        None => ADMIN_BYTES_MAX,
    }
}

/// A gRPC service whose requests and answers are bounded.
#[derive(Debug, Clone)]
pub(crate) struct Bounded<S> {
    service: S,
    uploads: Arc<Uploads>,
    answers: Arc<Answers>,
}

impl<S> Bounded<S> {
    /// Bounds the requests and answers of `service`, together with all others of `uploads` and
    /// `answers`.
    pub(crate) fn new(service: S, uploads: &Arc<Uploads>, answers: &Arc<Answers>) -> Self {
        Self { service, uploads: Arc::clone(uploads), answers: Arc::clone(answers) }
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
        let bytes_max = message_bytes_max(request.uri().path());
        let held = Arc::new(Held::nothing(&self.uploads));
        let counted = (request.uri().path() == READ_ROWS).then(|| Answer::new(&self.answers));
        if let Some(answer) = &counted {
            request.extensions_mut().insert(Arc::clone(answer));
        }
        let upload = |body| Body::new(Upload::new(body, bytes_max, Arc::clone(&held)));
        Holding { work: self.service.call(request.map(upload)), counted, _held: held }
    }
}

/// The answer of a call, which holds the bytes of its request until it is there.
#[derive(Debug)]
pub(crate) struct Holding<F> {
    work: F,
    /// The answer, if its bytes are counted.
    counted: Option<Arc<Answer>>,
    _held: Arc<Held>,
}

impl<F> Future for Holding<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let answer = ready!(Pin::new(&mut self.work).poll(context));
        let counted = self.counted.take();
        Poll::Ready(answer.map(|answer| match counted {
            Some(counted) => answer.map(|body| Body::new(CountedBody::new(body, counted))),
            None => answer,
        }))
    }
}
