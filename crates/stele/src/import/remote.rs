//! Rows through the Bigtable service of a running server.

use super::target::{Failure, Target};
use crate::connect::{Channel, Server, answered};
use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use engine::Timestamp;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use table::mutate::WriteTime;
use table::{RowMutation, RowMutations, TableName};
use tonic::{Code, Status};

use admin::bigtable_table_admin_client::BigtableTableAdminClient;
use admin::modify_column_families_request::{Modification, modification::Mod};
use data::bigtable_client::BigtableClient;
use data::column_range::{EndQualifier, StartQualifier};
use data::mutate_rows_request::Entry;
use data::mutation::{Mutation, SetCell};
use data::row_filter::Filter;

/// A connection to a server.
pub(crate) struct Remote {
    channel: Channel,
    table: TableName,
}

impl Remote {
    /// Connects to a running server.
    pub(crate) async fn connect(server: Server, table: TableName) -> Result<Self> {
        let instead = "import into the data directory of a stopped server with --data-dir";
        Ok(Self { channel: server.bigtable(instead).await?, table })
    }

    fn parent(&self) -> &str {
        self.table.as_str().rsplit_once("/tables/").map_or("", |(parent, _)| parent)
    }
}

#[async_trait]
impl Target for Remote {
    async fn create_table(&self, schema: &admin::Table) -> Result<(), Failure> {
        let mut client = BigtableTableAdminClient::new(self.channel.clone());
        let request = admin::CreateTableRequest {
            parent: self.parent().to_owned(),
            table_id: self.table.id().to_owned(),
            table: Some(schema.clone()),
            initial_splits: Vec::new(),
        };
        match answered(client.create_table(request)).await {
            Ok(_) => return Ok(()),
            Err(status) if status.code() == Code::AlreadyExists => {}
            Err(status) => return Err(not_created(&status).of("could not create the table")),
        }
        for (name, family) in &schema.column_families {
            let create = Mod::Create(family.clone());
            let modification =
                Modification { id: name.clone(), r#mod: Some(create), ..Default::default() };
            let request = admin::ModifyColumnFamiliesRequest {
                name: self.table.to_string(),
                modifications: vec![modification],
                ..Default::default()
            };
            match answered(client.modify_column_families(request)).await {
                Ok(_) => {}
                Err(status) if status.code() == Code::AlreadyExists => {}
                Err(status) => {
                    return Err(not_created(&status).of(&format!("could not add family {name}")));
                }
            }
        }
        Ok(())
    }

    async fn schema(&self) -> Result<Option<admin::Table>, Failure> {
        schema(&self.channel, &self.table).await.map_err(whole)
    }

    /// The consistency token: the server says by it which table this is, and in which life of the server.
    async fn identity(&self) -> Result<String, Failure> {
        let mut client = BigtableTableAdminClient::new(self.channel.clone());
        let request = admin::GenerateConsistencyTokenRequest { name: self.table.to_string() };
        let token = answered(client.generate_consistency_token(request)).await.map_err(whole)?;
        Ok(token.into_inner().consistency_token)
    }

    async fn write(&self, rows: &[RowMutations]) -> Result<Vec<Result<(), Failure>>, Failure> {
        let mut client =
            BigtableClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        let request = data::MutateRowsRequest {
            table_name: self.table.to_string(),
            entries: rows.iter().map(entry).collect(),
            ..Default::default()
        };
        let answers = answered(client.mutate_rows(request)).await.map_err(whole)?;
        let mut answers = answers.into_inner();
        let unanswered = Failure::Later("the server returned no result for the row".into());
        let mut outcomes = vec![Err(unanswered); rows.len()];
        while let Some(answer) = answered(answers.message()).await.map_err(whole)? {
            for entry in answer.entries {
                let index = usize::try_from(entry.index).unwrap_or(usize::MAX);
                let Some(outcome) = outcomes.get_mut(index) else {
                    return Err(Failure::Fatal(
                        "the server returned a result for a row that was not sent".into(),
                    ));
                };
                let status = entry.status.unwrap_or_default();
                *outcome = match Code::from(status.code) {
                    Code::Ok => Ok(()),
                    code => Err(failure(code, &status.message)),
                };
            }
        }
        Ok(outcomes)
    }

    /// A server that says that a token is consistent has on disk what it acknowledged since.
    async fn sync(&self, identity: &str) -> Result<(), Failure> {
        let mut client = BigtableTableAdminClient::new(self.channel.clone());
        let request = admin::CheckConsistencyRequest {
            name: self.table.to_string(),
            consistency_token: identity.to_owned(),
            ..Default::default()
        };
        let answer = answered(client.check_consistency(request)).await.map_err(whole)?;
        match answer.into_inner().consistent {
            true => Ok(()),
            false => Err(Failure::Later("the server is not yet consistent".into())),
        }
    }

    async fn has(
        &self,
        row: &[u8],
        (family, qualifier): (&str, &[u8]),
        from: Timestamp,
    ) -> Result<bool, Failure> {
        let qualifier = Bytes::copy_from_slice(qualifier);
        let columns = data::ColumnRange {
            family_name: family.to_owned(),
            start_qualifier: Some(StartQualifier::StartQualifierClosed(qualifier.clone())),
            end_qualifier: Some(EndQualifier::EndQualifierClosed(qualifier)),
        };
        let times = data::TimestampRange { start_timestamp_micros: from.0, ..Default::default() };
        let filters = [
            Filter::ColumnRangeFilter(columns),
            Filter::TimestampRangeFilter(times),
            Filter::CellsPerColumnLimitFilter(1),
            Filter::StripValueTransformer(true),
        ];
        let filters = filters.map(|filter| data::RowFilter { filter: Some(filter) }).into();
        let filter = Filter::Chain(data::row_filter::Chain { filters });
        let rows =
            data::RowSet { row_keys: vec![Bytes::copy_from_slice(row)], ..Default::default() };
        let request = data::ReadRowsRequest {
            table_name: self.table.to_string(),
            rows: Some(rows),
            filter: Some(data::RowFilter { filter: Some(filter) }),
            ..Default::default()
        };
        let mut client = BigtableClient::new(self.channel.clone());
        let answers = answered(client.read_rows(request)).await.map_err(whole)?;
        let mut answers = answers.into_inner();
        while let Some(answer) = answered(answers.message()).await.map_err(whole)? {
            if !answer.chunks.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Returns what an export keeps of a table's schema; `None` if the server does not tell it.
pub(crate) async fn schema(
    channel: &Channel,
    table: &TableName,
) -> Result<Option<admin::Table>, Status> {
    let mut client = BigtableTableAdminClient::new(channel.clone());
    let view = admin::table::View::SchemaView as i32;
    let request = admin::GetTableRequest { name: table.to_string(), view };
    let table = match answered(client.get_table(request)).await {
        Ok(table) => table.into_inner(),
        Err(status) if matches!(status.code(), Code::Unimplemented | Code::PermissionDenied) => {
            return Ok(None);
        }
        Err(status) => return Err(status),
    };
    let admin::Table { granularity, column_families, row_key_schema, .. } = table;
    Ok(Some(admin::Table { granularity, column_families, row_key_schema, ..Default::default() }))
}

fn entry(row: &RowMutations) -> Entry {
    let mutations = row.mutations.iter().map(|mutation| data::Mutation {
        mutation: Some(match mutation {
            RowMutation::SetCell { family, qualifier, timestamp, value } => {
                Mutation::SetCell(SetCell {
                    family_name: family.clone(),
                    column_qualifier: qualifier.clone(),
                    timestamp_micros: match timestamp {
                        WriteTime::Server => -1,
                        WriteTime::At(at) | WriteTime::Truncated(at) => at.0,
                    },
                    value: value.clone(),
                })
            }
            RowMutation::MergeToCell { family, qualifier, timestamp: WriteTime::At(at), state } => {
                Mutation::MergeToCell(data::mutation::MergeToCell {
                    family_name: family.clone(),
                    column_qualifier: Some(raw(data::value::Kind::RawValue(qualifier.clone()))),
                    timestamp: Some(raw(data::value::Kind::RawTimestampMicros(at.0))),
                    input: Some(raw(data::value::Kind::RawValue(state.clone()))),
                })
            }
            RowMutation::DeleteFromColumn { family, qualifier, range } => {
                Mutation::DeleteFromColumn(data::mutation::DeleteFromColumn {
                    family_name: family.clone(),
                    column_qualifier: qualifier.clone(),
                    time_range: Some(data::TimestampRange {
                        start_timestamp_micros: range.start.0,
                        end_timestamp_micros: range.end.map_or(0, |end| end.0),
                    }),
                })
            }
            other => unreachable!("an import sets and merges cells, and does not {other:?}"),
        }),
    });
    Entry { row_key: row.row.clone(), mutations: mutations.collect(), ..Default::default() }
}

fn raw(kind: data::value::Kind) -> data::Value {
    data::Value { kind: Some(kind), ..Default::default() }
}

/// Converts the error of a whole request.
fn whole(status: Status) -> Failure {
    failure(status.code(), status.message())
}

fn failure(code: Code, message: &str) -> Failure {
    let text = message.to_owned();
    match code {
        Code::InvalidArgument | Code::OutOfRange => Failure::Refused(text),
        Code::NotFound => Failure::Fatal(format!(
            "{text}; pass --create-table to create missing tables and families"
        )),
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted | Code::DeadlineExceeded => {
            Failure::Later(text)
        }
        code => Failure::Fatal(format!("{code:?}: {text}")),
    }
}

/// Converts the error of a request to create something. A refusal by what the table has is final.
fn not_created(status: &Status) -> Failure {
    let text = status.message().to_owned();
    match status.code() {
        Code::NotFound => Failure::Fatal(text),
        Code::FailedPrecondition => Failure::Refused(text),
        code => failure(code, &text),
    }
}
