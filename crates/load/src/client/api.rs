//! The calls that workloads make, so that tests can answer them.

use super::{Failure, NewRow, Row, Selection};

/// A table of a Bigtable endpoint. Each worker has its own clone.
pub(crate) trait Api: Clone + Send + 'static {
    fn write(&mut self, row: NewRow) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Writes many rows; returns an outcome for each of them.
    fn write_many(
        &mut self,
        rows: Vec<NewRow>,
    ) -> impl Future<Output = Result<Vec<Result<(), Failure>>, Failure>> + Send;

    /// Reads the newest cell of each selected column. An answer with more than the selection allows
    /// is cut behind its first excess, which is among the rows.
    fn read(
        &mut self,
        selection: Selection,
    ) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send;
}
