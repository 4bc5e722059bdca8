//! Values of outer columns, as the body of a subquery reads them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use parking_lot::Mutex;

/// Begins the names of placeholders for outer columns.
pub(crate) const OUTER: &str = "$outer";

/// The outer values of one call, in the order of its arguments.
pub(super) type Slots = Arc<Mutex<Vec<ScalarValue>>>;

/// A function without arguments that returns an outer value.
#[derive(Debug)]
pub(crate) struct Slot {
    at: usize,
    field: FieldRef,
    slots: Slots,
    signature: Signature,
}

impl Slot {
    /// Returns the reader of the value at a place.
    pub(super) fn new(at: usize, field: FieldRef, slots: Slots) -> Self {
        // Volatile, so that no rule computes it before the body runs.
        let signature = Signature::new(TypeSignature::Nullary, Volatility::Volatile);
        Self { at, field, slots, signature }
    }
}

impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at && Arc::ptr_eq(&self.slots, &other.slots)
    }
}

impl Eq for Slot {}

impl Hash for Slot {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
        Arc::as_ptr(&self.slots).hash(state);
    }
}

impl ScalarUDFImpl for Slot {
    fn name(&self) -> &'static str {
        "outer"
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

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = self.slots.lock().get(self.at).cloned();
        let value = value.map_or_else(|| ScalarValue::try_from(self.field.data_type()), Ok)?;
        Ok(ColumnarValue::Scalar(value))
    }
}
