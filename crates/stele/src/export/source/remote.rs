//! Rows through the Bigtable service of a server.

use super::chunks::Chunks;
use super::gather::Piece;
use super::{Pieces, Source};
use crate::connect::{Channel, Server, answered};
use crate::export::selection::Range;
use crate::import::{self, target::Failure};
use anyhow::Result;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use prost::Message;
use std::error::Error as _;
use table::{Bytes, TableIdentity, TableName};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status, Streaming};

use admin::bigtable_table_admin_client::BigtableTableAdminClient;
use data::bigtable_client::BigtableClient;
use data::row_range::{EndKey, StartKey};

/// A connection to a server.
pub(in crate::export) struct Remote {
    channel: Channel,
    table: TableName,
    filter: Option<data::RowFilter>,
}

impl Remote {
    /// Connects to a running server.
    pub(in crate::export) async fn connect(
        server: Server,
        table: TableName,
        filter: Option<data::RowFilter>,
    ) -> Result<Self> {
        let instead = "export from the data directory of a stopped server with --data-dir";
        Ok(Self { channel: server.bigtable(instead).await?, table, filter })
    }
}

#[async_trait]
impl Source for Remote {
    /// Returns the consistency token if it tells the table, as a server of Stele's does.
    async fn identity(&self) -> Result<String, Failure> {
        let mut client = BigtableTableAdminClient::new(self.channel.clone());
        let request = admin::GenerateConsistencyTokenRequest { name: self.table.to_string() };
        let token = match answered(client.generate_consistency_token(request)).await {
            Ok(token) => token.into_inner().consistency_token,
            Err(status) => match status.code() {
                Code::Unimplemented | Code::PermissionDenied => String::new(),
                _ => return Err(failed(&status)),
            },
        };
        let named =
            token.strip_prefix(self.table.as_str()).is_some_and(|rest| rest.starts_with('@'));
        Ok(if named { TableIdentity::lasting(&token).to_owned() } else { String::new() })
    }

    async fn schema(&self) -> Result<Option<admin::Table>, Failure> {
        import::remote::schema(&self.channel, &self.table).await.map_err(|status| failed(&status))
    }

    async fn read(&self, range: &Range) -> Result<Box<dyn Pieces>, Failure> {
        let key = |key: &Vec<u8>| Bytes::copy_from_slice(key);
        let wire = data::RowRange {
            start_key: Some(StartKey::StartKeyClosed(key(&range.start))),
            end_key: range.end.as_ref().map(|end| EndKey::EndKeyOpen(key(end))),
        };
        let mut request = Request::new(data::ReadRowsRequest {
            table_name: self.table.to_string(),
            rows: Some(data::RowSet { row_keys: Vec::new(), row_ranges: vec![wire] }),
            filter: self.filter.clone(),
            ..Default::default()
        });
        request.metadata_mut().insert("bigtable-features", features());
        let mut client = BigtableClient::new(self.channel.clone())
            .max_decoding_message_size(bigtable::REQUEST_BYTES_MAX);
        let answers = answered(client.read_rows(request)).await.map_err(|why| failed(&why))?;
        Ok(Box::new(Rows { answers: answers.into_inner(), chunks: Chunks::new(range.clone()) }))
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Asks the server to tell how far it is while a filter lets no row pass, so that it is not silent.
fn features() -> MetadataValue<tonic::metadata::Ascii> {
    let flags = data::FeatureFlags { last_scanned_row_responses: true, ..Default::default() };
    let header = URL_SAFE.encode(flags.encode_to_vec());
    header.parse().expect("base64 is legal in a header")
}

/// Converts the error of a request. A broken connection is tried again.
fn failed(status: &Status) -> Failure {
    let text = status.message().to_owned();
    match status.code() {
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted | Code::DeadlineExceeded => {
            Failure::Later(text)
        }
        _ if status.source().is_some() => Failure::Later(text),
        Code::NotFound | Code::InvalidArgument => Failure::Fatal(text),
        code => Failure::Fatal(format!("{code:?}: {text}")),
    }
}

/// The rows of one read.
struct Rows {
    answers: Streaming<data::ReadRowsResponse>,
    chunks: Chunks,
}

#[async_trait]
impl Pieces for Rows {
    async fn next(&mut self) -> Result<Option<Vec<Piece>>, Failure> {
        match answered(self.answers.message()).await.map_err(|status| failed(&status))? {
            Some(answer) => Ok(Some(self.chunks.take(answer)?)),
            None if self.chunks.is_between_rows() => Ok(None),
            None => Err(Failure::Later("the server ended its answer within a row".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::ConnectArgs;
    use std::net::TcpListener;
    use std::time::Duration;

    /// A server that takes connections and never says a word, as a frozen process does.
    #[tokio::test]
    async fn a_silent_server_is_given_up() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let server = ConnectArgs::default().server(&address, "h2").unwrap();
        let table = TableName::new("projects/p/instances/i/tables/t").unwrap();
        let remote = Remote::connect(server, table, None).await.unwrap();
        tokio::time::pause();
        let asked = tokio::time::Instant::now();
        let Err(Failure::Later(_)) = remote.identity().await else { panic!("an answer") };
        let Err(Failure::Later(_)) = remote.read(&Range::default()).await else { panic!("rows") };
        assert!(asked.elapsed() < Duration::from_secs(300), "{:?}", asked.elapsed());
    }
}
