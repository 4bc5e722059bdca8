//! Limits of clients: from the settings to the values that the service keeps.

use super::{ConfigError, Settings, in_range};
use bigtable::Limits;
use std::time::Duration;

const CONNECTIONS: std::ops::RangeInclusive<usize> = 1..=1_000_000;
const CALLS: std::ops::RangeInclusive<usize> = 1..=10_000_000;
const WEEK_SECONDS: u64 = 7 * 24 * 3_600;

/// Fills in defaults, for a server with a budget of `memory_bytes`, and checks every range.
pub(super) fn resolve(settings: &Settings, memory_bytes: usize) -> Result<Limits, ConfigError> {
    let mut limits = Limits::within(memory_bytes);
    if let Some(max) = settings.connections_max {
        in_range("connections_max", max, CONNECTIONS)?;
        limits.connections_max = max;
        limits.connections_per_address_max = max.div_ceil(2);
    }
    if let Some(max) = settings.connections_per_address_max {
        in_range("connections_per_address_max", max, CONNECTIONS)?;
        limits.connections_per_address_max = max;
    }
    if let Some(max) = settings.calls_max {
        in_range("calls_max", max, CALLS)?;
        limits.calls_max = max;
        limits.calls_per_identity_max = max.div_ceil(2);
    }
    if let Some(max) = settings.calls_per_identity_max {
        in_range("calls_per_identity_max", max, CALLS)?;
        limits.calls_per_identity_max = max;
    }
    if let Some(max) = settings.streams_per_connection_max {
        in_range("streams_per_connection_max", max, 1..=100_000)?;
        limits.streams_per_connection_max = max;
    }
    if let Some(seconds) = settings.connection_idle_seconds {
        in_range("connection_idle_seconds", seconds, 1..=WEEK_SECONDS)?;
        limits.connection.idle = Duration::from_secs(seconds);
    }
    if let Some(seconds) = settings.connection_age_seconds {
        in_range("connection_age_seconds", seconds, 0..=WEEK_SECONDS)?;
        limits.connection.age = (seconds > 0).then(|| Duration::from_secs(seconds));
    }
    Ok(limits)
}
