//! From a row, or a row prefix alone, to a data block of each of some files: CPU, and bytes of index,
//! by heads, by the prefix index of partitions, and by one table of prefixes for each file.

use super::{AnyError, PrefixIndexArgs, scattered};
use crate::timing::nanos_per_item;
use bench_core::{Spread, print};
use clap::ValueEnum;
use engine::internals::{BlockFinder, FindBy};
use std::hint::black_box;

/// Data blocks of a partition, and rows of each.
const BLOCKS: usize = 256;
const BLOCK_ROWS: usize = 60;

/// Form of prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Prefixes {
    /// 8 bytes: numbers at nearly even distances.
    Short,
    /// 16 bytes: a number that 64 prefixes share, and another.
    Long,
}

impl Prefixes {
    fn bytes(self) -> u16 {
        match self {
            Self::Short => 8,
            Self::Long => 16,
        }
    }

    /// Row number `at` with prefix number `prefix`. Rows ascend with both.
    fn row(self, prefix: u64, at: u64) -> [u8; 32] {
        let spread = |number: u64| (number << 24) + (scattered(number) >> 40);
        let parts = match self {
            Self::Short => [spread(prefix), at, scattered(at), 0],
            Self::Long => [spread(prefix / 128), spread(prefix % 128), at, scattered(at)],
        };
        let mut row = [0; 32];
        let (numbers, _) = row.as_chunks_mut::<8>();
        numbers.iter_mut().zip(parts).for_each(|(to, part)| *to = part.to_be_bytes());
        row
    }
}

/// Kind of question that a search answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// The first row of a prefix.
    Prefix,
    /// The same of a prefix that no row has.
    AbsentPrefix,
    /// A row that the file has.
    Row,
}

const ASKED: [Asked; 3] = [Asked::Prefix, Asked::AbsentPrefix, Asked::Row];

/// The rows of each file.
#[derive(Debug, Clone, Copy)]
struct Rows {
    count: u64,
    per_prefix: u64,
    prefixes: Prefixes,
}

impl Rows {
    /// Row number `at`. Its prefix has an even number.
    fn row(&self, at: u64) -> [u8; 32] {
        self.prefixes.row(at / self.per_prefix * 2, at)
    }

    /// A question about row number `at` or its prefix; none is less than the first row.
    fn question(&self, asked: Asked, at: u64) -> Vec<u8> {
        let at = at.max(self.per_prefix);
        let prefix = ..usize::from(self.prefixes.bytes());
        match asked {
            Asked::Prefix => self.row(at)[prefix].to_vec(),
            Asked::AbsentPrefix => {
                self.prefixes.row(at / self.per_prefix * 2 + 1, 0)[prefix].to_vec()
            }
            Asked::Row => self.row(at).to_vec(),
        }
    }

    fn index(&self, by: FindBy) -> Result<BlockFinder, AnyError> {
        let rows = (0..self.count).map(|at| self.row(at));
        let index = BlockFinder::new(rows, BLOCK_ROWS, self.prefixes.bytes(), by);
        index.map_err(|damage| damage.to_string().into())
    }
}

/// Measures searches of all kinds of index.
pub(super) fn run(args: &PrefixIndexArgs) -> Result<(), AnyError> {
    print("the block of a row in one file: ns of CPU, the middle of all rounds");
    for &partitions in &args.partitions {
        for &files in args.files.iter().filter(|files| partitions % **files == 0) {
            for &per_prefix in &args.prefix_rows {
                let count = (partitions / files * BLOCKS * BLOCK_ROWS) as u64;
                let rows = Rows { count, per_prefix, prefixes: args.prefixes };
                measure(args, rows, files, &format!("{partitions} partitions in {files} files"))?;
            }
        }
    }
    Ok(())
}

fn measure(args: &PrefixIndexArgs, rows: Rows, files: usize, name: &str) -> Result<(), AnyError> {
    let name = format!("{name}, {} rows a prefix", rows.per_prefix);
    let build = |by| (0..files).map(|_| rows.index(by)).collect::<Result<Vec<_>, _>>();
    let indexes = FindBy::ALL.map(build).into_iter().collect::<Result<Vec<_>, _>>()?;
    for asked in ASKED {
        let nanos = nanos(args, rows, &indexes, asked).map(|nanos| format!("{nanos:.0} ns"));
        print(&line(&format!("{name}, {asked:?}"), nanos));
    }
    let blocks = (rows.count / BLOCK_ROWS as u64) as f64;
    let mut memory = FindBy::ALL.map(|_| String::new());
    for (memory, indexes) in memory.iter_mut().zip(&indexes) {
        let bytes = indexes[0].bytes();
        let [partitions, table] = [bytes.partitions, bytes.table].map(|all| all as f64 / blocks);
        *memory = format!("{partitions:.1} + {table:.1} bytes a block");
    }
    print(&line(&name, memory));
    Ok(())
}

fn line(name: &str, of_each: [String; FindBy::ALL.len()]) -> String {
    let each = FindBy::ALL.iter().zip(of_each).map(|(by, of)| format!(" {by:?} {of}"));
    format!("{name}:{}", each.collect::<Vec<_>>().join(","))
}

/// CPU of the search of one index by each way, which take turns; a question goes to all files.
fn nanos(
    args: &PrefixIndexArgs,
    rows: Rows,
    indexes: &[Vec<BlockFinder>],
    asked: Asked,
) -> [f64; FindBy::ALL.len()] {
    let files = indexes[0].len();
    let questions: Vec<Vec<u8>> = (0..(args.searches / files).max(1) as u64)
        .map(|at| rows.question(asked, scattered(at) % rows.count))
        .collect();
    let mut rounds = FindBy::ALL.map(|_| Vec::new());
    for _ in 0..args.rounds.max(1) {
        for (round, indexes) in rounds.iter_mut().zip(indexes) {
            let (_, nanos) = nanos_per_item(1, questions.len() * files, || {
                for question in &questions {
                    indexes.iter().for_each(|index| {
                        black_box(index.offset_of(question));
                    });
                }
            });
            round.push(nanos);
        }
    }
    rounds.map(|rounds| Spread::of(rounds).median)
}
