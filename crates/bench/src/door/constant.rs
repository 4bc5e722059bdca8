//! A server of the same library as Stele's front that answers every call with constants: what the
//! library alone costs.
//!
//! It looks at as little of a request as it can: how many rows a read wants, how many entries a bulk
//! mutation has.

use super::data;
use crate::AnyError;
use bench_core::print;
use data::read_rows_response::CellChunk;
use data::read_rows_response::cell_chunk::RowStatus;
use futures::stream::{self, BoxStream};
use server::bigtable_server::{Bigtable, BigtableServer};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

#[allow(unreachable_pub, clippy::all)]
mod server {
    include!(concat!(env!("OUT_DIR"), "/google.bigtable.v2.Bigtable.rs"));
}

/// Rows of one message of a read.
const ROWS_PER_MESSAGE: usize = 100;

/// Serves on a free port of loopback, whose address it prints, until standard input ends.
pub(crate) fn run(value_bytes: usize) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        print(&listener.local_addr()?.to_string());
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let service = BigtableServer::new(Constant::new(value_bytes));
        let service = service.max_decoding_message_size(256 << 20);
        tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming_shutdown(incoming, super::end_of_input())
            .await?;
        Ok(())
    })
}

/// The answers, of which the row is made once.
struct Constant {
    row: CellChunk,
}

impl Constant {
    fn new(value_bytes: usize) -> Self {
        let row = CellChunk {
            row_key: b"row0000000000".to_vec().into(),
            family_name: Some("f".to_owned()),
            qualifier: Some(b"q".to_vec()),
            timestamp_micros: 1_000_000,
            value: vec![7; value_bytes].into(),
            row_status: Some(RowStatus::CommitRow(true)),
            ..Default::default()
        };
        Self { row }
    }

    /// A message of `rows` rows. Clients want keys that ascend.
    fn message(&self, rows: std::ops::Range<usize>) -> data::ReadRowsResponse {
        let chunk = |number| CellChunk {
            row_key: format!("row{number:010}").into_bytes().into(),
            ..self.row.clone()
        };
        data::ReadRowsResponse { chunks: rows.map(chunk).collect(), ..Default::default() }
    }
}

type Answers<T> = BoxStream<'static, Result<T, Status>>;

#[tonic::async_trait]
impl Bigtable for Constant {
    type ReadRowsStream = Answers<data::ReadRowsResponse>;
    type MutateRowsStream = Answers<data::MutateRowsResponse>;

    async fn read_rows(
        &self,
        request: Request<data::ReadRowsRequest>,
    ) -> Result<Response<Self::ReadRowsStream>, Status> {
        let rows = usize::try_from(request.get_ref().rows_limit).unwrap_or(1).clamp(1, 1 << 20);
        if rows == 1 {
            let row =
                data::ReadRowsResponse { chunks: vec![self.row.clone()], ..Default::default() };
            return Ok(Response::new(Box::pin(stream::iter([Ok(row)]))));
        }
        let firsts = (0..rows).step_by(ROWS_PER_MESSAGE);
        let messages: Vec<_> =
            firsts.map(|at| Ok(self.message(at..rows.min(at + ROWS_PER_MESSAGE)))).collect();
        Ok(Response::new(Box::pin(stream::iter(messages))))
    }

    async fn mutate_row(
        &self,
        _request: Request<data::MutateRowRequest>,
    ) -> Result<Response<data::MutateRowResponse>, Status> {
        Ok(Response::new(data::MutateRowResponse {}))
    }

    async fn mutate_rows(
        &self,
        request: Request<data::MutateRowsRequest>,
    ) -> Result<Response<Self::MutateRowsStream>, Status> {
        let entry = |index| data::mutate_rows_response::Entry {
            index: index as i64,
            status: Some(Default::default()),
        };
        let entries = (0..request.get_ref().entries.len()).map(entry).collect();
        let answer = data::MutateRowsResponse { entries, ..Default::default() };
        Ok(Response::new(Box::pin(stream::iter([Ok(answer)]))))
    }

    async fn read_modify_write_row(
        &self,
        request: Request<data::ReadModifyWriteRowRequest>,
    ) -> Result<Response<data::ReadModifyWriteRowResponse>, Status> {
        let cell =
            data::Cell { timestamp_micros: 1_000_000, value: vec![0; 8].into(), labels: vec![] };
        let column = data::Column { qualifier: b"n".to_vec().into(), cells: vec![cell] };
        let family = data::Family { name: "f".to_owned(), columns: vec![column] };
        let row = data::Row { key: request.into_inner().row_key, families: vec![family] };
        Ok(Response::new(data::ReadModifyWriteRowResponse { row: Some(row) }))
    }

    async fn ping_and_warm(
        &self,
        _request: Request<data::PingAndWarmRequest>,
    ) -> Result<Response<data::PingAndWarmResponse>, Status> {
        Ok(Response::new(data::PingAndWarmResponse {}))
    }
}
