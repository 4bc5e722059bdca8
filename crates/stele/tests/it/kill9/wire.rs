//! A small Bigtable client over the published stubs: the calls that the drill makes, an error for
//! each that was not acknowledged.

use bytes::Bytes;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Error};

const INSTANCE: &str = "projects/p/instances/kill9";
const TABLE: &str = "projects/p/instances/kill9/tables/t";
/// Families of whole rows, of things kept forever, of counters by read-modify-write, of sums.
const FAMILIES: [&str; 5] = ["a", "b", "kept", "count", "sum"];

/// The cells of a row: family and qualifier to values, newest first.
pub(crate) type Cells = BTreeMap<(String, String), Vec<Bytes>>;

pub(crate) struct Client {
    data: data::bigtable_client::BigtableClient<Channel>,
    admin: admin::bigtable_table_admin_client::BigtableTableAdminClient<Channel>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).await.expect("the server accepts connections")
    }

    /// As `connect`, to a server that may be killed meanwhile.
    pub(crate) async fn try_connect(address: SocketAddr) -> Result<Self, Error> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel = endpoint.connect().await?;
        let data = data::bigtable_client::BigtableClient::new(channel.clone());
        let data = data.max_decoding_message_size(64 << 20);
        let admin = admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel);
        Ok(Self { data, admin })
    }

    pub(crate) async fn create_table(&mut self) {
        self.try_create_table().await.unwrap();
    }

    pub(crate) async fn try_create_table(&mut self) -> Result<(), Status> {
        let families = FAMILIES.map(|name| (name.to_owned(), family(name)));
        let table = admin::Table { column_families: families.into(), ..Default::default() };
        let splits = ["w3", "w5"].map(|key| admin::create_table_request::Split { key: key.into() });
        let request = admin::CreateTableRequest {
            parent: INSTANCE.into(),
            table_id: "t".into(),
            table: Some(table),
            initial_splits: splits.into(),
        };
        self.admin.create_table(request).await.map(drop)
    }

    pub(crate) async fn mutate_row(
        &mut self,
        row: &str,
        mutations: Vec<data::Mutation>,
    ) -> Result<(), Status> {
        let request = data::MutateRowRequest {
            table_name: TABLE.into(),
            row_key: row.to_owned().into(),
            mutations,
            ..Default::default()
        };
        self.data.mutate_row(request).await.map(drop)
    }

    /// Sends a batch and gives the entries that were acknowledged, and the error that ended it.
    pub(crate) async fn mutate_rows(
        &mut self,
        rows: Vec<(String, Vec<data::Mutation>)>,
    ) -> (Vec<usize>, Result<(), Status>) {
        let entry = |(row, mutations): (String, _)| data::mutate_rows_request::Entry {
            row_key: row.into(),
            mutations,
            ..Default::default()
        };
        let request = data::MutateRowsRequest {
            table_name: TABLE.into(),
            entries: rows.into_iter().map(entry).collect(),
            ..Default::default()
        };
        let mut acknowledged = Vec::new();
        let mut replies = match self.data.mutate_rows(request).await {
            Ok(replies) => replies.into_inner(),
            Err(error) => return (acknowledged, Err(error)),
        };
        loop {
            match replies.message().await {
                Ok(Some(reply)) => {
                    for entry in reply.entries {
                        let status = entry.status.unwrap_or_default();
                        assert_eq!(status.code, 0, "{}", status.message);
                        acknowledged.push(usize::try_from(entry.index).unwrap());
                    }
                }
                Ok(None) => return (acknowledged, Ok(())),
                Err(error) => return (acknowledged, Err(error)),
            }
        }
    }

    /// Applies `mutations` if the row has a cell in family `a`, else `otherwise`.
    pub(crate) async fn mutate_if_present(
        &mut self,
        row: &str,
        mutations: Vec<data::Mutation>,
        otherwise: Vec<data::Mutation>,
    ) -> Result<bool, Status> {
        let filter = data::row_filter::Filter::FamilyNameRegexFilter("a".into());
        let request = data::CheckAndMutateRowRequest {
            table_name: TABLE.into(),
            row_key: row.to_owned().into(),
            predicate_filter: Some(data::RowFilter { filter: Some(filter) }),
            true_mutations: mutations,
            false_mutations: otherwise,
            ..Default::default()
        };
        Ok(self.data.check_and_mutate_row(request).await?.into_inner().predicate_matched)
    }

    /// Adds one to a counter and gives its new value.
    pub(crate) async fn increment(&mut self, row: &str) -> Result<u64, Status> {
        let rule = data::ReadModifyWriteRule {
            family_name: "count".into(),
            column_qualifier: "n".into(),
            rule: Some(data::read_modify_write_rule::Rule::IncrementAmount(1)),
        };
        let request = data::ReadModifyWriteRowRequest {
            table_name: TABLE.into(),
            row_key: row.to_owned().into(),
            rules: vec![rule],
            ..Default::default()
        };
        let row = self.data.read_modify_write_row(request).await?.into_inner().row.unwrap();
        Ok(integer(&row.families[0].columns[0].cells[0].value))
    }

    /// The rows whose keys start with `prefix`.
    pub(crate) async fn read(&mut self, prefix: &str) -> BTreeMap<String, Cells> {
        self.try_read(prefix).await.unwrap()
    }

    /// As `read`, of a server that may be killed meanwhile.
    pub(crate) async fn try_read(
        &mut self,
        prefix: &str,
    ) -> Result<BTreeMap<String, Cells>, Status> {
        use data::row_range::{EndKey, StartKey};
        let range = data::RowRange {
            start_key: Some(StartKey::StartKeyClosed(prefix.to_owned().into())),
            end_key: Some(EndKey::EndKeyOpen(format!("{prefix}\u{7f}").into())),
        };
        let request = data::ReadRowsRequest {
            table_name: TABLE.into(),
            rows: Some(data::RowSet { row_ranges: vec![range], ..Default::default() }),
            ..Default::default()
        };
        let mut replies = self.data.read_rows(request).await?.into_inner();
        let mut rows = BTreeMap::new();
        let mut reader = Reader::default();
        while let Some(reply) = replies.message().await? {
            for chunk in reply.chunks {
                reader.take(chunk, &mut rows);
            }
        }
        assert_eq!(reader.row, Cells::new(), "the last row was not committed");
        Ok(rows)
    }
}

/// Puts rows together again from chunks. The drill's values are too small to be split.
#[derive(Default)]
struct Reader {
    key: String,
    family: String,
    qualifier: String,
    row: Cells,
}

impl Reader {
    fn take(
        &mut self,
        chunk: data::read_rows_response::CellChunk,
        rows: &mut BTreeMap<String, Cells>,
    ) {
        use data::read_rows_response::cell_chunk::RowStatus;
        assert_eq!(chunk.value_size, 0, "a value was split");
        if !chunk.row_key.is_empty() {
            self.key = text(&chunk.row_key);
        }
        if let Some(family) = chunk.family_name {
            self.family = family;
        }
        if let Some(qualifier) = chunk.qualifier {
            self.qualifier = text(&qualifier);
        }
        let column = (self.family.clone(), self.qualifier.clone());
        self.row.entry(column).or_default().push(chunk.value);
        match chunk.row_status {
            Some(RowStatus::CommitRow(true)) => {
                let row = std::mem::take(&mut self.row);
                assert!(rows.insert(self.key.clone(), row).is_none(), "{} twice", self.key);
            }
            Some(RowStatus::ResetRow(true)) => self.row.clear(),
            _ => {}
        }
    }
}

fn family(name: &str) -> admin::ColumnFamily {
    use admin::r#type::{Aggregate, Int64, Kind, aggregate};
    let int64 = admin::Type { kind: Some(Kind::Int64Type(Int64::default())) };
    let sum = Aggregate {
        input_type: Some(Box::new(int64)),
        aggregator: Some(aggregate::Aggregator::Sum(aggregate::Sum {})),
        ..Default::default()
    };
    let newest = admin::GcRule { rule: Some(admin::gc_rule::Rule::MaxNumVersions(1)) };
    admin::ColumnFamily {
        gc_rule: (name == "count").then_some(newest),
        value_type: (name == "sum")
            .then(|| admin::Type { kind: Some(Kind::AggregateType(Box::new(sum))) }),
    }
}

pub(crate) fn set(family: &str, qualifier: &str, value: Bytes) -> data::Mutation {
    mutation(data::mutation::Mutation::SetCell(data::mutation::SetCell {
        family_name: family.into(),
        column_qualifier: qualifier.to_owned().into(),
        timestamp_micros: 1000,
        value,
    }))
}

pub(crate) fn add_one() -> data::Mutation {
    use data::value::Kind;
    let value = |kind| Some(data::Value { kind: Some(kind), ..Default::default() });
    mutation(data::mutation::Mutation::AddToCell(data::mutation::AddToCell {
        family_name: "sum".into(),
        column_qualifier: value(Kind::RawValue("n".into())),
        timestamp: value(Kind::RawTimestampMicros(1000)),
        input: value(Kind::IntValue(1)),
    }))
}

pub(crate) fn delete_row() -> data::Mutation {
    mutation(data::mutation::Mutation::DeleteFromRow(data::mutation::DeleteFromRow {}))
}

fn mutation(mutation: data::mutation::Mutation) -> data::Mutation {
    data::Mutation { mutation: Some(mutation) }
}

/// A counter's or a sum's value.
pub(crate) fn integer(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("a counter has eight bytes"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the drill writes text")
}
