//! Granularities of timestamps, types of families, schemas of row keys.

use crate::harness::{
    Clients, INSTANCE, TABLE, add, aggregate, connect, create_table, empty, filter, mutation,
    raw_call, read_all, serve, set, store, with_table,
};
use admin::modify_column_families_request::Modification;
use admin::modify_column_families_request::modification::Mod;
use admin::r#type::aggregate::Aggregator;
use admin::r#type::{Kind, bytes, int64, string, r#struct, timestamp};
use data::mutation::{DeleteFromColumn, Mutation};
use data::row_filter::Filter;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use prost::Message;
use tonic::{Code, Status};

const MILLIS: i32 = 1;
const MICROS: i32 = 2;

fn scalar(kind: Kind) -> admin::Type {
    admin::Type { kind: Some(kind) }
}

fn int64(ordered: bool) -> int64::Encoding {
    let encoding = match ordered {
        true => int64::encoding::Encoding::OrderedCodeBytes(Default::default()),
        false => int64::encoding::Encoding::BigEndianBytes(Default::default()),
    };
    int64::Encoding { encoding: Some(encoding) }
}

fn int64_type(ordered: bool) -> admin::Type {
    scalar(Kind::Int64Type(admin::r#type::Int64 { encoding: Some(int64(ordered)) }))
}

fn string_type() -> admin::Type {
    let utf8 = string::encoding::Encoding::Utf8Bytes(Default::default());
    let encoding = Some(string::Encoding { encoding: Some(utf8) });
    scalar(Kind::StringType(admin::r#type::String { encoding }))
}

fn bytes_type() -> admin::Type {
    let raw = bytes::encoding::Encoding::Raw(Default::default());
    let encoding = Some(bytes::Encoding { encoding: Some(raw) });
    scalar(Kind::BytesType(admin::r#type::Bytes { encoding }))
}

fn timestamp_type() -> admin::Type {
    let micros = timestamp::encoding::Encoding::UnixMicrosInt64(int64(false));
    let encoding = Some(timestamp::Encoding { encoding: Some(micros) });
    scalar(Kind::TimestampType(admin::r#type::Timestamp { encoding }))
}

fn typed(value_type: admin::Type) -> admin::ColumnFamily {
    admin::ColumnFamily { value_type: Some(value_type), ..Default::default() }
}

fn of_granularity(granularity: i32) -> admin::CreateTableRequest {
    let mut request = create_table("t", [("f", Default::default()), ("sum", sum())]);
    request.table.as_mut().unwrap().granularity = granularity;
    request
}

fn sum() -> admin::ColumnFamily {
    aggregate(Aggregator::Sum(Default::default()))
}

async fn get(t: &mut Clients) -> admin::Table {
    let request = admin::GetTableRequest { name: TABLE.into(), ..Default::default() };
    t.tables.get_table(request).await.unwrap().into_inner()
}

async fn write_at(t: &mut Clients, micros: i64) -> Result<(), Status> {
    t.try_write(b"r", vec![set("f:q", micros, b"v")]).await
}

#[tokio::test]
async fn a_table_of_microseconds_takes_and_tells_them_everywhere() {
    let mut t = empty().await;
    let created = t.tables.create_table(of_granularity(MICROS)).await.unwrap().into_inner();
    assert_eq!(created.granularity, MICROS);
    assert_eq!(get(&mut t).await.granularity, MICROS);
    let list = admin::ListTablesRequest {
        parent: INSTANCE.into(),
        view: admin::table::View::Full as i32,
        ..Default::default()
    };
    let listed = t.tables.list_tables(list).await.unwrap().into_inner().tables;
    assert_eq!(listed[0].granularity, MICROS);

    for micros in [1_001, 1_002, 1_003] {
        write_at(&mut t, micros).await.unwrap();
    }
    t.write("r", vec![add("sum:q", 1_001, 1)]).await;
    let range = |start, end| data::TimestampRange {
        start_timestamp_micros: start,
        end_timestamp_micros: end,
    };
    let in_range = Filter::TimestampRangeFilter(range(1_002, 1_003));
    assert_eq!(t.filtered(in_range).await, ["r f:q@1002=v"]);
    let delete = Mutation::DeleteFromColumn(DeleteFromColumn {
        family_name: "f".into(),
        column_qualifier: "q".into(),
        time_range: Some(range(1_001, 1_003)),
    });
    t.write("r", vec![mutation(delete)]).await;
    let family = Filter::FamilyNameRegexFilter("f".into());
    assert_eq!(t.filtered(family.clone()).await, ["r f:q@1003=v"]);

    for _ in 0..3 {
        t.write("s", vec![set("f:q", -1, b"v")]).await;
    }
    let request = data::ReadRowsRequest { filter: Some(filter(family)), ..read_all() };
    let rows = t.try_read(request).await.unwrap();
    let times: Vec<i64> = rows[1].cells.iter().map(|cell| cell.timestamp_micros).collect();
    assert_eq!(times.len(), 3, "no write replaced another");
}

#[tokio::test]
async fn a_table_of_milliseconds_refuses_finer_times() {
    let mut t = empty().await;
    for unspecified_or_millis in [0, MILLIS] {
        let request = of_granularity(unspecified_or_millis);
        let created = t.tables.create_table(request).await.unwrap().into_inner();
        assert_eq!(created.granularity, MILLIS);
        let status = write_at(&mut t, 1_001).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("multiple of 1000"), "{status}");
        write_at(&mut t, 2_000).await.unwrap();
        t.tables.delete_table(admin::DeleteTableRequest { name: TABLE.into() }).await.unwrap();
    }
    let status = t.tables.create_table(of_granularity(3)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("granularity"), "{status}");
}

/// `MutateRow` of one mutation with a `timestamp_origin`, which the client's messages do not have.
fn with_origin(row: &str, change: data::Mutation, origin: u8) -> Vec<u8> {
    let delimited = |number: u8, content: &[u8]| {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    };
    let change = [change.encode_to_vec(), vec![7 << 3, origin]].concat();
    [delimited(1, TABLE.as_bytes()), delimited(2, row.as_bytes()), delimited(3, &change)].concat()
}

#[tokio::test]
async fn timestamps_that_the_client_library_made_up_are_truncated() {
    let (store, _dir) = store();
    let address = serve(store.clone()).await;
    let mut t = connect(store).await;
    t.tables.create_table(of_granularity(MILLIS)).await.unwrap();
    let path = "/google.bigtable.v2.Bigtable/MutateRow";
    for (row, change, origin, want) in [
        ("auto", set("f:q", 1_999, b"v"), 2, Code::Ok),
        ("count", add("sum:q", 2_999, 7), 2, Code::Ok),
        ("user", set("f:q", 1_999, b"v"), 1, Code::InvalidArgument),
        ("none", set("f:q", 1_999, b"v"), 0, Code::InvalidArgument),
        ("negative", set("f:q", -1_999, b"v"), 2, Code::InvalidArgument),
        ("unknown", set("f:q", 1_000, b"v"), 3, Code::InvalidArgument),
    ] {
        let status = raw_call(address, path, &with_origin(row, change, origin), None).await;
        assert_eq!(status.code(), want, "{row}: {status}");
    }
    let rows = t.try_read(read_all()).await.unwrap();
    let times: Vec<i64> = rows.iter().map(|row| row.cells[0].timestamp_micros).collect();
    assert_eq!(times, [1_000, 2_000]);
}

#[tokio::test]
async fn types_of_families_come_back_as_they_were_given() {
    let mut t = empty().await;
    let types = [
        ("bytes", bytes_type()),
        ("big", int64_type(false)),
        ("ordered", int64_type(true)),
        ("string", string_type()),
        ("time", timestamp_type()),
    ];
    let families = types.clone().map(|(name, value_type)| (name, typed(value_type)));
    t.tables.create_table(create_table("t", families)).await.unwrap();
    let table = get(&mut t).await;
    for (name, value_type) in types {
        assert_eq!(table.column_families[name].value_type, Some(value_type), "{name}");
        // A scalar type tells readers what the bytes are; writers may set any.
        t.write("r", vec![set(&format!("{name}:q"), 1_000, b"any")]).await;
        let change = vec![add(&format!("{name}:q"), 1_000, 1)];
        let status = t.try_write(b"r", change).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    let without = scalar(Kind::StringType(Default::default()));
    let created = create_table("u", [("f", typed(without))]);
    let created = t.tables.create_table(created).await.unwrap().into_inner();
    assert_eq!(created.column_families["f"].value_type, Some(string_type()), "the default");
}

#[tokio::test]
async fn types_that_a_family_cannot_have_are_refused_by_name() {
    let mut t = empty().await;
    for (kind, code, want) in [
        (Kind::Float64Type(Default::default()), Code::InvalidArgument, "no encoding"),
        (Kind::Float32Type(Default::default()), Code::InvalidArgument, "no encoding"),
        (Kind::BoolType(Default::default()), Code::InvalidArgument, "no encoding"),
        (Kind::DateType(Default::default()), Code::InvalidArgument, "no encoding"),
        (Kind::TimestampType(Default::default()), Code::InvalidArgument, "timestamp_type without"),
        (Kind::StructType(Default::default()), Code::Unimplemented, "struct"),
        (Kind::ArrayType(Default::default()), Code::Unimplemented, "array"),
        (Kind::MapType(Default::default()), Code::Unimplemented, "map"),
        (Kind::ProtoType(Default::default()), Code::Unimplemented, "proto_type"),
        (Kind::EnumType(Default::default()), Code::Unimplemented, "enum_type"),
    ] {
        let request = create_table("t", [("f", typed(scalar(kind)))]);
        let status = t.tables.create_table(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(want), "{status}");
    }
}

async fn update(
    t: &mut Clients,
    family: &str,
    update: admin::ColumnFamily,
    paths: &[&str],
) -> Result<admin::Table, Status> {
    let paths: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
    let request = admin::ModifyColumnFamiliesRequest {
        name: TABLE.into(),
        modifications: vec![Modification {
            id: family.into(),
            update_mask: Some(prost_types::FieldMask { paths }),
            r#mod: Some(Mod::Update(update)),
        }],
        ..Default::default()
    };
    t.tables.modify_column_families(request).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn aggregates_keep_their_type_and_others_may_change_it() {
    let mut t = with_table().await;
    let versions = admin::gc_rule::Rule::MaxNumVersions(1);
    let gc_rule = Some(admin::GcRule { rule: Some(versions) });
    let with_rule =
        |family: admin::ColumnFamily| admin::ColumnFamily { gc_rule: gc_rule.clone(), ..family };
    for (family, wanted) in [
        ("sum", typed(string_type())),
        ("sum", admin::ColumnFamily::default()),
        ("sum", aggregate(Aggregator::Max(Default::default()))),
        ("f", sum()),
    ] {
        let status = update(&mut t, family, wanted, &["value_type"]).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        let want = "Immutable fields 'value_type.aggregate_type' cannot be updated";
        assert!(status.message().contains(want), "{status}");
    }
    for paths in [&["gc_rule", "value_type"][..], &["gc_rule"], &[]] {
        let after = update(&mut t, "sum", with_rule(sum()), paths).await.unwrap();
        assert_eq!(after.column_families["sum"].gc_rule, gc_rule, "{paths:?}");
        assert!(after.column_families["sum"].value_type.is_some(), "{paths:?}");
    }
    let after = update(&mut t, "f", typed(string_type()), &["value_type"]).await.unwrap();
    assert_eq!(after.column_families["f"], typed(string_type()));
    let after = update(&mut t, "f", with_rule(typed(bytes_type())), &["gc_rule"]).await.unwrap();
    assert_eq!(after.column_families["f"], with_rule(typed(string_type())), "only the rule");
    let after = update(&mut t, "f", Default::default(), &["value_type"]).await.unwrap();
    assert_eq!(after.column_families["f"].value_type, None);
    let status = update(&mut t, "f", Default::default(), &["name"]).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

fn keys(
    fields: &[(&str, admin::Type)],
    encoding: r#struct::encoding::Encoding,
) -> admin::r#type::Struct {
    let fields = fields.iter().map(|(name, wire)| r#struct::Field {
        field_name: name.to_string(),
        r#type: Some(wire.clone()),
    });
    let encoding = Some(r#struct::Encoding { encoding: Some(encoding) });
    admin::r#type::Struct { fields: fields.collect(), encoding }
}

fn delimited() -> r#struct::encoding::Encoding {
    let delimiter = "#".into();
    r#struct::encoding::Encoding::DelimitedBytes(r#struct::encoding::DelimitedBytes { delimiter })
}

fn with_keys(id: &str, schema: admin::r#type::Struct) -> admin::CreateTableRequest {
    let mut request = create_table(id, [("f", Default::default())]);
    request.table.as_mut().unwrap().row_key_schema = Some(schema);
    request
}

async fn set_keys(
    t: &mut Clients,
    row_key_schema: Option<admin::r#type::Struct>,
    ignore_warnings: bool,
) -> Result<(), Status> {
    let request = admin::UpdateTableRequest {
        table: Some(admin::Table { name: TABLE.into(), row_key_schema, ..Default::default() }),
        update_mask: Some(prost_types::FieldMask { paths: vec!["row_key_schema".into()] }),
        ignore_warnings,
    };
    t.tables.update_table(request).await.map(|_| ())
}

#[tokio::test]
async fn a_row_key_schema_is_set_once_and_removed_on_purpose() {
    let mut t = empty().await;
    let ordered = r#struct::encoding::Encoding::OrderedCodeBytes(Default::default());
    let schema = keys(&[("id", string_type()), ("n", int64_type(true))], delimited());
    let created = t.tables.create_table(with_keys("t", schema.clone())).await.unwrap();
    assert_eq!(created.into_inner().row_key_schema, Some(schema.clone()));
    assert_eq!(get(&mut t).await.row_key_schema, Some(schema.clone()));

    set_keys(&mut t, Some(schema.clone()), false).await.unwrap();
    let other = keys(&[("id", bytes_type()), ("n", int64_type(false))], ordered);
    for (wanted, ignore_warnings) in [(Some(&other), false), (Some(&other), true), (None, false)] {
        let status = set_keys(&mut t, wanted.cloned(), ignore_warnings).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("row_key_schema"), "{status}");
        assert_eq!(get(&mut t).await.row_key_schema, Some(schema.clone()));
    }
    set_keys(&mut t, None, true).await.unwrap();
    assert_eq!(get(&mut t).await.row_key_schema, None);
    set_keys(&mut t, Some(other.clone()), false).await.unwrap();
    assert_eq!(get(&mut t).await.row_key_schema, Some(other));

    let create = Modification {
        id: "n".into(),
        r#mod: Some(Mod::Create(Default::default())),
        ..Default::default()
    };
    let request = admin::ModifyColumnFamiliesRequest {
        name: TABLE.into(),
        modifications: vec![create],
        ..Default::default()
    };
    let status = t.tables.modify_column_families(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "a field of the row key has this name");
}

#[tokio::test]
async fn wrong_row_key_schemas_are_refused_by_name() {
    let mut t = empty().await;
    let singleton = r#struct::encoding::Encoding::Singleton(Default::default());
    let no_encoding = scalar(Kind::Int64Type(Default::default()));
    let array = scalar(Kind::ArrayType(Default::default()));
    let unset = admin::Type::default();
    let mut bare = keys(&[("a", string_type())], delimited());
    bare.encoding = None;
    for (schema, want) in [
        (keys(&[], delimited()), "0 fields"),
        (keys(&[("a", string_type()), ("b", string_type())], singleton), "singleton"),
        (keys(&[("", string_type())], delimited()), "no name"),
        (keys(&[("f", string_type())], delimited()), "family"),
        (keys(&[("_key", string_type())], delimited()), "_key"),
        (keys(&[("a", string_type()), ("a", string_type())], delimited()), "'a'"),
        (keys(&[("a", string_type()), ("b", no_encoding)], delimited()), "fields[1].type"),
        (keys(&[("a", array)], delimited()), "scalar"),
        (keys(&[("a", unset)], delimited()), "fields[0].type"),
        (bare, "encoding"),
    ] {
        let status = t.tables.create_table(with_keys("t", schema)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(want), "{want}: {status}");
    }
}

/// A family that counts unique values of a type; `None` is raw.
fn unique(input: Option<admin::Type>) -> admin::ColumnFamily {
    let aggregate = admin::r#type::Aggregate {
        input_type: input.map(Box::new),
        state_type: Some(Box::new(bytes_type())),
        aggregator: Some(Aggregator::HllppUniqueCount(Default::default())),
    };
    typed(scalar(Kind::AggregateType(Box::new(aggregate))))
}

/// `AddToCell` or `MergeToCell` of column `family:q` at 0.
fn fold(family: &str, input: data::value::Kind, merge: bool) -> data::Mutation {
    let value = |kind| Some(data::Value { kind: Some(kind), ..Default::default() });
    let family_name = family.to_owned();
    let column_qualifier = value(data::value::Kind::RawValue("q".into()));
    let timestamp = value(data::value::Kind::RawTimestampMicros(0));
    let input = value(input);
    mutation(match merge {
        true => Mutation::MergeToCell(data::mutation::MergeToCell {
            family_name,
            column_qualifier,
            timestamp,
            input,
        }),
        false => Mutation::AddToCell(data::mutation::AddToCell {
            family_name,
            column_qualifier,
            timestamp,
            input,
        }),
    })
}

#[tokio::test]
async fn unique_values_are_counted_in_sketches() {
    use data::value::Kind::{BytesValue, IntValue, RawValue, StringValue};
    let families = [
        ("bytes", unique(Some(bytes_type()))),
        ("int", unique(Some(int64_type(false)))),
        ("raw", unique(None)),
        ("string", unique(Some(string_type()))),
    ];
    let mut t = empty().await;
    t.tables.create_table(create_table("t", families.clone())).await.unwrap();
    let table = get(&mut t).await;
    for (name, family) in families {
        assert_eq!(table.column_families[name], family, "{name}");
    }
    for value in ["a", "b", "a"] {
        let changes = vec![
            fold("raw", RawValue(value.into()), false),
            fold("bytes", BytesValue(value.into()), false),
            fold("string", StringValue(value.into()), false),
            fold("int", IntValue(value.len() as i64), false),
        ];
        t.write("r", changes).await;
    }
    let rows = t.try_read(read_all()).await.unwrap();
    let cells = &rows[0].cells;
    let states: Vec<Vec<u8>> = cells.iter().map(|cell| cell.value.to_vec()).collect();
    let mut want = engine::Sketch::of_bytes(b"a");
    ["b", "a"].iter().for_each(|value| want.merge(engine::Sketch::of_bytes(value.as_bytes())));
    let mut ones = engine::Sketch::of_int64(1);
    (0..2).for_each(|_| ones.merge(engine::Sketch::of_int64(1)));
    let want = want.encode();
    assert_eq!(states, [want.clone(), ones.encode(), want.clone(), want.clone()]);

    // A state that was read merges into another cell.
    t.write("s", vec![fold("raw", RawValue(want.clone().into()), true)]).await;
    t.write("s", vec![fold("raw", RawValue("c".into()), false)]).await;
    let rows = t.try_read(read_all()).await.unwrap();
    let mut merged = engine::Sketch::decode(&want).unwrap();
    merged.merge(engine::Sketch::of_bytes(b"c"));
    assert_eq!(rows[1].cells[0].value, merged.encode());

    for (change, want) in [
        (fold("int", RawValue(want.clone().into()), true), "value_type"),
        (fold("raw", RawValue("no sketch".into()), true), "HyperLogLog++"),
        (fold("raw", IntValue(1), false), "raw_value"),
        (fold("int", RawValue("1".into()), false), "int_value"),
        (fold("string", BytesValue("1".into()), false), "string_value"),
        (fold("bytes", StringValue("1".into()), false), "bytes_value"),
        (set("raw:q", 0, b"v"), "aggregate family"),
    ] {
        let status = t.try_write(b"r", vec![change]).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(want), "{want}: {status}");
    }
    let floats = scalar(Kind::Float64Type(Default::default()));
    let request = create_table("u", [("f", unique(Some(floats)))]);
    let status = t.tables.create_table(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}
