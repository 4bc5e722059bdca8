//! Ratios of paired slices, with their spread.

use serde::Serialize;

/// Middle, least and greatest of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// The middle one; between the two middle ones of an even number.
    pub(crate) median: f64,
    /// The least.
    pub(crate) low: f64,
    /// The greatest.
    pub(crate) high: f64,
}

impl Spread {
    /// The spread of `values`; `None` of none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_some_values() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!(Spread::of([1.0, 2.0]), Some(Spread { median: 1.5, low: 1.0, high: 2.0 }));
    }
}
