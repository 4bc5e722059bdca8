//! Functions and operators of dates, times and intervals.

use base::env::{Clock, SystemClock};
use relational::{DataType, Error, Numeric, Result, SqlState, Value};

use super::{Call, Definition, invalid, span, text};
use crate::values::time::{self, DAY, FieldValue, HOUR, MINUTE, SECOND, Zone};

/// Microseconds from 1970 to 2000.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

pub(super) const TABLE: &[Definition] = &[
    ("op:+", "date,int4 -> date", |call| later(call.value(0), call.int(1))),
    ("op:+", "int4,date -> date", |call| later(call.value(1), call.int(0))),
    ("op:-", "date,int4 -> date", |call| later(call.value(0), -call.int(1))),
    ("op:-", "date,date -> int4", |call| match (call.value(0), call.value(1)) {
        (Value::Date(i32::MIN | i32::MAX), _) | (_, Value::Date(i32::MIN | i32::MAX)) => {
            Err(range("cannot subtract infinite dates"))
        }
        _ => super::int4(call.moment(0) - call.moment(1)),
    }),
    ("op:+", "date,interval -> timestamp", |call| plus(start_of(call, 0)?, call.span(1))),
    ("op:+", "interval,date -> timestamp", |call| plus(start_of(call, 1)?, call.span(0))),
    ("op:-", "date,interval -> timestamp", |call| plus(start_of(call, 0)?, minus(call.span(1))?)),
    ("op:+", "date,time -> timestamp", |call| plus(start_of(call, 0)?, (0, 0, call.moment(1)))),
    ("op:+", "timestamp,interval -> timestamp", |call| plus(call.moment(0), call.span(1))),
    ("op:+", "interval,timestamp -> timestamp", |call| plus(call.moment(1), call.span(0))),
    ("op:-", "timestamp,interval -> timestamp", |call| plus(call.moment(0), minus(call.span(1))?)),
    ("op:+", "timestamptz,interval -> timestamptz stable", |call| {
        plus_tz(call, call.moment(0), call.span(1))
    }),
    ("op:+", "interval,timestamptz -> timestamptz stable", |call| {
        plus_tz(call, call.moment(1), call.span(0))
    }),
    ("op:-", "timestamptz,interval -> timestamptz stable", |call| {
        plus_tz(call, call.moment(0), minus(call.span(1))?)
    }),
    ("op:-", "timestamp,timestamp -> interval", difference),
    ("op:-", "timestamptz,timestamptz -> interval", difference),
    ("op:-", "time,time -> interval", |call| span((0, 0, call.moment(0) - call.moment(1)))),
    ("op:+", "time,interval -> time", |call| clock(call.moment(0), call.span(1).2)),
    ("op:-", "time,interval -> time", |call| clock(call.moment(0), -(call.span(1).2 % DAY))),
    ("op:+", "interval,interval -> interval", |call| {
        span(time::interval_add(call.span(0), call.span(1))?)
    }),
    ("op:-", "interval,interval -> interval", |call| {
        span(time::interval_add(call.span(0), minus(call.span(1))?)?)
    }),
    ("op:-", "interval -> interval", |call| span(minus(call.span(0))?)),
    ("op:*", "interval,float8 -> interval", |call| {
        span(time::interval_mul(call.span(0), call.float(1))?)
    }),
    ("op:*", "float8,interval -> interval", |call| {
        span(time::interval_mul(call.span(1), call.float(0))?)
    }),
    ("op:/", "interval,float8 -> interval", |call| {
        if call.float(1) == 0.0 {
            return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        span(time::interval_mul(call.span(0), 1.0 / call.float(1))?)
    }),
    ("now", "-> timestamptz stable", |call| Ok(Value::TimestampTz(call.context.settings.now))),
    ("current_timestamp", "-> timestamptz stable", |call| {
        Ok(Value::TimestampTz(call.context.settings.now))
    }),
    ("transaction_timestamp", "-> timestamptz stable", |call| {
        Ok(Value::TimestampTz(call.context.settings.now))
    }),
    ("statement_timestamp", "-> timestamptz stable", |call| {
        Ok(Value::TimestampTz(call.context.statement_start))
    }),
    ("clock_timestamp", "-> timestamptz volatile", |_| {
        Ok(Value::TimestampTz(SystemClock.now_micros() - EPOCH_MICROS))
    }),
    ("current_date", "-> date stable", |call| date(local_now(call).div_euclid(DAY))),
    ("localtimestamp", "-> timestamp stable", |call| Ok(Value::Timestamp(local_now(call)))),
    ("localtime", "-> time stable", |call| Ok(Value::Time(local_now(call).rem_euclid(DAY)))),
    ("timeofday", "-> text volatile", |call| {
        let settings = &call.context.settings;
        text(time::timestamptz_text(call.context.statement_start, settings.zone))
    }),
    ("age", "timestamp,timestamp -> interval", |call| age(call.moment(0), call.moment(1))),
    ("age", "timestamptz,timestamptz -> interval stable", |call| {
        age(local(call, call.moment(0)), local(call, call.moment(1)))
    }),
    ("age", "timestamp -> interval stable", |call| {
        age(local_now(call).div_euclid(DAY) * DAY, call.moment(0))
    }),
    ("age", "timestamptz -> interval stable", |call| {
        age(local_now(call).div_euclid(DAY) * DAY, local(call, call.moment(0)))
    }),
    ("date_part", "text,timestamp -> float8", |call| as_float(known_field(call)?)),
    ("date_part", "text,timestamptz -> float8 stable", |call| as_float(field(call)?)),
    ("date_part", "text,date -> float8", |call| as_float(field(call)?)),
    ("date_part", "text,time -> float8", |call| as_float(known_field(call)?)),
    ("date_part", "text,interval -> float8", |call| as_float(field(call)?)),
    ("extract", "text,timestamp -> numeric", known_field),
    ("extract", "text,timestamptz -> numeric stable", field),
    ("extract", "text,date -> numeric", known_field),
    ("extract", "text,time -> numeric", known_field),
    ("extract", "text,interval -> numeric", field),
    ("date_trunc", "text,timestamp -> timestamp", |call| {
        Ok(Value::Timestamp(truncated(call, call.moment(1))?))
    }),
    ("date_trunc", "text,timestamptz -> timestamptz stable", |call| {
        let zone = call.context.settings.zone;
        truncate_in(call, zone)
    }),
    ("date_trunc", "text,timestamptz,text -> timestamptz stable", |call| {
        truncate_in(call, zone_of(call.text(2))?)
    }),
    ("date_trunc", "text,interval -> interval", truncate_interval),
    ("date_bin", "interval,timestamp,timestamp -> timestamp", |call| {
        Ok(Value::Timestamp(binned(call)?))
    }),
    ("date_bin", "interval,timestamptz,timestamptz -> timestamptz", |call| {
        Ok(Value::TimestampTz(binned(call)?))
    }),
    ("timezone", "text,timestamp -> timestamptz", |call| {
        zone_of(call.text(0))?.to_universal(call.moment(1)).map(Value::TimestampTz)
    }),
    ("timezone", "text,timestamptz -> timestamp", |call| {
        let local = zone_of(call.text(0))?.to_local(call.moment(1));
        checked(local).map(Value::Timestamp)
    }),
    ("timezone", "interval,timestamptz -> timestamp", |call| {
        plus(call.moment(1), (0, 0, call.span(0).2))
    }),
    ("timezone", "interval,timestamp -> timestamptz", |call| {
        let by = minus((0, 0, call.span(0).2))?;
        time::plus_interval(call.moment(1), by, None).map(Value::TimestampTz)
    }),
    ("make_date", "int4,int4,int4 -> date", make_date),
    ("make_time", "int4,int4,float8 -> time", |call| {
        let micros = (call.float(2) * 1e6).round() as i64;
        let total = (call.int(0) * HOUR + call.int(1) * MINUTE).saturating_add(micros);
        match (0..=DAY).contains(&total) {
            true => Ok(Value::Time(total)),
            false => Err(range("time field value out of range")),
        }
    }),
    ("make_timestamp", "int4,int4,int4,int4,int4,float8 -> timestamp", make_timestamp),
    ("make_interval", "int4,int4,int4,int4 -> interval", |call| {
        let months = narrow(call.int(0) * 12 + call.int(1))?;
        span((months, narrow(call.int(2) * 7 + call.int(3))?, 0))
    }),
    ("to_timestamp", "float8 -> timestamptz", |call| {
        match call.float(0) {
            f64::INFINITY => return Ok(Value::TimestampTz(i64::MAX)),
            f64::NEG_INFINITY => return Ok(Value::TimestampTz(i64::MIN)),
            seconds if seconds.is_nan() => return Err(range("timestamp cannot be NaN")),
            _ => {}
        }
        let micros = (call.float(0) * 1e6).round() - 946_684_800e6;
        time::check_timestamp(Some(micros as i64)).map(Value::TimestampTz)
    }),
    ("to_char", "timestamp,text -> text", |call| {
        if time::is_infinite(call.moment(0)) {
            return Ok(Value::Null);
        }
        text(super::super::picture::format(call.moment(0), 0, "", call.text(1)))
    }),
    ("to_char", "timestamptz,text -> text stable", |call| {
        let zone = call.context.settings.zone;
        if time::is_infinite(call.moment(0)) {
            return Ok(Value::Null);
        }
        let (micros, name) = (call.moment(0), zone.abbreviation(call.moment(0)));
        let offset = zone.offset_of_moment(micros);
        text(super::super::picture::format(local(call, micros), offset, &name, call.text(1)))
    }),
    ("to_char", "interval,text -> text", |call| {
        text(super::super::picture_of_interval::format(call.span(0), call.text(1))?)
    }),
    ("__round_moment", "time,int4 -> time", round_moment),
    ("__round_moment", "timestamp,int4 -> timestamp", round_moment),
    ("__round_moment", "timestamptz,int4 -> timestamptz", round_moment),
    ("__round_moment", "interval,int4 -> interval", round_moment),
    ("to_date", "text,text -> date", |call| {
        date(super::super::picture::read(call.text(0), call.text(1))?.div_euclid(DAY))
    }),
    ("to_timestamp", "text,text -> timestamptz stable", |call| {
        let local = super::super::picture::read(call.text(0), call.text(1))?;
        call.context.settings.zone.to_universal(local).map(Value::TimestampTz)
    }),
    ("justify_days", "interval -> interval", |call| {
        let (months, days, micros) = call.span(0);
        span((narrow(i64::from(months) + i64::from(days / 30))?, days % 30, micros))
    }),
    ("justify_hours", "interval -> interval", |call| {
        let (months, days, micros) = call.span(0);
        span((months, narrow(i64::from(days) + micros / DAY)?, micros % DAY))
    }),
    ("isfinite", "date -> bool", |call| {
        Ok(Value::Bool(!matches!(call.value(0), Value::Date(i32::MIN | i32::MAX))))
    }),
    ("isfinite", "timestamp -> bool", finite),
    ("isfinite", "timestamptz -> bool", finite),
    ("isfinite", "interval -> bool", |_| Ok(Value::Bool(true))),
    ("justify_interval", "interval -> interval", |call| {
        let (months, days, micros) = call.span(0);
        let all =
            (i128::from(months) * 30 + i128::from(days)) * i128::from(DAY) + i128::from(micros);
        let (days, micros) = ((all / i128::from(DAY)) as i64, (all % i128::from(DAY)) as i64);
        span((narrow(days / 30)?, (days % 30) as i32, micros))
    }),
];

fn finite(call: &Call<'_>) -> Result<Value> {
    Ok(Value::Bool(!time::is_infinite(call.moment(0))))
}

/// Returns a part of an interval that was computed, or 22008.
fn narrow(part: i64) -> Result<i32> {
    i32::try_from(part).map_err(|_| range("interval out of range"))
}

/// Returns a date some days later. Infinities stay.
fn later(from: &Value, days: i64) -> Result<Value> {
    match from {
        Value::Date(i32::MIN | i32::MAX) => Ok(from.clone()),
        Value::Date(from) => date(i64::from(*from) + days),
        _ => Ok(Value::Null),
    }
}

/// Returns the start of the day that an argument is.
fn start_of(call: &Call<'_>, at: usize) -> Result<i64> {
    match call.value(at) {
        Value::Date(days) => time::timestamp_of_date(*days),
        _ => Ok(call.moment(at)),
    }
}

/// Returns a timestamp, or 22008. Infinities stay.
fn checked(micros: i64) -> Result<i64> {
    match time::is_infinite(micros) {
        true => Ok(micros),
        false => time::check_timestamp(Some(micros)),
    }
}

fn age(left: i64, right: i64) -> Result<Value> {
    match time::is_infinite(left) || time::is_infinite(right) {
        true => Err(range("timestamp out of range")),
        false => span(time::age(left, right)),
    }
}

fn range(message: &str) -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

fn date(days: i64) -> Result<Value> {
    time::check_date(days).map(Value::Date)
}

fn plus(micros: i64, by: (i32, i32, i64)) -> Result<Value> {
    time::plus_interval(micros, by, None).map(Value::Timestamp)
}

fn plus_tz(call: &Call<'_>, micros: i64, by: (i32, i32, i64)) -> Result<Value> {
    let zone = call.context.settings.zone;
    time::plus_interval(micros, by, Some(zone)).map(Value::TimestampTz)
}

fn minus((months, days, micros): (i32, i32, i64)) -> Result<(i32, i32, i64)> {
    match (months.checked_neg(), days.checked_neg(), micros.checked_neg()) {
        (Some(months), Some(days), Some(micros)) => Ok((months, days, micros)),
        _ => Err(range("interval out of range")),
    }
}

fn difference(call: &Call<'_>) -> Result<Value> {
    let (left, right) = (call.moment(0), call.moment(1));
    if time::is_infinite(left) || time::is_infinite(right) {
        return Err(range("cannot subtract infinite timestamps"));
    }
    let micros = left.checked_sub(right).ok_or_else(|| range("interval out of range"))?;
    span((0, (micros / DAY) as i32, micros % DAY))
}

fn clock(micros: i64, by: i64) -> Result<Value> {
    Ok(Value::Time((micros + by % DAY).rem_euclid(DAY)))
}

fn local(call: &Call<'_>, micros: i64) -> i64 {
    call.context.settings.zone.to_local(micros)
}

fn local_now(call: &Call<'_>) -> i64 {
    local(call, call.context.settings.now)
}

fn zone_of(name: &str) -> Result<Zone> {
    let zone = Zone::named(name).or_else(|| Zone::posix(name));
    zone.ok_or_else(|| invalid(format!("time zone \"{name}\" not recognized")))
}

fn unknown_field(call: &Call<'_>, field: &str) -> Error {
    let name = call.types.get(1).map(crate::values::type_name).unwrap_or_default();
    invalid(format!("unit \"{field}\" not recognized for type {name}"))
}

fn scaled(micros: i128, scale: u32) -> Result<Value> {
    // Microseconds of the unit of `10^(6 - scale)` per unit, shown with `scale` digits.
    let negative = if micros < 0 { "-" } else { "" };
    let (whole, rest) =
        (micros.unsigned_abs() / 10_u128.pow(scale), micros.unsigned_abs() % 10_u128.pow(scale));
    let width = scale as usize;
    format!("{negative}{whole}.{rest:0width$}").parse().map(Value::Numeric)
}

/// Fields of the time of a day.
const OF_CLOCK: &[&str] = &[
    "microseconds",
    "microsecond",
    "us",
    "usec",
    "milliseconds",
    "millisecond",
    "ms",
    "msec",
    "second",
    "seconds",
    "sec",
    "s",
    "minute",
    "minutes",
    "min",
    "m",
    "hour",
    "hours",
    "h",
];

/// Returns a field that the type has, as [`field`] does. 0A000 for a field that only other types have.
fn known_field(call: &Call<'_>) -> Result<Value> {
    let name = call.text(0).to_ascii_lowercase();
    let is_of_zone = matches!(name.as_str(), "timezone" | "timezone_hour" | "timezone_minute");
    let is_of_clock = OF_CLOCK.contains(&name.as_str());
    let found = field(call);
    let is_lacking = match call.value(1) {
        Value::Date(_) => is_of_zone || is_of_clock,
        Value::Timestamp(_) => is_of_zone,
        Value::Time(_) => !is_of_clock && name != "epoch" && found.is_ok(),
        _ => false,
    };
    if !is_lacking {
        return found;
    }
    let of = call.types.get(1).map(crate::values::type_name).unwrap_or_default();
    Err(Error::unsupported(format!("unit \"{name}\" not supported for type {of}")))
}

/// Returns a field as numeric, with the scale that PostgreSQL shows.
fn field(call: &Call<'_>) -> Result<Value> {
    let name = call.text(0).to_ascii_lowercase();
    let whole = |value: i64| Ok(Value::Numeric(Numeric::from(value)));
    if let Value::Interval { .. } = call.value(1) {
        return interval_field(call, &name);
    }
    let (micros, offset) = match call.value(1) {
        Value::Date(i32::MIN | i32::MAX) => return infinite_field(call, &name),
        Value::Date(days) => return date_field(call, &name, *days),
        Value::TimestampTz(micros) | Value::Timestamp(micros) if time::is_infinite(*micros) => {
            return infinite_field(call, &name);
        }
        Value::TimestampTz(micros) => {
            (local(call, *micros), call.context.settings.zone.offset_of_moment(*micros))
        }
        Value::Time(micros) if name == "epoch" => return scaled(i128::from(*micros), 6),
        _ => (call.moment(1), 0),
    };
    match time::date_part(&name, micros, offset) {
        None => Err(unknown_field(call, &name)),
        Some(FieldValue::Whole(value)) => whole(value),
        Some(FieldValue::Scaled(value, scale)) => scaled(i128::from(value), scale),
        Some(FieldValue::Epoch(value)) => scaled(i128::from(value) + i128::from(EPOCH_MICROS), 6),
        Some(FieldValue::Julian(day, clock)) => {
            let part = Numeric::from(clock).divide(&Numeric::from(DAY))?;
            Numeric::from(day).add(&part).map(Value::Numeric)
        }
    }
}

fn date_field(call: &Call<'_>, name: &str, days: i32) -> Result<Value> {
    match time::date_field(name, i64::from(days)) {
        Some(FieldValue::Whole(value)) => Ok(Value::Numeric(Numeric::from(value))),
        Some(FieldValue::Scaled(value, scale)) => scaled(i128::from(value), scale),
        _ => Err(unknown_field(call, name)),
    }
}

fn infinite_field(call: &Call<'_>, name: &str) -> Result<Value> {
    let negative = matches!(
        call.value(1),
        Value::Date(i32::MIN) | Value::Timestamp(i64::MIN) | Value::TimestampTz(i64::MIN)
    );
    match name {
        "epoch" | "year" | "decade" | "century" | "millennium" | "julian" | "isoyear" => {
            Ok(Value::Numeric(if negative { Numeric::NegativeInfinity } else { Numeric::Infinity }))
        }
        _ => Ok(Value::Null),
    }
}

fn interval_field(call: &Call<'_>, name: &str) -> Result<Value> {
    let (months, days, micros) = call.span(1);
    let (months, days) = (i64::from(months), i64::from(days));
    let value = match name {
        "microseconds" | "microsecond" => micros % MINUTE,
        "milliseconds" | "millisecond" => return scaled(i128::from(micros % MINUTE), 3),
        "second" | "seconds" => return scaled(i128::from(micros % MINUTE), 6),
        "minute" | "minutes" => micros / MINUTE % 60,
        "hour" | "hours" => micros / HOUR,
        "day" | "days" => days,
        "month" | "months" => months % 12,
        "quarter" => months % 12 / 3 + 1,
        "year" | "years" => months / 12,
        "decade" => months / 120,
        "century" => months / 1200,
        "millennium" => months / 12_000,
        "epoch" => {
            // A year of an interval has 365.25 days.
            let years = i128::from(months / 12) * 31_557_600;
            let rest = i128::from(months % 12) * 2_592_000 + i128::from(days) * 86_400;
            return scaled((years + rest) * 1_000_000 + i128::from(micros), 6);
        }
        _ => return Err(unknown_field(call, name)),
    };
    Ok(Value::Numeric(Numeric::from(value)))
}

fn as_float(value: Value) -> Result<Value> {
    Ok(match value {
        Value::Numeric(number) => Value::Float8(number.to_f64()),
        other => other,
    })
}

fn truncated(call: &Call<'_>, micros: i64) -> Result<i64> {
    let unit = call.text(0).to_ascii_lowercase();
    if time::is_infinite(micros) {
        return Ok(micros);
    }
    let start = time::date_trunc(&unit, micros).ok_or_else(|| unknown_field(call, &unit))?;
    time::check_timestamp(Some(start))
}

fn truncate_in(call: &Call<'_>, zone: Zone) -> Result<Value> {
    let start = truncated(call, zone.to_local(call.moment(1)))?;
    zone.to_universal(start).map(Value::TimestampTz)
}

fn truncate_interval(call: &Call<'_>) -> Result<Value> {
    let (months, days, micros) = call.span(1);
    let unit = call.text(0).to_ascii_lowercase();
    let cut = |length: i64| (months, days, micros - micros % length);
    span(match unit.as_str() {
        "microseconds" | "microsecond" => (months, days, micros),
        "milliseconds" | "millisecond" => cut(1000),
        "second" | "seconds" => cut(SECOND),
        "minute" | "minutes" => cut(MINUTE),
        "hour" | "hours" => cut(HOUR),
        "day" | "days" => (months, days, 0),
        "month" | "months" => (months, 0, 0),
        "quarter" => (months - months % 3, 0, 0),
        "year" | "years" => (months - months % 12, 0, 0),
        "decade" | "decades" => (months - months % 120, 0, 0),
        "century" | "centuries" => (months - months % 1200, 0, 0),
        "millennium" | "millennia" => (months - months % 12_000, 0, 0),
        _ => return Err(unknown_field(call, &unit)),
    })
}

fn binned(call: &Call<'_>) -> Result<i64> {
    let (months, days, micros) = call.span(0);
    if months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(Error::unsupported(message));
    }
    let (moment, origin) = (call.moment(1), call.moment(2));
    if time::is_infinite(moment) {
        return Ok(moment);
    }
    if time::is_infinite(origin) {
        return Err(range("origin out of range"));
    }
    let too_long = || range("interval out of range");
    let stride = i64::from(days).checked_mul(DAY).and_then(|days| days.checked_add(micros));
    let stride = stride.ok_or_else(too_long)?;
    if stride <= 0 {
        return Err(range("stride must be greater than zero"));
    }
    let distance = moment.checked_sub(origin).ok_or_else(too_long)?;
    time::check_timestamp(moment.checked_sub(distance.rem_euclid(stride)))
}

fn make_date(call: &Call<'_>) -> Result<Value> {
    let (year, month, day) = (call.int(0), call.int(1), call.int(2));
    let year_of = if year < 0 { year + 1 } else { year };
    let valid = year != 0
        && (1..=12).contains(&month)
        && (1..=i64::from(time::month_days(year_of, month as u32))).contains(&day);
    if !valid {
        let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
        return Err(range(&message));
    }
    date(time::days_from_civil(year_of, month as u32, day as u32))
}

fn make_timestamp(call: &Call<'_>) -> Result<Value> {
    let Value::Date(days) = make_date(call)? else { return Ok(Value::Null) };
    let micros = (call.float(5) * 1e6).round() as i64;
    let clock = (call.int(3) * HOUR + call.int(4) * MINUTE).saturating_add(micros);
    if !(0..=DAY).contains(&clock) {
        return Err(range("time field value out of range"));
    }
    debug_assert_eq!(*call.returns, DataType::Timestamp);
    time::join_timestamp(i64::from(days), clock).map(Value::Timestamp)
}

fn round_moment(call: &Call<'_>) -> Result<Value> {
    let digits = u8::try_from(call.int(1)).unwrap_or(6);
    Ok(crate::values::round_moment(call.value(0).clone(), digits))
}
