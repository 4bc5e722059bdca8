//! The schema of a table travels with its export: granularity, rules and types of families, and the sums
//! of aggregate families.

use crate::import::{Setting, succeeded};
use crate::server::{stderr, stele};
use admin::bigtable_table_admin_client::BigtableTableAdminClient;
use admin::r#type::{Aggregate, Int64, Kind, aggregate};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data::bigtable_client::BigtableClient;
use data::mutation::{AddToCell, Mutation, SetCell};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use prost::Message;
use std::process::{Output, Stdio};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

const INSTANCE: &str = "projects/local/instances/local";
/// `TimestampGranularity.MICROS`, which the published crate does not have.
const MICROS: i32 = 2;

/// A table of microseconds with a rule and a family that adds up.
fn schema() -> admin::Table {
    let int64 = admin::Type { kind: Some(Kind::Int64Type(Int64::default())) };
    let sum = Aggregate {
        input_type: Some(Box::new(int64)),
        aggregator: Some(aggregate::Aggregator::Sum(aggregate::Sum {})),
        ..Default::default()
    };
    let newest = admin::GcRule { rule: Some(admin::gc_rule::Rule::MaxNumVersions(3)) };
    let ruled = admin::ColumnFamily { gc_rule: Some(newest), value_type: None };
    let value_type = Some(admin::Type { kind: Some(Kind::AggregateType(Box::new(sum))) });
    let sums = admin::ColumnFamily { gc_rule: None, value_type };
    let families = [("ruled", ruled), ("sums", sums), ("empty", admin::ColumnFamily::default())];
    let column_families = families.map(|(name, family)| (name.to_owned(), family)).into();
    admin::Table { column_families, granularity: MICROS, ..Default::default() }
}

fn channel(setting: &Setting) -> Channel {
    let address = format!("http://{}", setting.server.bigtable());
    Endpoint::from_shared(address).unwrap().connect_lazy()
}

/// Makes the table `name`, and a row in it whose sum is 5 at the odd microsecond 1001.
async fn make(setting: &Setting, name: &str) {
    let request = admin::CreateTableRequest {
        parent: INSTANCE.into(),
        table_id: name.into(),
        table: Some(schema()),
        ..Default::default()
    };
    BigtableTableAdminClient::new(channel(setting)).create_table(request).await.unwrap();
    let value = |kind| Some(data::Value { kind: Some(kind), ..Default::default() });
    let add = |input| {
        Mutation::AddToCell(AddToCell {
            family_name: "sums".into(),
            column_qualifier: value(data::value::Kind::RawValue("n".into())),
            timestamp: value(data::value::Kind::RawTimestampMicros(1001)),
            input: value(data::value::Kind::IntValue(input)),
        })
    };
    let set = Mutation::SetCell(SetCell {
        family_name: "ruled".into(),
        column_qualifier: "q".into(),
        timestamp_micros: 7,
        value: "v".into(),
    });
    let mutations = [add(2), add(3), set];
    let request = data::MutateRowRequest {
        table_name: format!("{INSTANCE}/tables/{name}"),
        row_key: "k".into(),
        mutations: mutations.map(|it| data::Mutation { mutation: Some(it) }).into(),
        ..Default::default()
    };
    BigtableClient::new(channel(setting)).mutate_row(request).await.unwrap();
}

async fn described(setting: &Setting, name: &str) -> admin::Table {
    let request = admin::GetTableRequest {
        name: format!("{INSTANCE}/tables/{name}"),
        view: admin::table::View::SchemaView as i32,
    };
    let client = BigtableTableAdminClient::new(channel(setting)).get_table(request).await;
    admin::Table { name: String::new(), ..client.unwrap().into_inner() }
}

/// Runs the binary beside the server's directory, with `args`.
fn command(setting: &Setting, args: &[&str]) -> Output {
    let address = setting.server.bigtable().to_string();
    let mut command = stele();
    command.args(args).env("BIGTABLE_EMULATOR_HOST", address).stdin(Stdio::null());
    command.current_dir(setting.root.path()).output().unwrap()
}

#[test]
fn an_import_creates_the_table_that_was_exported_and_adds_nothing_twice() {
    let runtime = Runtime::new().unwrap();
    let mut setting = Setting::new();
    runtime.block_on(make(&setting, "t"));
    let row = succeeded(&command(&setting, &["export", "-", "--table", "t", "--format", "jsonl"]));
    assert!(row.contains(r#""timestamp":1001,"value":"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05""#));
    succeeded(&command(&setting, &["export", "served", "--table", "t", "--format", "parquet"]));
    for (at, table) in ["t2", "t2", "t3"].into_iter().enumerate() {
        let args = ["import", "served", "--table", table, "--create-table"];
        let said = succeeded(&command(&setting, &args));
        assert!(said.starts_with("imported 1 rows with 2 cells"), "{at}: {said}");
        let there = ["export", "-", "--table", table, "--format", "jsonl"];
        assert_eq!(succeeded(&command(&setting, &there)), row, "{at}");
        let (got, want) = runtime
            .block_on(async { (described(&setting, table).await, described(&setting, "t").await) });
        assert_eq!(got, want, "{at}");
        assert_eq!((got.granularity, got.column_families.len()), (MICROS, 3), "{at}");
    }
    // A closed directory tells the same schema, and takes it.
    assert!(setting.server.terminate().success());
    let from = ["--data-dir", "data"];
    let args = ["export", "closed", "--table", "t"];
    succeeded(&command(&setting, &[&args[..], &from].concat()));
    let args = ["import", "closed", "--table", "t4", "--create-table", "--data-dir", "new"];
    succeeded(&command(&setting, &args));
    let there = ["export", "-", "--table", "t4", "--data-dir", "new", "--format", "jsonl"];
    assert_eq!(succeeded(&command(&setting, &there)), row);
}

/// Makes the table `name` without rows.
async fn make_empty(setting: &Setting, name: &str) {
    let request = admin::CreateTableRequest {
        parent: INSTANCE.into(),
        table_id: name.into(),
        table: Some(schema()),
        ..Default::default()
    };
    BigtableTableAdminClient::new(channel(setting)).create_table(request).await.unwrap();
}

/// Such as the rejects of an import, which do not tell which families add up: the table does.
#[test]
fn sums_of_a_single_file_go_to_a_table_that_adds_them_up() {
    let runtime = Runtime::new().unwrap();
    let mut setting = Setting::new();
    runtime.block_on(make(&setting, "t"));
    runtime.block_on(make_empty(&setting, "t2"));
    runtime.block_on(make_empty(&setting, "t3"));
    let row = succeeded(&command(&setting, &["export", "-", "--table", "t", "--format", "jsonl"]));
    let rejected = row.replacen('{', "{\"rejected\":\"record 1: too long\",", 1);
    std::fs::write(setting.root.path().join("t.rejects"), rejected).unwrap();
    let file = ["import", "t.rejects", "--format", "export-jsonl"];
    for more in [&[][..], &["--restart"], &["--create-table", "--restart"]] {
        let said = succeeded(&command(&setting, &[&file, &["--table", "t2"][..], more].concat()));
        assert!(said.starts_with("imported 1 rows with 2 cells"), "{said}");
        let there = ["export", "-", "--table", "t2", "--format", "jsonl"];
        assert_eq!(succeeded(&command(&setting, &there)), row);
    }
    assert!(setting.server.terminate().success());
    let dir = ["--table", "t3", "--data-dir", "data"];
    succeeded(&command(&setting, &[&file, &dir[..]].concat()));
    let there = [&["export", "-", "--format", "jsonl"], &dir[..]].concat();
    assert_eq!(succeeded(&command(&setting, &there)), row);
}

/// Replaces the schema of the export in `dir`; `None` takes it away.
fn set_schema(setting: &Setting, dir: &str, schema: Option<&admin::Table>) {
    let path = setting.root.path().join(dir).join("export.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    match schema {
        Some(schema) => manifest["schema"] = STANDARD.encode(schema.encode_to_vec()).into(),
        None => drop(manifest.as_object_mut().unwrap().remove("schema")),
    }
    std::fs::write(&path, manifest.to_string()).unwrap();
}

#[test]
fn no_family_is_created_of_which_the_export_does_not_tell_whether_it_adds_up() {
    let runtime = Runtime::new().unwrap();
    let setting = Setting::new();
    runtime.block_on(make(&setting, "t"));
    succeeded(&command(&setting, &["export", "out", "--table", "t"]));
    set_schema(&setting, "out", None);
    let create = ["import", "out", "--table", "t2", "--create-table"];
    let refused = command(&setting, &create);
    assert!(stderr(&refused).contains("does not tell the schema"), "{}", stderr(&refused));
    let refused = command(&setting, &create[..4]);
    assert!(stderr(&refused).contains("not found"), "no table: {}", stderr(&refused));

    let mut outdated = schema();
    outdated.column_families.remove("sums");
    set_schema(&setting, "out", Some(&outdated));
    let refused = command(&setting, &create);
    assert!(stderr(&refused).contains("family sums is not in the schema"), "{}", stderr(&refused));

    // A table that was made as the other was takes them, whatever the export tells.
    runtime.block_on(make_empty(&setting, "t3"));
    let row = succeeded(&command(&setting, &["export", "-", "--table", "t", "--format", "jsonl"]));
    for schema in [None, Some(&outdated)] {
        set_schema(&setting, "out", schema);
        succeeded(&command(&setting, &["import", "out", "--table", "t3", "--restart"]));
        let there = ["export", "-", "--table", "t3", "--format", "jsonl"];
        assert_eq!(succeeded(&command(&setting, &there)), row);
    }
}

#[test]
fn a_malformed_schema_is_refused_by_name() {
    let runtime = Runtime::new().unwrap();
    let setting = Setting::new();
    runtime.block_on(make(&setting, "t"));
    succeeded(&command(&setting, &["export", "out", "--table", "t"]));
    let path = setting.root.path().join("out/export.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text.find("\"schema\"").unwrap() + "\"schema\":\"".len();
    let (start, rest) = text.split_at(text[at..].find(|it| it != '"' && it != ' ').unwrap() + at);
    let end = &rest[rest.find('"').unwrap()..];
    for (schema, says) in
        [("@@@", "the schema in export.json"), ("/w==", "the schema in export.json")]
    {
        std::fs::write(&path, format!("{start}{schema}{end}")).unwrap();
        let output = command(&setting, &["import", "out", "--table", "t2", "--create-table"]);
        assert!(!output.status.success());
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}
