//! Advice to bulk writers on their rate, in answers to clients that announce that they follow it.
//!
//! A client multiplies its rate by the factor, once a period. Google's clients cut factors to 0.7 and 1.3,
//! so none here is further from 1.

use crate::api::data::{FeatureFlags, RateLimitInfo};

/// Seconds in which a client changes its rate once.
const PERIOD_SECONDS: i64 = 10;
/// Greatest factor, for a table of which little waits to be written.
const FASTER: f64 = 1.3;
/// Smallest factor, for a table that soon refuses writes.
const SLOWER: f64 = 0.7;
/// Parts of what may wait to be written up to which, and from which, the factors are those.
const LITTLE: f64 = 0.25;
const MUCH: f64 = 0.75;

/// Returns the advice to a client with these `features`, when a `part` of what may wait to be written to
/// the table waits. `None` if the client does not ask for advice.
pub(super) fn advice(features: FeatureFlags, part: f64) -> Option<RateLimitInfo> {
    let asks = features.mutate_rows_rate_limit || features.mutate_rows_rate_limit2;
    let period = Some(prost_types::Duration { seconds: PERIOD_SECONDS, nanos: 0 });
    asks.then(|| RateLimitInfo { period, factor: factor(part) })
}

fn factor(part: f64) -> f64 {
    let above = (part.clamp(LITTLE, MUCH) - LITTLE) / (MUCH - LITTLE);
    FASTER - above * (FASTER - SLOWER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_to_slow_down_while_much_waits() {
        let close = |part, wanted: f64| assert!((factor(part) - wanted).abs() < 1e-9, "{part}");
        for (part, wanted) in [(0.0, 1.3), (0.25, 1.3), (0.5, 1.0), (0.75, 0.7), (9.0, 0.7)] {
            close(part, wanted);
        }
    }

    #[test]
    fn only_clients_that_ask_get_advice() {
        assert_eq!(advice(FeatureFlags::default(), 0.5), None);
        for announced in [
            FeatureFlags { mutate_rows_rate_limit: true, ..Default::default() },
            FeatureFlags { mutate_rows_rate_limit2: true, ..Default::default() },
        ] {
            let told = advice(announced, 1.0).unwrap();
            assert_eq!(told.period.unwrap().seconds, PERIOD_SECONDS);
            assert_eq!(told.factor, SLOWER);
        }
    }
}
