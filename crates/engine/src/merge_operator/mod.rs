//! Merge operators: how operands of an aggregate cell fold into one value.
//!
//! An operand is one byte of operator and its value. The value of sums and extremes is eight bytes, an `i64`
//! big-endian (the encoding that Bigtable clients see). That of a count of unique values is a sketch
//! (`sketch.rs`). Folding goes from the oldest entry to the newest, with these rules, so
//! that any bytes at all fold to something and compaction may fold neighbours early:
//! 1. A put is a base: its value is the accumulator, if it is eight bytes long and integers come after
//!    it; any other put is replaced by the first operand after it.
//! 2. An operand of another operator than the one before it starts afresh, as a put would.
//! 3. Sums wrap around at the ends of `i64`.
//! 4. Sketches merge, whichever is older.
//!
//! Compaction folds neighbouring operands of the *same* operator into one operand, which keeps
//! rule 2 true for whatever older entries it does not see.

mod fingerprint;
mod sketch;
#[cfg(test)]
mod sketch_tests;

#[doc(hidden)]
pub use sketch::fuzz as fuzz_sketch;
pub use sketch::{SKETCH_BYTES_MAX, Sketch, SketchError, SketchInput};

/// Operation that combines operands. The byte on disk is frozen; 0 stays invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operator {
    /// Wrapping sum of 64-bit integers.
    SumInt64 = 1,
    /// Smallest 64-bit integer.
    MinInt64 = 2,
    /// Largest 64-bit integer.
    MaxInt64 = 3,
}

/// The operator byte of a sketch.
const UNIQUE: u8 = 4;

/// Length of an integer operand with its operator byte.
pub const OPERAND_LEN: usize = 9;

impl Operator {
    /// The operator of a byte on disk; `None` for a byte that names none.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::SumInt64),
            2 => Some(Self::MinInt64),
            3 => Some(Self::MaxInt64),
            _ => None,
        }
    }

    /// The older and the newer value combined.
    pub fn apply(self, older: i64, newer: i64) -> i64 {
        match self {
            Self::SumInt64 => older.wrapping_add(newer),
            Self::MinInt64 => older.min(newer),
            Self::MaxInt64 => older.max(newer),
        }
    }
}

/// An operand of 64-bit integers: an operator and its integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The operation.
    pub operator: Operator,
    /// With what.
    pub value: i64,
}

impl Operand {
    /// The bytes kept as the entry's value.
    pub fn encode(self) -> [u8; OPERAND_LEN] {
        let mut bytes = [0; OPERAND_LEN];
        bytes[0] = self.operator as u8;
        bytes[1..].copy_from_slice(&self.value.to_be_bytes());
        bytes
    }

    /// The operand in an entry's value; `None` if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&operator, value) = bytes.split_first()?;
        let value = i64::from_be_bytes(value.try_into().ok()?);
        Some(Self { operator: Operator::from_byte(operator)?, value })
    }

    /// This operand and the newer one as a single operand, when they may be folded early: only
    /// neighbours of the same operator.
    pub fn fold_with_newer(self, newer: Self) -> Option<Self> {
        (self.operator == newer.operator).then(|| Self {
            operator: self.operator,
            value: self.operator.apply(self.value, newer.value),
        })
    }
}

/// An operand of any operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnyOperand {
    /// A sum, minimum or maximum of integers.
    Int64(Operand),
    /// A count of different values, as a sketch.
    Unique(Box<Sketch>),
}

impl From<Operand> for AnyOperand {
    fn from(operand: Operand) -> Self {
        Self::Int64(operand)
    }
}

impl From<Sketch> for AnyOperand {
    fn from(sketch: Sketch) -> Self {
        Self::Unique(Box::new(sketch))
    }
}

impl AnyOperand {
    /// The bytes kept as the entry's value.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Int64(operand) => operand.encode().to_vec(),
            Self::Unique(sketch) => [&[UNIQUE], &sketch.encode()[..]].concat(),
        }
    }

    /// Returns the operand in an entry's value; `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [UNIQUE, sketch @ ..] => Sketch::decode(sketch).ok().map(Self::from),
            _ => Operand::decode(bytes).map(Self::Int64),
        }
    }

    /// Folds this operand into the `newer` one, if they may be folded early; else gives it back.
    pub fn fold_into(self, newer: &mut Self) -> Option<Self> {
        match (self, newer) {
            (Self::Int64(older), Self::Int64(newer)) => match older.fold_with_newer(*newer) {
                Some(both) => *newer = both,
                None => return Some(Self::Int64(older)),
            },
            (Self::Unique(older), Self::Unique(newer)) if older.input() == newer.input() => {
                newer.merge(*older);
            }
            (older, _) => return Some(older),
        }
        None
    }

    /// Makes this the operand of its cell above a put of `value`, in place of both.
    pub fn fold_put(&mut self, value: &[u8]) {
        let Self::Int64(operand) = self else { return };
        let mut fold = Fold::from_put(value);
        fold.push(Self::Int64(*operand));
        if let Value::Int64(folded) = fold.value {
            operand.value = folded;
        }
    }
}

/// The value folded so far.
#[derive(Debug, Clone, Default)]
enum Value {
    #[default]
    Nothing,
    Int64(i64),
    Unique(Box<Sketch>),
}

/// Folds a cell from its oldest entry to its newest.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    value: Value,
    last: Option<Operator>,
}

impl Fold {
    /// A fold that starts from a put.
    pub fn from_put(value: &[u8]) -> Self {
        let value = value
            .try_into()
            .map_or(Value::Nothing, |bytes| Value::Int64(i64::from_be_bytes(bytes)));
        Self { value, last: None }
    }

    /// Adds the next newer operand.
    pub fn push(&mut self, operand: AnyOperand) {
        match operand {
            AnyOperand::Int64(Operand { operator, value }) => {
                let continues = self.last.is_none_or(|last| last == operator);
                self.value = Value::Int64(match self.value {
                    Value::Int64(older) if continues => operator.apply(older, value),
                    _ => value,
                });
                self.last = Some(operator);
            }
            AnyOperand::Unique(newer) => match &mut self.value {
                Value::Unique(older) => older.merge(*newer),
                _ => {
                    self.value = Value::Unique(newer);
                    self.last = None;
                }
            },
        }
    }

    /// Appends the value of the cell as clients see it: eight bytes, big-endian, or a sketch.
    pub fn finish(self, into: &mut Vec<u8>) {
        match self.value {
            Value::Nothing => into.extend_from_slice(&0_i64.to_be_bytes()),
            Value::Int64(value) => into.extend_from_slice(&value.to_be_bytes()),
            Value::Unique(sketch) => into.extend_from_slice(&sketch.encode()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn operands() -> impl Strategy<Value = Vec<Operand>> {
        let operator = prop_oneof![
            Just(Operator::SumInt64),
            Just(Operator::MinInt64),
            Just(Operator::MaxInt64)
        ];
        proptest::collection::vec(
            (operator, any::<i64>()).prop_map(|(operator, value)| Operand { operator, value }),
            1..8,
        )
    }

    fn fold(base: Option<&[u8]>, operands: &[Operand]) -> Vec<u8> {
        let mut fold = base.map(Fold::from_put).unwrap_or_default();
        operands.iter().for_each(|operand| fold.push((*operand).into()));
        let mut value = Vec::new();
        fold.finish(&mut value);
        value
    }

    proptest! {
        #[test]
        fn folding_neighbours_early_changes_nothing(
            operands in operands(),
            base in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)),
            at in 0usize..8,
        ) {
            let want = fold(base.as_deref(), &operands);
            let at = at % operands.len();
            if let Some(newer) = operands.get(at + 1)
                && let Some(both) = operands[at].fold_with_newer(*newer)
            {
                let mut folded = operands.clone();
                folded[at] = both;
                folded.remove(at + 1);
                prop_assert_eq!(fold(base.as_deref(), &folded), want);
            }
        }

        #[test]
        fn operands_round_trip(operands in operands()) {
            for operand in operands {
                prop_assert_eq!(Operand::decode(&operand.encode()), Some(operand));
            }
        }
    }
}
