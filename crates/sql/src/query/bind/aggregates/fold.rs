//! Running states of the aggregates that PostgreSQL computes its own way.

use std::sync::Arc;

use relational::{DataType, Error, Numeric, Result, SqlState, Value};

use crate::expression::functions::to_json;
use crate::values::json::{Json, quote};
use crate::values::{Settings, type_name, value_text};

/// The aggregates that are computed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Sum,
    Avg,
    /// Variance and standard deviation: of a sample, or of all; the root of it.
    Spread {
        sample: bool,
        root: bool,
    },
    BoolAnd,
    BoolOr,
    StringAgg,
    JsonAgg {
        binary: bool,
    },
    JsonObjectAgg {
        binary: bool,
    },
    BitAnd,
    BitOr,
    BitXor,
    ArrayAgg,
    /// The value that came first, NULL included.
    First,
    /// The value at a fraction of the sorted values, or between two of them.
    Percentile {
        between: bool,
    },
    /// The value that comes most often.
    Mode,
    /// The one value of a subquery; a second row is 21000.
    Single,
}

/// The running state of one group.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    kind: Kind,
    count: i64,
    whole: i128,
    real: f64,
    /// Sum of the squares of the distances of floats from their mean.
    distances: f64,
    exact: Numeric,
    squares: Numeric,
    span: (i32, i32, i64),
    bit: Option<i64>,
    text: Option<String>,
    /// Bytes of the text before its first part: a delimiter that only shows if other parts come before.
    lead: usize,
    single: Value,
    items: Vec<Value>,
    types: Vec<DataType>,
    settings: Arc<Settings>,
}

impl Fold {
    pub(super) fn new(kind: Kind, types: Vec<DataType>, settings: Arc<Settings>) -> Self {
        Self {
            kind,
            count: 0,
            whole: 0,
            real: 0.0,
            distances: 0.0,
            exact: Numeric::from(0),
            squares: Numeric::from(0),
            span: (0, 0, 0),
            bit: None,
            text: None,
            lead: 0,
            single: Value::Null,
            items: Vec::new(),
            types,
            settings,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.items.len() * size_of::<Value>()
            + self.text.as_ref().map_or(0, String::len)
    }

    /// Gives the sum of numerics a scale, which must not be below the scale of a value in it.
    pub(super) fn limit_scale(&mut self, scale: i64) -> Result<()> {
        self.exact = self.exact.round(scale)?;
        Ok(())
    }

    /// Takes a row in, or out again if `sign` is -1.
    pub(super) fn add(&mut self, row: &[Value], sign: i64) -> Result<()> {
        let Some(value) = row.first() else { return Ok(()) };
        if self.kind == Kind::Single {
            self.count += 1;
            self.single = value.clone();
            return self.at_most_one();
        }
        match self.kind {
            Kind::First => {
                self.count += 1;
                if self.count == 1 {
                    self.single = value.clone();
                }
                return Ok(());
            }
            Kind::ArrayAgg => {
                self.items.push(value.clone());
                return Ok(());
            }
            Kind::JsonAgg { .. } => return self.json(value),
            Kind::JsonObjectAgg { .. } => return self.member(row),
            _ if value.is_null() => return Ok(()),
            Kind::StringAgg => return self.join(row),
            _ => {}
        }
        self.count += sign;
        let exact = matches!(self.kind, Kind::Spread { .. });
        match value {
            Value::Bool(value) => {
                let before = self.bit.unwrap_or(i64::from(self.kind == Kind::BoolAnd));
                let value = i64::from(*value);
                self.bit =
                    Some(if self.kind == Kind::BoolAnd { before & value } else { before | value });
            }
            Value::Int2(number) => self.integer(i64::from(*number), sign, exact)?,
            Value::Int4(number) => self.integer(i64::from(*number), sign, exact)?,
            Value::Int8(number) => self.integer(*number, sign, exact)?,
            Value::Float4(number) => self.float(f64::from(*number))?,
            Value::Float8(number) => self.float(*number)?,
            Value::Numeric(number) => self.numeric(number, sign, exact)?,
            Value::Interval { months, days, micros } => {
                let by = sign as i32;
                let part = (*months * by, *days * by, *micros * sign);
                self.span = crate::values::time::interval_add(self.span, part)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn at_most_one(&self) -> Result<()> {
        if self.count > 1 {
            let message = "more than one row returned by a subquery used as an expression";
            return Err(Error::new(SqlState::CARDINALITY_VIOLATION, message));
        }
        Ok(())
    }

    fn integer(&mut self, number: i64, sign: i64, exact: bool) -> Result<()> {
        match self.kind {
            Kind::BitAnd => self.bit = Some(self.bit.unwrap_or(-1) & number),
            Kind::BitOr => self.bit = Some(self.bit.unwrap_or(0) | number),
            Kind::BitXor => self.bit = Some(self.bit.unwrap_or(0) ^ number),
            _ if exact => self.numeric(&Numeric::from(number), sign, true)?,
            _ => self.whole += i128::from(number) * i128::from(sign),
        }
        Ok(())
    }

    /// Takes a float in, which is counted already. Floats never leave a state again. Errors: 22003 if the sum
    /// or the distances overflow.
    fn float(&mut self, number: f64) -> Result<()> {
        let is_finite = self.real.is_finite() && number.is_finite();
        self.real += number;
        let (count, before) = (self.count as f64, (self.count - 1) as f64);
        if self.kind != Kind::Sum && before > 0.0 {
            let distance = number * count - self.real;
            self.distances += distance * distance / (count * before);
        }
        self.check_floats(is_finite)
    }

    /// Takes the floats of another state in. `counts` has the count before, and the other state's.
    fn merge_floats(&mut self, counts: (i64, i64), sum: f64, distances: f64) -> Result<()> {
        let (own, other) = (counts.0 as f64, counts.1 as f64);
        if counts.1 == 0 {
            return Ok(());
        }
        if counts.0 == 0 {
            (self.real, self.distances) = (sum, distances);
            return Ok(());
        }
        let is_finite = self.real.is_finite() && sum.is_finite();
        if self.kind != Kind::Sum {
            let apart = self.real / own - sum / other;
            self.distances += distances + own * other * apart * apart / (own + other);
        }
        self.real += sum;
        self.check_floats(is_finite)
    }

    /// Fails with 22003 if finite floats overflow. With an infinity among them there is no distance.
    fn check_floats(&mut self, is_finite: bool) -> Result<()> {
        if is_finite && (self.real.is_infinite() || self.distances.is_infinite()) {
            return Err(overflow());
        }
        if !self.real.is_finite() {
            self.distances = f64::NAN;
        }
        Ok(())
    }

    fn numeric(&mut self, number: &Numeric, sign: i64, squares: bool) -> Result<()> {
        let square = if squares { Some(number.multiply(number)?) } else { None };
        let part = if sign < 0 { number.negate() } else { number.clone() };
        self.exact = self.exact.add(&part)?;
        if let Some(square) = square {
            let square = if sign < 0 { square.negate() } else { square };
            self.squares = self.squares.add(&square)?;
        }
        Ok(())
    }

    fn join(&mut self, row: &[Value]) -> Result<()> {
        let settings = Settings::default();
        let between = row.get(1).filter(|between| !between.is_null());
        let between = between.map(|between| value_text(between, &settings)).unwrap_or_default();
        if self.text.is_none() {
            self.lead = between.len();
        }
        let text = self.text.get_or_insert_default();
        text.push_str(&between);
        text.push_str(&value_text(&row[0], &settings));
        Ok(())
    }

    fn json(&mut self, value: &Value) -> Result<()> {
        let data_type = self.types.first().cloned().unwrap_or(DataType::Text);
        let part = to_json(value, &data_type, &self.settings)?.to_string();
        self.push(part);
        Ok(())
    }

    fn member(&mut self, row: &[Value]) -> Result<()> {
        let settings = Arc::clone(&self.settings);
        let data_type = self.types.get(1).cloned().unwrap_or(DataType::Text);
        let value = to_json(row.get(1).unwrap_or(&Value::Null), &data_type, &settings)?;
        let binary = matches!(self.kind, Kind::JsonObjectAgg { binary: true });
        let between = if binary { ": " } else { " : " };
        if row[0].is_null() {
            let message = "field name must not be null";
            return Err(Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        self.push(format!("{}{between}{value}", quote(&value_text(&row[0], &settings))));
        Ok(())
    }

    fn push(&mut self, part: String) {
        self.count += 1;
        match &mut self.text {
            None => self.text = Some(part),
            Some(text) => {
                text.push_str(", ");
                text.push_str(&part);
            }
        }
    }

    /// Returns the state as text, which [`Fold::merge`] reads.
    pub(super) fn state(&self) -> Vec<Value> {
        let parts = [
            self.count.to_string(),
            self.whole.to_string(),
            self.real.to_bits().to_string(),
            self.distances.to_bits().to_string(),
            self.exact.to_string(),
            self.squares.to_string(),
            format!("{},{},{}", self.span.0, self.span.1, self.span.2),
            self.bit.map_or(String::new(), |bit| bit.to_string()),
            self.lead.to_string(),
        ];
        let text = match (self.kind, &self.single) {
            (Kind::Single | Kind::First, Value::Null) => Value::Null,
            (Kind::Single | Kind::First, single) => {
                Value::text(value_text(single, &Settings::default()))
            }
            _ => self.text.as_deref().map_or(Value::Null, Value::text),
        };
        vec![Value::text(parts.join(";")), text]
    }

    /// Takes the rows of another state in.
    pub(super) fn merge(&mut self, state: &[Value]) -> Result<()> {
        let [Value::Text(numbers), text] = state else { return Ok(()) };
        let parts: Vec<&str> = numbers.split(';').collect();
        let part = |at: usize| parts.get(at).copied().unwrap_or("0");
        let count = part(0).parse::<i64>().unwrap_or(0);
        let before = self.count;
        self.count += count;
        if self.kind == Kind::First && (before > 0 || count == 0) {
            return Ok(());
        }
        if matches!(self.kind, Kind::Single | Kind::First) {
            let data_type = self.types.first().cloned().unwrap_or(DataType::Text);
            if let Value::Text(text) = text {
                self.single = crate::values::parse_value(text, &data_type, &Settings::default())?;
            }
            return if self.kind == Kind::First { Ok(()) } else { self.at_most_one() };
        }
        self.whole += part(1).parse::<i128>().unwrap_or(0);
        let real = |at: usize| f64::from_bits(part(at).parse().unwrap_or(0));
        self.merge_floats((before, count), real(2), real(3))?;
        self.exact = self.exact.add(&part(4).parse()?)?;
        self.squares = self.squares.add(&part(5).parse()?)?;
        let span: Vec<i64> = part(6).split(',').map(|part| part.parse().unwrap_or(0)).collect();
        if let [months, days, micros] = span.as_slice() {
            let other = (*months as i32, *days as i32, *micros);
            self.span = crate::values::time::interval_add(self.span, other)?;
        }
        if let Ok(bit) = part(7).parse::<i64>() {
            self.bit = Some(match (self.bit, self.kind) {
                (None, _) => bit,
                (Some(own), Kind::BoolAnd | Kind::BitAnd) => own & bit,
                (Some(own), Kind::BitXor) => own ^ bit,
                (Some(own), _) => own | bit,
            });
        }
        if let Value::Text(other) = text {
            match &mut self.text {
                None => {
                    self.text = Some(other.to_string());
                    self.lead = part(8).parse().unwrap_or(0);
                }
                Some(own) => {
                    own.push_str(if self.kind == Kind::StringAgg { "" } else { ", " });
                    own.push_str(other);
                }
            }
        }
        Ok(())
    }

    /// Returns the result as a value of the type that the aggregate returns.
    pub(super) fn finish(&self, returns: &DataType) -> Result<Value> {
        let whole = || self.whole.to_string().parse::<Numeric>();
        match self.kind {
            Kind::BoolAnd | Kind::BoolOr => {
                Ok(self.bit.map_or(Value::Null, |bit| Value::Bool(bit != 0)))
            }
            Kind::BitAnd | Kind::BitOr | Kind::BitXor => {
                let bit = self.bit.map_or(Value::Null, Value::Int8);
                crate::values::cast(bit, returns, &Settings::default())
            }
            Kind::StringAgg => {
                let text = self.text.as_deref();
                let text = text.map(|text| text.get(self.lead..).unwrap_or_default());
                Ok(text.map_or(Value::Null, Value::text))
            }
            Kind::JsonAgg { binary } => Ok(self.document('[', ']', binary)),
            Kind::JsonObjectAgg { binary: true } => match &self.text {
                None => Ok(Value::Null),
                Some(text) => {
                    let document = crate::values::json::parse(&format!("{{{text}}}"))?;
                    debug_assert!(matches!(document, Json::Object(_)));
                    Ok(Value::Jsonb(document.to_string().into()))
                }
            },
            Kind::JsonObjectAgg { .. } => Ok(match &self.text {
                None => Value::Null,
                Some(text) => Value::text(format!("{{ {text} }}")),
            }),
            Kind::Single | Kind::First => Ok(self.single.clone()),
            Kind::ArrayAgg if self.items.is_empty() => Ok(Value::Null),
            Kind::ArrayAgg => {
                let element = returns.element().cloned().unwrap_or(DataType::Text);
                let array = relational::Array::of(element, self.items.clone());
                Ok(Value::Array(Arc::new(array)))
            }
            Kind::Percentile { .. } | Kind::Mode => {
                let message = "an ordered-set aggregate needs WITHIN GROUP";
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            _ if self.count == 0 => Ok(Value::Null),
            Kind::Sum => Ok(match returns {
                DataType::Int8 => {
                    Value::Int8(i64::try_from(self.whole).map_err(|_| {
                        crate::expression::functions::integer_range(&DataType::Int8)
                    })?)
                }
                DataType::Float4 => match self.real as f32 {
                    sum if sum.is_infinite() && self.real.is_finite() => return Err(overflow()),
                    sum => Value::Float4(sum),
                },
                DataType::Float8 => Value::Float8(self.real),
                DataType::Interval => {
                    Value::Interval { months: self.span.0, days: self.span.1, micros: self.span.2 }
                }
                _ => Value::Numeric(whole()?.add(&self.exact)?),
            }),
            Kind::Avg => self.average(returns),
            Kind::Spread { sample, root } => self.spread(sample, root, returns),
        }
    }

    fn document(&self, open: char, close: char, binary: bool) -> Value {
        match &self.text {
            None => Value::Null,
            Some(text) if binary => Value::Jsonb(format!("{open}{text}{close}").into()),
            Some(text) => Value::text(format!("{open}{text}{close}")),
        }
    }

    fn average(&self, returns: &DataType) -> Result<Value> {
        let count = Numeric::from(self.count);
        Ok(match returns {
            DataType::Float8 => Value::Float8(self.real / self.count as f64),
            DataType::Interval => {
                let (months, days, micros) =
                    crate::values::time::interval_mul(self.span, 1.0 / self.count as f64)?;
                Value::Interval { months, days, micros }
            }
            _ => {
                let sum = self.whole.to_string().parse::<Numeric>()?.add(&self.exact)?;
                Value::Numeric(sum.divide(&count)?)
            }
        })
    }

    fn spread(&self, sample: bool, root: bool, returns: &DataType) -> Result<Value> {
        let divisor = if sample { self.count - 1 } else { self.count };
        if divisor <= 0 {
            return Ok(Value::Null);
        }
        if *returns == DataType::Float8 {
            let variance = self.distances / divisor as f64;
            return Ok(Value::Float8(if root { variance.sqrt() } else { variance }));
        }
        // N * sum of squares - square of the sum, over N * divisor, is exact before the division.
        let count = Numeric::from(self.count);
        let upper = count.multiply(&self.squares)?.subtract(&self.exact.multiply(&self.exact)?)?;
        if upper.is_zero() || upper.is_negative() {
            return Ok(Value::Numeric(Numeric::from(0)));
        }
        let variance = upper.divide(&count.multiply(&Numeric::from(divisor))?)?;
        if !root {
            return Ok(Value::Numeric(variance));
        }
        let text =
            variance.finite().and_then(|number| number.sqrt()).map(|root| root.to_plain_string());
        let root: Numeric = text.unwrap_or_else(|| "0".to_owned()).parse()?;
        Ok(Value::Numeric(root.round(variance.scale())?))
    }

    /// Returns the name of the kind of its first argument, for messages.
    pub(super) fn argument(&self) -> String {
        self.types.first().map(type_name).unwrap_or_default()
    }
}

fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(kind: Kind, numbers: &[f64]) -> Result<Fold> {
        let mut fold = Fold::new(kind, vec![DataType::Float8], Arc::default());
        for number in numbers {
            fold.add(&[Value::Float8(*number)], 1)?;
        }
        Ok(fold)
    }

    fn variance(numbers: &[f64], more: &[f64]) -> Result<f64> {
        let kind = Kind::Spread { sample: false, root: false };
        let mut whole = fold(kind, numbers)?;
        whole.merge(&fold(kind, more)?.state())?;
        match whole.finish(&DataType::Float8)? {
            Value::Float8(found) => Ok(found),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_variance_of_floats_near_each_other_is_not_lost() {
        let numbers = [1e8 + 1.0, 1e8 + 2.0, 1e8 + 3.0, 1e8 + 4.0];
        for at in 0..=numbers.len() {
            let (left, right) = numbers.split_at(at);
            assert_eq!(variance(left, right).unwrap(), 1.25, "{at}");
        }
    }

    #[test]
    fn floats_that_overflow_in_any_order_are_an_error() {
        assert!(fold(Kind::Sum, &[1e308, 1e308]).is_err());
        assert!(fold(Kind::Avg, &[1e308, 1e308]).is_err());
        assert!(variance(&[1e200, 2.0], &[]).is_err());
        assert!(variance(&[1e200], &[2.0]).is_err());
        assert!(variance(&[f64::INFINITY], &[2.0]).unwrap().is_nan());
        let mut sum = fold(Kind::Sum, &[1e308]).unwrap();
        assert!(sum.merge(&fold(Kind::Sum, &[1e308]).unwrap().state()).is_err());
        let infinite = fold(Kind::Sum, &[f64::INFINITY, 1e308]).unwrap();
        assert_eq!(infinite.finish(&DataType::Float8).unwrap(), Value::Float8(f64::INFINITY));
    }
}
