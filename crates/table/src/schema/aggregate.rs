//! Aggregates of families: what they take as input and as state.

use bytes::Bytes;
use engine::{AnyOperand, Operand, Operator, Sketch, SketchInput};

/// Operation of an aggregate family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// Wrapping sum of 64-bit integers.
    SumInt64,
    /// Smallest of the 64-bit integers.
    MinInt64,
    /// Largest of the 64-bit integers.
    MaxInt64,
    /// Approximate number of different values: a HyperLogLog++ sketch of them.
    Unique(UniqueInput),
}

/// Values of which the different ones are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UniqueInput {
    /// Bytes of no declared type.
    Raw,
    Bytes,
    /// Text in UTF-8, counted as its bytes.
    String,
    Int64,
}

/// An input of an aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddInput {
    Raw(Bytes),
    Bytes(Bytes),
    String(String),
    Int64(i64),
}

impl From<i64> for AddInput {
    fn from(input: i64) -> Self {
        Self::Int64(input)
    }
}

impl AddInput {
    /// Returns the length of the input in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Raw(value) | Self::Bytes(value) => value.len(),
            Self::String(value) => value.len(),
            Self::Int64(_) => 8,
        }
    }
}

impl Aggregate {
    /// Returns the operand of one input; an error names what the input should be.
    pub(crate) fn operand(self, input: &AddInput) -> Result<AnyOperand, &'static str> {
        let integer = |operator| match input {
            AddInput::Int64(value) => Ok(Operand { operator, value: *value }.into()),
            _ => Err("must be an int_value"),
        };
        let wanted = match self {
            Self::SumInt64 => return integer(Operator::SumInt64),
            Self::MinInt64 => return integer(Operator::MinInt64),
            Self::MaxInt64 => return integer(Operator::MaxInt64),
            Self::Unique(wanted) => wanted,
        };
        let sketch = match (wanted, input) {
            (UniqueInput::Int64, AddInput::Int64(value)) => Sketch::of_int64(*value),
            (UniqueInput::Raw | UniqueInput::Bytes, AddInput::Raw(value))
            | (UniqueInput::Bytes, AddInput::Bytes(value)) => Sketch::of_bytes(value),
            (UniqueInput::String, AddInput::String(value)) => Sketch::of_bytes(value.as_bytes()),
            (UniqueInput::Int64, _) => return Err("must be an int_value"),
            (UniqueInput::Raw, _) => return Err("must be a raw_value"),
            (UniqueInput::Bytes, _) => return Err("must be a bytes_value"),
            (UniqueInput::String, _) => return Err("must be a string_value"),
        };
        Ok(sketch.into())
    }

    /// Returns the operand of an accumulated state; an error says why the bytes cannot be one.
    pub(crate) fn state(self, state: &[u8]) -> Result<AnyOperand, String> {
        let Self::Unique(input) = self else {
            let value = state.try_into().map(i64::from_be_bytes);
            let value = value
                .map_err(|_| format!("{} bytes, but the state of an int64 has 8", state.len()))?;
            return self.operand(&AddInput::Int64(value)).map_err(str::to_owned);
        };
        let sketch = Sketch::decode(state).map_err(|error| {
            format!("not a HyperLogLog++ sketch that can be merged: {}", error.0)
        })?;
        let wanted = match input {
            UniqueInput::Int64 => SketchInput::Int64,
            _ => SketchInput::Bytes,
        };
        if sketch.input() != wanted {
            let (wanted, found) = (wanted as u8, sketch.input() as u8);
            return Err(format!("the sketch has value_type {found}, but the family has {wanted}"));
        }
        Ok(sketch.into())
    }
}
