//! The honest client: point reads at an even pace, over two connections.

use super::tables::{Client, NARROW, client, row_key};
use crate::AnyError;
use bench_core::SplitMix64;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// Reads under way at most, one for each reader.
const READERS: usize = 8;
const CONNECTIONS: usize = 2;
/// Wait of a reader between its reads.
const PAUSE: Duration = Duration::from_millis(4);
/// A read without an answer for so long has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Credentials that go with each request.
#[derive(Debug, Clone)]
pub(super) struct SignIn(Option<AsciiMetadataValue>);

impl SignIn {
    /// Returns the credentials for a server that lets in everybody.
    pub(super) fn not_needed() -> Self {
        Self(None)
    }

    /// Returns the credentials of the holder of a token.
    pub(super) fn with_token(token: &str) -> Result<Self, AnyError> {
        Ok(Self(Some(format!("Bearer {token}").parse()?)))
    }
}

impl Interceptor for SignIn {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// A client that reads rows that are there.
pub(super) struct Honest {
    clients: Vec<Client>,
    rows: u64,
}

/// Latencies in microseconds, and failed reads.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Latencies {
    pub(super) reads: u64,
    pub(super) failed: u64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    /// The first failure in words.
    pub(super) failure: Option<String>,
}

impl Honest {
    /// Connects to the server at `address`, whose table has `rows` rows.
    pub(super) async fn connect(
        address: SocketAddr,
        rows: u64,
        sign_in: SignIn,
    ) -> Result<Self, AnyError> {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(client(channel(address).await?, sign_in.clone()));
        }
        Ok(Self { clients, rows })
    }

    /// Reads for `length`; returns the latencies.
    pub(super) async fn read_for(&self, length: Duration) -> Result<Latencies, AnyError> {
        let end = Instant::now() + length;
        let mut readers = JoinSet::new();
        for reader in 0..READERS {
            let client = self.clients[reader % self.clients.len()].clone();
            readers.spawn(read_until(end, client, self.rows, SplitMix64(reader as u64 + 1)));
        }
        let mut micros = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3)?;
        let (mut failed, mut failure) = (0, None);
        while let Some(done) = readers.join_next().await {
            let (of_one, failures) = done??;
            micros.add(of_one)?;
            failed += failures.len() as u64;
            failure = failure.or_else(|| failures.into_iter().next());
        }
        let [p50_us, p99_us] = [0.5, 0.99].map(|part| micros.value_at_quantile(part));
        Ok(Latencies { reads: micros.len(), failed, p50_us, p99_us, failure })
    }
}

/// Reads random rows until `end`; returns the latencies, and the failures in words.
async fn read_until(
    end: Instant,
    mut client: Client,
    rows: u64,
    mut draw: SplitMix64,
) -> Result<(Histogram<u64>, Vec<String>), AnyError> {
    let mut micros = Histogram::new_with_bounds(1, 60_000_000, 3)?;
    let mut failures = Vec::new();
    while Instant::now() < end {
        let begin = Instant::now();
        let key = row_key(draw.below(rows));
        let read = tokio::time::timeout(PATIENCE, read_row(&mut client, key)).await;
        micros.saturating_record(begin.elapsed().as_micros() as u64);
        match read {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failures.push(error.to_string()),
            Err(_) => failures.push("no answer".to_owned()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok((micros, failures))
}

/// Reads one row, which must be there.
async fn read_row(client: &mut Client, key: Vec<u8>) -> Result<(), AnyError> {
    let rows = data::RowSet { row_keys: vec![key.into()], row_ranges: vec![] };
    let request = data::ReadRowsRequest {
        table_name: NARROW.to_owned(),
        rows: Some(rows),
        rows_limit: 1,
        ..Default::default()
    };
    let mut replies = client.read_rows(request).await?.into_inner();
    let mut chunks = 0;
    while let Some(reply) = replies.message().await? {
        chunks += reply.chunks.len();
    }
    if chunks == 1 { Ok(()) } else { Err(format!("{chunks} cells in place of one").into()) }
}

/// Connects to the server at `address`.
pub(super) async fn channel(address: SocketAddr) -> Result<Channel, AnyError> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    Ok(endpoint.tcp_nodelay(true).connect().await?)
}
