//! Bounds of pages rule out no row that a comparison is true for, and say as much as they can.

use crate::arrays::{SHAPES, column};
use arrow_array::{ArrayRef, Float64Array, Int32Array, StringViewArray};
use columnar::{Bound, ColumnType, Comparison, PageDescriptor, PageOptions, encode_page};
use std::cmp::Ordering;
use std::sync::Arc;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

fn holds(comparison: Comparison, ordering: Ordering) -> bool {
    match comparison {
        Comparison::Equal => ordering.is_eq(),
        Comparison::NotEqual => ordering.is_ne(),
        Comparison::Less => ordering.is_lt(),
        Comparison::LessOrEqual => ordering.is_le(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterOrEqual => ordering.is_ge(),
    }
}

fn describe(array: &ArrayRef) -> PageDescriptor {
    encode_page(array, &PageOptions::default()).unwrap().descriptor
}

/// Returns the value of each row of a column, by way of a page of that row alone.
fn values(array: &ArrayRef) -> Vec<Option<Bound>> {
    let rows = (0..array.len()).map(|row| describe(&array.slice(row, 1)));
    rows.map(|page| (!page.bounds.min_cut).then_some(page.bounds.min).flatten()).collect()
}

#[test]
fn no_row_that_matches_is_ruled_out() {
    for column_type in ColumnType::ALL {
        for (shape, seed) in SHAPES.into_iter().zip(20..) {
            let (array, _) = column(column_type, shape, 0.2, 40, seed);
            let page = describe(&array);
            let values: Vec<Bound> = values(&array).into_iter().flatten().collect();
            for comparison in COMPARISONS {
                for value in &values {
                    let mut orders = values.iter().filter_map(|row| row.compare(value));
                    let matches = orders.any(|order| holds(comparison, order));
                    let may = page.may_match(comparison, value);
                    assert!(
                        may || !matches,
                        "{column_type:?} {shape:?} seed {seed}: {comparison:?} {value:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn pages_are_ruled_out_where_bounds_tell() {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let integers: ArrayRef = Arc::new(Int32Array::from(vec![Some(3), None, Some(8)]));
    let sevens: ArrayRef = Arc::new(Int32Array::from(vec![7, 7]));
    let nulls: ArrayRef = Arc::new(Int32Array::from(vec![None, None]));
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 1.5, f64::NAN]));
    let long = "z".repeat(100);
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(["b", "bé", &long]));
    let same: ArrayRef = Arc::new(StringViewArray::from_iter_values([&long, &long]));
    let int = Bound::Integer;
    let text = |text: &str| Bound::Bytes(text.as_bytes().to_vec());
    for (case, array, comparison, value, may) in [
        ("below", &integers, Equal, int(2), false),
        ("smallest", &integers, Equal, int(3), true),
        ("between", &integers, Equal, int(5), true),
        ("largest", &integers, Equal, int(8), true),
        ("above", &integers, Equal, int(9), false),
        ("less than the smallest", &integers, Less, int(3), false),
        ("at most the smallest", &integers, LessOrEqual, int(3), true),
        ("at most less", &integers, LessOrEqual, int(2), false),
        ("more than the largest", &integers, Greater, int(8), false),
        ("at least the largest", &integers, GreaterOrEqual, int(8), true),
        ("at least more", &integers, GreaterOrEqual, int(9), false),
        ("not one of several", &integers, NotEqual, int(3), true),
        ("not the only one", &sevens, NotEqual, int(7), false),
        ("nothing equals NULL", &nulls, Equal, int(0), false),
        ("nothing differs from NULL", &nulls, NotEqual, int(0), false),
        ("another kind", &integers, Equal, text("3"), true),
        ("zero is zero", &floats, Less, Bound::Float(0.0), false),
        ("NaN is the greatest", &floats, Greater, Bound::Float(f64::INFINITY), true),
        ("nothing above NaN", &floats, Greater, Bound::Float(f64::NAN), false),
        ("text before", &texts, Equal, text("a"), false),
        ("text with more behind", &texts, Less, text("b"), false),
        ("text at a cut bound", &texts, Equal, text(&long), true),
        ("text above a cut bound", &texts, Equal, text("{"), false),
        ("cut bounds tell of no equality", &same, NotEqual, text(&long), true),
    ] {
        assert_eq!(describe(array).may_match(comparison, &value), may, "{case}");
    }
}
