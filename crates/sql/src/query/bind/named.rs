//! Calls by name, as they are before the analyzer binds them: they know their type only.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use relational::DataType;

use super::special::{SPECIAL, special_type};
use super::{external, is_unknown};
use crate::expression::registry::{self, Volatility as Own, overloads};
use crate::expression::resolve::resolve;
use crate::query::arrow::{TYPE_KEY, field_of, type_of_field};

/// A function by its name.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamedFunction {
    name: String,
    signature: Signature,
}

static NAMED: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let names = registry::names().chain(SPECIAL.iter().copied());
    names
        .map(|name| {
            let function =
                NamedFunction { name: name.to_owned(), signature: any_arguments(volatility(name)) };
            (name.to_owned(), Arc::new(ScalarUDF::from(function)))
        })
        .collect()
});

/// Returns the function of a name.
pub(crate) fn named_function(name: &str) -> Option<Arc<ScalarUDF>> {
    NAMED.get(name).cloned()
}

/// Returns the signature that leaves arguments as they are.
pub(crate) fn any_arguments(volatility: Volatility) -> Signature {
    let any = TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]);
    Signature::new(any, volatility)
}

fn volatility(name: &str) -> Volatility {
    let all = overloads(name);
    if all.iter().any(|overload| overload.volatility == Own::Volatile) {
        Volatility::Volatile
    } else if all.iter().any(|overload| overload.volatility == Own::Stable) {
        Volatility::Stable
    } else {
        Volatility::Immutable
    }
}

impl ScalarUDFImpl for NamedFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Result<ArrowType> {
        Err(DataFusionError::Internal(format!("{} tells its field", self.name)))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args
            .arg_fields
            .iter()
            .zip(args.scalar_arguments)
            .map(|(field, scalar)| argument_type(field, *scalar))
            .collect();
        let returns = match special_type(&self.name, &types, args.scalar_arguments) {
            Some(returns) => returns.map_err(external)?,
            None => resolve(&self.name, &types).map_err(external)?.returns,
        };
        Ok(Arc::new(field_of(&self.name, &returns)))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(DataFusionError::Internal(format!("{} was not bound", self.name)))
    }
}

/// Returns the type of an argument; unknown for literals without one and for parameters.
fn argument_type(field: &FieldRef, scalar: Option<&ScalarValue>) -> DataType {
    if *field.data_type() == ArrowType::Null {
        return DataType::Unknown;
    }
    let told = field.metadata().contains_key(TYPE_KEY);
    match scalar {
        Some(value) if is_unknown(value, told) => DataType::Unknown,
        _ => type_of_field(field),
    }
}
