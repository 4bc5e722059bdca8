//! From an Arrow array to values.

use super::{Lane, Values};
use crate::{ColumnType, Error, VALUE_BYTES_MAX};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, Date32Type, Decimal128Type,
    Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, StringViewType,
    Time64MicrosecondType, TimestampMicrosecondType, Utf8Type,
};
use arrow_array::{Array, ArrowPrimitiveType, GenericByteArray, GenericByteViewArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;

/// An array as values, one for each row. What NULL has is the value before it, or the first one; in text it
/// is empty; 0 if there is no value.
pub(crate) struct Prepared<'a> {
    pub(crate) column_type: ColumnType,
    pub(crate) values: Values<'a>,
    /// The rows that have values; `None` without NULL.
    pub(crate) nulls: Option<NullBuffer>,
}

impl Prepared<'_> {
    pub(crate) fn null_count(&self) -> usize {
        self.nulls.as_ref().map_or(0, NullBuffer::null_count)
    }
}

/// Returns an array as values.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for a type that segments do not have, and for a value that is too long.
pub(crate) fn prepare(array: &dyn Array) -> Result<Prepared<'_>, Error> {
    let column_type = ColumnType::of(array.data_type())?;
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let values = match array.data_type() {
        DataType::Boolean => Values::Bits(bits(array.as_boolean().values(), nulls)),
        DataType::Int16 => Values::Two(lanes::<Int16Type>(array, nulls)),
        DataType::Int32 => Values::Four(lanes::<Int32Type>(array, nulls)),
        DataType::Date32 => Values::Four(lanes::<Date32Type>(array, nulls)),
        DataType::Int64 => Values::Eight(lanes::<Int64Type>(array, nulls)),
        DataType::Timestamp(..) => Values::Eight(lanes::<TimestampMicrosecondType>(array, nulls)),
        DataType::Time64(_) => Values::Eight(lanes::<Time64MicrosecondType>(array, nulls)),
        DataType::Decimal128(..) => Values::Sixteen(lanes::<Decimal128Type>(array, nulls)),
        DataType::Float32 => {
            let floats = array.as_primitive::<Float32Type>().values().inner().clone();
            Values::Four(filled(super::aligned(floats), nulls))
        }
        DataType::Float64 => {
            let floats = array.as_primitive::<Float64Type>().values().inner().clone();
            Values::Eight(filled(super::aligned(floats), nulls))
        }
        DataType::FixedSizeBinary(_) => {
            let bytes = array.as_fixed_size_binary().value_data().chunks_exact(16);
            Values::Sixteen(filled(bytes.map(i128::get).collect(), nulls))
        }
        DataType::Utf8 => Values::Text(texts(array.as_bytes::<Utf8Type>(), nulls)?),
        DataType::Binary => Values::Text(texts(array.as_bytes::<BinaryType>(), nulls)?),
        DataType::Utf8View => Values::Text(views(array.as_byte_view::<StringViewType>(), nulls)?),
        DataType::BinaryView => Values::Text(views(array.as_byte_view::<BinaryViewType>(), nulls)?),
        other => unreachable!("{other} has a column type"),
    };
    Ok(Prepared { column_type, values, nulls: nulls.cloned() })
}

fn lanes<T>(array: &dyn Array, nulls: Option<&NullBuffer>) -> ScalarBuffer<T::Native>
where
    T: ArrowPrimitiveType<Native: Lane>,
{
    filled(array.as_primitive::<T>().values().clone(), nulls)
}

/// Replaces NULL by the value before it.
fn filled<T: Lane>(values: ScalarBuffer<T>, nulls: Option<&NullBuffer>) -> ScalarBuffer<T> {
    let Some(nulls) = nulls else { return values };
    let first = nulls.valid_indices().next().map_or(T::default(), |row| values[row]);
    let mut last = first;
    let filled = values.iter().zip(nulls.iter()).map(|(value, valid)| {
        last = if valid { *value } else { last };
        last
    });
    filled.collect()
}

fn bits(values: &BooleanBuffer, nulls: Option<&NullBuffer>) -> BooleanBuffer {
    let Some(nulls) = nulls else { return values.clone() };
    let mut last = nulls.valid_indices().next().is_some_and(|row| values.value(row));
    let filled = values.iter().zip(nulls.iter()).map(|(value, valid)| {
        last = if valid { value } else { last };
        last
    });
    filled.collect()
}

fn texts<'a, T: ByteArrayType<Offset = i32>>(
    array: &'a GenericByteArray<T>,
    nulls: Option<&NullBuffer>,
) -> Result<Vec<&'a [u8]>, Error> {
    let offsets = array.value_offsets();
    let data = array.value_data();
    let spans = offsets.windows(2).map(|pair| &data[pair[0] as usize..pair[1] as usize]);
    checked(spans, nulls)
}

fn views<'a, T: ByteViewType + ?Sized>(
    array: &'a GenericByteViewArray<T>,
    nulls: Option<&NullBuffer>,
) -> Result<Vec<&'a [u8]>, Error> {
    checked(array.bytes_iter(), nulls)
}

fn checked<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    nulls: Option<&NullBuffer>,
) -> Result<Vec<&'a [u8]>, Error> {
    let mut values: Vec<&[u8]> = values.collect();
    if let Some(nulls) = nulls {
        for (row, value) in values.iter_mut().enumerate() {
            if nulls.is_null(row) {
                *value = b"";
            }
        }
    }
    match values.iter().map(|value| value.len()).max() {
        Some(longest) if longest > VALUE_BYTES_MAX => Err(Error::InvalidArgument(format!(
            "a value of {longest} bytes; a column has values of at most {VALUE_BYTES_MAX}"
        ))),
        _ => Ok(values),
    }
}
