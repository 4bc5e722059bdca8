//! Values of flags as people write them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Longest duration of a run or a wait: 30 days.
const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Most processes that share a run.
const PROCESSES_MAX: u64 = 1000;

/// Units of durations in milliseconds.
const UNITS: [(&str, f64); 4] = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 36e5)];

/// Reads a duration such as `90`, `90s`, `500ms`, `1.5m` or `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let unit = UNITS.iter().find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, *ms)));
    let (number, ms) = unit.unwrap_or((text, 1e3));
    let number: f64 = number.trim().parse().map_err(|_| {
        format!("invalid duration {text:?}; use seconds, or a number with ms, s, m or h")
    })?;
    let duration = Duration::try_from_secs_f64(number * ms / 1e3).ok();
    duration
        .filter(|duration| *duration <= DURATION_MAX)
        .ok_or_else(|| format!("{text} is not between 0 and 30 days"))
}

/// Reads a duration above zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        duration => Ok(duration),
    }
}

/// Reads a number of operations per second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("invalid rate {text:?}"))?;
    match rate {
        0.001..=10_000_000.0 => Ok(rate),
        _ => Err(format!("{text} is not between 0.001 and 10000000 operations a second")),
    }
}

/// Reads a share from 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("invalid share {text:?}"))?;
    match share {
        0.0..=1.0 => Ok(share),
        _ => Err(format!("{text} is not between 0 and 1")),
    }
}

/// Reads the exponent of a zipfian distribution.
pub(super) fn exponent(text: &str) -> Result<f64, String> {
    match share(text)? {
        exponent @ 0.01..=0.999 => Ok(exponent),
        _ => Err(format!("{text} is not between 0.01 and 0.999")),
    }
}

/// One of several processes, written `K/N`: the process K, from 0 on, of N.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Number of the process, from 0 on.
    pub(crate) index: u64,
    /// Number of all processes together.
    pub(crate) of: u64,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().ok();
        let part = text
            .split_once('/')
            .and_then(|(index, of)| Some(Self { index: number(index)?, of: number(of)? }));
        part.filter(|part| part.index < part.of && part.of <= PROCESSES_MAX).ok_or_else(|| {
            format!(
                "invalid process {text:?}; use K/N with K from 0 to N-1 and N up to \
                 {PROCESSES_MAX}, for example 0/2 and 1/2"
            )
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// A moment by the system clock, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StartAt(pub(crate) i64);

impl FromStr for StartAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = text.parse::<u32>().ok().map(|seconds| i64::from(seconds) * 1000);
        let moment = || {
            let nanos = OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp_nanos();
            i64::try_from(nanos / 1_000_000).ok()
        };
        seconds.or_else(moment).map(Self).ok_or_else(|| {
            format!(
                "invalid time {text:?}; use RFC 3339, for example 2026-11-24T10:00:00Z, or seconds \
                 since 1970"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_bounds() {
        for (text, ms) in
            [("90", 90_000), ("90s", 90_000), ("500ms", 500), ("1.5m", 90_000), ("2h", 7_200_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for text in ["", "s", "-1", "1d", "1e99", "nan", "inf", "31000h", "1 day"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(positive_duration("0s").is_err());
    }

    #[test]
    fn rates_and_shares_have_bounds() {
        assert_eq!((rate("1000"), share("0.5")), (Ok(1000.0), Ok(0.5)));
        for text in ["0", "-1", "nan", "inf", "1e8", "x", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
        for text in ["-0.1", "1.1", "nan", "x"] {
            assert!(share(text).is_err(), "{text}");
        }
        assert!(exponent("1").is_err() && exponent("0").is_err() && exponent("0.99").is_ok());
    }

    #[test]
    fn processes_are_counted_from_zero() {
        assert_eq!("2/3".parse(), Ok(Part { index: 2, of: 3 }));
        for text in ["3/3", "0/0", "1", "a/b", "-1/2", "0/1001", "1/2/3"] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }

    #[test]
    fn moments_are_rfc_3339_or_seconds() {
        assert_eq!("1970-01-01T00:00:01.5Z".parse(), Ok(StartAt(1500)));
        assert_eq!("1970-01-01T01:00:00+01:00".parse(), Ok(StartAt(0)));
        assert_eq!("1800000000".parse(), Ok(StartAt(1_800_000_000_000)));
        for text in ["", "now", "2026-11-24", "-1", "99999999999"] {
            assert!(text.parse::<StartAt>().is_err(), "{text}");
        }
    }
}
