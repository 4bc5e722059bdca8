//! Columns of a load in the form that queries have, and rows of them.
//!
//! 1. A column has the Arrow type that `query` has for its type in SQL.
//! 2. Moments have the precision of their column.

use crate::query::{INTERVAL_BYTES, array_of, arrow_type, read_column};
use crate::values::round_moment;
use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, FixedSizeBinaryBuilder, GenericStringBuilder,
    LargeBinaryArray, OffsetSizeTrait, new_null_array,
};
use datafusion::arrow::datatypes::{
    DataType as ArrowType, Time64MicrosecondType, TimestampMicrosecondType,
};
use relational::catalog::Column;
use relational::{DataType, Error, Result, Row, Value};
use std::sync::Arc;

/// Returns what a parser made of a column in the form that queries have.
pub(super) fn of_parsed(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let wanted = arrow_type(data_type);
    if *array.data_type() == wanted {
        return Ok(array);
    }
    let Some(bytes) = array.as_binary_opt::<i64>() else {
        let found = array.data_type();
        return Err(Error::internal(format!("{found} was read for a column of {wanted}")));
    };
    match wanted {
        ArrowType::Utf8 => texts::<i32>(bytes),
        ArrowType::LargeUtf8 => texts::<i64>(bytes),
        ArrowType::FixedSizeBinary(INTERVAL_BYTES) => intervals(bytes),
        other => Err(Error::internal(format!("bytes were read for a column of {other}"))),
    }
}

fn texts<O: OffsetSizeTrait>(values: &LargeBinaryArray) -> Result<ArrayRef> {
    let bytes = values.value_data().len();
    let mut texts = GenericStringBuilder::<O>::with_capacity(values.len(), bytes);
    for value in values {
        match value.map(std::str::from_utf8) {
            None => texts.append_null(),
            Some(Ok(text)) => texts.append_value(text),
            Some(Err(problem)) => return Err(Error::internal(problem.to_string())),
        }
    }
    Ok(Arc::new(texts.finish()))
}

fn intervals(values: &LargeBinaryArray) -> Result<ArrayRef> {
    let mut intervals = FixedSizeBinaryBuilder::with_capacity(values.len(), INTERVAL_BYTES);
    for value in values {
        match value {
            None => intervals.append_null(),
            Some(value) => {
                let appended = intervals.append_value(value);
                appended.map_err(|problem| Error::internal(problem.to_string()))?;
            }
        }
    }
    Ok(Arc::new(intervals.finish()))
}

/// Returns a column that has one value in all of its rows.
pub(super) fn repeated(value: &Value, data_type: &DataType, rows: usize) -> Result<ArrayRef> {
    match value {
        Value::Null => Ok(new_null_array(&arrow_type(data_type), rows)),
        value => array_of(&vec![value.clone(); rows], data_type),
    }
}

/// Returns times and moments with so many digits of a second, and other columns as they are. Intervals are rounded
/// where they are read.
pub(super) fn rounded(array: ArrayRef, digits: u8) -> ArrayRef {
    let micros = |value: Value| match value {
        Value::Time(micros) | Value::Timestamp(micros) => micros,
        _ => 0,
    };
    let moment = |moment| micros(round_moment(Value::Timestamp(moment), digits));
    match array.data_type() {
        ArrowType::Time64(_) => {
            let times = array.as_primitive::<Time64MicrosecondType>();
            let time = |time| micros(round_moment(Value::Time(time), digits));
            Arc::new(times.unary::<_, Time64MicrosecondType>(time))
        }
        ArrowType::Timestamp(_, zone) => {
            let moments = array.as_primitive::<TimestampMicrosecondType>();
            let rounded = moments.unary::<_, TimestampMicrosecondType>(moment);
            Arc::new(rounded.with_timezone_opt(zone.clone()))
        }
        _ => array,
    }
}

/// Returns columns from rows, which begin with a value for each column.
pub(super) fn of_rows(rows: &[Row], columns: &[Column]) -> Result<Vec<ArrayRef>> {
    let column_of = |(place, column): (usize, &Column)| {
        let value = |row: &Row| row.get(place).cloned().unwrap_or_default();
        array_of(&rows.iter().map(value).collect::<Vec<_>>(), &column.data_type)
    };
    columns.iter().enumerate().map(column_of).collect()
}

/// Returns the rows of columns.
pub(super) fn rows_of(arrays: &[ArrayRef], columns: &[Column]) -> Result<Vec<Row>> {
    let count = arrays.first().map_or(0, |array| array.len());
    let mut values = Vec::with_capacity(arrays.len());
    for (array, column) in arrays.iter().zip(columns) {
        values.push(read_column(array, &column.data_type)?.into_iter());
    }
    Ok((0..count).map(|_| values.iter_mut().filter_map(Iterator::next).collect()).collect())
}
