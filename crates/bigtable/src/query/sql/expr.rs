//! Expressions over one row, and their values.
//!
//! An expression is analyzed once for a statement, bound to parameters for each execution, and then
//! evaluated for each row. Conditions have three values: true, false and NULL.
//!
//! Invariants:
//! 1. An expression is at most [`DEPTH_MAX`](super::analyze::DEPTH_MAX) deep.
//! 2. After [`Expr::bind`] no parameter and no column is left, only literals and slots.

use super::functions::{Function, raw};
use super::types::{SqlType, Value};
use super::{Refusal, Result, casts};
use bytes::Bytes;
use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Most bytes of texts that casts and functions may make of one row.
const MADE_BYTES_MAX: usize = 256 << 20;
/// Longest pattern that LIKE takes.
const PATTERN_BYTES_MAX: usize = 1 << 10;

/// An expression whose types were checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Literal(Value),
    /// A parameter by its name.
    Parameter(String),
    Key,
    /// A family by its index, as a map.
    Family(usize),
    /// The value in a column: its family by index, and its qualifier, which is constant.
    Column(usize, Box<Expr>),
    /// TRUE if the column has a cell, whatever its bytes encode, and NULL if it has none.
    HasColumn(usize, Box<Expr>),
    /// The value in a slot of the row.
    Slot(usize),
    Cast(Box<Cast>),
    Call(Function, Vec<Expr>),
    Compare(Comparison, Box<[Expr; 2]>),
    /// An expression with its lower and its upper bound, both included.
    Between(Box<[Expr; 3]>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    /// An expression that is this and not NULL.
    Is(Box<Expr>, bool),
    In(Box<Expr>, Vec<Expr>),
    /// An expression that is among constants.
    InSet(Box<Expr>, Set),
    /// An expression that is among the elements of an array.
    InArray(Box<[Expr; 2]>),
    /// An expression and its pattern.
    Like(Box<[Expr; 2]>),
    /// An array or a struct.
    Array(Vec<Expr>),
}

/// A cast of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cast {
    pub(crate) expr: Expr,
    pub(super) from: SqlType,
    pub(super) to: SqlType,
    /// A value that cannot be cast is NULL.
    pub(super) safe: bool,
}

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }

    /// Returns the comparison with its sides swapped.
    pub(crate) fn swapped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }
}

/// A part of each row that an execution reads, of a family by its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) family: usize,
    pub(crate) part: Part,
}

/// The part of a family that a slot takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// All columns of the family as a map.
    Whole,
    /// The value in the column with a qualifier.
    Value(Bytes),
    /// TRUE for a column that has a cell.
    Presence(Bytes),
}

/// A row as expressions see it.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) key: Value,
    /// The value of each slot.
    pub(crate) slots: Vec<Value>,
    /// Bytes of the texts that were made of the row.
    pub(crate) made: Cell<usize>,
}

impl Row {
    /// Counts bytes that an evaluation makes, and refuses more than a row may have.
    fn charge(&self, bytes: usize) -> Result<()> {
        self.made.set(self.made.get().saturating_add(bytes));
        if self.made.get() > MADE_BYTES_MAX {
            let max = MADE_BYTES_MAX >> 20;
            let text = format!("casts and functions make more than {max} MiB of one row");
            return Err(Refusal::Value(text));
        }
        Ok(())
    }
}

/// Constants among which a value may be.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Set {
    /// The constants that can equal a value, in their order.
    sorted: Vec<Value>,
    has_null: bool,
    /// True if there was no constant at all, also none that equals nothing.
    is_empty: bool,
}

impl Set {
    fn new(values: Vec<Value>) -> Self {
        let (has_null, is_empty) = (values.contains(&Value::Null), values.is_empty());
        // Neither NULL nor NaN has an order.
        let mut sorted = values;
        sorted.retain(|value| value.compare(value).is_some());
        sorted.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
        Self { sorted, has_null, is_empty }
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.sorted
    }

    /// Returns whether there is nothing in it, not even NULL or NaN.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn holds(&self, value: &Value) -> Option<bool> {
        if *value == Value::Null {
            return self.is_empty.then_some(false);
        }
        let order = |known: &Value| known.compare(value).unwrap_or(Ordering::Less);
        let found = self.sorted.binary_search_by(order).is_ok();
        if found { Some(true) } else { (!self.has_null).then_some(false) }
    }
}

impl Expr {
    /// Returns the expression with values for its parameters, and slots for what it reads.
    pub(crate) fn bind(
        &self,
        parameters: &BTreeMap<String, Value>,
        slots: &mut Vec<Slot>,
    ) -> Result<Self> {
        let mut bind = |expr: &Self| expr.bind(parameters, slots);
        Ok(match self {
            Self::Literal(_) | Self::Key | Self::Slot(_) => self.clone(),
            Self::Parameter(name) => {
                Self::Literal(parameters.get(name).cloned().unwrap_or_default())
            }
            Self::Family(family) => slot(slots, Slot { family: *family, part: Part::Whole }),
            Self::Column(family, qualifier) => {
                let qualifier = bind(qualifier)?;
                column(slots, *family, &qualifier, Part::Value)?
            }
            Self::HasColumn(family, qualifier) => {
                let qualifier = bind(qualifier)?;
                column(slots, *family, &qualifier, Part::Presence)?
            }
            Self::Cast(cast) => {
                let expr = bind(&cast.expr)?;
                Self::Cast(Box::new(Cast { expr, ..(**cast).clone() }))
            }
            Self::Call(function, args) => Self::Call(*function, all(args, bind)?),
            Self::Compare(how, sides) => Self::Compare(*how, each(sides, bind)?),
            Self::Between(parts) => Self::Between(each(parts, bind)?),
            Self::And(parts) => Self::And(all(parts, bind)?),
            Self::Or(parts) => Self::Or(all(parts, bind)?),
            Self::Not(expr) => Self::Not(Box::new(bind(expr)?)),
            Self::IsNull(expr) => Self::IsNull(Box::new(bind(expr)?)),
            Self::Is(expr, wanted) => Self::Is(Box::new(bind(expr)?), *wanted),
            Self::In(expr, list) => {
                let expr = Box::new(bind(expr)?);
                let list = all(list, bind)?;
                match list.iter().all(Self::is_constant) {
                    true => Self::InSet(expr, Set::new(values(&list)?)),
                    false => Self::In(expr, list),
                }
            }
            Self::InSet(expr, set) => Self::InSet(Box::new(bind(expr)?), set.clone()),
            Self::InArray(sides) => {
                let sides = each(sides, bind)?;
                match &*sides {
                    [expr, array] if array.is_constant() => {
                        let array = array.eval(&Row::default())?.into_owned();
                        let items =
                            if let Value::Array(items) = array { items } else { Vec::new() };
                        Self::InSet(Box::new(expr.clone()), Set::new(items))
                    }
                    _ => Self::InArray(sides),
                }
            }
            Self::Like(sides) => Self::Like(each(sides, bind)?),
            Self::Array(elements) => Self::Array(all(elements, bind)?),
        })
    }

    /// Returns whether the expression has the same value for every row.
    pub(crate) fn is_constant(&self) -> bool {
        match self {
            Self::Literal(_) | Self::Parameter(_) => true,
            Self::Key | Self::Family(_) | Self::Slot(_) => false,
            Self::Column(..) | Self::HasColumn(..) => false,
            Self::Cast(cast) => cast.expr.is_constant(),
            Self::Not(expr) | Self::IsNull(expr) | Self::Is(expr, _) => expr.is_constant(),
            Self::Call(_, parts) | Self::And(parts) | Self::Or(parts) | Self::Array(parts) => {
                parts.iter().all(Self::is_constant)
            }
            Self::Compare(_, sides) | Self::InArray(sides) | Self::Like(sides) => {
                sides.iter().all(Self::is_constant)
            }
            Self::Between(parts) => parts.iter().all(Self::is_constant),
            Self::In(expr, list) => expr.is_constant() && list.iter().all(Self::is_constant),
            Self::InSet(expr, _) => expr.is_constant(),
        }
    }

    /// Returns the value of the expression for a row.
    pub(crate) fn eval<'a>(&'a self, row: &'a Row) -> Result<Cow<'a, Value>> {
        Ok(match self {
            Self::Literal(value) => Cow::Borrowed(value),
            Self::Key => Cow::Borrowed(&row.key),
            Self::Slot(slot) => Cow::Borrowed(&row.slots[*slot]),
            Self::Cast(cast) => Cow::Owned(cast.eval(row)?),
            Self::Call(function, args) => {
                let args: Vec<_> = args.iter().map(|arg| arg.eval(row)).collect::<Result<_>>()?;
                row.charge(function.result_bytes(&args))?;
                Cow::Owned(function.call(&args)?)
            }
            Self::Array(elements) => {
                let element = |expr: &Self| expr.eval(row).map(Cow::into_owned);
                Cow::Owned(Value::Array(elements.iter().map(element).collect::<Result<_>>()?))
            }
            Self::Parameter(_) | Self::Family(_) | Self::Column(..) | Self::HasColumn(..) => {
                Cow::Owned(Value::Null)
            }
            condition => Cow::Owned(condition.holds(row)?.map_or(Value::Null, Value::Bool)),
        })
    }

    /// Returns the value of a condition; `None` for NULL.
    pub(crate) fn holds(&self, row: &Row) -> Result<Option<bool>> {
        Ok(match self {
            Self::Compare(how, sides) => {
                let [left, right] = &**sides;
                compare(*how, &*left.eval(row)?, &*right.eval(row)?)
            }
            Self::Between(parts) => {
                let [expr, low, high] = &**parts;
                let value = expr.eval(row)?;
                let low = compare(Comparison::GreaterOrEqual, &value, &*low.eval(row)?);
                both(low, compare(Comparison::LessOrEqual, &value, &*high.eval(row)?))
            }
            Self::And(parts) => {
                // Ends with the first part that is false, as Or with the first that is true.
                let mut all = Some(true);
                for part in parts {
                    all = both(all, part.holds(row)?);
                    if all == Some(false) {
                        break;
                    }
                }
                all
            }
            Self::Or(parts) => {
                let mut any = Some(false);
                for part in parts {
                    any = either(any, part.holds(row)?);
                    if any == Some(true) {
                        break;
                    }
                }
                any
            }
            Self::Not(expr) => expr.holds(row)?.map(|holds| !holds),
            Self::IsNull(expr) => Some(*expr.eval(row)? == Value::Null),
            Self::Is(expr, wanted) => Some(expr.holds(row)? == Some(*wanted)),
            Self::In(expr, list) => {
                let value = expr.eval(row)?;
                let mut found = Some(false);
                for item in list {
                    found = either(found, equal(&value, &*item.eval(row)?));
                }
                found
            }
            Self::InSet(expr, set) => set.holds(&*expr.eval(row)?),
            Self::InArray(sides) => {
                let [expr, array] = &**sides;
                let value = expr.eval(row)?;
                let found = |found, item| either(found, equal(&value, item));
                match &*array.eval(row)? {
                    Value::Array(items) => items.iter().fold(Some(false), found),
                    _ => Some(false),
                }
            }
            Self::Like(sides) => {
                let [expr, pattern] = &**sides;
                match (&*expr.eval(row)?, &*pattern.eval(row)?) {
                    (Value::Null, _) | (_, Value::Null) => None,
                    (value, pattern) => Some(like(value, pattern)?),
                }
            }
            value => match &*value.eval(row)? {
                Value::Bool(holds) => Some(*holds),
                _ => None,
            },
        })
    }
}

impl Cast {
    fn eval(&self, row: &Row) -> Result<Value> {
        let value = self.expr.eval(row)?;
        row.charge(raw(&value).len())?;
        match casts::cast(&value, &self.from, &self.to) {
            Err(Refusal::Value(_)) if self.safe => Ok(Value::Null),
            cast => cast,
        }
    }

    /// Returns whether the cast turns bytes into the text that they encode, or a text into its bytes.
    pub(crate) fn keeps_bytes(&self) -> bool {
        use SqlType::{Bytes, String};
        matches!((&self.from, &self.to), (Bytes | String, Bytes | String))
    }
}

/// Returns the place of what is read, which is added if it is new.
fn slot(slots: &mut Vec<Slot>, slot: Slot) -> Expr {
    let at = slots.iter().position(|known| *known == slot);
    Expr::Slot(at.unwrap_or_else(|| {
        slots.push(slot);
        slots.len() - 1
    }))
}

/// Returns the place of what is read of a column; NULL if its qualifier is NULL.
fn column(
    slots: &mut Vec<Slot>,
    family: usize,
    qualifier: &Expr,
    part: fn(Bytes) -> Part,
) -> Result<Expr> {
    Ok(match qualifier.eval(&Row::default())?.into_owned() {
        Value::Bytes(qualifier) => slot(slots, Slot { family, part: part(qualifier) }),
        _ => Expr::Literal(Value::Null),
    })
}

fn values(constants: &[Expr]) -> Result<Vec<Value>> {
    let row = Row::default();
    constants.iter().map(|expr| Ok(expr.eval(&row)?.into_owned())).collect()
}

fn all(exprs: &[Expr], bind: impl FnMut(&Expr) -> Result<Expr>) -> Result<Vec<Expr>> {
    exprs.iter().map(bind).collect()
}

fn each<const N: usize>(
    exprs: &[Expr; N],
    bind: impl FnMut(&Expr) -> Result<Expr>,
) -> Result<Box<[Expr; N]>> {
    let mut bound = exprs.clone();
    for (into, expr) in bound.iter_mut().zip(all(exprs, bind)?) {
        *into = expr;
    }
    Ok(Box::new(bound))
}

fn compare(how: Comparison, left: &Value, right: &Value) -> Option<bool> {
    if *left == Value::Null || *right == Value::Null {
        return None;
    }
    // NaN is neither equal to anything nor before nor after it.
    let unordered = how == Comparison::NotEqual;
    Some(left.compare(right).map_or(unordered, |order| how.holds(order)))
}

fn equal(left: &Value, right: &Value) -> Option<bool> {
    compare(Comparison::Equal, left, right)
}

fn both(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn either(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    both(left.map(|holds| !holds), right.map(|holds| !holds)).map(|neither| !neither)
}

/// A part of a pattern of LIKE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LikePart {
    /// A byte that stands for itself.
    Byte(u8),
    /// `_`: any character of a text, any byte of bytes.
    One,
    /// `%`: any text, also the empty one.
    Any,
}

/// Returns the parts of a pattern of LIKE.
pub(crate) fn like_parts(pattern: &[u8]) -> Result<Vec<LikePart>> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let text = format!("a pattern of LIKE is longer than {PATTERN_BYTES_MAX} bytes");
        return Err(Refusal::Value(text));
    }
    let mut parts = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        parts.push(match byte {
            b'%' if parts.last() == Some(&LikePart::Any) => continue,
            b'%' => LikePart::Any,
            b'_' => LikePart::One,
            b'\\' => match bytes.next() {
                Some(byte) => LikePart::Byte(*byte),
                None => {
                    let text = "a pattern of LIKE cannot end with a single \\";
                    return Err(Refusal::Value(text.to_owned()));
                }
            },
            byte => LikePart::Byte(*byte),
        });
    }
    Ok(parts)
}

/// Returns whether a text or bytes match a pattern. Takes at most the product of both lengths in steps.
fn like(value: &Value, pattern: &Value) -> Result<bool> {
    let (text, parts) = (raw(value), like_parts(raw(pattern))?);
    let one = |at: usize| match value {
        Value::String(text) => text[at..].chars().next().map_or(1, char::len_utf8),
        _ => 1,
    };
    let (mut at, mut part) = (0, 0);
    // The last `%`, and where the text after it begins: it grows when the rest does not match.
    let mut any: Option<(usize, usize)> = None;
    while at < text.len() {
        match parts.get(part) {
            Some(LikePart::Any) => {
                any = Some((part + 1, at));
                part += 1;
                continue;
            }
            Some(LikePart::One) => {
                (at, part) = (at + one(at), part + 1);
                continue;
            }
            Some(LikePart::Byte(byte)) if *byte == text[at] => {
                (at, part) = (at + 1, part + 1);
                continue;
            }
            _ => {}
        }
        let Some((after, from)) = &mut any else { return Ok(false) };
        *from += one(*from);
        (at, part) = (*from, *after);
    }
    Ok(parts[part..].iter().all(|part| *part == LikePart::Any))
}
