//! Types of columns and the values that they hold.
//!
//! 1. A value knows its kind, not its column: `varchar(3)` and `text` hold the same [`Value::Text`].
//! 2. [`Value`] has one total order, which is PostgreSQL's for values of one type. NULL is above all.
//! 3. Equal values have equal hashes, also where their texts differ (`1.0` and `1.00`).

mod array;
mod data_type;
mod numeric;
mod numeric_text;
mod text;
mod value;

pub use array::{Array, ArrayDimension};
pub use data_type::{DataType, Oid};
pub use numeric::Numeric;
pub use value::Value;
pub(crate) use value::interval_span;
