//! Chooses the overload of a function or an operator for the types of its arguments, by the rules
//! that PostgreSQL documents for both.
//!
//! 1. An exact match wins. Else candidates whose arguments convert implicitly are narrowed: most
//!    exact matches, then most preferred types, then the kind of text for unknown literals.
//! 2. Two candidates that remain are 42725; no candidate is 42883.

use relational::{DataType, Error, SqlState};

use super::registry::{Overload, Pattern, Returns, overloads};
use crate::values::{CastContext, can_cast, type_name};

/// An overload with the types that its arguments are converted to.
#[derive(Clone)]
pub(crate) struct Bound {
    /// The overload that was chosen.
    pub(crate) overload: &'static Overload,
    /// Types of the arguments, one for each.
    pub(crate) arguments: Vec<DataType>,
    /// Type of the values that result.
    pub(crate) returns: DataType,
}

/// Kinds of types among which PostgreSQL prefers one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Category {
    Bool,
    Number,
    Text,
    Moment,
    Span,
    Array,
    Other,
    Unknown,
}

/// Returns the kind of a type.
pub(crate) fn category(data_type: &DataType) -> Category {
    match data_type {
        DataType::Bool => Category::Bool,
        DataType::Oid => Category::Number,
        number if number.is_number() => Category::Number,
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Name => {
            Category::Text
        }
        DataType::Date | DataType::Time | DataType::Timestamp | DataType::TimestampTz => {
            Category::Moment
        }
        DataType::Interval => Category::Span,
        DataType::Array(_) => Category::Array,
        DataType::Unknown => Category::Unknown,
        _ => Category::Other,
    }
}

/// Returns whether a type is preferred in its kind.
pub(crate) fn preferred(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Bool
            | DataType::Float8
            | DataType::Oid
            | DataType::Text
            | DataType::TimestampTz
            | DataType::Interval
    )
}

/// Returns the type without length, precision and scale.
pub(crate) fn bare(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Varchar(_) => DataType::Varchar(None),
        DataType::Char(_) => DataType::Char(1),
        DataType::Numeric(_) => DataType::Numeric(None),
        DataType::Array(element) => DataType::Array(Box::new(bare(element))),
        other => other.clone(),
    }
}

/// Returns the overload for a call. Errors: 42883 and 42725, with PostgreSQL's words.
pub(crate) fn resolve(name: &str, arguments: &[DataType]) -> Result<Bound, Error> {
    let given: Vec<DataType> = arguments.iter().map(bare).collect();
    let all = overloads(name);
    let operator = name.starts_with("op:");
    if operator && let Some(found) = exact_operator(all, &given) {
        return Ok(found);
    }
    let mut candidates: Vec<Bound> =
        all.iter().filter_map(|overload| fit(overload, &given)).collect();
    if let Some(exact) = candidates.iter().find(|bound| bound.arguments == given) {
        return Ok(exact.clone());
    }
    narrow(&mut candidates, &given);
    let least = candidates.iter().map(open_places).min().unwrap_or(0);
    candidates.retain(|bound| open_places(bound) == least);
    match candidates.len() {
        0 => Err(undefined(name, arguments)),
        1 => Ok(candidates.swap_remove(0)),
        _ => match same_type(&candidates, &given) {
            Some(found) => Ok(found),
            None => Err(ambiguous(name, arguments)),
        },
    }
}

/// Returns the overload of an operator whose unknown operand takes the other's type.
fn exact_operator(all: &'static [Overload], given: &[DataType]) -> Option<Bound> {
    let known = given.iter().find(|data_type| **data_type != DataType::Unknown)?;
    let assumed: Vec<DataType> = given
        .iter()
        .map(|data_type| if *data_type == DataType::Unknown { known } else { data_type })
        .cloned()
        .collect();
    let mut fits = all.iter().filter_map(|overload| fit(overload, &assumed));
    fits.find(|bound| bound.arguments == assumed)
}

/// Returns the overload bound to the arguments, if each of them converts implicitly.
fn fit(overload: &'static Overload, given: &[DataType]) -> Option<Bound> {
    let fixed = overload.arguments.len();
    let enough = match &overload.variadic {
        Some(_) => given.len() >= fixed,
        None => given.len() == fixed,
    };
    if !enough {
        return None;
    }
    let mut element: Option<DataType> = None;
    let is_comparison = overload.name.starts_with("op:")
        && overload.arguments.iter().all(|pattern| matches!(pattern, Pattern::Element));
    let patterns = overload
        .arguments
        .iter()
        .chain(std::iter::repeat(overload.variadic.as_ref().unwrap_or(&Pattern::Any)));
    // Polymorphic arguments must agree before any is converted.
    for (data_type, pattern) in given.iter().zip(patterns.clone()) {
        let found = match (pattern, data_type) {
            (_, DataType::Unknown) => continue,
            (Pattern::Element, data_type) => data_type.clone(),
            (Pattern::Array, DataType::Array(inner)) => (**inner).clone(),
            (Pattern::Array, _) => return None,
            _ => continue,
        };
        element = Some(match element {
            None => found,
            Some(before) if before == found => before,
            Some(before) if is_comparison && mixes_real(&before, &found) => DataType::Float8,
            Some(before) if can_cast(&found, &before, CastContext::Implicit) => before,
            Some(before) if can_cast(&before, &found, CastContext::Implicit) => found,
            Some(_) => return None,
        });
    }
    let element = element.unwrap_or(DataType::Text);
    let array = DataType::Array(Box::new(element.clone()));
    let mut arguments = Vec::with_capacity(given.len());
    for (data_type, pattern) in given.iter().zip(patterns) {
        let wanted = match pattern {
            Pattern::Exact(wanted) => wanted.clone(),
            Pattern::Any => match data_type {
                DataType::Unknown => DataType::Text,
                other => other.clone(),
            },
            Pattern::Element => element.clone(),
            Pattern::Array => array.clone(),
        };
        if !can_cast(data_type, &wanted, CastContext::Implicit) {
            return None;
        }
        arguments.push(wanted);
    }
    let returns = match &overload.returns {
        Returns::Exact(returns) => returns.clone(),
        Returns::Element => element,
        Returns::Array => array,
    };
    Some(Bound { overload, arguments, returns })
}

/// Returns whether one of two types is real and the other another number. There is no operator that compares
/// the two, so both become the preferred type of numbers.
fn mixes_real(left: &DataType, right: &DataType) -> bool {
    let is_real = |data_type: &DataType| *data_type == DataType::Float4;
    left.is_number() && right.is_number() && is_real(left) != is_real(right)
}

/// Keeps the candidates for which a count is largest.
fn keep_most(candidates: &mut Vec<Bound>, count: impl Fn(&Bound) -> usize) {
    let most = candidates.iter().map(&count).max().unwrap_or(0);
    candidates.retain(|bound| count(bound) == most);
}

/// Counts the arguments of a candidate that take any type.
fn open_places(bound: &Bound) -> usize {
    bound.overload.arguments.iter().filter(|pattern| matches!(pattern, Pattern::Any)).count()
}

fn narrow(candidates: &mut Vec<Bound>, given: &[DataType]) {
    let pairs = |bound: &Bound, test: &dyn Fn(&DataType, &DataType) -> bool| {
        given.iter().zip(&bound.arguments).filter(|(given, wanted)| test(given, wanted)).count()
    };
    let known = |data_type: &DataType| *data_type != DataType::Unknown;
    keep_most(candidates, |bound| pairs(bound, &|given, wanted| known(given) && given == wanted));
    if candidates.len() > 1 {
        keep_most(candidates, |bound| {
            pairs(bound, &|given, wanted| {
                let same = category(given) == category(wanted);
                known(given) && (given == wanted || (same && preferred(wanted)))
            })
        });
    }
    for (at, data_type) in given.iter().enumerate() {
        if candidates.len() < 2 || known(data_type) {
            continue;
        }
        let kind = |bound: &Bound| category(&bound.arguments[at]);
        let first = kind(&candidates[0]);
        let wanted = if candidates.iter().any(|bound| kind(bound) == Category::Text) {
            Category::Text
        } else if candidates.iter().all(|bound| kind(bound) == first) {
            first
        } else {
            continue;
        };
        candidates.retain(|bound| kind(bound) == wanted);
        if candidates.iter().any(|bound| preferred(&bound.arguments[at])) {
            candidates.retain(|bound| preferred(&bound.arguments[at]));
        }
    }
}

/// Returns the candidate that takes the one known type in all places.
fn same_type(candidates: &[Bound], given: &[DataType]) -> Option<Bound> {
    let mut known = given.iter().filter(|data_type| **data_type != DataType::Unknown);
    let first = known.next()?;
    if known.any(|other| other != first) {
        return None;
    }
    let fits = |bound: &&Bound| bound.arguments.iter().all(|wanted| wanted == first);
    candidates.iter().find(fits).cloned()
}

/// Returns the call as PostgreSQL writes it in messages.
fn signature(name: &str, arguments: &[DataType]) -> String {
    let names: Vec<String> =
        arguments.iter().map(|data_type| type_name(&bare_name(data_type))).collect();
    match (name.strip_prefix("op:"), names.as_slice()) {
        (Some(operator), [right]) => format!("{operator} {right}"),
        (Some(operator), [left, right]) => format!("{left} {operator} {right}"),
        _ => format!("{name}({})", names.join(", ")),
    }
}

/// Returns the type as messages name it: without modifiers.
fn bare_name(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Char(_) => DataType::Char(1),
        other => bare(other),
    }
}

fn undefined(name: &str, arguments: &[DataType]) -> Error {
    let what = if name.starts_with("op:") { "operator" } else { "function" };
    let call = signature(name, arguments).replace("character(1)", "character");
    let hint = format!(
        "No {what} matches the given name and argument types. You might need to add explicit type casts."
    );
    Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("{what} {} does not exist", call.trim_start_matches("op:")),
    )
    .with_hint(hint)
}

fn ambiguous(name: &str, arguments: &[DataType]) -> Error {
    let what = if name.starts_with("op:") { "operator" } else { "function" };
    let call = signature(name, arguments);
    let hint = format!(
        "Could not choose a best candidate {what}. You might need to add explicit type casts."
    );
    Error::new(SqlState::AMBIGUOUS_FUNCTION, format!("{what} {call} is not unique")).with_hint(hint)
}

/// Returns the type that several expressions take together, as CASE, UNION and VALUES need it.
/// 42804 if they have no common type; `place` names the construct in the message.
pub(crate) fn common_type(types: &[DataType], place: &str) -> Result<DataType, Error> {
    let Some(first) = types.iter().find(|data_type| **data_type != DataType::Unknown) else {
        return Ok(DataType::Text);
    };
    if types.iter().all(|other| other == first || *other == DataType::Unknown) {
        return Ok(first.clone());
    }
    let mut chosen = bare(first);
    for other in types.iter().map(bare).filter(|data_type| *data_type != DataType::Unknown) {
        if other == chosen {
            continue;
        }
        if category(&other) != category(&chosen) {
            let (left, right) = (type_name(&chosen), type_name(&other));
            let message = format!("{place} types {left} and {right} cannot be matched");
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let up = can_cast(&chosen, &other, CastContext::Implicit);
        let down = can_cast(&other, &chosen, CastContext::Implicit);
        if !preferred(&chosen) && up && !down {
            chosen = other;
        } else if !down {
            let (left, right) = (type_name(&chosen), type_name(&other));
            let message = format!("{place} could not convert type {right} to {left}");
            return Err(Error::new(SqlState::CANNOT_COERCE, message));
        }
    }
    Ok(match chosen {
        DataType::Char(_) => DataType::Text,
        chosen => chosen,
    })
}
