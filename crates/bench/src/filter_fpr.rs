//! False positives of the row-line filter with its real hash, for rows of one shape: the keys of
//! a row share a line, so lines fill unevenly and the rate is above that of independent keys.

use crate::timing::Random;
use engine::cell::{Column, Entry, FamilyId, Kind, SequenceNumber, Timestamp};
use engine::options::FilterGranularity;
use engine::sstable::FilterQuery;
use engine::sstable::measure::FilterWriter;

#[derive(Debug, clap::Args)]
pub(crate) struct FilterFprArgs {
    /// Questions of each kind for each filter.
    #[arg(long, default_value_t = 200_000)]
    questions: usize,
}

const COLUMNS: [usize; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 30, 100, 1000, 5000];
const BITS: [u8; 3] = [10, 12, 16];

#[expect(clippy::print_stdout, reason = "the results of a benchmark are its output")]
pub(crate) fn run(arguments: &FilterFprArgs) {
    println!("false positives in %, one family a row; columns are the granularity");
    println!("absent row | absent column of a present row | absent tombstone | bits a column");
    let titles = BITS.map(|bits| format!("{:^27}", format!("{bits} bits a key")));
    println!("columns  {}", titles.join(" | "));
    for columns in COLUMNS {
        let cells = BITS.map(|bits| {
            let rates = rates(arguments, columns, bits);
            format!(
                "{:>6.3} {:>6.3} {:>6.3} {:>5.1}",
                rates.row, rates.column, rates.tombstone, rates.bits_per_column
            )
        });
        println!("{columns:>7}  {}", cells.join(" | "));
    }
}

struct Rates {
    row: f64,
    column: f64,
    tombstone: f64,
    bits_per_column: f64,
}

fn row_key(row: usize) -> Vec<u8> {
    format!("row-{row:012}").into_bytes()
}

fn qualifier(column: usize) -> Vec<u8> {
    format!("column-{column:06}").into_bytes()
}

fn rates(arguments: &FilterFprArgs, columns: usize, bits: u8) -> Rates {
    let mut writer = FilterWriter::new(FilterGranularity::Column, bits).expect("bits are above 0");
    let qualifiers: Vec<Vec<u8>> = (0..columns).map(qualifier).collect();
    let mut rows = 0;
    while !writer.is_full() && rows < 100_000 {
        let entries = qualifiers.iter().map(|qualifier| Entry {
            column: Column::of(FamilyId(1), qualifier),
            timestamp: Timestamp(1),
            sequence: SequenceNumber(1),
            kind: Kind::Put,
            value: &[],
        });
        writer.add_row(&row_key(rows), entries);
        rows += 1;
    }
    let filter = writer.finish().expect("it was just written");
    let bits_per_column = filter.bytes() as f64 * 8.0 / (rows * columns) as f64;
    let mut random = Random(3);
    let percent = |count: usize| count as f64 * 100.0 / arguments.questions as f64;
    let mut share = |positive: &mut dyn FnMut(&mut Random) -> bool| {
        percent((0..arguments.questions).filter(|_| positive(&mut random)).count())
    };
    Rates {
        row: share(&mut |random| {
            let row = row_key(rows + 1 + random.below(1 << 30));
            filter.may_contain(&FilterQuery::row(&row))
        }),
        column: share(&mut |random| {
            let row = row_key(random.below(rows));
            let absent = qualifier(columns + 1 + random.below(1 << 20));
            filter.may_contain(&FilterQuery::column(&row, FamilyId(1), &absent))
        }),
        tombstone: share(&mut |random| {
            filter.may_have_tombstone(&FilterQuery::row(&row_key(random.below(rows))))
        }),
        bits_per_column,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurement_runs_small() {
        run(&FilterFprArgs { questions: 100 });
    }
}
