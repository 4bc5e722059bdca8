//! The spread of a measurement that was repeated.

use serde::Serialize;

/// Median, least and greatest of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value; of an even number of values, the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

impl Spread {
    /// Returns the spread of `values`. Panics if there is none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        assert!(!values.is_empty(), "nothing was measured");
        values.sort_by(f64::total_cmp);
        let (middle, last) = (values.len() / 2, values.len() - 1);
        let median = f64::midpoint(values[middle], values[last - middle]);
        Self { median, low: values[0], high: values[last] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_some_values() {
        assert_eq!(Spread::of([7.0]), Spread { median: 7.0, low: 7.0, high: 7.0 });
        assert_eq!(Spread::of([3.0, 1.0]), Spread { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(Spread::of([3.0, 9.0, 1.0]), Spread { median: 3.0, low: 1.0, high: 9.0 });
    }
}
