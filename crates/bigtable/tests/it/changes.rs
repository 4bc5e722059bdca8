//! Change streams over the wire: their settings, partitions, messages, and codes of what is refused.

use crate::harness::{Clients, TABLE, create_table, empty};
use admin::{ChangeStreamConfig, Table};
use data::mutation::{Mutation, SetCell};
use data::read_change_stream_request::StartFrom;
use data::read_change_stream_response::StreamRecord;
use data::row_range::{EndKey, StartKey};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use prost_types::{Duration, FieldMask};
use tonic::{Code, Status, Streaming};

const DAY: i64 = 24 * 3600;

fn config(seconds: i64) -> Option<ChangeStreamConfig> {
    Some(ChangeStreamConfig { retention_period: Some(Duration { seconds, nanos: 0 }) })
}

fn family() -> admin::ColumnFamily {
    admin::ColumnFamily::default()
}

fn create(id: &str, config: Option<ChangeStreamConfig>) -> admin::CreateTableRequest {
    let mut request = create_table(id, [("f", family())]);
    request.table.as_mut().unwrap().change_stream_config = config;
    let split = admin::create_table_request::Split { key: "m".into() };
    request.initial_splits = vec![split];
    request
}

async fn with_stream() -> Clients {
    let mut clients = empty().await;
    clients.tables.create_table(create("t", config(DAY))).await.unwrap();
    clients
}

async fn update(
    clients: &mut Clients,
    path: &str,
    change_stream_config: Option<ChangeStreamConfig>,
) -> Result<(), Status> {
    let table = Table { name: TABLE.into(), change_stream_config, ..Default::default() };
    let update_mask = Some(FieldMask { paths: vec![path.to_owned()] });
    let request =
        admin::UpdateTableRequest { table: Some(table), update_mask, ..Default::default() };
    clients.tables.update_table(request).await.map(|_| ())
}

async fn shown(clients: &mut Clients) -> Option<ChangeStreamConfig> {
    let request = admin::GetTableRequest { name: TABLE.into(), ..Default::default() };
    let shown = clients.tables.get_table(request).await.unwrap().into_inner();
    let request = admin::ListTablesRequest {
        parent: crate::harness::INSTANCE.into(),
        view: admin::table::View::Full as i32,
        ..Default::default()
    };
    let listed = clients.tables.list_tables(request).await.unwrap().into_inner();
    assert_eq!(listed.tables[0].change_stream_config, shown.change_stream_config);
    shown.change_stream_config
}

async fn partitions(clients: &mut Clients) -> Result<Vec<data::StreamPartition>, Status> {
    let request = data::GenerateInitialChangeStreamPartitionsRequest {
        table_name: TABLE.into(),
        ..Default::default()
    };
    let answer = clients.data.generate_initial_change_stream_partitions(request).await?;
    let mut stream = answer.into_inner();
    let mut partitions = Vec::new();
    while let Some(message) = stream.message().await? {
        partitions.push(message.partition.unwrap());
    }
    Ok(partitions)
}

fn read(partition: &data::StreamPartition) -> data::ReadChangeStreamRequest {
    data::ReadChangeStreamRequest {
        table_name: TABLE.into(),
        partition: Some(partition.clone()),
        ..Default::default()
    }
}

async fn open(
    clients: &mut Clients,
    request: data::ReadChangeStreamRequest,
) -> Result<Streaming<data::ReadChangeStreamResponse>, Status> {
    clients.data.read_change_stream(request).await.map(tonic::Response::into_inner)
}

async fn write(clients: &mut Clients, row: &'static str, value: Vec<u8>) {
    let set = SetCell {
        family_name: "f".into(),
        column_qualifier: "q".into(),
        timestamp_micros: 1_000,
        value: value.into(),
    };
    let request = data::MutateRowRequest {
        table_name: TABLE.into(),
        row_key: row.into(),
        mutations: vec![data::Mutation { mutation: Some(Mutation::SetCell(set)) }],
        ..Default::default()
    };
    clients.data.mutate_row(request).await.unwrap();
}

#[tokio::test]
async fn the_retention_is_set_shown_and_bounded() {
    let mut clients = empty().await;
    for seconds in [0, DAY - 1, 7 * DAY + 1, -DAY] {
        let wrong = clients.tables.create_table(create("t", config(seconds))).await.unwrap_err();
        assert_eq!(wrong.code(), Code::InvalidArgument, "{seconds}");
        assert!(wrong.message().contains("retention_period"), "{wrong}");
    }
    let unset = Some(ChangeStreamConfig::default());
    let wrong = clients.tables.create_table(create("t", unset)).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
    let made = clients.tables.create_table(create("t", config(DAY))).await.unwrap().into_inner();
    assert_eq!(made.change_stream_config, config(DAY));
    assert_eq!(shown(&mut clients).await, config(DAY));
    update(&mut clients, "change_stream_config.retention_period", config(7 * DAY)).await.unwrap();
    assert_eq!(shown(&mut clients).await, config(7 * DAY));
    let wrong = update(&mut clients, "change_stream_config", config(1)).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
    update(&mut clients, "change_stream_config", None).await.unwrap();
    assert_eq!(shown(&mut clients).await, None);
    let off = partitions(&mut clients).await.unwrap_err();
    assert_eq!(off.code(), Code::FailedPrecondition, "{off}");
}

#[tokio::test]
async fn each_tablet_has_a_partition_that_tells_its_rows() {
    let mut clients = with_stream().await;
    let partitions = partitions(&mut clients).await.unwrap();
    let keys = |partition: &data::StreamPartition| {
        let range = partition.row_range.clone().unwrap();
        let (Some(StartKey::StartKeyClosed(start)), Some(EndKey::EndKeyOpen(end))) =
            (range.start_key, range.end_key)
        else {
            panic!("{partition:?}")
        };
        (start, end)
    };
    let found: Vec<_> = partitions.iter().map(keys).collect();
    assert_eq!(found, [("".into(), "m".into()), ("m".into(), "".into())]);
    let mut streams = Vec::new();
    for partition in &partitions {
        streams.push(open(&mut clients, read(partition)).await.unwrap());
    }
    write(&mut clients, "a", vec![1; 10]).await;
    write(&mut clients, "z", vec![2; 3 << 20]).await;
    for (stream, (row, bytes)) in streams.iter_mut().zip([("a", 10), ("z", 3 << 20)]) {
        let (mut value, mut first) = (0, true);
        loop {
            let Some(StreamRecord::DataChange(change)) =
                stream.message().await.unwrap().unwrap().stream_record
            else {
                panic!("no heartbeat is due")
            };
            assert_eq!(change.row_key == row, first);
            for chunk in &change.chunks {
                let mutation = chunk.mutation.clone().unwrap().mutation;
                let Some(Mutation::SetCell(set)) = mutation else { panic!("{mutation:?}") };
                value += set.value.len();
            }
            first = false;
            if change.done {
                assert!(!change.token.is_empty() && change.estimated_low_watermark.is_some());
                break;
            }
        }
        assert_eq!(value, bytes);
    }
}

#[tokio::test]
async fn a_stream_goes_on_from_its_tokens_and_closes_at_its_end_time() {
    let mut clients = with_stream().await;
    let partition = partitions(&mut clients).await.unwrap().remove(0);
    let beats = Some(Duration { seconds: 0, nanos: 100_000_000 });
    let request = data::ReadChangeStreamRequest { heartbeat_duration: beats, ..read(&partition) };
    let mut stream = open(&mut clients, request).await.unwrap();
    let token = loop {
        let record = stream.message().await.unwrap().unwrap().stream_record.unwrap();
        if let StreamRecord::Heartbeat(heartbeat) = record {
            assert!(heartbeat.estimated_low_watermark.is_some());
            break heartbeat.continuation_token.unwrap();
        }
    };
    assert_eq!(token.partition.as_ref(), Some(&partition));
    drop(stream);
    write(&mut clients, "a", vec![1]).await;
    write(&mut clients, "b", vec![1]).await;
    let tokens = data::StreamContinuationTokens { tokens: vec![token] };
    let request = data::ReadChangeStreamRequest {
        start_from: Some(StartFrom::ContinuationTokens(tokens)),
        ..read(&partition)
    };
    let mut stream = open(&mut clients, request).await.unwrap();
    let mut last = None;
    for row in ["a", "b"] {
        let record = stream.message().await.unwrap().unwrap().stream_record.unwrap();
        let StreamRecord::DataChange(change) = record else { panic!("{record:?}") };
        assert!(
            change.done && change.row_key == row && change.source_cluster_id == "stele",
            "{change:?}"
        );
        last = change.commit_timestamp;
    }
    let request = data::ReadChangeStreamRequest {
        start_from: last.map(StartFrom::StartTime),
        end_time: last,
        ..read(&partition)
    };
    let mut stream = open(&mut clients, request).await.unwrap();
    let record = stream.message().await.unwrap().unwrap().stream_record.unwrap();
    let StreamRecord::DataChange(change) = record else { panic!("{record:?}") };
    assert_eq!(change.row_key, "b");
    let record = stream.message().await.unwrap().unwrap().stream_record.unwrap();
    let StreamRecord::CloseStream(close) = record else { panic!("{record:?}") };
    assert_eq!(close.status.map(|status| status.code), Some(0));
    assert!(close.continuation_tokens.is_empty() && close.new_partitions.is_empty());
    assert!(stream.message().await.unwrap().is_none());
}

#[tokio::test]
async fn each_refusal_has_its_code() {
    let mut clients = with_stream().await;
    let partition = partitions(&mut clients).await.unwrap().remove(0);
    let time = |seconds| Some(StartFrom::StartTime(prost_types::Timestamp { seconds, nanos: 0 }));
    let token = data::StreamContinuationToken {
        partition: Some(partition.clone()),
        token: "made up".into(),
    };
    let tokens = data::StreamContinuationTokens { tokens: vec![token] };
    let tokens = Some(StartFrom::ContinuationTokens(tokens));
    let with = |start_from| data::ReadChangeStreamRequest { start_from, ..read(&partition) };
    let missing = data::ReadChangeStreamRequest {
        table_name: "projects/p/instances/i/tables/none".into(),
        ..read(&partition)
    };
    for (code, request) in [
        (Code::OutOfRange, with(time(1_000))),
        (Code::InvalidArgument, with(time(1 << 40))),
        (Code::InvalidArgument, with(tokens)),
        (Code::InvalidArgument, data::ReadChangeStreamRequest { partition: None, ..with(None) }),
        (Code::NotFound, missing),
    ] {
        let status = open(&mut clients, request.clone()).await.unwrap_err();
        assert_eq!(status.code(), code, "{request:?}: {status}");
    }
    let mut stream = open(&mut clients, read(&partition)).await.unwrap();
    update(&mut clients, "change_stream_config", None).await.unwrap();
    write(&mut clients, "a", vec![1]).await;
    let ended = loop {
        match stream.message().await {
            Ok(message) => assert!(message.is_some(), "it does not end as if all were told"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::FailedPrecondition, "{ended}");
}
