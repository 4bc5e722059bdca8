//! Pages in which no row can satisfy a comparison, by their bounds alone.

use super::{Bound, Bounds, PageDescriptor};
use std::cmp::Ordering;

/// A comparison of a column with a value. It is never true for NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// True for `column = value`.
    Equal,
    /// True for `column <> value`.
    NotEqual,
    /// True for `column < value`.
    Less,
    /// True for `column <= value`.
    LessOrEqual,
    /// True for `column > value`.
    Greater,
    /// True for `column >= value`.
    GreaterOrEqual,
}

impl PageDescriptor {
    /// Returns false only if the comparison is true for no row of the page. A value of another kind than the
    /// column's says nothing, so the answer is true.
    pub fn may_match(&self, comparison: Comparison, value: &Bound) -> bool {
        self.nulls < self.rows && self.bounds.may_match(comparison, value)
    }
}

impl Bounds {
    /// As [`PageDescriptor::may_match`], for values of which one at least is not NULL.
    pub fn may_match(&self, comparison: Comparison, value: &Bound) -> bool {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let min = self.min.as_ref().and_then(|min| min.compare(value));
        let max = self.max.as_ref().and_then(|max| max.compare(value));
        let min_above = min == Some(Ordering::Greater);
        let max_below = max == Some(Ordering::Less);
        match comparison {
            Equal => !min_above && !max_below,
            Less => !min_above && min != Some(Ordering::Equal),
            LessOrEqual => !min_above,
            Greater => !max_below && max != Some(Ordering::Equal),
            GreaterOrEqual => !max_below,
            NotEqual => {
                let all_equal = min == Some(Ordering::Equal) && max == Some(Ordering::Equal);
                !all_equal || self.min_cut || self.max_cut
            }
        }
    }
}
