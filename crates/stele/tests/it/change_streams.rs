//! A client follows the change stream of a real server that is killed again and again: it goes on
//! from its last token, and is told every write that was acknowledged once, in the order of its row.
//!
//! `STELE_STREAM_KILLS` sets the number of kills (default 8).

use crate::server::{Server, run, stderr};
use bytes::Bytes;
use data::mutation::{Mutation, SetCell};
use data::read_change_stream_request::StartFrom;
use data::read_change_stream_response::StreamRecord;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use prost_types::Duration as WireDuration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

const INSTANCE: &str = "projects/p/instances/i";
const TABLE: &str = "projects/p/instances/i/tables/t";
const WRITERS: u64 = 4;
/// So small that segments of the log are retired while the test runs.
const FLAGS: &[&str] = &[
    "--memtable-bytes-max=128KiB",
    "--log-segment-bytes=128KiB",
    "--durability=sync",
    "--log-level=warn",
];
/// Only a server that does not answer takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

async fn channel(address: SocketAddr) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await
}

async fn client(
    address: SocketAddr,
) -> Result<data::bigtable_client::BigtableClient<Channel>, tonic::transport::Error> {
    Ok(data::bigtable_client::BigtableClient::new(channel(address).await?))
}

async fn create_table(address: SocketAddr) {
    let channel = channel(address).await.unwrap();
    let mut admin = admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel);
    let retention_period = Some(WireDuration { seconds: 24 * 3600, nanos: 0 });
    let table = admin::Table {
        column_families: [("f".to_owned(), admin::ColumnFamily::default())].into(),
        change_stream_config: Some(admin::ChangeStreamConfig { retention_period }),
        ..Default::default()
    };
    let split = admin::create_table_request::Split { key: "w2".into() };
    let request = admin::CreateTableRequest {
        parent: INSTANCE.into(),
        table_id: "t".into(),
        table: Some(table),
        initial_splits: vec![split],
    };
    admin.create_table(request).await.unwrap();
}

async fn partitions(address: SocketAddr) -> Vec<data::StreamPartition> {
    let request = data::GenerateInitialChangeStreamPartitionsRequest {
        table_name: TABLE.into(),
        ..Default::default()
    };
    let mut client = client(address).await.unwrap();
    let answer = client.generate_initial_change_stream_partitions(request).await.unwrap();
    let mut stream = answer.into_inner();
    let mut partitions = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        partitions.push(message.partition.unwrap());
    }
    partitions
}

/// Writes numbers to a row of its own until the server goes away. Each write replaces the row and
/// adds some weight, so that the log is long.
#[derive(Default)]
struct Writer {
    /// Numbers that were acknowledged, and the one whose answer did not come, of each life.
    acknowledged: Vec<u64>,
    next: u64,
}

impl Writer {
    async fn write_until_killed(mut self, row: String, address: SocketAddr) -> Self {
        let Ok(mut client) = client(address).await else { return self };
        loop {
            let set = |qualifier: &str, value: Bytes| data::Mutation {
                mutation: Some(Mutation::SetCell(SetCell {
                    family_name: "f".into(),
                    column_qualifier: qualifier.to_owned().into(),
                    timestamp_micros: 1_000,
                    value,
                })),
            };
            let number = self.next;
            self.next += 1;
            let weight = vec![7; 1 + (number as usize * 37) % 5_000];
            let request = data::MutateRowRequest {
                table_name: TABLE.into(),
                row_key: row.clone().into(),
                mutations: vec![
                    set("number", number.to_be_bytes().to_vec().into()),
                    set("weight", weight.into()),
                ],
                ..Default::default()
            };
            match client.mutate_row(request).await {
                Ok(_) => self.acknowledged.push(number),
                Err(_) => return self,
            }
        }
    }
}

/// Follows one partition over all lives of the server.
struct Follower {
    partition: data::StreamPartition,
    /// From where to go on.
    token: Option<String>,
    /// The numbers told of each row.
    told: BTreeMap<Bytes, Vec<u64>>,
}

impl Follower {
    fn request(&self) -> data::ReadChangeStreamRequest {
        let partition = Some(self.partition.clone());
        let token = |token: &String| {
            let of = data::StreamContinuationToken {
                partition: partition.clone(),
                token: token.clone(),
            };
            StartFrom::ContinuationTokens(data::StreamContinuationTokens { tokens: vec![of] })
        };
        data::ReadChangeStreamRequest {
            table_name: TABLE.into(),
            start_from: self.token.as_ref().map(token),
            partition: partition.clone(),
            heartbeat_duration: Some(WireDuration { seconds: 0, nanos: 100_000_000 }),
            ..Default::default()
        }
    }

    /// Follows until the server goes away, or, once it is quiet, until a heartbeat says that
    /// nothing more comes.
    async fn follow(mut self, address: SocketAddr, quiet: Arc<AtomicBool>) -> Self {
        let Ok(mut client) = client(address).await else { return self };
        let Ok(answer) = client.read_change_stream(self.request()).await else { return self };
        let mut stream = answer.into_inner();
        loop {
            let was_quiet = quiet.load(Ordering::SeqCst);
            let message = tokio::time::timeout(PATIENCE, stream.message()).await;
            let message = match message.expect("a heartbeat comes every 100 ms") {
                Ok(message) => message.expect("a stream without an end time has no end"),
                Err(status) => {
                    assert!(was_killed(&status), "{status}");
                    return self;
                }
            };
            match message.stream_record.unwrap() {
                StreamRecord::DataChange(change) => self.take(change),
                StreamRecord::Heartbeat(heartbeat) => {
                    self.token = Some(heartbeat.continuation_token.unwrap().token);
                    if was_quiet {
                        return self;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn take(&mut self, change: data::read_change_stream_response::DataChange) {
        assert!(change.done, "these changes are small");
        let value = |chunk: &data::read_change_stream_response::MutationChunk| match chunk
            .mutation
            .clone()
            .unwrap()
            .mutation
        {
            Some(Mutation::SetCell(set)) => (set.column_qualifier, set.value),
            other => panic!("{other:?}"),
        };
        let [(first, number), (second, _)] = [value(&change.chunks[0]), value(&change.chunks[1])];
        assert_eq!((&first[..], &second[..]), (&b"number"[..], &b"weight"[..]));
        let number = u64::from_be_bytes(number[..].try_into().unwrap());
        self.told.entry(change.row_key).or_default().push(number);
        self.token = Some(change.token);
    }
}

fn was_killed(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled)
}

#[test]
fn a_change_stream_misses_nothing_and_repeats_nothing_across_kill_9() {
    let kills: u64 = std::env::var("STELE_STREAM_KILLS").map_or(8, |kills| kills.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), FLAGS);
    let address = server.bigtable();
    runtime.block_on(create_table(address));
    let partitions = runtime.block_on(partitions(address));
    assert_eq!(partitions.len(), 2);
    let mut followers: Vec<Follower> = partitions
        .into_iter()
        .map(|partition| Follower { partition, token: None, told: BTreeMap::new() })
        .collect();
    // Both have a token before the first write.
    let quiet = Arc::new(AtomicBool::new(true));
    followers = follow_all(&runtime, followers, address, &quiet);
    let mut writers: Vec<Writer> = (0..WRITERS).map(|_| Writer::default()).collect();
    let quiet = Arc::new(AtomicBool::new(false));
    for kill in 0..kills {
        let writing: Vec<_> = writers
            .into_iter()
            .enumerate()
            .map(|(at, writer)| runtime.spawn(writer.write_until_killed(format!("w{at}"), address)))
            .collect();
        let following: Vec<_> = followers
            .into_iter()
            .map(|follower| runtime.spawn(follower.follow(address, Arc::clone(&quiet))))
            .collect();
        std::thread::sleep(Duration::from_millis(100 + 150 * (kill % 4)));
        server.kill_9();
        writers = writing.into_iter().map(|task| runtime.block_on(task).unwrap()).collect();
        followers = following.into_iter().map(|task| runtime.block_on(task).unwrap()).collect();
        server.restart();
    }
    let quiet = Arc::new(AtomicBool::new(true));
    followers = follow_all(&runtime, followers, address, &quiet);
    assert!(server.terminate().success());
    let checked = run(&["check", dir.path().to_str().unwrap()]);
    assert!(checked.status.success(), "check: {}", stderr(&checked));
    let told: BTreeMap<Bytes, Vec<u64>> =
        followers.into_iter().flat_map(|follower| follower.told).collect();
    for (at, writer) in writers.iter().enumerate() {
        let told = &told[format!("w{at}").as_bytes()];
        assert!(told.is_sorted_by(|a, b| a < b), "w{at}: in order, none twice");
        let missing: Vec<_> =
            writer.acknowledged.iter().filter(|n| told.binary_search(n).is_err()).collect();
        assert!(missing.is_empty(), "w{at}: {missing:?}");
        assert!(
            told.len() <= writer.acknowledged.len() + kills as usize,
            "w{at}: nothing invented"
        );
    }
}

/// Lets all followers go on until a heartbeat, after what is there.
fn follow_all(
    runtime: &tokio::runtime::Runtime,
    followers: Vec<Follower>,
    address: SocketAddr,
    quiet: &Arc<AtomicBool>,
) -> Vec<Follower> {
    let follow = |follower: Follower| runtime.spawn(follower.follow(address, Arc::clone(quiet)));
    let following: Vec<_> = followers.into_iter().map(follow).collect();
    following.into_iter().map(|task| runtime.block_on(task).unwrap()).collect()
}

#[test]
fn a_server_that_stops_does_not_wait_for_its_streams() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &["--drain-seconds=3600"]);
    let address = server.bigtable();
    let mut stream = runtime.block_on(async {
        create_table(address).await;
        let partition = partitions(address).await.remove(0);
        let follower = Follower { partition, token: None, told: BTreeMap::new() };
        client(address)
            .await
            .unwrap()
            .read_change_stream(follower.request())
            .await
            .unwrap()
            .into_inner()
    });
    assert!(server.terminate().success());
    let ended = runtime.block_on(async {
        loop {
            match stream.message().await {
                Ok(message) => assert!(message.is_some()),
                Err(status) => return status,
            }
        }
    });
    assert_eq!(ended.code(), Code::Unavailable, "{ended}");
}
