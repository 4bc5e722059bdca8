//! From decoded values to an Arrow array.

use super::Column;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, PrimitiveArray,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use std::sync::Arc;

/// Returns values as an array of a type: that of the column they were decoded from. Text is a view array,
/// whether the type asks for one or not. There must be as many nulls as values.
pub(crate) fn array(column: Column, data_type: &DataType, nulls: Option<NullBuffer>) -> ArrayRef {
    match (column, data_type) {
        (Column::Bits(bits), _) => Arc::new(BooleanArray::new(bits, nulls)),
        (Column::Two(lanes), _) => primitive::<Int16Type>(lanes, data_type, nulls),
        (Column::Four(lanes), DataType::Float32) => {
            primitive::<Float32Type>(lanes.into_inner().into(), data_type, nulls)
        }
        (Column::Four(lanes), DataType::Date32) => primitive::<Date32Type>(lanes, data_type, nulls),
        (Column::Four(lanes), _) => primitive::<Int32Type>(lanes, data_type, nulls),
        (Column::Eight(lanes), DataType::Float64) => {
            primitive::<Float64Type>(lanes.into_inner().into(), data_type, nulls)
        }
        (Column::Eight(lanes), DataType::Timestamp(..)) => {
            primitive::<TimestampMicrosecondType>(lanes, data_type, nulls)
        }
        (Column::Eight(lanes), DataType::Time64(_)) => {
            primitive::<Time64MicrosecondType>(lanes, data_type, nulls)
        }
        (Column::Eight(lanes), _) => primitive::<Int64Type>(lanes, data_type, nulls),
        (Column::Sixteen(lanes), DataType::Decimal128(..)) => {
            primitive::<Decimal128Type>(lanes, data_type, nulls)
        }
        (Column::Sixteen(lanes), _) => {
            Arc::new(FixedSizeBinaryArray::new(16, lanes.into_inner(), nulls))
        }
        (Column::Text(text), _) => text.into_array(nulls),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: ScalarBuffer<T::Native>,
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(data_type.clone()))
}
