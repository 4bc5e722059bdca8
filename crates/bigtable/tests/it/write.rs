//! Writes: each mutation, batches with bad entries, check-and-mutate, read-modify-write.

use crate::harness::{
    Clients, TABLE, add, entry, filter, mutation, raw_call, read_all, serve, set, store, with_table,
};
use base::env::{Clock, SystemClock};
use data::mutate_rows_request::Entry;
use data::mutation::{DeleteFromColumn, DeleteFromFamily, DeleteFromRow, Mutation};
use data::read_modify_write_rule::Rule;
use data::row_filter::Filter;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use prost::Message;
use table::{CreateTable, FamilySpec, Pieces, ReadRows, Store, TableName};
use tonic::{Code, Status};

#[tokio::test]
async fn deletes_hide_what_they_name() {
    let mut t = with_table().await;
    let all = || {
        vec![
            set("f:a", 3000, b"3"),
            set("f:a", 2000, b"2"),
            set("f:a", 1000, b"1"),
            set("f:b", 1000, b"b"),
            set("g:a", 1000, b"g"),
        ]
    };
    let column = |start, end| {
        mutation(Mutation::DeleteFromColumn(DeleteFromColumn {
            family_name: "f".into(),
            column_qualifier: "a".into(),
            time_range: Some(data::TimestampRange {
                start_timestamp_micros: start,
                end_timestamp_micros: end,
            }),
        }))
    };
    let family =
        || mutation(Mutation::DeleteFromFamily(DeleteFromFamily { family_name: "f".into() }));
    let row = || mutation(Mutation::DeleteFromRow(DeleteFromRow {}));
    for (case, deletes, want) in [
        ("versions [2000, 3000)", vec![column(2000, 3000)], "3 1 b g"),
        ("versions from 2000", vec![column(2000, 0)], "1 b g"),
        ("versions below 2000", vec![column(0, 2000)], "3 2 b g"),
        ("column", vec![column(0, 0)], "b g"),
        ("family", vec![family()], "g"),
        ("row", vec![row()], ""),
        ("row, then a put", vec![row(), set("f:c", 0, b"c")], "c"),
    ] {
        t.write("r", vec![row()]).await;
        t.write("r", all()).await;
        t.write("r", deletes).await;
        let values: Vec<_> = t
            .lines(read_all())
            .await
            .iter()
            .map(|line| line.rsplit('=').next().unwrap().to_owned())
            .collect();
        assert_eq!(values.join(" "), want, "{case}");
    }
}

#[tokio::test]
async fn server_time_is_whole_milliseconds() {
    let mut t = with_table().await;
    t.write("r", vec![set("f:q", -1, b"v")]).await;
    let rows = t.try_read(read_all()).await.unwrap();
    let timestamp = rows[0].cells[0].timestamp_micros;
    assert!(timestamp > 1_600_000_000_000_000 && timestamp % 1000 == 0, "{timestamp}");
}

#[tokio::test]
async fn a_bad_entry_does_not_spoil_the_batch() {
    let mut t = with_table().await;
    let codes = t
        .write_rows(vec![
            entry("a", vec![set("f:q", 1000, b"1")]),
            entry("b", vec![set("nowhere:q", 1000, b"2")]),
            entry("", vec![set("f:q", 1000, b"3")]),
            entry("d", vec![data::Mutation::default()]),
            entry("e", vec![]),
            entry("f", vec![set("f:q", 1001, b"4")]),
            entry("g", vec![set("f:p", 1000, b"5"), set("nowhere:q", 1000, b"6")]),
            entry("a", vec![set("f:p", 1000, b"7")]),
        ])
        .await
        .unwrap();
    let (ok, bad) = (Code::Ok, Code::InvalidArgument);
    assert_eq!(codes, [ok, Code::NotFound, bad, bad, bad, bad, Code::NotFound, ok]);
    assert_eq!(t.lines(read_all()).await, ["a f:p@1000=7", "a f:q@1000=1"]);
}

#[tokio::test]
async fn large_batches_are_answered_entry_by_entry() {
    let mut t = with_table().await;
    let entries =
        (0..2_500).map(|i| entry(&format!("{i:05}"), vec![set("f:q", 1000, b"v")])).collect();
    let codes = t.write_rows(entries).await.unwrap();
    assert_eq!(codes, vec![Code::Ok; 2_500]);
    assert_eq!(t.try_read(read_all()).await.unwrap().len(), 2_500);
}

#[tokio::test]
async fn aggregates_fold() {
    let mut t = with_table().await;
    let number = |t: &[crate::assemble::GotRow], at: usize| {
        i64::from_be_bytes(t[0].cells[at].value[..].try_into().unwrap())
    };
    for input in [5, -7, 40] {
        t.write("r", vec![add("sum:q", 0, input), add("min:q", 0, input), add("max:q", 0, input)])
            .await;
    }
    let rows = t.try_read(read_all()).await.unwrap();
    let columns: Vec<_> = rows[0].cells.iter().map(|cell| cell.family.as_str()).collect();
    let value_of =
        |family: &str| number(&rows, columns.iter().position(|name| *name == family).unwrap());
    assert_eq!((value_of("sum"), value_of("min"), value_of("max")), (38, -7, 40));

    let state = |bytes: &[u8]| {
        let value = |kind| Some(data::Value { kind: Some(kind), ..Default::default() });
        mutation(Mutation::MergeToCell(data::mutation::MergeToCell {
            family_name: "sum".into(),
            column_qualifier: value(data::value::Kind::RawValue("q".into())),
            timestamp: value(data::value::Kind::RawTimestampMicros(0)),
            input: value(data::value::Kind::RawValue(bytes.to_vec().into())),
        }))
    };
    t.write("r", vec![state(&4i64.to_be_bytes())]).await;
    let sum = Filter::FamilyNameRegexFilter("sum".into());
    let request = data::ReadRowsRequest { filter: Some(filter(sum)), ..read_all() };
    assert_eq!(number(&t.try_read(request).await.unwrap(), 0), 42);

    for (case, wrong) in [
        ("set in an aggregate family", set("sum:q", 0, b"12345678")),
        ("add in a raw family", add("f:q", 0, 1)),
        ("a state that is no number", state(b"1234")),
    ] {
        let status = t.try_write(b"r", vec![wrong]).await.unwrap_err();
        assert!(
            matches!(status.code(), Code::InvalidArgument | Code::FailedPrecondition),
            "{case}: {status}"
        );
    }
}

async fn check(
    t: &mut Clients,
    predicate: Option<Filter>,
    on_true: Vec<data::Mutation>,
    on_false: Vec<data::Mutation>,
) -> Result<bool, Status> {
    let request = data::CheckAndMutateRowRequest {
        table_name: TABLE.into(),
        row_key: "r".into(),
        predicate_filter: predicate.map(filter),
        true_mutations: on_true,
        false_mutations: on_false,
        ..Default::default()
    };
    Ok(t.data.check_and_mutate_row(request).await?.into_inner().predicate_matched)
}

#[tokio::test]
async fn check_and_mutate_takes_the_branch_of_the_row() {
    let mut t = with_table().await;
    let yes = || vec![set("f:seen", 0, b"yes")];
    let no = || vec![set("f:seen", 0, b"no")];
    assert!(!check(&mut t, None, yes(), no()).await.unwrap());
    assert_eq!(t.lines(read_all()).await, ["r f:seen@0=no"]);
    assert!(check(&mut t, None, yes(), no()).await.unwrap());
    assert_eq!(t.lines(read_all()).await, ["r f:seen@0=yes"]);
    let is_no = || Some(Filter::ValueRegexFilter("no".into()));
    assert!(!check(&mut t, is_no(), no(), vec![]).await.unwrap());
    assert_eq!(t.lines(read_all()).await, ["r f:seen@0=yes"]);

    let status = check(&mut t, None, vec![], vec![]).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let status = check(&mut t, None, vec![set("nowhere:q", 0, b"")], vec![]).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let broken = Some(Filter::ValueRegexFilter("(".into()));
    let status = check(&mut t, broken, yes(), no()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("predicate"), "{status}");
}

fn rule(column: &str, rule: Rule) -> data::ReadModifyWriteRule {
    let (family, qualifier) = column.split_once(':').unwrap();
    data::ReadModifyWriteRule {
        family_name: family.into(),
        column_qualifier: qualifier.to_owned().into(),
        rule: Some(rule),
    }
}

async fn modify(
    t: &mut Clients,
    rules: Vec<data::ReadModifyWriteRule>,
) -> Result<data::Row, Status> {
    let request = data::ReadModifyWriteRowRequest {
        table_name: TABLE.into(),
        row_key: "r".into(),
        rules,
        ..Default::default()
    };
    Ok(t.data.read_modify_write_row(request).await?.into_inner().row.unwrap())
}

#[tokio::test]
async fn read_modify_write_returns_the_new_cells_only() {
    let mut t = with_table().await;
    t.write("r", vec![set("f:untouched", 0, b"x"), set("g:text", 1000, b"ab")]).await;
    let rules = vec![
        rule("g:text", Rule::AppendValue("cd".into())),
        rule("f:n", Rule::IncrementAmount(40)),
        rule("f:n", Rule::IncrementAmount(2)),
    ];
    let row = modify(&mut t, rules).await.unwrap();
    assert_eq!(row.key, "r");
    let mut got = Vec::new();
    for family in &row.families {
        for column in &family.columns {
            assert_eq!(column.cells.len(), 1);
            let qualifier = column.qualifier.escape_ascii();
            let value = column.cells[0].value.escape_ascii();
            got.push(format!("{}:{qualifier}={value}", family.name));
        }
    }
    assert_eq!(got, ["f:n=\\x00\\x00\\x00\\x00\\x00\\x00\\x00*", "g:text=abcd"]);

    let status = modify(&mut t, vec![rule("g:text", Rule::IncrementAmount(1))]).await.unwrap_err();
    assert!(matches!(status.code(), Code::InvalidArgument | Code::FailedPrecondition), "{status}");
    let status = modify(&mut t, vec![]).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_batch_without_entries_is_refused() {
    let mut t = with_table().await;
    let status = t.write_rows(Vec::new()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "error in field 'entries': at least one entry is needed");
}

/// A member of `RowFilter` that this version of the API does not have, as a newer client sends it.
const UNKNOWN_FILTER: [u8; 5] = [0xc2, 0x01, 0x02, 0x08, 0x01];

#[tokio::test]
async fn a_check_by_an_unknown_filter_writes_nothing() {
    let (store, _dir) = store();
    let families = [("f".to_owned(), FamilySpec::default())];
    let name = TableName::new(TABLE).unwrap();
    let table = CreateTable {
        name: name.clone(),
        families: families.into(),
        splits: Vec::new(),
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    store.create_table(table).await.unwrap();
    let address = serve(store.clone()).await;
    let request = data::CheckAndMutateRowRequest {
        table_name: TABLE.into(),
        row_key: "r".into(),
        false_mutations: vec![set("f:q", 1_000, b"v")],
        ..Default::default()
    };
    let path = "/google.bigtable.v2.Bigtable/CheckAndMutateRow";
    let known = request.encode_to_vec();
    let predicate = [&[6 << 3 | 2, UNKNOWN_FILTER.len() as u8], &UNKNOWN_FILTER[..]].concat();
    let status = raw_call(address, path, &[&known[..], &predicate].concat(), None).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    let want = "error in field 'predicate_filter.filter': field 24 of google.bigtable.v2.RowFilter \
                is not known to this server";
    assert_eq!(status.message(), want);
    let rows = store.read_rows(&name, ReadRows::default(), Pieces::default()).await.unwrap();
    assert_eq!(rows.collect_rows().await.unwrap(), []);
    let status = raw_call(address, path, &known, None).await;
    assert_eq!(status.code(), Code::Ok);
    let malformed = raw_call(address, path, &[0x0a, 200], None).await;
    assert_eq!(malformed.code(), Code::InvalidArgument, "{malformed}");
}

#[tokio::test]
async fn a_retried_count_with_a_token_counts_once() {
    let mut t = with_table().await;
    let now = SystemClock.now_micros() / 1_000_000;
    let ago = |seconds: i64| prost_types::Timestamp { seconds: now - seconds, nanos: 0 };
    let idempotency = |token: &'static str, start_time: Option<prost_types::Timestamp>| {
        Some(data::Idempotency { token: token.into(), start_time })
    };
    let row = |token, start| data::MutateRowRequest {
        table_name: TABLE.into(),
        row_key: "r".into(),
        mutations: vec![add("sum:q", 0, 1)],
        idempotency: idempotency(token, start),
        ..Default::default()
    };
    for _ in 0..3 {
        t.data.mutate_row(row("token-one", Some(ago(60)))).await.unwrap();
        t.data.mutate_row(row("token-two", None)).await.unwrap();
    }
    let with_token = |token, row| Entry {
        idempotency: idempotency(token, Some(ago(0))),
        ..entry(row, vec![add("sum:q", 0, 10)])
    };
    let entries = vec![
        with_token("token-one", "r"),
        with_token("token-six", "r"),
        with_token("token-six", "r"),
        with_token("token-six", "s"),
        with_token("short", "r"),
        entry("r", vec![add("sum:q", 0, 100)]),
    ];
    let (ok, bad) = (Code::Ok, Code::InvalidArgument);
    assert_eq!(t.write_rows(entries).await.unwrap(), [ok, ok, ok, ok, bad, ok]);
    let rows = t.try_read(read_all()).await.unwrap();
    let sums: Vec<i64> = rows
        .iter()
        .map(|row| {
            assert_eq!(row.cells.len(), 1, "tokens are not read");
            i64::from_be_bytes(row.cells[0].value[..].try_into().unwrap())
        })
        .collect();
    assert_eq!(sums, [1 + 1 + 10 + 100, 10]);

    let status = t.data.mutate_row(row("token-old", Some(ago(20 * 60)))).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("15 minutes"), "{status}");
    let status = t.data.mutate_row(row("short", None)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("8 to 256"), "{status}");
}

#[tokio::test]
async fn bulk_writers_that_ask_are_told_their_rate_with_the_last_entries() {
    let mut t = with_table().await;
    let write = || data::MutateRowsRequest {
        table_name: TABLE.into(),
        entries: (0..1_500).map(|i| entry(&format!("r{i}"), vec![set("f:a", 0, b"v")])).collect(),
        ..Default::default()
    };
    let mut asks = tonic::Request::new(write());
    // `FeatureFlags { mutate_rows_rate_limit2: true }`.
    asks.metadata_mut().insert("bigtable-features", "KAE=".parse().unwrap());
    for (request, asked) in [(asks, true), (tonic::Request::new(write()), false)] {
        let mut answer = t.data.mutate_rows(request).await.unwrap().into_inner();
        let mut told = Vec::new();
        while let Some(message) = answer.message().await.unwrap() {
            assert!(message.entries.iter().all(|entry| entry.status.as_ref().unwrap().code == 0));
            told.push(message.rate_limit_info.map(|info| info.factor));
        }
        // Nothing else waits.
        assert_eq!(told, [None, asked.then_some(1.3)]);
    }
}

#[tokio::test]
async fn every_answer_tells_how_long_the_server_worked() {
    let mut t = with_table().await;
    let request = data::ReadRowsRequest { table_name: TABLE.into(), ..Default::default() };
    let read = t.data.read_rows(request).await.unwrap();
    let refused = t.data.read_rows(data::ReadRowsRequest::default()).await.unwrap_err();
    for metadata in [read.metadata(), refused.metadata()] {
        let told = metadata.get("server-timing").unwrap().to_str().unwrap();
        let millis = told.strip_prefix("gfet4t7; dur=").unwrap();
        millis.parse::<u64>().unwrap();
    }
}
