//! Says in words which method is not served.
//!
//! A method that a generated server does not know is answered with code `Unimplemented` and no
//! message. Clients show the message to people, so this wrapper adds it: the method's name.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request, Response, Uri};
use tonic::server::NamedService;
use tower_service::Service;

const GRPC_STATUS: &str = "grpc-status";
const GRPC_MESSAGE: &str = "grpc-message";
const UNIMPLEMENTED: &str = "12";

/// A gRPC service that names the method when it does not serve it.
#[derive(Debug, Clone)]
pub(crate) struct Explained<S>(pub(crate) S);

impl<S: NamedService> NamedService for Explained<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Explained<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Unpin,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Explaining<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let uri = request.uri().clone();
        Explaining { work: self.0.call(request), uri }
    }
}

/// The answer of a call whose method may not be served.
#[derive(Debug)]
pub(crate) struct Explaining<F> {
    work: F,
    uri: Uri,
}

impl<F> Future for Explaining<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Ok(mut response) = ready!(Pin::new(&mut self.work).poll(context));
        let headers = response.headers_mut();
        let unknown = headers.get(GRPC_STATUS).is_some_and(|code| code == UNIMPLEMENTED)
            && !headers.contains_key(GRPC_MESSAGE);
        if unknown {
            // Spaces and anything else outside the printable range are percent-encoded in a
            // grpc-message; a URI path holds neither, so only the words need no care.
            let method = self.uri.path().trim_start_matches('/');
            let message = format!("{method} is not supported by this server");
            if let Ok(message) = HeaderValue::from_str(&message) {
                headers.insert(GRPC_MESSAGE, message);
            }
        }
        Poll::Ready(Ok(response))
    }
}
