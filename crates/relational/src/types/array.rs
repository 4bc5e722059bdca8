//! Arrays of values.

use super::{DataType, Value};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// An array of one or several dimensions; without dimensions it is empty.
#[derive(Debug, Clone)]
pub struct Array {
    /// The type of each element.
    pub element: DataType,
    /// Its dimensions, the outermost first.
    pub dimensions: Vec<ArrayDimension>,
    /// Elements in row-major order. As many as the product of the lengths.
    pub values: Vec<Value>,
}

/// One dimension of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArrayDimension {
    /// Number of elements along this dimension.
    pub length: u32,
    /// Subscript of the first element, 1 unless the text said otherwise.
    pub lower: i32,
}

impl Array {
    /// Returns an array of one dimension, or the empty array if there are no values.
    pub fn of(element: DataType, values: Vec<Value>) -> Self {
        let length = values.len() as u32;
        let dimensions = match length {
            0 => Vec::new(),
            _ => vec![ArrayDimension { length, lower: 1 }],
        };
        Self { element, dimensions, values }
    }
}

impl Ord for Array {
    /// Compares the elements in order, then their number, then the dimensions.
    fn cmp(&self, other: &Self) -> Ordering {
        let elements = self.values.cmp(&other.values);
        elements
            .then_with(|| self.dimensions.len().cmp(&other.dimensions.len()))
            .then_with(|| self.dimensions.cmp(&other.dimensions))
    }
}

impl PartialOrd for Array {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Array {}

impl Hash for Array {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values.hash(state);
        self.dimensions.hash(state);
    }
}
