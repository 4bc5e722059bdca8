//! Cells as HBase's protobuf messages have them: `Result { repeated Cell cell = 1; }`.

use crate::rows::limits::{self, RecordCells};
use crate::rows::{Cell, Row};
use bytes::{Buf, Bytes};
use prost::Message;
use prost::encoding::{self, DecodeContext, WireType};
use std::sync::Arc;

/// HBase's type of a cell that is a value. Others are deletions.
const PUT: i32 = 4;
/// Tag of a cell in a result.
const CELL_TAG: u32 = 1;
/// Microseconds in the unit of HBase's timestamps.
const MICROS: i64 = 1000;

/// A cell as HBase's protocol has it.
#[derive(Clone, PartialEq, prost::Message)]
struct HbaseCell {
    #[prost(bytes = "bytes", optional, tag = "1")]
    row: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    family: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    qualifier: Option<Bytes>,
    /// Milliseconds since 1970; `None` if it is absent.
    #[prost(uint64, optional, tag = "4")]
    timestamp: Option<u64>,
    /// The type, of which only [`PUT`] is a value.
    #[prost(int32, optional, tag = "5")]
    cell_type: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    value: Option<Bytes>,
}

/// Appends the delimited result of `row` to `out`, or returns the reason why HBase has no such row.
pub(super) fn encode(row: &Row, out: &mut Vec<u8>) -> Result<(), String> {
    let mut message = Vec::new();
    for cell in &row.cells {
        let micros = cell.timestamp_micros;
        if micros < 0 || micros % MICROS != 0 {
            return Err(format!(
                "a SequenceFile has timestamps in milliseconds, but a cell of row \"{:.80}\" has \
                 {micros} microseconds; choose another format",
                row.key.escape_ascii()
            ));
        }
        let cell = HbaseCell {
            row: Some(row.key.clone()),
            family: Some(Bytes::copy_from_slice(cell.family.as_bytes())),
            qualifier: Some(cell.qualifier.clone()),
            timestamp: Some((micros / MICROS) as u64),
            cell_type: Some(PUT),
            value: Some(cell.value.clone()),
        };
        encoding::encode_key(CELL_TAG, WireType::LengthDelimited, &mut message);
        encoding::encode_varint(cell.encoded_len() as u64, &mut message);
        cell.encode_raw(&mut message);
    }
    encoding::encode_varint(message.len() as u64, out);
    out.extend_from_slice(&message);
    Ok(())
}

/// The cells of one record that are not read yet.
pub(super) struct Cells {
    key: Bytes,
    message: Bytes,
    /// Bytes of the whole record.
    bytes: usize,
}

impl Cells {
    /// Returns the cells of a record, or the reason why `value` holds none.
    pub(super) fn of(key: Bytes, mut value: Bytes) -> Result<Self, String> {
        let len = encoding::decode_varint(&mut value).map_err(damaged)?;
        if len != value.len() as u64 {
            let there = value.len();
            return Err(format!("a result of {len} bytes in a value that has {there}"));
        }
        Ok(Self { key, bytes: value.len(), message: value })
    }

    /// Returns the next cells; `None` where there are no more.
    pub(super) fn next(&mut self, family: &mut Arc<str>) -> Result<Option<Row>, String> {
        let mut cells = RecordCells::new();
        while !cells.is_full() && self.message.has_remaining() {
            let (tag, wire) = encoding::decode_key(&mut self.message).map_err(damaged)?;
            if tag != CELL_TAG {
                encoding::skip_field(wire, tag, &mut self.message, DecodeContext::default())
                    .map_err(damaged)?;
                continue;
            }
            let len = encoding::decode_varint(&mut self.message).map_err(damaged)?;
            if wire != WireType::LengthDelimited || len > self.message.len() as u64 {
                return Err("a result ends inside a cell".to_owned());
            }
            let cell = self.message.split_to(len as usize);
            let cell = HbaseCell::decode(cell).map_err(damaged)?;
            cells.push(self.cell(cell, family)?);
        }
        let there = !cells.is_empty();
        Ok(there.then(|| cells.take(&self.key)))
    }

    fn cell(&self, cell: HbaseCell, family: &mut Arc<str>) -> Result<Cell, String> {
        if cell.row.as_ref().is_some_and(|row| *row != self.key) {
            return Err("a cell of another row than the key of its record".to_owned());
        }
        if cell.cell_type != Some(PUT) {
            let kind = cell.cell_type.unwrap_or_default();
            return Err(format!(
                "a cell of type {kind}, which is a deletion; only values (type {PUT}) can be read"
            ));
        }
        let name = cell.family.unwrap_or_default();
        limits::check("family", name.len(), limits::FAMILY_BYTES_MAX)?;
        if family.as_bytes() != name {
            *family = std::str::from_utf8(&name).map_err(|_| "a family is not UTF-8")?.into();
        }
        let (qualifier, value) =
            (cell.qualifier.unwrap_or_default(), cell.value.unwrap_or_default());
        limits::check("qualifier", qualifier.len(), limits::QUALIFIER_BYTES_MAX)?;
        limits::check("value", value.len(), limits::VALUE_BYTES_MAX)?;
        let (qualifier, value) =
            (limits::kept(qualifier, self.bytes), limits::kept(value, self.bytes));
        let millis = cell.timestamp.unwrap_or_default();
        let micros = i64::try_from(millis).ok().and_then(|millis| millis.checked_mul(MICROS));
        let timestamp_micros =
            micros.ok_or_else(|| format!("a timestamp of {millis} milliseconds is too large"))?;
        Ok(Cell { family: Arc::clone(family), qualifier, timestamp_micros, value })
    }
}

fn damaged(error: prost::DecodeError) -> String {
    format!("a result is malformed: {error}")
}
