//! Reads of a table, and what they must yield.

use crate::model::Shown;
use crate::refuse::refuses;
use bytes::Bytes;
use table::filter::Condition;
use table::*;

#[path = "../../../table/src/filter/reference.rs"]
pub(crate) mod reference;

use reference::{RefCell, filter_row};

/// A read that has begun.
pub(crate) struct Asked {
    request: ReadRows,
    shown: Shown,
    stream: RowStream<Vec<RowPiece>>,
    batches: Vec<RowBatch<Vec<RowPiece>>>,
}

/// Begins a read of what is `shown`; `None` if the request is refused, as some that are drawn are:
/// inverted ranges, two labels in a chain.
pub(crate) async fn begin(
    local: &Local,
    table: &TableName,
    request: ReadRows,
    shown: Shown,
) -> Result<Option<Asked>, String> {
    let told = local.read_rows(table, request.clone(), Pieces::default()).await;
    match (refuses(&request), told) {
        (false, Ok(stream)) => Ok(Some(Asked { request, shown, stream, batches: Vec::new() })),
        (true, Err(Error::InvalidArgument { .. })) => Ok(None),
        (true, Ok(_)) => Err(format!("{request:?}: not refused")),
        (_, Err(error)) => Err(format!("{request:?}: refused: {error}")),
    }
}

impl Asked {
    /// Takes the next batch; whether there was one.
    pub(crate) async fn step(&mut self) -> Result<bool, String> {
        match self.stream.next_batch().await {
            None => Ok(false),
            Some(Ok(batch)) => {
                self.batches.push(batch);
                Ok(true)
            }
            Some(Err(error)) => Err(format!("{:?}: broken off: {error}", self.request)),
        }
    }

    /// Reads to the end, and compares.
    pub(crate) async fn finish(mut self) -> Result<(), String> {
        while self.step().await? {}
        let Self { request, shown, batches, .. } = self;
        let told = batches.last().map_or(0, |batch| batch.stats.rows_returned);
        let found = rows(batches, &shown)?;
        let wanted = wanted(&shown, &request);
        if found != wanted || told != found.len() as u64 {
            return Err(format!("{request:?}: {found:#?}, told {told}, not {wanted:#?}"));
        }
        Ok(())
    }
}

/// The rows of the batches, as the reference has them. Their cells must come in order.
fn rows(
    batches: Vec<RowBatch<Vec<RowPiece>>>,
    shown: &Shown,
) -> Result<Vec<(Bytes, Vec<RefCell>)>, String> {
    let mut rows: Vec<(Bytes, Vec<RefCell>)> = Vec::new();
    for piece in batches.into_iter().flat_map(|batch| batch.rows) {
        match piece {
            RowPiece::Start(key) => rows.push((key, Vec::new())),
            RowPiece::Cell(cell) => {
                let Some((key, cells)) = rows.last_mut() else {
                    return Err("a cell of no row".to_owned());
                };
                let same = |other: &&RefCell| {
                    (other.family.as_str(), &other.qualifier, other.timestamp)
                        == (&*cell.family, &cell.qualifier, cell.timestamp.0)
                };
                let known = shown.get(key).and_then(|all| all.iter().find(same));
                let known = known.ok_or_else(|| format!("row {key:?} shows {cell:?}"))?;
                let label = cell.label.map(|label| label.to_string());
                cells.push(RefCell { value: cell.value, label, ..known.clone() });
            }
            RowPiece::End | RowPiece::Scanned(_) => {}
        }
    }
    for (key, cells) in &mut rows {
        if !cells.is_sorted_by_key(|cell| cell.at) {
            return Err(format!("cells of row {key:?} are out of order"));
        }
        cells.sort();
    }
    Ok(rows)
}

/// What the reference says that `request` yields.
fn wanted(shown: &Shown, request: &ReadRows) -> Vec<(Bytes, Vec<RefCell>)> {
    let ranges = request.rows.normalize().unwrap();
    let filter = request.filter.clone().unwrap_or(RowFilter::PassAll);
    let within = shown.iter().filter(|(key, _)| ranges.iter().any(|range| range.contains(key)));
    let mut wanted: Vec<(Bytes, Vec<RefCell>)> = within
        .map(|(key, cells)| (key.clone(), filter_row(&filter, key, cells.clone())))
        .filter(|(_, cells)| !cells.is_empty())
        .collect();
    if request.direction == Direction::Reverse {
        wanted.reverse();
    }
    if request.rows_limit > 0 {
        wanted.truncate(request.rows_limit as usize);
    }
    wanted
}
