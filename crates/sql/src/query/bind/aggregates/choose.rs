//! Chooses the form in which an aggregate runs: DataFusion's own, one that folds, or one that gathers.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{AggregateUDF, Expr};
use relational::{DataType, Error, SqlState};

use super::super::equality::{key, needs_key};
use super::super::rule::{Binder, widen};
use super::super::{external, type_of};
use super::fold::Kind;
use super::gather::Gathered;
use super::{PgAggregate, Session};
use crate::values::CastContext;

/// Aggregates that give the same for each value once and for each value as often as it comes.
const SAME_IF_DISTINCT: &[&str] = &["min", "max", "bool_and", "bool_or", "bit_and", "bit_or"];

/// Aggregates of DataFusion whose arguments are floats.
const OF_FLOATS: &[&str] = &["corr", "covar_samp", "covar_pop"];

impl Binder<'_> {
    /// Returns an aggregate in the form that runs.
    pub(in super::super) fn aggregate(
        &self,
        mut aggregate: AggregateFunction,
        schema: &DFSchema,
    ) -> Result<Expr> {
        let name = aggregate.func.name().to_owned();
        let params = &mut aggregate.params;
        let own = aggregate.func.inner().downcast_ref::<PgAggregate>().map(|own| own.kind);
        if OF_FLOATS.contains(&name.as_str()) || name.starts_with("regr_") {
            for arg in &mut params.args {
                let from = type_of(arg, schema)?;
                let float = DataType::Float8;
                *arg = self.convert(arg.clone(), &from, &float, CastContext::Implicit)?;
            }
        }
        if name == "array_agg"
            && let Some(argument) = params.args.first()
            && type_of(argument, schema)?.element().is_some()
        {
            let message = "arrays of several dimensions are not supported";
            return Err(external(Error::unsupported(message)));
        }
        if SAME_IF_DISTINCT.contains(&name.as_str()) {
            params.distinct = false;
        }
        if name == "count" && params.distinct {
            for arg in &mut params.args {
                let data_type = type_of(arg, schema)?;
                if needs_key(&data_type) {
                    *arg = key(arg.clone(), &data_type);
                }
            }
        }
        let by_order = match own {
            None => name == "array_agg",
            Some(Kind::StringAgg | Kind::JsonAgg { .. } | Kind::JsonObjectAgg { .. }) => true,
            Some(Kind::Percentile { .. } | Kind::Mode) => true,
            Some(_) => false,
        };
        if !by_order {
            params.order_by.clear();
        }
        let gathers = !params.order_by.is_empty() || (params.distinct && name != "count");
        let kind = own.or((name == "array_agg").then_some(Kind::ArrayAgg));
        if let Some(kind) = kind.filter(|_| gathers) {
            return self.gathered(aggregate, kind, schema);
        }
        let Some(first) = aggregate.params.args.first() else {
            return Ok(Expr::AggregateFunction(aggregate));
        };
        // Sums and averages of small numbers run on DataFusion's own accumulators.
        let fast = match (name.as_str(), type_of(first, schema)?) {
            ("sum", DataType::Int2 | DataType::Int4) => ArrowType::Int64,
            ("sum" | "avg", DataType::Float8) => ArrowType::Float64,
            _ => return Ok(Expr::AggregateFunction(aggregate)),
        };
        aggregate.func = match name.as_str() {
            "sum" => datafusion::functions_aggregate::sum::sum_udaf(),
            _ => datafusion::functions_aggregate::average::avg_udaf(),
        };
        let argument = aggregate.params.args.remove(0);
        aggregate.params.args = vec![widen(argument, &fast)];
        Ok(Expr::AggregateFunction(aggregate))
    }

    /// Returns the aggregate that gathers its rows; the expressions of ORDER BY become arguments.
    fn gathered(
        &self,
        mut aggregate: AggregateFunction,
        kind: Kind,
        schema: &DFSchema,
    ) -> Result<Expr> {
        let name = aggregate.func.name().to_owned();
        let params = &mut aggregate.params;
        let mut types = Vec::with_capacity(params.args.len());
        for arg in &mut params.args {
            let data_type = type_of(arg, schema)?;
            let text = DataType::Text;
            types.push(match data_type {
                DataType::Unknown => {
                    *arg = self.convert(arg.clone(), &data_type, &text, CastContext::Implicit)?;
                    text
                }
                known => known,
            });
        }
        if let (Kind::Percentile { .. }, [_, fraction]) = (kind, params.args.as_mut_slice()) {
            if let DataType::Array(_) = types[1] {
                let message = format!("{name} of several fractions is not supported");
                return Err(external(Error::unsupported(message)));
            }
            let float = DataType::Float8;
            *fraction = self.convert(fraction.clone(), &types[1], &float, CastContext::Implicit)?;
            types[1] = float;
        }
        let returns = PgAggregate::new("", kind).result(&types).map_err(|problem| {
            external(match problem.state == SqlState::UNDEFINED_FUNCTION {
                true => {
                    let message =
                        problem.message.replacen("function ", &format!("function {name}"), 1);
                    Error::new(SqlState::UNDEFINED_FUNCTION, message)
                }
                false => problem,
            })
        })?;
        let mut order = Vec::new();
        let mut all = types.clone();
        for sort in std::mem::take(&mut params.order_by) {
            let data_type = type_of(&sort.expr, schema)?;
            let by_key = data_type == DataType::Jsonb;
            order.push(SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first });
            params.args.push(if by_key { key(sort.expr, &data_type) } else { sort.expr });
            all.push(match data_type {
                _ if by_key => DataType::Bytea,
                DataType::Unknown => DataType::Text,
                known => known,
            });
        }
        let mut gathered = Gathered::new(&name, kind, types, returns, Session::default());
        gathered.all = all;
        gathered.order = order;
        gathered.distinct = std::mem::take(&mut params.distinct);
        aggregate.func = Arc::new(AggregateUDF::from(gathered));
        Ok(Expr::AggregateFunction(aggregate))
    }
}
