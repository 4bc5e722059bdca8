//! Aggregates that need all their rows at once: with DISTINCT or ORDER BY, over sliding frames, and the ones
//! WITHIN GROUP.
//!
//! 1. DISTINCT keeps the first of equal rows and sorts them, as PostgreSQL does.
//! 2. The partial state of a group is its rows: a list for each argument.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use relational::{DataType, Error, SqlState, Value};

use super::super::{any_arguments, external};
use super::Session;
use super::fold::{Fold, Kind};
use crate::query::arrow::{array_of, arrow_type, element_field, field_of, read_column, scalar_of};
use crate::values::{CastContext, cast_with};

/// An aggregate with the types of its arguments; the last of `all` are what its rows are sorted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gathered {
    name: String,
    kind: Kind,
    types: Vec<DataType>,
    /// Types of all arguments, in their order.
    pub(super) all: Vec<DataType>,
    /// Directions of the arguments behind `types`.
    pub(super) order: Vec<SortOptions>,
    /// True if equal rows count once.
    pub(super) distinct: bool,
    returns: DataType,
    session: Session,
    signature: Signature,
}

impl Gathered {
    /// Returns an aggregate without DISTINCT and ORDER BY.
    pub(super) fn new(
        name: &str,
        kind: Kind,
        types: Vec<DataType>,
        returns: DataType,
        session: Session,
    ) -> Self {
        let (all, name) = (types.clone(), name.to_owned());
        let signature = any_arguments(Volatility::Immutable);
        let (order, distinct) = (Vec::new(), false);
        Self { name, kind, types, all, order, distinct, returns, session, signature }
    }

    /// Returns the aggregate with the settings of an execution.
    pub(super) fn with(&self, session: Session) -> Self {
        Self { session, ..self.clone() }
    }

    fn compare(&self, left: &[Value], right: &[Value]) -> Ordering {
        for (at, options) in self.order.iter().enumerate() {
            let at = self.types.len() + at;
            let ordering = match (left[at].is_null(), right[at].is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) if options.nulls_first => Ordering::Less,
                (true, false) => Ordering::Greater,
                (false, true) if options.nulls_first => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ if options.descending => right[at].cmp(&left[at]),
                _ => left[at].cmp(&right[at]),
            };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        Ordering::Equal
    }

    /// Compares the arguments, with NULL behind all values.
    fn compare_arguments(&self, left: &[Value], right: &[Value]) -> Ordering {
        let count = self.types.len();
        let pairs = left[..count].iter().zip(&right[..count]);
        pairs.fold(Ordering::Equal, |before, (left, right)| {
            before.then_with(|| left.is_null().cmp(&right.is_null()).then_with(|| left.cmp(right)))
        })
    }
}

impl AggregateUDFImpl for Gathered {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(arrow_type(&self.returns))
    }

    fn return_field(&self, _fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(field_of(&self.name, &self.returns)))
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Gather::new(self)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let lists = self.all.iter().enumerate().map(|(at, data_type)| {
            let list = ArrowType::List(element_field(data_type));
            Arc::new(Field::new(format!("{}[{at}]", args.name), list, true))
        });
        Ok(lists.collect())
    }
}

/// The rows of one group of an aggregate.
#[derive(Debug)]
pub(super) struct Gather {
    call: Gathered,
    rows: VecDeque<Vec<Value>>,
    bytes: usize,
}

impl Gather {
    /// Returns a group without any row.
    pub(super) fn new(call: &Gathered) -> Self {
        Self { call: call.clone(), rows: VecDeque::new(), bytes: 0 }
    }

    fn push(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let mut values = Vec::with_capacity(columns.len());
        for (column, data_type) in columns.iter().zip(&self.call.all) {
            self.bytes += column.get_array_memory_size();
            values.push(read_column(column, data_type).map_err(external)?);
        }
        let count = values.first().map_or(0, Vec::len);
        for at in 0..count {
            let row = values.iter_mut().map(|column| std::mem::take(&mut column[at]));
            self.rows.push_back(row.collect());
        }
        Ok(())
    }

    /// Returns the rows in the order asked for, equal ones once if that is asked for.
    fn sorted(&self) -> Vec<&Vec<Value>> {
        let mut rows: Vec<&Vec<Value>> = self.rows.iter().collect();
        if self.call.distinct {
            rows.sort_by(|left, right| self.call.compare_arguments(left, right));
            rows.dedup_by(|later, first| {
                self.call.compare_arguments(later, first) == Ordering::Equal
            });
        }
        rows.sort_by(|left, right| self.call.compare(left, right));
        rows
    }

    fn answer(&self) -> relational::Result<Value> {
        let rows = self.sorted();
        match self.call.kind {
            Kind::Percentile { between } => percentile(&rows, between, &self.call),
            Kind::Mode => Ok(mode(&rows)),
            kind => {
                let types = self.call.types.clone();
                let settings = Arc::clone(&self.call.session.0);
                let mut fold = Fold::new(kind, types, settings);
                for row in rows {
                    fold.add(&row[..self.call.types.len()], 1)?;
                }
                fold.finish(&self.call.returns)
            }
        }
    }
}

/// Returns the value that comes most often, of several the first.
fn mode(rows: &[&Vec<Value>]) -> Value {
    let values = rows.iter().map(|row| &row[0]).filter(|value| !value.is_null());
    let mut best: (usize, Option<&Value>) = (0, None);
    let mut run: (usize, Option<&Value>) = (0, None);
    for value in values {
        run = if run.1 == Some(value) { (run.0 + 1, run.1) } else { (1, Some(value)) };
        if run.0 > best.0 {
            best = run;
        }
    }
    best.1.cloned().unwrap_or_default()
}

/// Returns the value at the fraction that the second argument is.
fn percentile(rows: &[&Vec<Value>], between: bool, call: &Gathered) -> relational::Result<Value> {
    let values: Vec<&Value> =
        rows.iter().map(|row| &row[0]).filter(|value| !value.is_null()).collect();
    let Some(Value::Float8(fraction)) = rows.first().map(|row| &row[1]) else {
        return Ok(Value::Null);
    };
    if !(0.0..=1.0).contains(fraction) {
        let message = format!("percentile value {fraction} is not between 0 and 1");
        return Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    if values.is_empty() {
        return Ok(Value::Null);
    }
    if !between {
        let place = (fraction * values.len() as f64).ceil() as usize;
        return Ok(values[place.saturating_sub(1)].clone());
    }
    let place = fraction * (values.len() - 1) as f64;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    let part = place - place.floor();
    if let (
        Value::Interval { months, days, micros },
        Value::Interval { months: months2, days: days2, micros: micros2 },
    ) = (low, high)
    {
        let own = (*months, *days, *micros);
        let gap = crate::values::time::interval_add(
            (*months2, *days2, *micros2),
            (-*months, -*days, -*micros),
        )?;
        let gap = crate::values::time::interval_mul(gap, part)?;
        let (months, days, micros) = crate::values::time::interval_add(own, gap)?;
        return Ok(Value::Interval { months, days, micros });
    }
    let settings = &call.session.0;
    let float = |value: &Value| match cast_with(
        value.clone(),
        &DataType::Float8,
        CastContext::Explicit,
        settings,
    ) {
        Ok(Value::Float8(number)) => Ok(number),
        Ok(_) => Ok(0.0),
        Err(problem) => Err(problem),
    };
    let (low, high) = (float(low)?, float(high)?);
    Ok(Value::Float8(if part == 0.0 { low } else { low + part * (high - low) }))
}

impl Accumulator for Gather {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.push(columns)
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let count = columns.first().map_or(0, |column| column.len());
        self.rows.drain(..count.min(self.rows.len()));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.answer().map_err(external)?;
        scalar_of(&value, &self.call.returns).map_err(external)
    }

    fn size(&self) -> usize {
        let rows = self.rows.capacity() * size_of::<Vec<Value>>();
        size_of::<Self>() + rows + self.bytes + self.rows.len() * self.call.all.len() * 32
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut out = Vec::with_capacity(self.call.all.len());
        for (at, data_type) in self.call.all.iter().enumerate() {
            let values: Vec<Value> = self.rows.iter().map(|row| row[at].clone()).collect();
            let items = array_of(&values, data_type).map_err(external)?;
            let field = element_field(data_type);
            let list = datafusion::common::utils::SingleRowListArrayBuilder::new(items);
            out.push(list.with_field(&field).build_list_scalar());
        }
        Ok(out)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let count = states.first().map_or(0, |state| state.len());
        for at in 0..count {
            let lists: Vec<ArrayRef> =
                states.iter().map(|state| state.as_list::<i32>().value(at)).collect();
            self.push(&lists)?;
        }
        Ok(())
    }
}
