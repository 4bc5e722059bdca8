//! All functions and operators, by name. Operators are functions named `op:` and their symbol.
//!
//! A signature is a text: types of the arguments, `->`, type of the result, then flags. `any`,
//! `anyelement` and `anyarray` are PostgreSQL's polymorphic types; `...` after the last argument
//! repeats it. Flags: `null` (called with NULL too), `stable` (needs the session), `volatile`.
//!
//! 1. This is the single source of scalar semantics: rows of a query and of a DML statement are
//!    computed by the same bodies.

use std::collections::HashMap;
use std::sync::LazyLock;

use relational::{DataType, Result, Value};

use super::context::EvalContext;
use super::functions;
use crate::values::parse_type;

/// One call: arguments, their types and what the session gives.
pub(crate) struct Call<'a> {
    /// Values, already of the types of the overload.
    pub(crate) arguments: &'a [Value],
    /// Types of the arguments, in their order.
    pub(crate) types: &'a [DataType],
    /// Type of the values that result.
    pub(crate) returns: &'a DataType,
    /// Time, settings and catalog of the statement.
    pub(crate) context: &'a EvalContext,
}

/// Computes the result of one call.
pub(crate) type Body = fn(&Call<'_>) -> Result<Value>;

/// One line of a table of functions: name, signature, body.
pub(crate) type Definition = (&'static str, &'static str, Body);

/// The type that an argument must have.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// This type, or one that converts to it.
    Exact(DataType),
    /// Any type, and it is not converted.
    Any,
    /// The type that all `anyelement` share.
    Element,
    /// The type of arrays of it.
    Array,
}

/// The type of the result.
#[derive(Clone, Debug)]
pub(crate) enum Returns {
    /// This type for all arguments.
    Exact(DataType),
    /// The type that `anyelement` stands for.
    Element,
    /// The type of arrays of it.
    Array,
}

/// The things beside the arguments that a result depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Volatility {
    /// Equal arguments give equal results.
    Immutable,
    /// Equal results within one statement.
    Stable,
    /// Each call may give another result.
    Volatile,
}

/// One form of a function.
pub(crate) struct Overload {
    /// Its name, with `op:` for operators.
    pub(crate) name: &'static str,
    /// Patterns of the arguments, in their order.
    pub(crate) arguments: Vec<Pattern>,
    /// Pattern of any further arguments.
    pub(crate) variadic: Option<Pattern>,
    /// The type of the result.
    pub(crate) returns: Returns,
    /// True if NULL among the arguments gives NULL without a call.
    pub(crate) strict: bool,
    /// The things that the result depends on.
    pub(crate) volatility: Volatility,
    /// The code that computes a result.
    pub(crate) body: Body,
}

static REGISTRY: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut out: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for (name, signature, body) in functions::all() {
        out.entry(name).or_default().push(overload(name, signature, body));
    }
    out
});

/// Returns the overloads of a name; none if there is no such function.
pub(crate) fn overloads(name: &str) -> &'static [Overload] {
    REGISTRY.get(name).map_or(&[], Vec::as_slice)
}

/// Returns the names of all functions, operators included.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    REGISTRY.keys().copied()
}

fn pattern(text: &str) -> Pattern {
    match text {
        "any" => Pattern::Any,
        "anyelement" => Pattern::Element,
        "anyarray" => Pattern::Array,
        name => Pattern::Exact(parse_type(name).unwrap_or(DataType::Unknown)),
    }
}

fn overload(name: &'static str, signature: &'static str, body: Body) -> Overload {
    let (arguments, result) = signature.split_once("->").unwrap_or(("", signature));
    let mut variadic = None;
    let mut patterns = Vec::new();
    for argument in arguments.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        match argument.strip_suffix("...") {
            Some(repeated) => variadic = Some(pattern(repeated)),
            None => patterns.push(pattern(argument)),
        }
    }
    let mut words = result.split_whitespace();
    let returns = match words.next().unwrap_or("text") {
        "anyelement" => Returns::Element,
        "anyarray" => Returns::Array,
        name => Returns::Exact(parse_type(name).unwrap_or(DataType::Unknown)),
    };
    let flags: Vec<&str> = words.collect();
    let volatility = if flags.contains(&"volatile") {
        Volatility::Volatile
    } else if flags.contains(&"stable") {
        Volatility::Stable
    } else {
        Volatility::Immutable
    };
    let strict = !flags.contains(&"null");
    Overload { name, arguments: patterns, variadic, returns, strict, volatility, body }
}
