//! Three members of etcd, as a measure of what three logs and their agreement cost.
//!
//! 1. Every client has a connection of its own to the member that leads, which writes and reads keys of the
//!    same size as the rows of the cluster, and the same values.
//! 2. Both answer a write after a majority has it on disk, and a read after the leader has made sure that
//!    it leads. Keys of etcd keep their history.
//! 3. Members end when they are dropped.

use crate::AnyError;
use crate::front::{Bench, KeyKind, Work, histogram};
use crate::measure::Phase;
use bench_core::{SplitMix64, random_value};
use bytes::Bytes;
use prost::Message;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

const MEMBERS: usize = 3;
/// Longest time until a member leads.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Message)]
struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct RangeResponse {
    #[prost(int64, tag = "4")]
    count: i64,
}

#[derive(Clone, PartialEq, Message)]
struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(uint64, tag = "2")]
    member: u64,
}

#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(uint64, tag = "4")]
    leader: u64,
}

/// An answer of which nothing is read.
#[derive(Clone, PartialEq, Message)]
struct Ignored {}

/// The members of one etcd.
pub(super) struct Etcd {
    members: Vec<Member>,
    /// Endpoint of the member that leads.
    leader: Endpoint,
}

struct Member(Child);

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Etcd {
    /// Starts the members in `dir`, waits until one leads, and loads the rows of `bench`.
    pub(super) async fn start(program: &Path, dir: &Path, bench: &Bench) -> Result<Self, AnyError> {
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let mut ports = Vec::new();
        for _ in 0..MEMBERS {
            ports.push((free()?, free()?));
        }
        let all: Vec<_> = (0..MEMBERS).map(|at| format!("m{at}=http://{}", ports[at].1)).collect();
        let (mut members, mut endpoints) = (Vec::new(), Vec::new());
        for (at, (client, peer)) in ports.iter().enumerate() {
            let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
            let mut command = Command::new(program);
            command.arg("--data-dir").arg(dir.join(format!("etcd-{at}")));
            command.args(["--name", &format!("m{at}"), "--log-level=error"]);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--initial-cluster", &all.join(",")]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            members.push(Member(command.spawn()?));
            endpoints.push(Endpoint::from_shared(client)?.tcp_nodelay(true));
        }
        let leader = leader_of(&endpoints).await?;
        let etcd = Self { members, leader };
        let mut client = etcd.client().await?;
        for number in 0..bench.args.rows {
            put(&mut client, bench, number).await?;
        }
        Ok(etcd)
    }

    pub(super) fn cpu(&self) -> Result<Duration, AnyError> {
        self.members.iter().map(|Member(child)| crate::server::cpu_of(child.id())).sum()
    }

    async fn client(&self) -> Result<Grpc<Channel>, AnyError> {
        Ok(Grpc::new(self.leader.connect().await?))
    }

    /// Reads or writes keys with so many clients for the set time. The CPU time is that of all members.
    pub(super) async fn phase(
        &self,
        bench: &Arc<Bench>,
        work: Work,
        clients: usize,
    ) -> Result<Phase, AnyError> {
        let (begun, before) = (Instant::now(), self.cpu()?);
        let end = begun + Duration::from_secs(bench.args.seconds);
        let mut tasks = tokio::task::JoinSet::new();
        for index in 0..clients {
            let (bench, mut client) = (Arc::clone(bench), self.client().await?);
            tasks.spawn(async move {
                let mut draw = SplitMix64(index as u64 + 1);
                let mut micros = histogram()?;
                while Instant::now() < end {
                    let (began, number) = (Instant::now(), draw.below(bench.args.rows));
                    match work {
                        Work::Write => put(&mut client, &bench, number).await?,
                        _ => get(&mut client, &bench, number).await?,
                    }
                    micros.saturating_record(began.elapsed().as_micros() as u64);
                }
                Ok::<_, AnyError>(micros)
            });
        }
        let mut all = histogram()?;
        while let Some(done) = tasks.join_next().await {
            all.add(done??)?;
        }
        Ok(Phase {
            name: format!("etcd {}, {clients} clients", work.name()),
            operations: all.len(),
            wall: begun.elapsed(),
            cpu: self.cpu()?.saturating_sub(before),
            percentiles_us: Some([0.5, 0.99, 0.999].map(|q| all.value_at_quantile(q))),
        })
    }
}

async fn leader_of(endpoints: &[Endpoint]) -> Result<Endpoint, AnyError> {
    let begun = Instant::now();
    loop {
        for endpoint in endpoints {
            let Ok(channel) = endpoint.connect().await else { continue };
            let path = "/etcdserverpb.Maintenance/Status";
            let status: Result<StatusResponse, _> =
                call(&mut Grpc::new(channel), path, StatusRequest {}).await;
            let Ok(StatusResponse { header: Some(header), leader }) = status else { continue };
            if header.member == leader {
                return Ok(endpoint.clone());
            }
        }
        if begun.elapsed() > PATIENCE {
            return Err("no member of etcd leads".into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn put(client: &mut Grpc<Channel>, bench: &Bench, number: u64) -> Result<(), AnyError> {
    let mut value = vec![0; bench.args.value_bytes];
    random_value(number, &mut value);
    let key = bench.row(number, KeyKind::Present).into();
    let request = PutRequest { key, value: value.into() };
    let _: Ignored = call(client, "/etcdserverpb.KV/Put", request).await?;
    Ok(())
}

async fn get(client: &mut Grpc<Channel>, bench: &Bench, number: u64) -> Result<(), AnyError> {
    let key = bench.row(number, KeyKind::Present).into();
    let found: RangeResponse = call(client, "/etcdserverpb.KV/Range", RangeRequest { key }).await?;
    match found.count {
        1 => Ok(()),
        count => Err(format!("etcd found {count} keys where one was put").into()),
    }
}

async fn call<Q: Message + 'static, R: Message + Default + 'static>(
    client: &mut Grpc<Channel>,
    path: &'static str,
    request: Q,
) -> Result<R, AnyError> {
    client.ready().await?;
    let codec = ProstCodec::<Q, R>::default();
    let request = tonic::Request::new(request);
    Ok(client.unary(request, PathAndQuery::from_static(path), codec).await?.into_inner())
}
