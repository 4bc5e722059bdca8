//! The function that runs the body of a subquery for each row.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StructArray, new_null_array};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Fields};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Volatility,
};
use relational::{DataType, Error, SqlState};

use super::run::{Ready, waiting};
use crate::query::arrow::{element_field, field_of, type_of_field};
use crate::query::bind::{any_arguments, external};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The question that a call asks of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The one value; NULL without a row, 21000 with a second one.
    Scalar,
    /// True if there is a row.
    Exists,
    /// True if one row is true; NULL if none is and one is NULL.
    Any,
    /// False if one row is false; NULL if none is and one is NULL.
    All,
    /// All values as an array.
    Array,
    /// All rows as a list; `outer` asks for NULL in place of no row.
    Rows {
        /// True for LEFT JOIN, whose left row stays.
        outer: bool,
    },
}

/// A subquery as a function of its outer columns.
pub(crate) struct Apply {
    id: u64,
    kind: Kind,
    /// The body, with placeholders for outer columns.
    pub(super) body: Arc<LogicalPlan>,
    /// Placeholders of the outer columns in the order of the arguments.
    pub(super) outer: Vec<(String, FieldRef)>,
    returns: FieldRef,
    signature: Signature,
    ready: Option<Arc<Ready>>,
}

impl Apply {
    /// Returns the function of a body.
    pub(super) fn new(
        kind: Kind,
        body: LogicalPlan,
        outer: Vec<(String, FieldRef)>,
    ) -> Result<Self> {
        let first = || body.schema().fields().first().cloned();
        let returns = match kind {
            Kind::Scalar => match first() {
                Some(field) => field.as_ref().clone().with_nullable(true),
                None => field_of("subquery", &DataType::Text),
            },
            Kind::Exists | Kind::Any | Kind::All => field_of("subquery", &DataType::Bool),
            Kind::Array => {
                let element = first().map_or(DataType::Text, |field| type_of_field(&field));
                field_of("array", &DataType::Array(Box::new(element)))
            }
            Kind::Rows { .. } => {
                let parts = body.schema().fields().iter().enumerate().map(|(at, field)| {
                    field.as_ref().clone().with_name(format!("c{at}")).with_nullable(true)
                });
                let parts = ArrowType::Struct(Fields::from_iter(parts));
                let item = Arc::new(Field::new_list_field(parts, true));
                Field::new("rows", ArrowType::List(item), true)
            }
        };
        // Volatile, so that no rule runs it while a plan is made.
        let signature = any_arguments(Volatility::Volatile);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (body, returns) = (Arc::new(body), Arc::new(returns));
        Ok(Self { id, kind, body, outer, returns, signature, ready: None })
    }

    /// Returns the function with a body that can run.
    pub(super) fn with(&self, ready: Arc<Ready>) -> Self {
        Self {
            id: self.id,
            kind: self.kind,
            body: Arc::clone(&self.body),
            outer: self.outer.clone(),
            returns: Arc::clone(&self.returns),
            signature: self.signature.clone(),
            ready: Some(ready),
        }
    }

    /// Returns the number by which the call is told from others.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Asks the body of one row.
    fn ask(&self, ready: &Ready) -> Result<ScalarValue> {
        let nothing = || ScalarValue::try_from(self.returns.data_type());
        match self.kind {
            Kind::Exists => Ok(ScalarValue::Boolean(Some(ready.has_row()?))),
            Kind::Any => Ok(ScalarValue::Boolean(ready.quantified(true)?)),
            Kind::All => Ok(ScalarValue::Boolean(ready.quantified(false)?)),
            Kind::Scalar => {
                let (batches, _memory) = ready.gather(2)?;
                if batches.iter().map(RecordBatch::num_rows).sum::<usize>() > 1 {
                    let message = "more than one row returned by a subquery used as an expression";
                    return Err(external(Error::new(SqlState::CARDINALITY_VIOLATION, message)));
                }
                match batches.iter().find(|batch| batch.num_rows() > 0) {
                    Some(batch) => ScalarValue::try_from_array(batch.column(0), 0),
                    None => nothing(),
                }
            }
            Kind::Array => {
                let (batches, _memory) = ready.gather(usize::MAX)?;
                let all = concat_batches(&ready.schema(), &batches)?;
                self.list(Arc::clone(all.column(0)))
            }
            Kind::Rows { outer } => {
                let (batches, _memory) = ready.gather(usize::MAX)?;
                let all = concat_batches(&ready.schema(), &batches)?;
                let ArrowType::List(item) = self.returns.data_type() else { return nothing() };
                let ArrowType::Struct(fields) = item.data_type() else { return nothing() };
                if outer && all.num_rows() == 0 {
                    return nothing();
                }
                let rows = StructArray::try_new_with_length(
                    fields.clone(),
                    all.columns().to_vec(),
                    None,
                    all.num_rows(),
                )?;
                self.list(Arc::new(rows))
            }
        }
    }

    fn list(&self, items: ArrayRef) -> Result<ScalarValue> {
        let field = match self.returns.data_type() {
            ArrowType::List(field) => Arc::clone(field),
            _ => element_field(&DataType::Text),
        };
        Ok(SingleRowListArrayBuilder::new(items).with_field(&field).build_list_scalar())
    }
}

impl std::fmt::Debug for Apply {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "subquery {} {:?}", self.id, self.kind)
    }
}

impl PartialEq for Apply {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.ready.is_some() == other.ready.is_some()
    }
}

impl Eq for Apply {}

impl Hash for Apply {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl ScalarUDFImpl for Apply {
    fn name(&self) -> &'static str {
        "subquery"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(self.returns.data_type().clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&self.returns))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let missing = || external(Error::internal("a subquery was not made ready"));
        let ready = self.ready.as_ref().ok_or_else(missing)?;
        if args.number_rows == 0 {
            return Ok(ColumnarValue::Array(new_null_array(self.returns.data_type(), 0)));
        }
        let outer = |row: usize| -> Result<Vec<ScalarValue>> {
            let value = |arg: &ColumnarValue| match arg {
                ColumnarValue::Array(array) => ScalarValue::try_from_array(array, row),
                ColumnarValue::Scalar(scalar) => Ok(scalar.clone()),
            };
            args.args.iter().map(value).collect()
        };
        let memory = ready.memory();
        let answer = |row: usize| {
            let answer = ready.answer(outer(row)?, |ready| self.ask(ready))?;
            memory.try_grow(answer.size())?;
            Ok(answer)
        };
        let answers: Result<Vec<ScalarValue>> =
            waiting(|| (0..args.number_rows).map(answer).collect());
        ScalarValue::iter_to_array(answers?).map(ColumnarValue::Array)
    }
}

/// A part of each row of a spread list.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    at: usize,
    field: FieldRef,
    signature: Signature,
}

impl Part {
    /// Returns the reader of a part.
    pub(super) fn new(at: usize, field: FieldRef) -> Self {
        let field = Arc::new(field.as_ref().clone().with_nullable(true));
        Self { at, field, signature: any_arguments(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Part {
    fn name(&self) -> &'static str {
        "part"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = arrays.first().and_then(|array| array.as_struct_opt());
        let Some(rows) = rows else {
            let length = arrays.first().map_or(0, |array| array.len());
            return Ok(ColumnarValue::Array(new_null_array(self.field.data_type(), length)));
        };
        // The parts of a NULL row may hold anything.
        let part = rows.column(self.at);
        let part = match rows.nulls() {
            None => Arc::clone(part),
            Some(nulls) => {
                let keep = datafusion::arrow::array::BooleanArray::new(!nulls.inner(), None);
                datafusion::arrow::compute::nullif(part, &keep)?
            }
        };
        Ok(ColumnarValue::Array(part))
    }
}
