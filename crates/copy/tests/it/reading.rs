//! Reads data, however it is cut, and shows columns as texts.

use arrow_array::cast::AsArray;
use arrow_array::types as arrow;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use copy::{Column, Forms, Limits, Options, Parser, Result, Splitter};
use std::sync::Arc;

/// Sizes into which data is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cuts {
    /// Number of bytes of a message.
    pub(crate) piece: usize,
    pub(crate) limits: Limits,
    /// Greatest number of rows of a batch.
    pub(crate) rows: usize,
}

impl Cuts {
    /// One message, one block, one batch.
    pub(crate) fn none() -> Self {
        Self { piece: usize::MAX, limits: Limits::default(), rows: usize::MAX }
    }
}

/// Reads all batches of data.
pub(crate) fn read(
    data: &[u8],
    options: &Options,
    columns: &[Column],
    forms: Arc<dyn Forms>,
    cuts: Cuts,
) -> Result<Vec<Vec<ArrayRef>>> {
    let mut splitter = Splitter::new(options, columns.len(), cuts.limits)?;
    let mut parser = Parser::new(options, columns.to_vec(), forms)?;
    let mut batches = Vec::new();
    let mut line = 0;
    let mut take = |mut block: copy::Block| -> Result<()> {
        assert!(block.first_line() > line || line == 0, "blocks come in order");
        line = block.first_line();
        while !block.is_empty() {
            parser.parse(&mut block, cuts.rows)?;
            if !block.is_empty() {
                assert_eq!(parser.rows(), cuts.rows, "only a full batch stops a parser");
                batches.push(parser.take()?);
            }
        }
        Ok(())
    };
    for mut piece in data.chunks(cuts.piece) {
        while let Some(block) = splitter.push(&mut piece)? {
            take(block)?;
        }
    }
    while let Some(block) = splitter.finish()? {
        take(block)?;
    }
    batches.push(parser.take()?);
    Ok(batches)
}

/// Returns rows of texts, NULL as nothing.
pub(crate) fn rows(batches: &[Vec<ArrayRef>]) -> Vec<Vec<Option<String>>> {
    let mut rows = Vec::new();
    for batch in batches {
        let count = batch.first().map_or(0, |column| column.len());
        for row in 0..count {
            let cells = batch.iter().map(|column| column.is_valid(row).then(|| cell(column, row)));
            rows.push(cells.collect());
        }
    }
    rows
}

/// Shows a value; moments as their number.
fn cell(column: &ArrayRef, row: usize) -> String {
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int16 => column.as_primitive::<arrow::Int16Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<arrow::Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<arrow::Int64Type>().value(row).to_string(),
        DataType::UInt32 => column.as_primitive::<arrow::UInt32Type>().value(row).to_string(),
        DataType::Float32 => column.as_primitive::<arrow::Float32Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<arrow::Float64Type>().value(row).to_string(),
        DataType::Decimal128(_, scale) => {
            let value = column.as_primitive::<arrow::Decimal128Type>().value(row);
            format!("{value}/10^{scale}")
        }
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::Binary => hex(column.as_binary::<i32>().value(row)),
        DataType::LargeBinary => hex(column.as_binary::<i64>().value(row)),
        DataType::FixedSizeBinary(_) => hex(column.as_fixed_size_binary().value(row)),
        DataType::Date32 => column.as_primitive::<arrow::Date32Type>().value(row).to_string(),
        DataType::Time64(TimeUnit::Microsecond) => {
            column.as_primitive::<arrow::Time64MicrosecondType>().value(row).to_string()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            column.as_primitive::<arrow::TimestampMicrosecondType>().value(row).to_string()
        }
        other => panic!("a column of {other}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
