//! Dates and times as PostgreSQL reads, prints and computes them.
//!
//! 1. A date counts days and a time counts microseconds from 2000-01-01; the smallest and the
//!    largest number of each kind are the infinities.
//! 2. Every number that leaves this folder lies in PostgreSQL's range of its type, or the call
//!    returns 22008.

mod arithmetic;
mod civil;
mod format;
mod interval;
mod interval_text;
mod read;
mod zone;

pub use arithmetic::{
    FieldValue, age, date_field, date_part, date_trunc, interval_add, interval_mul, interval_total,
    plus_interval,
};
pub use civil::{
    DAY, HOUR, MINUTE, SECOND, check_date, check_timestamp, civil_from_days, days_from_civil,
    is_infinite, join_timestamp, month_days, split_timestamp, timestamp_of_date,
};
pub use format::{date_text, time_text, timestamp_text, timestamptz_text};
pub use interval::parse_interval;
pub use interval_text::interval_text;
pub use read::{Moment, parse_date, parse_time, parse_timestamp, parse_timestamptz};
pub use zone::Zone;

#[cfg(test)]
mod tests;
