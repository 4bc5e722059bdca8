//! Values in the form that pages have, and back: docs/format/columnar_table.md.
//!
//! 1. Every type of a column has one type in pages. Numeric and interval are bytes in their sorted form there.
//! 2. A decoded page may hold any bytes. What no value of the type is, is XX001.

use std::sync::Arc;

use columnar::{ColumnType, VALUE_BYTES_MAX};
use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray, BinaryArray, FixedSizeBinaryArray, GenericByteArray,
};
use datafusion::arrow::buffer::{Buffer, OffsetBuffer};
use datafusion::arrow::datatypes::{
    ArrowNativeType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType,
    DataType as ArrowType, Int64Type, LargeBinaryType, LargeUtf8Type, StringViewType, UInt32Type,
    Utf8Type,
};
use datafusion::arrow::error::ArrowError;
use relational::{DataType, Error, Result, SqlState};

use super::{INTERVAL_BYTES, arrow_type};

/// Bytes of an interval as pages have it.
const INTERVAL_LEN: usize = INTERVAL_BYTES.unsigned_abs() as usize;

/// Returns the Arrow type by which pages of a type are decoded.
pub(crate) fn page_type(data_type: &DataType) -> ArrowType {
    match data_type {
        DataType::Numeric(_) | DataType::Interval => ArrowType::Binary,
        DataType::Jsonb => ArrowType::Utf8,
        DataType::Oid => ArrowType::Int64,
        other => arrow_type(other),
    }
}

/// Returns the type of column that pages of a type have; 0A000 for arrays and other types that segments do not have.
pub(crate) fn stored_type(data_type: &DataType) -> Result<ColumnType> {
    ColumnType::of(&page_type(data_type)).map_err(|_| {
        Error::unsupported(format!("columnar tables do not have columns of type {data_type}"))
    })
}

/// Returns an array of a query's form in the form that pages have: LargeBinary and FixedSizeBinary(32) as Binary,
/// LargeUtf8 as Utf8, UInt32 as Int64, and others as they are. XX000 for an array of another type.
pub(crate) fn to_stored(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let wrong = || {
        let found = array.data_type();
        Error::internal(format!("Arrow's {found} does not hold values of {data_type}"))
    };
    match data_type {
        DataType::Numeric(_) => {
            let numbers = array.as_bytes_opt::<LargeBinaryType>().ok_or_else(wrong)?;
            narrow::<LargeBinaryType, BinaryType>(numbers)
        }
        DataType::Jsonb => {
            let documents = array.as_bytes_opt::<LargeUtf8Type>().ok_or_else(wrong)?;
            narrow::<LargeUtf8Type, Utf8Type>(documents)
        }
        DataType::Interval => {
            let intervals = array.as_fixed_size_binary_opt().ok_or_else(wrong)?;
            bytes_of_fixed(intervals)
        }
        DataType::Oid => {
            let numbers = array.as_primitive_opt::<UInt32Type>().ok_or_else(wrong)?;
            Ok(Arc::new(numbers.unary::<_, Int64Type>(i64::from)))
        }
        _ => match ColumnType::of(array.data_type()) {
            Ok(found) if found == stored_type(data_type)? => Ok(Arc::clone(array)),
            _ => Err(wrong()),
        },
    }
}

/// Returns a decoded page in the form of queries; XX001 if it has values of another type.
pub(crate) fn from_stored(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match arrow_type(data_type) {
        ArrowType::Utf8 => flat::<StringViewType, Utf8Type>(array, data_type),
        ArrowType::LargeUtf8 => flat::<StringViewType, LargeUtf8Type>(array, data_type),
        ArrowType::Binary => flat::<BinaryViewType, BinaryType>(array, data_type),
        ArrowType::LargeBinary => flat::<BinaryViewType, LargeBinaryType>(array, data_type),
        ArrowType::FixedSizeBinary(INTERVAL_BYTES) => intervals(array, data_type),
        ArrowType::UInt32 => {
            let numbers = array.as_primitive_opt::<Int64Type>();
            let numbers = numbers.ok_or_else(|| other_type(array, data_type))?;
            let oid = |number: i64| {
                let damage = |_| Error::corrupted(format!("{number} is not a value of oid"));
                u32::try_from(number).map_err(damage)
            };
            Ok(Arc::new(numbers.try_unary::<_, UInt32Type, Error>(oid)?))
        }
        same if same == *array.data_type() => Ok(Arc::clone(array)),
        _ => Err(other_type(array, data_type)),
    }
}

/// Returns the error of a page that has values of another type than its column.
fn other_type(array: &ArrayRef, data_type: &DataType) -> Error {
    let found = array.data_type();
    Error::corrupted(format!("a page of Arrow's {found} has no values of {data_type}"))
}

/// Returns the error of an array that cannot be made, which checks before it exclude.
fn unmade(problem: ArrowError) -> Error {
    Error::internal(problem.to_string())
}

/// Returns the error of values that are too long together for one array.
fn too_long() -> Error {
    let message = "values of a column are too long for one segment";
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// Returns the same values with offsets of 32 bits.
fn narrow<F, T>(array: &GenericByteArray<F>) -> Result<ArrayRef>
where
    F: ByteArrayType<Offset = i64>,
    T: ByteArrayType<Offset = i32>,
{
    let offsets = array.value_offsets();
    let first = offsets.first().copied().unwrap_or_default();
    let last = offsets.last().copied().unwrap_or_default();
    let values = array.values().slice_with_length(first.as_usize(), (last - first).as_usize());
    let offsets = offsets.iter().map(|offset| i32::try_from(offset - first).ok());
    let offsets: Vec<i32> = offsets.collect::<Option<_>>().ok_or_else(too_long)?;
    let offsets = OffsetBuffer::new(offsets.into());
    let array = GenericByteArray::<T>::try_new(offsets, values, array.nulls().cloned());
    Ok(Arc::new(array.map_err(unmade)?))
}

/// Returns values of a fixed length as values of any length, in the same buffer.
fn bytes_of_fixed(array: &FixedSizeBinaryArray) -> Result<ArrayRef> {
    let offset = |row: usize| i32::try_from(row).ok()?.checked_mul(array.value_length());
    let offsets: Option<Vec<i32>> = (0..=array.len()).map(offset).collect();
    let offsets = OffsetBuffer::new(offsets.ok_or_else(too_long)?.into());
    let array = BinaryArray::try_new(offsets, array.values().clone(), array.nulls().cloned());
    Ok(Arc::new(array.map_err(unmade)?))
}

/// Returns views as values in one buffer, which is filled in one pass.
fn flat<V, T>(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef>
where
    V: ByteViewType,
    T: ByteArrayType,
{
    let views = array.as_byte_view_opt::<V>().ok_or_else(|| other_type(array, data_type))?;
    let bytes: u64 = views.lengths().map(u64::from).sum();
    // A dictionary of a damaged page may repeat a long value.
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= VALUE_BYTES_MAX);
    let bytes = bytes.ok_or_else(|| Error::corrupted("values of a page are too long together"))?;
    let mut values: Vec<u8> = Vec::with_capacity(bytes);
    let mut offsets = Vec::with_capacity(views.len() + 1);
    offsets.push(T::Offset::usize_as(0));
    for value in views.bytes_iter() {
        values.extend_from_slice(value);
        offsets.push(T::Offset::usize_as(values.len()));
    }
    let (offsets, values) = (OffsetBuffer::new(offsets.into()), Buffer::from_vec(values));
    let array = GenericByteArray::<T>::try_new(offsets, values, views.nulls().cloned());
    Ok(Arc::new(array.map_err(unmade)?))
}

/// Returns intervals as values of a fixed length, with zeros for NULL.
fn intervals(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let views = array.as_byte_view_opt::<BinaryViewType>();
    let views = views.ok_or_else(|| other_type(array, data_type))?;
    let mut values: Vec<u8> = Vec::with_capacity(views.len() * INTERVAL_LEN);
    for (row, value) in views.bytes_iter().enumerate() {
        match value.len() {
            INTERVAL_LEN => values.extend_from_slice(value),
            _ if views.is_null(row) => values.resize(values.len() + INTERVAL_LEN, 0),
            len => return Err(Error::corrupted(format!("an interval has {len} bytes"))),
        }
    }
    let (values, nulls) = (Buffer::from_vec(values), views.nulls().cloned());
    let array = FixedSizeBinaryArray::try_new(INTERVAL_BYTES, values, nulls);
    Ok(Arc::new(array.map_err(unmade)?))
}

#[cfg(test)]
mod tests {
    use super::super::{array_of, read_column};
    use super::*;
    use columnar::{Page, PageOptions, encode_segment};
    use relational::Value;

    /// Returns an array that was written to a page and read back.
    fn through_a_page(array: &ArrayRef, data_type: &DataType) -> ArrayRef {
        let stored = to_stored(array, data_type).unwrap();
        let segment = encode_segment(&[(1, stored)], &PageOptions::default()).unwrap();
        assert_eq!(segment.descriptor.columns[0].column_type, stored_type(data_type).unwrap());
        let page = Page::open(Buffer::from(segment.pages[0][0].as_slice())).unwrap();
        from_stored(&page.decode(&page_type(data_type)).unwrap(), data_type).unwrap()
    }

    fn text(text: &str) -> Value {
        Value::text(text)
    }

    #[test]
    fn values_of_every_type_come_back() {
        let numeric = |text: &str| Value::Numeric(text.parse().unwrap());
        let interval = |months, days, micros| Value::Interval { months, days, micros };
        let bytea = |bytes: &'static [u8]| Value::Bytea(bytes.into());
        for (data_type, values) in [
            (DataType::Bool, [Value::Bool(true), Value::Bool(false)]),
            (DataType::Int2, [Value::Int2(i16::MIN), Value::Int2(7)]),
            (DataType::Int4, [Value::Int4(i32::MIN), Value::Int4(7)]),
            (DataType::Int8, [Value::Int8(i64::MIN), Value::Int8(7)]),
            (DataType::Float4, [Value::Float4(-1.5), Value::Float4(f32::INFINITY)]),
            (DataType::Float8, [Value::Float8(-1.5), Value::Float8(0.1)]),
            (DataType::Numeric(None), [numeric("-12.500"), numeric("NaN")]),
            (DataType::Text, [text(""), text("a text that does not lie in its view")]),
            (DataType::Varchar(None), [text("ä"), text("b")]),
            (DataType::Name, [text("a"), text("b")]),
            (DataType::Json, [text("{ }"), text("[1]")]),
            (DataType::Jsonb, [Value::Jsonb("{}".into()), Value::Jsonb("[1, 2]".into())]),
            (DataType::Bytea, [bytea(b""), bytea(b"\x00\xff")]),
            (DataType::Uuid, [Value::Uuid([7; 16]), Value::Uuid([0; 16])]),
            (DataType::Date, [Value::Date(-1), Value::Date(i32::MAX)]),
            (DataType::Time, [Value::Time(0), Value::Time(86_400_000_000)]),
            (DataType::Timestamp, [Value::Timestamp(-5), Value::Timestamp(5)]),
            (DataType::TimestampTz, [Value::TimestampTz(-5), Value::TimestampTz(5)]),
            (DataType::Interval, [interval(1, -2, 3), interval(0, 0, 0)]),
            (DataType::Oid, [Value::Oid(0), Value::Oid(u32::MAX)]),
        ] {
            let [first, second] = values;
            let values = vec![first.clone(), Value::Null, second, first];
            let array = array_of(&values, &data_type).unwrap();
            let back = through_a_page(&array, &data_type);
            assert_eq!(*back.data_type(), arrow_type(&data_type), "{data_type}");
            assert_eq!(read_column(&back, &data_type).unwrap(), values, "{data_type}");
            let part = through_a_page(&array.slice(1, 2), &data_type);
            assert_eq!(read_column(&part, &data_type).unwrap(), values[1..3], "{data_type}");
        }
    }

    #[test]
    fn pages_without_a_value_come_back() {
        for data_type in [DataType::Interval, DataType::Oid, DataType::Jsonb, DataType::Text] {
            let array = array_of(&[Value::Null, Value::Null], &data_type).unwrap();
            assert_eq!(through_a_page(&array, &data_type).null_count(), 2, "{data_type}");
        }
    }

    #[test]
    fn wrong_types_are_refused() {
        let array = array_of(&[Value::Int4(1)], &DataType::Int4).unwrap();
        for data_type in [DataType::Int8, DataType::Text, DataType::Interval, DataType::Oid] {
            let problem = from_stored(&array, &data_type).unwrap_err();
            assert_eq!(problem.state, SqlState::DATA_CORRUPTED, "{data_type}");
            let problem = to_stored(&array, &data_type).unwrap_err();
            assert_eq!(problem.state, SqlState::INTERNAL_ERROR, "{data_type}");
        }
        let negative = array_of(&[Value::Int8(-1)], &DataType::Int8).unwrap();
        let problem = from_stored(&negative, &DataType::Oid).unwrap_err();
        assert_eq!(problem.state, SqlState::DATA_CORRUPTED);
        let array = DataType::Array(Box::new(DataType::Int4));
        let problem = stored_type(&array).unwrap_err();
        assert_eq!(problem.state, SqlState::FEATURE_NOT_SUPPORTED);
    }
}
