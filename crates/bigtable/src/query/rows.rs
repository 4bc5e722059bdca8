//! The rows of a read on their way to the result: the condition is evaluated for each row, and its
//! columns are encoded.
//!
//! Invariants:
//! 1. A batch holds whole rows of the result only, and tells the key up to which it has them all.
//! 2. At most one row is held besides the batch, of at most [`ROW_BYTES_MAX`]. Cells that no column
//!    of the result and no condition names are not held.
//! 3. A large row and the batch with it need room among the answers ([`Meter`]). Without it the read ends.
//! 4. A batch has at most [`BATCH_BYTES_MAX`], however often the result repeats a cell.

use super::plan::Plan;
use super::sql::expr::Row;
use super::sql::types::{SqlType, Value};
use super::sql::{Refusal, Result};
use crate::call::bounds::answers::Answer;
use crate::call::bounds::meter::Meter;
use bytes::{Bytes, BytesMut};
use prost::Message;
use std::sync::Arc;
use table::{RowOutput, YieldedCell};

/// Most bytes of a row that a query can hold: the longest value, and room for others.
const ROW_BYTES_MAX: usize = 128 << 20;
/// Most bytes of a batch. The store gives cells of a few hundred KiB for one, or one row. Only columns
/// that repeat a cell many times make more.
const BATCH_BYTES_MAX: usize = 2 * ROW_BYTES_MAX;
/// Approximate memory of a cell besides its bytes.
const CELL_BYTES: usize = 128;
/// Number of the field `values` of `ProtoRows`.
const VALUES: u32 = 2;

/// Makes rows of the result.
#[derive(Debug)]
pub(super) struct ResultRows {
    plan: Arc<Plan>,
    row: Row,
    row_bytes: usize,
    encoded: BytesMut,
    /// The last key that was passed, since the last batch.
    passed: Option<Bytes>,
    matched: u64,
    failed: Option<Refusal>,
    /// Counts the row and the encoded ones.
    meter: Meter,
}

/// Some rows of the result.
#[derive(Debug)]
pub(super) struct Batch {
    /// The rows as an encoded `ProtoRows`.
    pub(super) rows: Bytes,
    /// The last key that was passed; `None` if none was.
    pub(super) passed: Option<Bytes>,
    /// Rows that fulfil the condition, since the beginning of the execution.
    pub(super) matched: u64,
    /// The reason why no more rows come.
    pub(super) failed: Option<Refusal>,
}

impl ResultRows {
    /// The rows of `plan` after the first `matched`, as parts of `answer`.
    pub(super) fn new(plan: Arc<Plan>, matched: u64, answer: Option<Arc<Answer>>) -> Self {
        Self {
            row: Row { slots: plan.empty.clone(), ..Row::default() },
            plan,
            row_bytes: 0,
            encoded: BytesMut::new(),
            passed: None,
            matched,
            failed: None,
            meter: Meter::of(answer),
        }
    }

    /// Returns whether no more rows are wanted.
    fn is_done(&self) -> bool {
        self.failed.is_some() || self.meter.is_refused() || self.matched >= self.plan.last
    }

    /// Appends the row if it is one of the result.
    fn add(&mut self) -> Result<()> {
        if let Some(filter) = &self.plan.filter
            && filter.holds(&self.row)? != Some(true)
        {
            return Ok(());
        }
        self.matched += 1;
        if self.matched <= self.plan.offset {
            return Ok(());
        }
        encode(&self.plan, &self.row, &mut self.encoded, &mut self.meter)
    }
}

/// Returns the value in a cell of a family whose values are of type `of`; NULL if the bytes encode no
/// such value.
fn decode(of: &SqlType, bytes: &[u8]) -> Value {
    let int64 = || <[u8; 8]>::try_from(bytes).ok().map(i64::from_be_bytes);
    let value = match of {
        SqlType::Int64 => int64().map(Value::Int64),
        SqlType::Timestamp => int64().map(|micros| {
            let nanos = micros.rem_euclid(1_000_000) * 1_000;
            Value::Timestamp(micros.div_euclid(1_000_000), nanos as i32)
        }),
        SqlType::String => std::str::from_utf8(bytes).ok().map(|text| Value::String(text.into())),
        _ => Some(Value::Bytes(Bytes::copy_from_slice(bytes))),
    };
    value.unwrap_or(Value::Null)
}

/// Appends the columns of a row to `out`, or nothing if one is wrong or `meter` finds no room.
pub(super) fn encode(plan: &Plan, row: &Row, out: &mut BytesMut, meter: &mut Meter) -> Result<()> {
    let start = out.len();
    let mut columns = plan.columns.iter();
    let encoded = columns.try_for_each(|column| {
        let value = column.eval(row)?.to_wire();
        let len = out.len().saturating_add(value.encoded_len());
        if len > BATCH_BYTES_MAX {
            let max = BATCH_BYTES_MAX >> 20;
            let text = format!("the columns of the result have more than {max} MiB of a few rows");
            return Err(Refusal::Value(text));
        }
        if meter.grow_to(len) {
            prost::encoding::message::encode(VALUES, &value, out);
        }
        Ok(())
    });
    if encoded.is_err() || meter.is_refused() {
        out.truncate(start);
    }
    encoded
}

impl RowOutput for ResultRows {
    type Batch = Batch;

    fn start(&mut self, key: &[u8]) {
        self.row_bytes = 0;
        self.row.key = Value::Bytes(Bytes::copy_from_slice(key));
        self.row.slots.clone_from(&self.plan.empty);
        self.row.made.set(0);
    }

    fn cell(&mut self, cell: &YieldedCell<'_>) {
        let Some(wanted) = self.plan.families.get(&**cell.family) else { return };
        let column = wanted.columns.get(cell.qualifier);
        if wanted.whole.is_none() && column.is_none() || self.is_done() {
            return;
        }
        if let Some(slot) = column.and_then(|column| column.presence) {
            self.row.slots[slot] = Value::Bool(true);
        }
        let column = column.and_then(|column| column.value);
        if wanted.whole.is_none() && column.is_none() {
            return;
        }
        self.row_bytes += CELL_BYTES + cell.qualifier.len() + cell.value.len();
        if self.row_bytes > ROW_BYTES_MAX {
            let max = ROW_BYTES_MAX >> 20;
            let text = format!("the columns of the query have more than {max} MiB in one row");
            self.failed = Some(Refusal::Value(text));
            self.row.slots.clone_from(&self.plan.empty);
            return;
        }
        if !self.meter.grow_to(self.encoded.len() + self.row_bytes) {
            self.row.slots.clone_from(&self.plan.empty);
            return;
        }
        let value = decode(&wanted.of, cell.value);
        if let Some(slot) = wanted.whole
            && let Value::Array(entries) = &mut self.row.slots[slot]
        {
            let qualifier = Value::Bytes(Bytes::copy_from_slice(cell.qualifier));
            entries.push(Value::Array(vec![qualifier, value.clone()]));
        }
        if let Some(slot) = column {
            self.row.slots[slot] = value;
        }
    }

    fn end(&mut self) {
        if self.is_done() {
            return;
        }
        match self.add() {
            Ok(()) => {
                if let Value::Bytes(key) = &self.row.key {
                    self.passed = Some(key.clone());
                }
            }
            Err(refusal) => self.failed = Some(refusal),
        }
    }

    /// The row comes again from its start, which makes all places empty.
    fn forget(&mut self) {}

    fn scanned(&mut self, key: &[u8]) {
        if !self.is_done() {
            self.passed = Some(Bytes::copy_from_slice(key));
        }
    }

    fn take(&mut self) -> Batch {
        Batch {
            rows: self.meter.made(self.encoded.split().freeze()),
            passed: self.passed.take(),
            matched: self.matched,
            failed: self.failed.clone(),
        }
    }

    fn batch_bytes_max(&self) -> usize {
        self.meter.batch_bytes(usize::MAX)
    }
}
