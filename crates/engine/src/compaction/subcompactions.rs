//! Where a large compaction is divided into subcompactions that several threads merge at the same time.
//!
//! 1. A subcompaction is all that the inputs hold of a range of rows, range tombstones clipped to it. The
//!    ranges follow one another and are together all rows, so that what the subcompactions write is, one
//!    after the other, what the whole would have written, but for where files end.
//! 2. Each subcompaction has at least so many bytes of inputs that its files need not be small: a border
//!    makes one file more, at most.
//! 3. Borders are first rows that the inputs' metadata in memory names. Nothing is read to find
//!    them, and any row key is a border between rows.

use crate::request::RowRange;
use crate::shape::Shape;

/// Bytes of inputs that a subcompaction has at least, of outputs of at most `sst_bytes_max` bytes.
pub(crate) fn bytes_min(sst_bytes_max: u64, shape: &Shape) -> u64 {
    (sst_bytes_max.saturating_mul(shape.subcompaction_percent as u64) / 100).max(1)
}

/// Divides all rows into at most `count_max` ranges of about the same weight, none below
/// `bytes_min` unless it is the only one. `weights` are, in any order, rows from which on an input
/// has so many bytes up to the next row that it names.
pub(crate) fn divide(
    mut weights: Vec<(&[u8], u64)>,
    bytes_min: u64,
    count_max: usize,
) -> Vec<RowRange> {
    let sum = |weights: &[(&[u8], u64)]| weights.iter().map(|(_, bytes)| *bytes).sum::<u64>();
    let total = sum(&weights);
    let wanted = (total / bytes_min.max(1)).min(count_max as u64);
    // In which of the shares of the whole a byte lies.
    let share = |byte: u64| u128::from(byte) * u128::from(wanted) / u128::from(total.max(1));
    weights.sort_unstable_by_key(|(row, _)| *row);
    let mut subcompactions = Vec::new();
    let mut start = Vec::new();
    // Bytes before the row that is looked at, and before the last border.
    let (mut before, mut behind) = (0u64, 0u64);
    for same in weights.chunk_by(|(a, _), (b, _)| a == b) {
        let large = before - behind >= bytes_min && total - before >= bytes_min;
        if share(before) > share(behind) && large {
            let border = same[0].0.to_vec();
            subcompactions.push(RowRange { start, end: Some(border.clone()) });
            (start, behind) = (border, before);
        }
        before += sum(same);
    }
    subcompactions.push(RowRange { start, end: None });
    subcompactions
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes that `weights` have in each of `subcompactions`.
    fn bytes_of(subcompactions: &[RowRange], weights: &[(&[u8], u64)]) -> Vec<u64> {
        let within = |subcompaction: &RowRange| {
            weights
                .iter()
                .filter(|(row, _)| subcompaction.contains(row))
                .map(|(_, bytes)| *bytes)
                .sum()
        };
        subcompactions.iter().map(within).collect()
    }

    /// `testdata/pieces`: each line of the input is an input file, first rows with their bytes.
    /// `REWRITE=1` writes the results anew.
    #[test]
    fn compactions_are_divided_as_their_examples_show() {
        datadriven::walk("testdata/pieces", |file| {
            file.run(|case| {
                assert_eq!(case.directive, "divide");
                let (least, most) =
                    (case.take_arg("least").unwrap(), case.take_arg("most").unwrap());
                let weight = |word: &str| {
                    let (row, bytes) = word.split_once(':').unwrap();
                    (row.to_owned(), bytes.parse::<u64>().unwrap())
                };
                let owned: Vec<(String, u64)> = case.input.split_whitespace().map(weight).collect();
                let weights: Vec<(&[u8], u64)> =
                    owned.iter().map(|(row, bytes)| (row.as_bytes(), *bytes)).collect();
                let subcompactions = divide(weights.clone(), least, most);
                let bytes = bytes_of(&subcompactions, &weights);
                let show = |(subcompaction, bytes): (&RowRange, u64)| {
                    let start = String::from_utf8_lossy(&subcompaction.start);
                    let end = subcompaction.end.as_deref().map(String::from_utf8_lossy);
                    format!("[{start}, {}) {bytes}\n", end.as_deref().unwrap_or("∞"))
                };
                subcompactions.iter().zip(bytes).map(show).collect::<String>()
            });
        });
    }

    proptest! {
        #[test]
        fn subcompactions_cover_all_rows_once_and_none_is_small(
            weights in proptest::collection::vec(("[a-d]{0,2}", 0u64..50), 0..40),
            bytes_min in 1u64..200,
            count_max in 1usize..6,
        ) {
            let weights: Vec<(&[u8], u64)> =
                weights.iter().map(|(row, bytes)| (row.as_bytes(), *bytes)).collect();
            let subcompactions = divide(weights.clone(), bytes_min, count_max);
            prop_assert!((1..=count_max).contains(&subcompactions.len()));
            prop_assert_eq!(&subcompactions[0].start, &Vec::<u8>::new());
            prop_assert_eq!(&subcompactions[subcompactions.len() - 1].end, &None);
            for pair in subcompactions.windows(2) {
                prop_assert_eq!(pair[0].end.as_ref(), Some(&pair[1].start));
                prop_assert!(pair[0].start < pair[1].start);
                prop_assert!(weights.iter().any(|(row, _)| *row == pair[1].start));
            }
            let bytes = bytes_of(&subcompactions, &weights);
            prop_assert!(subcompactions.len() == 1 || bytes.iter().all(|bytes| *bytes >= bytes_min));
        }
    }
}
