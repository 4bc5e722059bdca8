//! Rows through the Bigtable service of a running server.

use super::target::{Failure, Target};
use crate::connect::Server;
use anyhow::{Context, Result};
use async_trait::async_trait;
use bytes::Bytes;
use engine::Timestamp;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use table::mutate::WriteTime;
use table::{RowMutation, RowMutations, TableName};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tower::service_fn;

use admin::bigtable_table_admin_client::BigtableTableAdminClient;
use admin::modify_column_families_request::{Modification, modification::Mod};
use data::bigtable_client::BigtableClient;
use data::column_range::{EndQualifier, StartQualifier};
use data::mutate_rows_request::Entry;
use data::mutation::{Mutation, SetCell};
use data::row_filter::Filter;

/// A connection to a server.
pub(crate) struct Remote {
    channel: InterceptedService<Channel, Authorize>,
    table: TableName,
}

/// Adds the token to each request.
#[derive(Clone)]
struct Authorize(Server);

impl Interceptor for Authorize {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let token = self.0.authorization();
        if let Some(token) = token.map_err(|error| Status::unauthenticated(format!("{error:#}")))? {
            request.metadata_mut().insert("authorization", token);
        }
        Ok(request)
    }
}

impl Remote {
    /// Connects to a running server.
    pub(crate) async fn connect(server: Server, table: TableName) -> Result<Self> {
        let address = server.address.clone();
        let scheme = if server.is_secured() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .with_context(|| format!("{address:?} is not HOST:PORT"))?
            .origin(
                format!("{scheme}://{address}")
                    .parse()
                    .with_context(|| format!("{address:?} is not HOST:PORT"))?,
            );
        let authorize = Authorize(server.clone());
        let open = service_fn(move |_| {
            let server = server.clone();
            async move { server.open().await.map(TokioIo::new) }
        });
        let channel = endpoint.connect_with_connector(open).await.with_context(|| {
            format!(
                "no server responds at {address}; start one with `stele serve`, pass another \
                 address with --endpoint, or import into the data directory of a stopped server \
                 with --data-dir"
            )
        })?;
        Ok(Self { channel: InterceptedService::new(channel, authorize), table })
    }

    fn parent(&self) -> &str {
        self.table.as_str().rsplit_once("/tables/").map_or("", |(parent, _)| parent)
    }
}

#[async_trait]
impl Target for Remote {
    async fn create_table(&self, families: &[String]) -> Result<()> {
        let mut client = BigtableTableAdminClient::new(self.channel.clone());
        let family = |name: &String| (name.clone(), admin::ColumnFamily::default());
        let column_families: BTreeMap<_, _> = families.iter().map(family).collect();
        let table = admin::Table { column_families, ..Default::default() };
        let request = admin::CreateTableRequest {
            parent: self.parent().to_owned(),
            table_id: self.table.id().to_owned(),
            table: Some(table),
            initial_splits: Vec::new(),
        };
        match client.create_table(request).await {
            Ok(_) => return Ok(()),
            Err(status) if status.code() == Code::AlreadyExists => {}
            Err(status) => return Err(said(&status)).context("could not create the table"),
        }
        for name in families {
            let create = Mod::Create(admin::ColumnFamily::default());
            let modification =
                Modification { id: name.clone(), r#mod: Some(create), ..Default::default() };
            let request = admin::ModifyColumnFamiliesRequest {
                name: self.table.to_string(),
                modifications: vec![modification],
                ..Default::default()
            };
            match client.modify_column_families(request).await {
                Ok(_) => {}
                Err(status) if status.code() == Code::AlreadyExists => {}
                Err(status) => {
                    return Err(said(&status))
                        .with_context(|| format!("could not add family {name}"));
                }
            }
        }
        Ok(())
    }

    /// The consistency token: the server says by it which table this is, and in which life of the server.
    async fn identity(&self) -> Result<String, Failure> {
        let mut client = BigtableTableAdminClient::new(self.channel.clone());
        let request = admin::GenerateConsistencyTokenRequest { name: self.table.to_string() };
        let token = client.generate_consistency_token(request).await.map_err(whole)?;
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
        let mut answers = client.mutate_rows(request).await.map_err(whole)?.into_inner();
        let unanswered = Failure::Later("the server returned no result for the row".into());
        let mut outcomes = vec![Err(unanswered); rows.len()];
        while let Some(answer) = answers.message().await.map_err(whole)? {
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
        match client.check_consistency(request).await.map_err(whole)?.into_inner().consistent {
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
        let mut answers = client.read_rows(request).await.map_err(whole)?.into_inner();
        while let Some(answer) = answers.message().await.map_err(whole)? {
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
            other => unreachable!("an import can only set cells, not {other:?}"),
        }),
    });
    Entry { row_key: row.row.clone(), mutations: mutations.collect(), ..Default::default() }
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

fn said(status: &Status) -> anyhow::Error {
    anyhow::anyhow!("{}", status.message())
}
