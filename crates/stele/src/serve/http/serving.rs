//! The connections of the HTTP side, on which strangers may be silent.
//!
//! Invariants:
//! 1. Each connection has a place ([`Limits`]) until it is closed.
//! 2. A connection ends when the head of a request, the first or the next one, does not come within
//!    [`Limits::head`].
//! 3. A connection ends when its client does not take an answer within [`Limits::answer`].
//! 4. When serving stops, requests in flight are answered, and connections without one end.

use super::super::connections::{Connection, Entry};
use super::taken::Taken;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use bigtable::Place;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

/// Bytes of a connection that are buffered; the head of a request is smaller.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Bounds of the connections of the HTTP side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Open connections in all, and from one address.
    pub(crate) connections_max: usize,
    pub(crate) per_address_max: usize,
    /// Time until the head of a request has come.
    pub(crate) head: Duration,
    /// Time until an answer, or all of it that is there, is taken.
    pub(crate) answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 1_000,
            per_address_max: 500,
            head: Duration::from_secs(10),
            answer: Duration::from_secs(60),
        }
    }
}

/// Serves connections that have a place until `stopped` closes, and the requests that came before.
pub(super) async fn serve(
    mut connections: mpsc::Receiver<Connection>,
    router: Router,
    entry: Entry,
    limits: Limits,
    mut stopped: watch::Receiver<()>,
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            next = connections.recv() => match next {
                Some(connection) => {
                    if let Some(place) = entry.place_for(&connection) {
                        let (router, stopped) = (router.clone(), stopped.clone());
                        open.spawn(serve_one(connection, router, limits, place, stopped));
                    }
                }
                None => break,
            },
            Some(_) = open.join_next() => {}
            _ = stopped.changed() => break,
        }
    }
    drop(connections);
    while open.join_next().await.is_some() {}
}

/// Serves one connection. Its place is free when it is closed.
async fn serve_one(
    connection: Connection,
    router: Router,
    limits: Limits,
    _place: Place,
    mut stopped: watch::Receiver<()>,
) {
    let peer = connection.peer().clone();
    let service = router.map_request(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer.clone()));
        request
    });
    let connection = Taken::within(limits.answer, connection);
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(connection), TowerToHyperService::new(service))
    );
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        _ = stopped.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection of the HTTP side ended");
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::connections::{self, Front, accept};
    use super::super::super::security::metrics::SecurityMetrics;
    use super::*;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    /// Time after which something counts as never done.
    const NEVER: Duration = Duration::from_secs(600);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    struct Side {
        address: SocketAddr,
        metrics: SecurityMetrics,
        stop: watch::Sender<()>,
        serving: JoinHandle<()>,
    }

    async fn side(limits: Limits) -> Side {
        side_of(Router::new().route("/", get(async || "ok\n")), limits).await
    }

    async fn side_of(router: Router, limits: Limits) -> Side {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, metrics) = (listener.local_addr().unwrap(), SecurityMetrics::new());
        let ready = accept(listener, Front::Http, None, &metrics, connections::Limits::default());
        let entry = Entry::new(limits.connections_max, limits.per_address_max, &metrics);
        let (stop, stopped) = watch::channel(());
        let serving = tokio::spawn(serve(ready, router, entry, limits, stopped));
        Side { address, metrics, stop, serving }
    }

    impl Side {
        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }

        /// Returns a connection that has a place, as its answer shows; nothing if it was closed.
        async fn served(&self) -> Option<TcpStream> {
            let mut stream = self.connect().await;
            let mut answer = Vec::new();
            let _ = stream.write_all(REQUEST).await;
            while !answer.ends_with(b"ok\n") {
                if !matches!(stream.read_buf(&mut answer).await, Ok(1..)) {
                    return None;
                }
            }
            Some(stream)
        }

        fn refused(&self) -> bool {
            let line = "stele_refused_connections_total{reason=\"for_address\"} 1";
            self.metrics.render().unwrap().lines().any(|have| have == line)
        }
    }

    #[tokio::test]
    async fn a_connection_without_a_place_is_closed_and_counted() {
        let limits =
            Limits { connections_max: 3, per_address_max: 2, head: NEVER, ..Limits::default() };
        let side = side(limits).await;
        let first = side.served().await.expect("there is a place");
        let _second = side.served().await.expect("there is a place");
        // The end of a connection, by the server.
        let mut third = side.connect().await;
        assert!(matches!(third.read(&mut [0]).await, Ok(0) | Err(_)));
        assert!(side.refused());
        drop(first);
        let free = async { while side.served().await.is_none() {} };
        tokio::time::timeout(NEVER, free).await.expect("the place of a closed connection is free");
    }

    /// The clock is paused: it goes on when all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_no_request_comes_ends() {
        let side = side(Limits::default()).await;
        for begun in [&b""[..], b"GET /", b"GET / HTTP/1.1\r\nHost: localhost\r\n", REQUEST] {
            let mut stream = side.connect().await;
            stream.write_all(begun).await.unwrap();
            let mut answer = Vec::new();
            let ended = tokio::time::timeout(NEVER, stream.read_to_end(&mut answer)).await;
            ended.expect("the connection stays open").unwrap();
            let answered = answer.starts_with(b"HTTP/1.1 200");
            assert_eq!(answered, begun == REQUEST, "{}", String::from_utf8_lossy(&answer));
        }
    }

    /// The text of an answer that tells when it is gone.
    struct Text(
        Vec<u8>,
        #[expect(dead_code, reason = "it is dropped with the text")] mpsc::Sender<()>,
    );

    impl AsRef<[u8]> for Text {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    /// The clock is paused: it goes on when all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_the_client_does_not_take_is_let_go() {
        let (gone, mut is_gone) = mpsc::channel(1);
        let answer = async move || {
            let text = Text(vec![b'x'; 64 << 20], gone.clone());
            Body::from(bytes::Bytes::from_owner(text))
        };
        let router = Router::new().route("/", get(answer));
        let side = side_of(router, Limits { head: NEVER, ..Limits::default() }).await;
        let begun = tokio::time::Instant::now();
        let mut stream = side.connect().await;
        stream.write_all(REQUEST).await.unwrap();
        stream.read_exact(&mut [0; 12]).await.unwrap();
        drop(side.stop);
        let gone = tokio::time::timeout(2 * NEVER, is_gone.recv()).await;
        assert_eq!(gone, Ok(None), "the text and its route are gone");
        let took = begun.elapsed();
        assert!(took >= Limits::default().answer && took < NEVER, "{took:?}");
    }

    #[tokio::test]
    async fn idle_connections_do_not_keep_the_side_from_stopping() {
        let side = side(Limits { head: NEVER, ..Limits::default() }).await;
        let _idle = side.served().await.unwrap();
        drop(side.stop);
        tokio::time::timeout(NEVER, side.serving).await.expect("it stops").unwrap();
    }
}
