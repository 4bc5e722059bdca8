//! Sums and averages of numeric over frames whose start moves.
//!
//! 1. NaN and the infinities are counted apart: no subtraction takes one out of a sum again.
//! 2. A sum has the largest scale of the values in the frame.

use std::collections::BTreeMap;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;
use relational::{DataType, Error, Numeric, Value};

use super::super::external;
use super::fold::Fold;
use crate::query::arrow::{read_column, scalar_of};

/// The rows of a frame.
#[derive(Debug)]
pub(super) struct Moving {
    /// The sum and the number of the finite values.
    fold: Fold,
    negative_infinities: i64,
    infinities: i64,
    nans: i64,
    /// Numbers of finite values by their scales.
    scales: BTreeMap<i64, i64>,
    argument: DataType,
    returns: DataType,
}

impl Moving {
    /// Returns a frame without any row. `fold` sums or averages values of the type `argument`.
    pub(super) fn new(fold: Fold, argument: DataType, returns: DataType) -> Self {
        let (negative_infinities, infinities, nans) = (0, 0, 0);
        let scales = BTreeMap::new();
        Self { fold, negative_infinities, infinities, nans, scales, argument, returns }
    }

    fn each(&mut self, columns: &[ArrayRef], sign: i64) -> relational::Result<()> {
        let Some(column) = columns.first() else { return Ok(()) };
        for value in read_column(column, &self.argument)? {
            self.one(value, sign)?;
        }
        Ok(())
    }

    fn one(&mut self, value: Value, sign: i64) -> relational::Result<()> {
        let Value::Numeric(number) = &value else { return Ok(()) };
        match number {
            Numeric::NegativeInfinity => self.negative_infinities += sign,
            Numeric::Infinity => self.infinities += sign,
            Numeric::NaN => self.nans += sign,
            Numeric::Finite(_) => {
                let scale = number.scale();
                let count = self.scales.entry(scale).or_default();
                *count += sign;
                if *count == 0 {
                    self.scales.remove(&scale);
                }
                self.fold.add(&[value], sign)?;
            }
        }
        Ok(())
    }

    fn answer(&mut self) -> relational::Result<Value> {
        match (self.negative_infinities, self.infinities, self.nans) {
            (0, 0, 0) => {
                let scale = self.scales.last_key_value().map_or(0, |(scale, _)| *scale);
                self.fold.limit_scale(scale)?;
                self.fold.finish(&self.returns)
            }
            (_, 0, 0) => Ok(Value::Numeric(Numeric::NegativeInfinity)),
            (0, _, 0) => Ok(Value::Numeric(Numeric::Infinity)),
            _ => Ok(Value::Numeric(Numeric::NaN)),
        }
    }
}

impl Accumulator for Moving {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.each(columns, 1).map_err(external)
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.each(columns, -1).map_err(external)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.answer().map_err(external)?;
        scalar_of(&value, &self.returns).map_err(external)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.fold.bytes() + self.scales.len() * size_of::<(i64, i64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(external(Error::internal("a frame that moves has no partial state")))
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        Err(external(Error::internal("a frame that moves takes no partial state")))
    }
}
