//! Mathematical functions.

use relational::{Error, Numeric, Result, SqlState, Value};

use super::arithmetic::{numeric, real, whole};
use super::{Call, Definition, invalid};

pub(super) const TABLE: &[Definition] = &[
    ("abs", "int2 -> int2", |call| whole(call, call.int(0).checked_abs())),
    ("abs", "int4 -> int4", |call| whole(call, call.int(0).checked_abs())),
    ("abs", "int8 -> int8", |call| whole(call, call.int(0).checked_abs())),
    ("abs", "float4 -> float4", |call| Ok(Value::Float4(call.float(0).abs() as f32))),
    ("abs", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).abs()))),
    ("abs", "numeric -> numeric", |call| Ok(Value::Numeric(call.numeric(0).abs()))),
    ("op:@", "int4 -> int4", |call| whole(call, call.int(0).checked_abs())),
    ("op:@", "int8 -> int8", |call| whole(call, call.int(0).checked_abs())),
    ("op:@", "numeric -> numeric", |call| Ok(Value::Numeric(call.numeric(0).abs()))),
    ("op:@", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).abs()))),
    ("ceil", "numeric -> numeric", |call| numeric(call.numeric(0).ceil())),
    ("ceil", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).ceil()))),
    ("ceiling", "numeric -> numeric", |call| numeric(call.numeric(0).ceil())),
    ("ceiling", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).ceil()))),
    ("floor", "numeric -> numeric", |call| numeric(call.numeric(0).floor())),
    ("floor", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).floor()))),
    ("round", "numeric -> numeric", |call| numeric(call.numeric(0).round(0))),
    ("round", "numeric,int4 -> numeric", |call| numeric(call.numeric(0).round(call.int(1)))),
    ("round", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).round_ties_even()))),
    ("trunc", "numeric -> numeric", |call| numeric(call.numeric(0).truncate(0))),
    ("trunc", "numeric,int4 -> numeric", |call| numeric(call.numeric(0).truncate(call.int(1)))),
    ("trunc", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).trunc()))),
    ("sign", "numeric -> numeric", |call| {
        let sign = call.numeric(0).signum();
        Ok(Value::Numeric(sign.map_or(Numeric::NaN, |sign| Numeric::from(i64::from(sign)))))
    }),
    ("sign", "float8 -> float8", |call| {
        let value = call.float(0);
        Ok(Value::Float8(if value == 0.0 || value.is_nan() { value } else { value.signum() }))
    }),
    ("min_scale", "numeric -> int4", |call| {
        Ok(Value::Int4(trimmed(&call.numeric(0))?.scale() as i32))
    }),
    ("trim_scale", "numeric -> numeric", |call| Ok(Value::Numeric(trimmed(&call.numeric(0))?))),
    ("scale", "numeric -> int4", |call| Ok(Value::Int4(call.numeric(0).scale() as i32))),
    ("div", "numeric,numeric -> numeric", |call| {
        let (left, right) = (call.numeric(0), call.numeric(1));
        let rest = left.remainder(&right)?;
        numeric(left.subtract(&rest)?.divide(&right)?.round(0))
    }),
    ("gcd", "int8,int8 -> int8", gcd),
    ("gcd", "int4,int4 -> int4", gcd),
    ("lcm", "int8,int8 -> int8", lcm),
    ("lcm", "int4,int4 -> int4", lcm),
    ("factorial", "int8 -> numeric", factorial),
    ("power", "float8,float8 -> float8", power),
    ("pow", "float8,float8 -> float8", power),
    ("op:^", "float8,float8 -> float8", power),
    ("power", "numeric,numeric -> numeric", power_numeric),
    ("pow", "numeric,numeric -> numeric", power_numeric),
    ("op:^", "numeric,numeric -> numeric", power_numeric),
    ("sqrt", "float8 -> float8", sqrt),
    ("op:|/", "float8 -> float8", sqrt),
    ("sqrt", "numeric -> numeric", sqrt_numeric),
    ("cbrt", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).cbrt()))),
    ("op:||/", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).cbrt()))),
    ("exp", "float8 -> float8", |call| {
        let value = call.float(0);
        real(call, value.exp(), value.is_infinite(), value.is_infinite())
    }),
    ("exp", "numeric -> numeric", |call| from_float(call.numeric(0).to_f64().exp())),
    ("ln", "float8 -> float8", |call| logarithm(call, f64::ln)),
    ("log", "float8 -> float8", |call| logarithm(call, f64::log10)),
    ("log10", "float8 -> float8", |call| logarithm(call, f64::log10)),
    ("ln", "numeric -> numeric", |call| {
        let value = call.numeric(0);
        positive(value.signum())?;
        from_float(value.to_f64().ln())
    }),
    ("log", "numeric -> numeric", |call| {
        let value = call.numeric(0);
        positive(value.signum())?;
        from_float(value.to_f64().log10())
    }),
    ("log", "numeric,numeric -> numeric", |call| {
        let (base, value) = (call.numeric(0), call.numeric(1));
        positive(base.signum())?;
        positive(value.signum())?;
        from_float(value.to_f64().ln() / base.to_f64().ln())
    }),
    ("sin", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).sin()))),
    ("cos", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).cos()))),
    ("tan", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).tan()))),
    ("cot", "float8 -> float8", |call| Ok(Value::Float8(1.0 / call.float(0).tan()))),
    ("asin", "float8 -> float8", |call| within_one(call, f64::asin)),
    ("acos", "float8 -> float8", |call| within_one(call, f64::acos)),
    ("atan", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).atan()))),
    ("atan2", "float8,float8 -> float8", |call| {
        Ok(Value::Float8(call.float(0).atan2(call.float(1))))
    }),
    ("sinh", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).sinh()))),
    ("cosh", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).cosh()))),
    ("tanh", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).tanh()))),
    ("degrees", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).to_degrees()))),
    ("radians", "float8 -> float8", |call| Ok(Value::Float8(call.float(0).to_radians()))),
    ("pi", "-> float8", |_| Ok(Value::Float8(std::f64::consts::PI))),
    ("random", "-> float8 volatile", |_| Ok(Value::Float8(random()))),
    ("setseed", "float8 -> text", |_| {
        Err(Error::unsupported("setseed() is not supported: random() has no seed"))
    }),
    ("width_bucket", "float8,float8,float8,int4 -> int4", width_bucket),
];

/// Returns a random number of `[0, 1)`.
fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    // Each `RandomState` has keys of its own, drawn from the system's randomness.
    let bits = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

fn gcd_of(left: i64, right: i64) -> u64 {
    let (mut a, mut b) = (left.unsigned_abs(), right.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn gcd(call: &Call<'_>) -> Result<Value> {
    whole(call, i64::try_from(gcd_of(call.int(0), call.int(1))).ok())
}

fn lcm(call: &Call<'_>) -> Result<Value> {
    let (left, right) = (call.int(0), call.int(1));
    let divisor = gcd_of(left, right);
    if divisor == 0 {
        return whole(call, Some(0));
    }
    let product = (left.unsigned_abs() / divisor).checked_mul(right.unsigned_abs());
    whole(call, product.and_then(|product| i64::try_from(product).ok()))
}

fn factorial(call: &Call<'_>) -> Result<Value> {
    let number = call.int(0);
    if !(0..=5_000).contains(&number) {
        let message = "factorial of a number below 0 or above 5000 is not supported";
        return Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let mut product = Numeric::from(1);
    for factor in 2..=number {
        product = product.multiply(&Numeric::from(factor))?;
    }
    Ok(Value::Numeric(product))
}

fn power(call: &Call<'_>) -> Result<Value> {
    let (base, exponent) = (call.float(0), call.float(1));
    let state = SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION;
    if base == 0.0 && exponent < 0.0 {
        return Err(Error::new(state, "zero raised to a negative power is undefined"));
    }
    if base < 0.0 && exponent.fract() != 0.0 && exponent.is_finite() {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(Error::new(state, message));
    }
    let infinite = base.is_infinite() || exponent.is_infinite();
    real(call, base.powf(exponent), infinite, base == 0.0 || infinite)
}

/// Returns a numeric with 16 significant digits at least, as PostgreSQL chooses the scale.
fn from_float(value: f64) -> Result<Value> {
    if value.is_nan() {
        return Ok(Value::Numeric(Numeric::NaN));
    }
    if value.is_infinite() {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value overflows numeric format",
        ));
    }
    let whole_digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i64 };
    let scale = (16 - whole_digits).clamp(0, 1000);
    let text = format!("{value:.*}", scale as usize);
    text.parse().map(Value::Numeric)
}

fn power_numeric(call: &Call<'_>) -> Result<Value> {
    let (base, exponent) = (call.numeric(0), call.numeric(1));
    let whole = exponent.truncate(0)? == exponent;
    if let (true, Ok(count)) = (whole && base.finite().is_some(), exponent.to_i64())
        && (0..=10_000).contains(&count)
    {
        let mut product = Numeric::from(1);
        let mut square = base.clone();
        let mut rest = count;
        while rest > 0 {
            if rest & 1 == 1 {
                product = product.multiply(&square)?;
            }
            rest >>= 1;
            if rest > 0 {
                square = square.multiply(&square)?;
            }
        }
        let digits = product.to_f64().abs().max(1.0).log10().floor() as i64;
        let scale = (16 - digits).max(base.scale()).max(exponent.scale()).clamp(0, 1000);
        return numeric(product.round(scale));
    }
    let (base, exponent) = (base.to_f64(), exponent.to_f64());
    let state = SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION;
    if base == 0.0 && exponent < 0.0 {
        return Err(Error::new(state, "zero raised to a negative power is undefined"));
    }
    if base < 0.0 && !whole {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(Error::new(state, message));
    }
    from_float(base.powf(exponent))
}

fn negative_root() -> Error {
    let message = "cannot take square root of a negative number";
    Error::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}

fn sqrt(call: &Call<'_>) -> Result<Value> {
    if call.float(0) < 0.0 {
        return Err(negative_root());
    }
    Ok(Value::Float8(call.float(0).sqrt()))
}

fn sqrt_numeric(call: &Call<'_>) -> Result<Value> {
    let value = call.numeric(0);
    if value.is_negative() {
        return Err(negative_root());
    }
    let Some(number) = value.finite() else { return Ok(Value::Numeric(value)) };
    let digits = value.to_f64().max(1.0).log10().floor() as i64;
    let scale = (16 - digits / 2 - i64::from(digits > 0)).max(value.scale()).clamp(0, 1000);
    let root = number.sqrt().map(|root| root.to_plain_string()).unwrap_or_else(|| "0".to_owned());
    numeric(root.parse::<Numeric>()?.round(scale))
}

fn positive(sign: Option<i32>) -> Result<()> {
    let message = match sign {
        Some(0) => "cannot take logarithm of zero",
        Some(-1) => "cannot take logarithm of a negative number",
        _ => return Ok(()),
    };
    Err(Error::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message))
}

fn logarithm(call: &Call<'_>, function: fn(f64) -> f64) -> Result<Value> {
    let value = call.float(0);
    positive(value.partial_cmp(&0.0).map(|order| order as i32))?;
    Ok(Value::Float8(function(value)))
}

fn within_one(call: &Call<'_>, function: fn(f64) -> f64) -> Result<Value> {
    let value = call.float(0);
    if value.abs() > 1.0 {
        return Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range"));
    }
    Ok(Value::Float8(function(value)))
}

fn width_bucket(call: &Call<'_>) -> Result<Value> {
    let (value, low, high, count) = (call.float(0), call.float(1), call.float(2), call.int(3));
    if count <= 0 {
        return Err(invalid("count must be greater than zero"));
    }
    if low == high || !low.is_finite() || !high.is_finite() {
        return Err(invalid("lower bound cannot equal upper bound"));
    }
    let place = (value - low) / (high - low);
    let bucket = if place < 0.0 { 0 } else { ((place * count as f64) as i64 + 1).min(count + 1) };
    super::int4(bucket)
}

/// Returns a number without zeros at the end of its digits.
fn trimmed(number: &Numeric) -> Result<Numeric> {
    for scale in 0..number.scale() {
        let short = number.round(scale)?;
        if short == *number {
            return Ok(short);
        }
    }
    Ok(number.clone())
}
