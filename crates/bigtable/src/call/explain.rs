//! Says in words which method is not served.
//!
//! A method that a generated server does not know is answered with code `Unimplemented` and no
//! message. Clients show the message to people, so this wrapper adds it: the method's name.

use futures::future::BoxFuture;
use std::convert::Infallible;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request, Response};
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
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let uri = request.uri().clone();
        let answer = self.0.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            let headers = response.headers_mut();
            let unknown = headers.get(GRPC_STATUS).is_some_and(|code| code == UNIMPLEMENTED)
                && !headers.contains_key(GRPC_MESSAGE);
            if unknown {
                // Spaces and anything else outside the printable range are percent-encoded in a
                // grpc-message; a URI path holds neither, so only the words need no care.
                let method = uri.path().trim_start_matches('/');
                let message = format!("{method} is not supported by this server");
                if let Ok(message) = HeaderValue::from_str(&message) {
                    headers.insert(GRPC_MESSAGE, message);
                }
            }
            Ok(response)
        })
    }
}
