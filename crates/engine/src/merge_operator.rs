//! Merge operators: how operands of an aggregate cell fold into one value.
//!
//! An operand is one byte of operator and eight bytes, an `i64` big-endian (the encoding that
//! Bigtable clients see). Folding goes from the oldest entry to the newest, with these rules, so
//! that any bytes at all fold to something and compaction may fold neighbours early:
//! 1. A put is a base: its value is the accumulator, if it is eight bytes long; a put of any other
//!    length is replaced by the first operand after it.
//! 2. An operand of another operator than the one before it starts afresh, as a put would.
//! 3. Sums wrap around at the ends of `i64`.
//!
//! Compaction folds neighbouring operands of the *same* operator into one operand, which keeps
//! rule 2 true for whatever older entries it does not see.

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
    // 4: HyperLogLog++, reserved.
}

/// Length of an operand with its operator byte.
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

/// One operand: an operator and its 64-bit integer.
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

/// Folds a cell from its oldest entry to its newest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fold {
    value: Option<i64>,
    last: Option<Operator>,
}

impl Fold {
    /// A fold that starts from a put.
    pub fn from_put(value: &[u8]) -> Self {
        Self { value: value.try_into().ok().map(i64::from_be_bytes), last: None }
    }

    /// Adds the next newer operand.
    pub fn push(&mut self, operand: Operand) {
        let continues = self.last.is_none_or(|last| last == operand.operator);
        self.value = Some(match self.value {
            Some(older) if continues => operand.operator.apply(older, operand.value),
            _ => operand.value,
        });
        self.last = Some(operand.operator);
    }

    /// The value of the cell as clients see it: eight bytes, big-endian.
    pub fn finish(self) -> [u8; 8] {
        self.value.unwrap_or(0).to_be_bytes()
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

    fn fold(base: Option<&[u8]>, operands: &[Operand]) -> [u8; 8] {
        let mut fold = base.map(Fold::from_put).unwrap_or_default();
        operands.iter().for_each(|operand| fold.push(*operand));
        fold.finish()
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
