//! The health service of gRPC. It answers everybody, since probes have no credentials.
//!
//! Invariants:
//! 1. Its calls take no places of other calls: strangers keep no caller out.
//! 2. The streams of `Watch`, which have no end, take no places of `Check`.
//! 3. An answer begins within [`ANSWER_TIME_MAX`]: a caller that sends no request keeps no place.

use bigtable::Bounds;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::Service;

/// Largest request: the name of a service.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Calls of `Check` in flight.
const CHECKS_MAX: usize = 2_000;
/// Streams of `Watch` that are open at once.
const WATCHES_MAX: usize = 1_000;
/// Time until the request of a call has come.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// Adds the service that tells of `health` to `routes`. Refusals count as in `bounds`.
pub(super) fn add_to(routes: Routes, health: &HealthReporter, bounds: &Bounds) -> Routes {
    let server = HealthServer::new(HealthService::from_health_reporter(health.clone()))
        .max_decoding_message_size(MESSAGE_BYTES_MAX);
    let checks = bounds.apart(CHECKS_MAX, MESSAGE_BYTES_MAX);
    let watches = bounds.apart(WATCHES_MAX, MESSAGE_BYTES_MAX);
    routes.add_service(Health {
        checks: bigtable::bounded(server.clone(), &checks),
        watches: bigtable::bounded(server, &watches),
    })
}

/// Tells those who ask for the health of the server, or of one of its services.
pub(super) async fn set(health: &HealthReporter, status: ServingStatus) {
    for service in bigtable::SERVICES.iter().chain(&[""]) {
        health.set_service_status(*service, status).await;
    }
}

/// The service twice, within two bounds.
#[derive(Clone)]
struct Health<S> {
    checks: S,
    watches: S,
}

impl<S: NamedService> NamedService for Health<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Health<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        ready!(self.checks.poll_ready(context))?;
        self.watches.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let bounded = match request.uri().path() {
            WATCH => &mut self.watches,
            _ => &mut self.checks,
        };
        let answer = bounded.call(request);
        Box::pin(async move {
            let answer = tokio::time::timeout(ANSWER_TIME_MAX, answer).await;
            answer.unwrap_or_else(|_| Ok(late().into_http()))
        })
    }
}

fn late() -> Status {
    let seconds = ANSWER_TIME_MAX.as_secs();
    Status::deadline_exceeded(format!("the request did not come within {seconds} s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bigtable::Limits;
    use futures::stream::{self, StreamExt};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tonic::Code;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_server::Health as _;

    #[tokio::test]
    async fn health_is_told_of_the_server_and_of_each_service() {
        let health = HealthReporter::new();
        let service = HealthService::from_health_reporter(health.clone());
        for status in [ServingStatus::Serving, ServingStatus::NotServing] {
            set(&health, status).await;
            for name in ["", "google.bigtable.v2.Bigtable", "google.longrunning.Operations"] {
                let request = HealthCheckRequest { service: name.to_owned() };
                let answer = service.check(tonic::Request::new(request)).await.unwrap();
                let told = answer.into_inner().status();
                let want = matches!(status, ServingStatus::Serving);
                assert_eq!(
                    told == tonic_health::pb::health_check_response::ServingStatus::Serving,
                    want
                );
            }
        }
    }

    fn service() -> Routes {
        let bounds = Bounds::new(&Limits::within(0));
        add_to(Routes::default(), &HealthReporter::new(), &bounds)
    }

    /// A call that sends these bytes of its request and no more.
    fn call(method: &str, bytes: &'static [u8]) -> Request<Body> {
        let frame = Ok::<_, Infallible>(Frame::data(bytes.into()));
        let frames = stream::iter([frame]).chain(stream::pending());
        let request = Request::post(format!("/grpc.health.v1.Health/{method}"));
        request.body(Body::new(StreamBody::new(frames))).unwrap()
    }

    fn code(answer: &Response<Body>) -> Option<Code> {
        Status::from_header_map(answer.headers()).map(|status| status.code())
    }

    /// The clock is paused: it goes on when all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_does_not_come_is_waited_for_in_vain_but_not_for_long() {
        let mut service = service();
        for (method, bytes) in [("Check", &[][..]), ("Check", &[0, 0]), ("Watch", &[])] {
            let answer = service.call(call(method, bytes)).await.unwrap();
            assert_eq!(code(&answer), Some(Code::DeadlineExceeded), "{method} {bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_request_that_claims_much_is_refused_before_it_comes() {
        let mut service = service();
        for method in ["Check", "Watch"] {
            let answer = service.call(call(method, &[0, 0, 0, 0x10, 1])).await.unwrap();
            assert_eq!(code(&answer), Some(Code::InvalidArgument), "{method}");
        }
    }
}
