//! Bound functions: what remains of a call when its overload is chosen. They run in DataFusion on
//! columns, and in `expression/` on single values, with the same bodies.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use relational::{DataType, Error, SqlState, Value};

use super::named::any_arguments;
use super::{external, kernels};
use crate::expression::context::EvalContext;
use crate::expression::registry::{Call, Volatility as Own};
use crate::expression::resolve::Bound;
use crate::query::arrow::{
    KEY_TAIL, array_of, arrow_type, encode_interval, encode_json, encode_numeric, field_of,
    read_column, scalar_of, scalar_value,
};
use crate::values::{CastContext, cast_with};

/// Marks in the key of an array: its end, an element, and NULL, which comes last.
const ARRAY_END: u8 = 0;
const ELEMENT: u8 = 1;
const NULL_ELEMENT: u8 = 2;
/// Most bytes of the values that a function gives for the rows of one batch.
const ROWS_BYTES_MAX: usize = 512 << 20;

/// The work of a bound function.
#[derive(Clone)]
pub(crate) enum Work {
    /// Calls the body of an overload.
    Call(Box<Bound>),
    /// Converts its argument, of which it has one.
    Cast {
        /// The type of the result.
        to: DataType,
        /// The place of the cast.
        context: CastContext,
    },
    /// Returns the bytes by which its argument compares.
    Key,
    /// Compares a value with the elements of an array.
    Quantified {
        /// True if one element is enough.
        any: bool,
        /// The operator between value and element.
        bound: Box<Bound>,
    },
}

/// A function with fixed types.
pub(crate) struct BoundFunction {
    name: String,
    /// The work that it does.
    pub(crate) work: Work,
    /// Types of the arguments, in their order.
    pub(crate) types: Vec<DataType>,
    /// Type of the values that result.
    pub(crate) returns: DataType,
    signature: Signature,
    /// Settings of the session; set when a plan starts to run.
    context: Option<Arc<EvalContext>>,
}

impl BoundFunction {
    /// Returns a call of a bound function.
    pub(crate) fn call(
        name: &str,
        work: Work,
        types: Vec<DataType>,
        returns: DataType,
        args: Vec<Expr>,
    ) -> Expr {
        let volatility = match &work {
            Work::Call(bound) => match bound.overload.volatility {
                Own::Immutable => Volatility::Immutable,
                Own::Stable => Volatility::Stable,
                Own::Volatile => Volatility::Volatile,
            },
            _ => Volatility::Immutable,
        };
        let name = name.trim_start_matches("op:").to_owned();
        let signature = any_arguments(volatility);
        let function = Self { name, work, types, returns, signature, context: None };
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), args))
    }

    /// Returns whether the function is LIKE with the usual escape.
    pub(crate) fn is_like(&self) -> bool {
        self.name == "~~"
    }

    /// Returns the function with what the session gives.
    pub(crate) fn in_context(&self, context: &Arc<EvalContext>) -> ScalarUDF {
        ScalarUDF::from(Self {
            name: self.name.clone(),
            work: self.work.clone(),
            types: self.types.clone(),
            returns: self.returns.clone(),
            signature: self.signature.clone(),
            context: Some(Arc::clone(context)),
        })
    }

    /// Returns the result for one row of values.
    pub(crate) fn value(
        &self,
        arguments: &[Value],
        context: &EvalContext,
    ) -> relational::Result<Value> {
        match &self.work {
            Work::Call(bound) => call_body(bound, arguments, &self.types, &self.returns, context),
            Work::Cast { to, context: place } => {
                let value = arguments.first().cloned().unwrap_or_default();
                cast_with(value, to, *place, &context.settings)
            }
            Work::Key => Ok(match arguments.first() {
                Some(Value::Numeric(number)) => {
                    let bytes = encode_numeric(number);
                    Value::Bytea(bytes[..bytes.len() - KEY_TAIL.0].to_vec().into())
                }
                Some(Value::Interval { months, days, micros }) => {
                    let bytes = encode_interval(*months, *days, *micros);
                    Value::Bytea(bytes[..bytes.len() - KEY_TAIL.1].to_vec().into())
                }
                Some(Value::Jsonb(text)) => {
                    Value::Bytea(encode_json(&crate::values::json::parse(text)?).into())
                }
                Some(Value::Array(array)) => {
                    let mut bytes = Vec::new();
                    for element in &array.values {
                        let key = self.value(std::slice::from_ref(element), context)?;
                        put_element(&key, &mut bytes);
                    }
                    bytes.push(ARRAY_END);
                    Value::Bytea(bytes.into())
                }
                Some(Value::Float4(number)) => {
                    Value::Float4(if number.is_nan() { f32::NAN } else { *number + 0.0 })
                }
                Some(Value::Float8(number)) => {
                    Value::Float8(if number.is_nan() { f64::NAN } else { *number + 0.0 })
                }
                _ => Value::Null,
            }),
            Work::Quantified { any, bound } => quantified(*any, bound, arguments, context),
        }
    }
}

/// Appends the key of an element to the key of its array, so that keys of arrays have the order of arrays.
fn put_element(key: &Value, out: &mut Vec<u8>) {
    let float = |number: f64| {
        let bits = number.to_bits();
        (if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }).to_be_bytes()
    };
    let of_float;
    let bytes: &[u8] = match key {
        Value::Bytea(bytes) => &bytes[..],
        Value::Float4(number) => {
            of_float = float((*number).into());
            &of_float
        }
        Value::Float8(number) => {
            of_float = float(*number);
            &of_float
        }
        _ => return out.push(NULL_ELEMENT),
    };
    out.push(ELEMENT);
    for byte in bytes {
        out.push(*byte);
        // Two zeros end the element, so that none of its own are two.
        out.extend((*byte == 0).then_some(0xff));
    }
    out.extend_from_slice(&[0, 0]);
}

fn call_body(
    bound: &Bound,
    arguments: &[Value],
    types: &[DataType],
    returns: &DataType,
    context: &EvalContext,
) -> relational::Result<Value> {
    if bound.overload.strict && arguments.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    (bound.overload.body)(&Call { arguments, types, returns, context })
}

/// Compares by three-valued logic: an unknown comparison leaves the answer open.
fn quantified(
    any: bool,
    bound: &Bound,
    arguments: &[Value],
    context: &EvalContext,
) -> relational::Result<Value> {
    let [left, Value::Array(array)] = arguments else { return Ok(Value::Null) };
    let mut open = false;
    for item in &array.values {
        let pair = [left.clone(), item.clone()];
        match call_body(bound, &pair, &bound.arguments, &bound.returns, context)? {
            Value::Bool(found) if found == any => return Ok(Value::Bool(any)),
            Value::Bool(_) => {}
            _ => open = true,
        }
    }
    Ok(if open { Value::Null } else { Value::Bool(!any) })
}

impl std::fmt::Debug for BoundFunction {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.name)
    }
}

impl PartialEq for BoundFunction {
    fn eq(&self, other: &Self) -> bool {
        let place = |work: &Work| match work {
            Work::Cast { context, .. } => Some(*context),
            _ => None,
        };
        self.name == other.name
            && self.types == other.types
            && self.returns == other.returns
            && place(&self.work) == place(&other.work)
            && self.context.as_ref().map(Arc::as_ptr) == other.context.as_ref().map(Arc::as_ptr)
    }
}

impl Eq for BoundFunction {}

impl Hash for BoundFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.types.hash(state);
        self.returns.hash(state);
    }
}

impl ScalarUDFImpl for BoundFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(arrow_type(&self.returns))
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(field_of(&self.name, &self.returns)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(result) = kernels::run(self, &args.args)? {
            return Ok(result);
        }
        let fallback = EvalContext::default();
        let context = self.context.as_deref().unwrap_or(&fallback);
        let volatile = self.signature.volatility == Volatility::Volatile;
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if constant && !volatile {
            let mut values = Vec::with_capacity(args.args.len());
            for (arg, data_type) in args.args.iter().zip(&self.types) {
                if let ColumnarValue::Scalar(scalar) = arg {
                    values.push(scalar_value(scalar, data_type).map_err(external)?);
                }
            }
            let value = self.value(&values, context).map_err(external)?;
            return scalar_of(&value, &self.returns).map(ColumnarValue::Scalar).map_err(external);
        }
        self.rows(&args.args, args.number_rows, context).map(ColumnarValue::Array)
    }
}

impl BoundFunction {
    /// Computes the results row by row.
    fn rows(
        &self,
        args: &[ColumnarValue],
        count: usize,
        context: &EvalContext,
    ) -> Result<ArrayRef> {
        let mut columns = Vec::with_capacity(args.len());
        for (arg, data_type) in args.iter().zip(&self.types) {
            columns.push(
                match arg {
                    ColumnarValue::Array(array) => read_column(array, data_type),
                    ColumnarValue::Scalar(scalar) => {
                        scalar_value(scalar, data_type).map(|value| vec![value])
                    }
                }
                .map_err(external)?,
            );
        }
        let mut out = Vec::with_capacity(count);
        let mut bytes = 0;
        let mut row = vec![Value::Null; columns.len()];
        for at in 0..count {
            for (place, column) in row.iter_mut().zip(&columns) {
                *place = column.get(at).or(column.first()).cloned().unwrap_or_default();
            }
            let value = self.value(&row, context).map_err(external)?;
            bytes += value.memory_bytes();
            if bytes > ROWS_BYTES_MAX {
                let detail = format!("Values of {ROWS_BYTES_MAX} bytes were computed at once.");
                let error = Error::new(SqlState::OUT_OF_MEMORY, "out of memory");
                return Err(external(error.with_detail(detail)));
            }
            out.push(value);
        }
        array_of(&out, &self.returns).map_err(external)
    }
}
