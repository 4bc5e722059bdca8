//! Aggregate functions by their PostgreSQL names.
//!
//! 1. Sums and averages of integers are exact: sum(bigint) and avg of integers are numeric.
//! 2. An aggregate with DISTINCT or ORDER BY gathers its rows and sorts them itself ([`gather`]), so that each
//!    aggregate of a SELECT has the order that it asks for.

mod choose;
mod fold;
mod gather;
mod moving;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, TypeSignature, Volatility,
};
use relational::{DataType, Error, SqlState, Value};

use super::external;
use crate::expression::context::EvalContext;
use crate::query::arrow::{field_of, read_column, scalar_of, type_of_field};
use crate::values::{Settings, type_name};
use fold::{Fold, Kind};
use gather::{Gather, Gathered};
use moving::Moving;

/// Returns the aggregates that queries may name.
pub(crate) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    use datafusion::functions_aggregate as native;
    let spread = |sample, root| Kind::Spread { sample, root };
    let own = [
        ("sum", Kind::Sum),
        ("avg", Kind::Avg),
        ("stddev", spread(true, true)),
        ("stddev_samp", spread(true, true)),
        ("stddev_pop", spread(false, true)),
        ("variance", spread(true, false)),
        ("var_samp", spread(true, false)),
        ("var_pop", spread(false, false)),
        ("bool_and", Kind::BoolAnd),
        ("bool_or", Kind::BoolOr),
        ("string_agg", Kind::StringAgg),
        ("json_agg", Kind::JsonAgg { binary: false }),
        ("jsonb_agg", Kind::JsonAgg { binary: true }),
        ("json_object_agg", Kind::JsonObjectAgg { binary: false }),
        ("jsonb_object_agg", Kind::JsonObjectAgg { binary: true }),
        ("bit_and", Kind::BitAnd),
        ("bit_or", Kind::BitOr),
        ("bit_xor", Kind::BitXor),
        ("percentile_cont", Kind::Percentile { between: true }),
        ("percentile_disc", Kind::Percentile { between: false }),
        ("mode", Kind::Mode),
        ("__single", Kind::Single),
    ];
    let own = own
        .into_iter()
        .map(|(name, kind)| Arc::new(AggregateUDF::from(PgAggregate::new(name, kind))));
    let native = [
        native::count::count_udaf(),
        native::min_max::min_udaf(),
        native::min_max::max_udaf(),
        native::array_agg::array_agg_udaf(),
        native::correlation::corr_udaf(),
        native::covariance::covar_samp_udaf(),
        native::covariance::covar_pop_udaf(),
        native::grouping::grouping_udaf(),
        native::regr::regr_slope_udaf(),
        native::regr::regr_intercept_udaf(),
        native::regr::regr_count_udaf(),
        native::regr::regr_r2_udaf(),
        native::regr::regr_avgx_udaf(),
        native::regr::regr_avgy_udaf(),
        native::regr::regr_sxx_udaf(),
        native::regr::regr_syy_udaf(),
        native::regr::regr_sxy_udaf(),
    ];
    own.chain(native).collect()
}

/// Returns the aggregate of the value that came first, NULL included.
pub(super) fn first() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(PgAggregate::new("__first", Kind::First)))
}

/// Returns an aggregate with the settings of an execution; nothing if it asks for none.
pub(crate) fn in_context(
    function: &AggregateUDF,
    context: &EvalContext,
) -> Option<Arc<AggregateUDF>> {
    let session = Session(Arc::clone(&context.settings));
    if let Some(own) = function.inner().downcast_ref::<PgAggregate>() {
        let wants = matches!(own.kind, Kind::JsonAgg { .. } | Kind::JsonObjectAgg { .. });
        let new = PgAggregate { session, ..PgAggregate::new(own.name, own.kind) };
        return wants.then(|| Arc::new(AggregateUDF::from(new)));
    }
    let gathered = function.inner().downcast_ref::<Gathered>()?;
    Some(Arc::new(AggregateUDF::from(gathered.with(session))))
}

/// Settings by which values are written; equal if they are the same.
#[derive(Clone, Debug, Default)]
struct Session(Arc<Settings>);

impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Session {}

impl Hash for Session {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// An aggregate that folds single values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PgAggregate {
    name: &'static str,
    kind: Kind,
    signature: Signature,
    session: Session,
}

impl PgAggregate {
    fn new(name: &'static str, kind: Kind) -> Self {
        let any = TypeSignature::OneOf(vec![TypeSignature::Any(1), TypeSignature::Any(2)]);
        let signature = Signature::new(any, Volatility::Immutable);
        Self { name, kind, signature, session: Session::default() }
    }

    /// Returns the type of the result, or 42883.
    fn result(&self, types: &[DataType]) -> relational::Result<DataType> {
        use DataType::{Float4, Float8, Int2, Int4, Int8, Interval, Numeric, Text, Unknown};
        let first = types.first().cloned().unwrap_or(Unknown);
        let found = match (self.kind, &first) {
            (Kind::Sum, Int2 | Int4) => Some(Int8),
            (Kind::Sum | Kind::Avg, Interval) => Some(Interval),
            (Kind::Sum, Float4) => Some(Float4),
            (Kind::Sum | Kind::Avg | Kind::Spread { .. }, Float8)
            | (Kind::Avg | Kind::Spread { .. }, Float4) => Some(Float8),
            (Kind::Sum | Kind::Avg | Kind::Spread { .. }, Int2 | Int4 | Int8 | Numeric(_)) => {
                Some(Numeric(None))
            }
            (Kind::BoolAnd | Kind::BoolOr, DataType::Bool | Unknown) => Some(DataType::Bool),
            (Kind::StringAgg, _) if types.len() == 2 => {
                (first.is_textual() || first == Unknown).then_some(Text)
            }
            (Kind::JsonAgg { binary }, _) if types.len() == 1 => Some(json(binary)),
            (Kind::JsonObjectAgg { binary }, _) if types.len() == 2 => Some(json(binary)),
            (Kind::Percentile { .. }, _) if types.len() != 2 => None,
            (Kind::Percentile { between: true }, Interval) => Some(Interval),
            (Kind::Percentile { between: true }, number) if number.is_number() => Some(Float8),
            (Kind::Percentile { between: true }, _) => None,
            (Kind::Single | Kind::First | Kind::Mode | Kind::Percentile { .. }, Unknown) => {
                Some(Text)
            }
            (Kind::Single | Kind::First | Kind::Mode | Kind::Percentile { .. }, _) => {
                Some(first.clone())
            }
            (Kind::ArrayAgg, Unknown) => Some(DataType::Array(Box::new(Text))),
            (Kind::ArrayAgg, _) => Some(DataType::Array(Box::new(first.clone()))),
            (Kind::BitAnd | Kind::BitOr | Kind::BitXor, Int2 | Int4 | Int8) => Some(first.clone()),
            _ => None,
        };
        found.ok_or_else(|| {
            let names: Vec<String> = types.iter().map(type_name).collect();
            let message = format!("function {}({}) does not exist", self.name, names.join(", "));
            Error::new(SqlState::UNDEFINED_FUNCTION, message)
        })
    }
}

fn json(binary: bool) -> DataType {
    if binary { DataType::Jsonb } else { DataType::Json }
}

fn types_of(fields: &[FieldRef]) -> Vec<DataType> {
    let data_type = |field: &FieldRef| match field.data_type() {
        ArrowType::Null => DataType::Unknown,
        _ => type_of_field(field),
    };
    fields.iter().map(data_type).collect()
}

impl AggregateUDFImpl for PgAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        let types: Vec<DataType> =
            arguments.iter().map(crate::query::arrow::type_of_arrow).collect();
        let returns = self.result(&types).map_err(external)?;
        Ok(crate::query::arrow::arrow_type(&returns))
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let returns = self.result(&types_of(fields)).map_err(external)?;
        Ok(Arc::new(field_of(self.name, &returns)))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let types = types_of(args.expr_fields);
        let returns = self.result(&types).map_err(external)?;
        let fold = Fold::new(self.kind, types.clone(), Arc::clone(&self.session.0));
        Ok(Box::new(Folding { fold, types, returns, kind: self.kind }))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let types = types_of(args.expr_fields);
        let returns = self.result(&types).map_err(external)?;
        // Values of other types leave a sum as if they had never been in it. Floats are added up again for each frame.
        match (self.kind, types.first()) {
            (Kind::Sum | Kind::Avg, Some(argument @ DataType::Numeric(_))) => {
                let argument = argument.clone();
                let fold = Fold::new(self.kind, types, Arc::clone(&self.session.0));
                return Ok(Box::new(Moving::new(fold, argument, returns)));
            }
            (Kind::Sum | Kind::Avg, Some(DataType::Float4 | DataType::Float8)) => {}
            (Kind::Sum | Kind::Avg, _) => return self.accumulator(args),
            _ => {}
        }
        let session = self.session.clone();
        let gathered = Gathered::new(self.name, self.kind, types, returns, session);
        Ok(Box::new(Gather::new(&gathered)))
    }

    fn supports_within_group_clause(&self) -> bool {
        matches!(self.kind, Kind::Percentile { .. } | Kind::Mode)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str| {
            Arc::new(Field::new(format!("{}[{part}]", args.name), ArrowType::Utf8, true))
        };
        Ok(vec![field("numbers"), field("text")])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.kind {
            Kind::StringAgg | Kind::JsonAgg { .. } | Kind::JsonObjectAgg { .. } | Kind::First => {
                AggregateOrderSensitivity::SoftRequirement
            }
            _ => AggregateOrderSensitivity::Insensitive,
        }
    }
}

/// Folds the rows of batches.
#[derive(Debug)]
struct Folding {
    fold: Fold,
    types: Vec<DataType>,
    returns: DataType,
    kind: Kind,
}

impl Folding {
    fn each(&mut self, columns: &[ArrayRef], sign: i64) -> Result<()> {
        let mut values = Vec::with_capacity(columns.len());
        for (column, data_type) in columns.iter().zip(&self.types) {
            values.push(read_column(column, data_type).map_err(external)?);
        }
        let count = values.first().map_or(0, Vec::len);
        let mut row = vec![Value::Null; values.len()];
        for at in 0..count {
            for (place, column) in row.iter_mut().zip(&mut values) {
                *place = std::mem::take(&mut column[at]);
            }
            self.fold.add(&row, sign).map_err(external)?;
        }
        Ok(())
    }
}

impl Accumulator for Folding {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.each(columns, 1)
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.each(columns, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        matches!(self.kind, Kind::Sum | Kind::Avg)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.fold.finish(&self.returns).map_err(external)?;
        tracing::trace!(argument = self.fold.argument(), "an aggregate ended");
        scalar_of(&value, &self.returns).map_err(external)
    }

    fn size(&self) -> usize {
        self.fold.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.fold.state();
        state.iter().map(|part| scalar_of(part, &DataType::Text).map_err(external)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let mut columns = Vec::with_capacity(states.len());
        for state in states {
            columns.push(read_column(state, &DataType::Text).map_err(external)?);
        }
        let count = columns.first().map_or(0, Vec::len);
        for at in 0..count {
            let row: Vec<Value> = columns.iter().map(|column| column[at].clone()).collect();
            self.fold.merge(&row).map_err(external)?;
        }
        Ok(())
    }
}
