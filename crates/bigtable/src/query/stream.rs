//! The messages of an execution.
//!
//! Each batch of rows is an encoded `ProtoRows`, in as many messages as it needs. The last one has the
//! checksum of the batch, and a token with which the execution resumes after it. A stretch of the
//! table without a row to show for it gives a token alone.
//!
//! Invariants:
//! 1. The first message of a stream says that what came after the last token is void.
//! 2. The last message has a token that says so; who resumes with it gets it again, and no rows.

use super::rows::Batch;
use super::sql::Refusal;
use super::status;
use super::tokens::Progress;
use crate::api::data::execute_query_response::Response;
use crate::api::data::partial_result_set::PartialRows;
use crate::api::data::{ExecuteQueryResponse, PartialResultSet, ProtoRowsBatch};
use crate::call::bounds::answers::Answer;
use crate::call::status::from_error;
use base::checksum::crc32c;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use table::RowStream;
use table::meter::Outcome;
use tonic::Status;

/// Longest piece of a batch: clients take messages of 4 MiB.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// The rest of an execution. Dropping it ends the read.
#[derive(Debug)]
pub(super) struct Results {
    /// Messages to send before more rows are read.
    pub(super) ready: VecDeque<ExecuteQueryResponse>,
    rows: Option<RowStream<Batch>>,
    progress: Progress,
    /// Rows of the result, after which there is no other.
    last: u64,
    /// True until the first message with results.
    first: bool,
    /// True after the last message.
    closed: bool,
    failed: Option<Refusal>,
    /// Tells that there was no room for a row.
    answer: Option<Arc<Answer>>,
}

impl Results {
    /// The results of a read that goes on from `progress`.
    pub(super) fn new(rows: Option<RowStream<Batch>>, progress: Progress, last: u64) -> Self {
        Self {
            ready: VecDeque::new(),
            rows,
            progress,
            last,
            first: true,
            closed: false,
            failed: None,
            answer: None,
        }
    }

    /// The same results, whose rows count as parts of `answer`.
    pub(super) fn counted(self, answer: Option<Arc<Answer>>) -> Self {
        Self { answer, ..self }
    }

    /// Returns the next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<ExecuteQueryResponse, Status>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(Ok(message));
            }
            if let Some(refusal) = self.failed.take() {
                self.close(Outcome::Refused);
                return Some(Err(status::of_refusal(refusal)));
            }
            if self.closed {
                return None;
            }
            let batch = match &mut self.rows {
                Some(rows) if self.progress.matched < self.last => rows.next_batch().await,
                _ => None,
            };
            if let Some(refusal) = self.answer.as_ref().and_then(|answer| answer.refusal()) {
                self.close(Outcome::Busy);
                return Some(Err(refusal));
            }
            match batch {
                Some(Ok(batch)) => self.add(batch.rows),
                Some(Err(error)) => {
                    self.close(Outcome::of(&error));
                    return Some(Err(from_error(error)));
                }
                None => self.end(),
            }
        }
    }

    /// Ends the read. One that has all rows of the result is done, also if more could be read.
    fn close(&mut self, outcome: Outcome) {
        if let Some(mut rows) = self.rows.take() {
            rows.end(outcome);
        }
        self.closed = true;
    }

    /// Adds the messages of a batch that is the next.
    pub(super) fn add(&mut self, batch: Batch) {
        let Batch { rows, passed, matched, failed } = batch;
        self.progress.matched = matched;
        self.failed = failed;
        if let Some(key) = passed {
            self.progress.after = key;
        } else if rows.is_empty() {
            return; // Within a row.
        }
        self.send(rows);
    }

    /// Adds the last message of the stream.
    fn end(&mut self) {
        self.close(Outcome::Ok);
        self.progress.ended = true;
        self.progress.after = Bytes::new();
        self.send(Bytes::new());
    }

    fn send(&mut self, mut rows: Bytes) {
        let checksum = (!rows.is_empty()).then(|| crc32c(&[&rows]));
        let mut estimated = i32::try_from(rows.len()).unwrap_or(i32::MAX);
        loop {
            let piece = rows.split_to(rows.len().min(PIECE_BYTES_MAX));
            let mut results = PartialResultSet {
                reset: std::mem::take(&mut self.first),
                estimated_batch_size: std::mem::take(&mut estimated),
                partial_rows: (!piece.is_empty())
                    .then(|| PartialRows::ProtoRowsBatch(ProtoRowsBatch { batch_data: piece })),
                ..PartialResultSet::default()
            };
            let ends = rows.is_empty();
            if ends {
                results.batch_checksum = checksum;
                results.resume_token = self.progress.seal();
            }
            let response = Some(Response::Results(results));
            self.ready.push_back(ExecuteQueryResponse { response });
            if ends {
                return;
            }
        }
    }
}
