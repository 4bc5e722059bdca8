//! Calls of other nodes, carried out by the store of this one.

use super::{Answer, Call, EncodedPieces};
use crate::error::Result;
use crate::local::Local;
use crate::mutate::OnceRow;
use crate::row::RowStream;
use crate::schema::TableName;
use crate::store::Store;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};

/// Frames of answers, in their order.
pub type Answers = BoxStream<'static, Vec<u8>>;

impl Local {
    /// Carries out a call of another node while its answers are taken. A read ends when they are dropped; a
    /// write may take effect all the same.
    pub fn carry_out(&self, call: Call) -> Answers {
        let local = self.clone();
        let begin = async move {
            match call {
                Call::ReadRows(table, request) => {
                    let read = local.read_rows(&table, request, EncodedPieces::default()).await;
                    read.map_or_else(|error| one(Answer::Failed(error)), batches)
                }
                call => one(local.answer(call).await.unwrap_or_else(Answer::Failed)),
            }
        };
        begin.flatten_stream().boxed()
    }

    /// Returns the answer to a call that has one.
    async fn answer(&self, call: Call) -> Result<Answer> {
        Ok(match call {
            // `carry_out` has it.
            Call::ReadRows(..) => Answer::Done,
            Call::MutateRows(table, rows) => Answer::Results(self.mutate(&table, rows).await?),
            Call::CheckAndMutate(table, request) => {
                Answer::Checked(self.check_and_mutate_row(&table, request).await?)
            }
            Call::ReadModifyWrite { table, row, rules } => {
                Answer::Row(self.read_modify_write_row(&table, row, rules).await?)
            }
            Call::DropRows { table, rows, trees } => {
                self.drop_rows_of(&table, &rows, &trees.into_iter().collect()).await?;
                Answer::Done
            }
            Call::SampleTablets { table, trees } => {
                let trees = trees.into_iter().collect();
                Answer::Samples(self.sample_tablets(&table, trees).await?)
            }
        })
    }

    async fn mutate(&self, table: &TableName, rows: Vec<OnceRow>) -> Result<Vec<Result<()>>> {
        if rows.iter().any(|row| row.once.is_some()) {
            return self.mutate_rows_once(table, rows).await;
        }
        self.mutate_rows(table, rows.into_iter().map(|row| row.change).collect()).await
    }
}

fn one(answer: Answer) -> Answers {
    stream::iter([answer.encode()]).boxed()
}

/// The batches of a read, and its end.
fn batches(read: RowStream<Vec<u8>>) -> Answers {
    let next = |read: Option<RowStream<Vec<u8>>>| async {
        let mut read = read?;
        Some(match read.next_batch().await {
            Some(Ok(batch)) => (Answer::encode_rows(&batch), Some(read)),
            Some(Err(error)) => (Answer::Failed(error).encode(), None),
            None => (Answer::Done.encode(), None),
        })
    };
    stream::unfold(Some(read), next).boxed()
}
