//! Prints how much CPU COPY takes for wide rows like the rows of the ClickBench table: 105 columns, most of
//! them small integers, some texts such as URLs, dates and times.
//!
//! ```text
//! cargo run --release -p copy --example copy_speed -- [rows] [rounds]
//! ```

#![allow(clippy::print_stdout, reason = "the figures are the program's result")]

use copy::{
    Column, ColumnType, Format, IsoForms, Layout, Limits, Options, Parser, Result, Splitter, Writer,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt::Write as _;
use std::sync::Arc;

/// Rows of a batch, as many as a segment of a columnar table has.
const BATCH_ROWS: usize = 65_536;
/// Bytes of a message of a client.
const MESSAGE_BYTES: usize = 8_192;
/// Columns in their order: how many of a kind follow each other.
const MIXTURE: &[(usize, Kind)] = &[
    (1, Kind::Id),
    (1, Kind::Flag),
    (1, Kind::Title),
    (1, Kind::Flag),
    (1, Kind::Moment),
    (1, Kind::Date),
    (3, Kind::Integer),
    (1, Kind::Id),
    (3, Kind::Small),
    (2, Kind::Url),
    (5, Kind::Small),
    (5, Kind::Flag),
    (1, Kind::Word),
    (4, Kind::Small),
    (1, Kind::Word),
    (4, Kind::Flag),
    (2, Kind::Empty),
    (3, Kind::Integer),
    (1, Kind::Phrase),
    (5, Kind::Small),
    (1, Kind::Moment),
    (4, Kind::Flag),
    (1, Kind::Word),
    (4, Kind::Small),
    (1, Kind::Id),
    (1, Kind::Url),
    (1, Kind::Integer),
    (5, Kind::Flag),
    (1, Kind::Word),
    (1, Kind::Moment),
    (5, Kind::Flag),
    (4, Kind::Integer),
    (4, Kind::Word),
    (8, Kind::Small),
    (1, Kind::Empty),
    (1, Kind::Small),
    (2, Kind::Empty),
    (1, Kind::Flag),
    (9, Kind::Empty),
    (1, Kind::Flag),
    (2, Kind::Id),
    (1, Kind::Flag),
];

/// The kind of values that a column holds.
#[derive(Clone, Copy)]
enum Kind {
    /// Integers of 64 bits, of 18 or 19 digits.
    Id,
    /// Truth values as 0 or 1.
    Flag,
    /// 0, or up to four digits.
    Small,
    /// Integers of up to ten digits.
    Integer,
    Date,
    Moment,
    Title,
    Url,
    /// Some words, or mostly none.
    Phrase,
    /// Words of a few letters.
    Word,
    Empty,
}

impl Kind {
    fn column_type(self) -> ColumnType {
        match self {
            Self::Id => ColumnType::Int8,
            Self::Flag | Self::Small => ColumnType::Int2,
            Self::Integer => ColumnType::Int4,
            Self::Date => ColumnType::Date,
            Self::Moment => ColumnType::Timestamp,
            _ => ColumnType::Text,
        }
    }

    fn put(self, random: &mut StdRng, out: &mut String) {
        let _ = match self {
            Self::Id => write!(out, "{}", random.random::<i64>()),
            Self::Flag => write!(out, "{}", random.random_range(0..2)),
            Self::Small if random.random_bool(0.6) => write!(out, "0"),
            Self::Small => {
                write!(out, "{}", random.random_range(0..10_000_i16) >> random.random_range(0..9))
            }
            Self::Integer => {
                write!(out, "{}", random.random::<i32>() >> random.random_range(0..24))
            }
            Self::Date => write!(out, "2013-07-{:02}", random.random_range(1..32)),
            Self::Moment => {
                let mut part = |max: u32| random.random_range(0..max);
                write!(
                    out,
                    "2013-07-{:02} {:02}:{:02}:{:02}",
                    part(31) + 1,
                    part(24),
                    part(60),
                    part(60)
                )
            }
            Self::Title => {
                words(random, 8, "при вет мир", out);
                Ok(())
            }
            Self::Url => {
                let (host, page) = (random.random_range(0..900), random.random::<u32>());
                let _ = write!(out, "http://site{host}.example.com/catalog/");
                words(random, 6, "abc-def ghi", out);
                write!(out, "?id={page}&lang=ru&sort=price")
            }
            Self::Phrase if random.random_bool(0.8) => Ok(()),
            Self::Phrase => {
                words(random, 4, "какой то текст", out);
                Ok(())
            }
            Self::Word => {
                write!(out, "{}", ["", "D6", "utf-8", "S", "ru"][random.random_range(0..5)])
            }
            Self::Empty => Ok(()),
        };
    }
}

/// Appends up to `most` words of random lengths.
fn words(random: &mut StdRng, most: usize, letters: &str, out: &mut String) {
    let letters: Vec<char> = letters.chars().collect();
    for _ in 0..random.random_range(1..=most) {
        for _ in 0..random.random_range(3..12) {
            out.push(letters[random.random_range(0..letters.len())]);
        }
        // One text in some has a byte that is escaped or quoted.
        out.push(if random.random_bool(0.01) { '\t' } else { ' ' });
    }
}

fn columns() -> Vec<Column> {
    let kinds = MIXTURE.iter().flat_map(|(count, kind)| std::iter::repeat_n(*kind, *count));
    kinds
        .enumerate()
        .map(|(number, kind)| Column::new(format!("c{number}"), kind.column_type()))
        .collect()
}

/// Returns rows of text, each field of which is escaped.
fn generate(rows: usize, random: &mut StdRng) -> Vec<u8> {
    let (mut out, mut field) = (Vec::new(), String::new());
    for _ in 0..rows {
        for (count, kind) in MIXTURE {
            for _ in 0..*count {
                field.clear();
                kind.put(random, &mut field);
                out.extend_from_slice(field.replace('\\', "\\\\").replace('\t', "\\t").as_bytes());
                out.push(b'\t');
            }
        }
        out.pop();
        out.push(b'\n');
    }
    out
}

/// Returns nanoseconds of CPU that this thread has used.
fn cpu_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default()
}

/// Cuts data into blocks, and parses them if there is a parser. Returns the number of rows.
fn read(
    data: &[u8],
    options: &Options,
    parser: &mut Option<Parser>,
    sink: &mut dyn FnMut(&mut Parser, usize) -> Result<()>,
) -> Result<usize> {
    let mut splitter = Splitter::new(options, columns().len(), Limits::default())?;
    let mut rows = 0;
    let mut take = |block: &mut copy::Block| -> Result<()> {
        let Some(parser) = parser else { return Ok(()) };
        while !block.is_empty() {
            parser.parse(block, BATCH_ROWS)?;
            if parser.rows() == BATCH_ROWS || !block.is_empty() {
                rows += parser.rows();
                sink(parser, parser.rows())?;
            }
        }
        Ok(())
    };
    for mut piece in data.chunks(MESSAGE_BYTES) {
        while let Some(mut block) = splitter.push(&mut piece)? {
            take(&mut block)?;
        }
    }
    while let Some(mut block) = splitter.finish()? {
        take(&mut block)?;
    }
    if let Some(parser) = parser {
        let last = parser.rows();
        sink(parser, last)?;
        rows += last;
    }
    Ok(rows)
}

/// Prints the best CPU time of some rounds, for a million rows.
fn measure(
    name: &str,
    rows: usize,
    bytes: usize,
    rounds: usize,
    mut work: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut best = u64::MAX;
    for _ in 0..rounds {
        let start = cpu_nanos();
        work()?;
        best = best.min(cpu_nanos() - start);
    }
    let seconds = best as f64 / 1e9;
    let million = seconds * 1e6 / rows as f64;
    println!(
        "{name:30} {million:6.2} CPU-s a million rows, {:6.0} MB/s",
        bytes as f64 / 1e6 / seconds
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().unwrap_or(0));
    let rows = arguments.next().unwrap_or(131_072);
    let rounds = arguments.next().unwrap_or(5);
    let text = generate(rows, &mut StdRng::seed_from_u64(1));
    let text_options = Options::of_format(Format::Text);
    let forms = Arc::new(IsoForms);
    let mut parser = Some(Parser::new(&text_options, columns(), forms.clone())?);

    let all: Vec<usize> = (0..columns().len()).collect();
    let layout = Layout::new(&columns(), &all)?;
    let mut batches = Vec::new();
    read(&text, &text_options, &mut parser, &mut |parser, rows| {
        batches.push(layout.batch(parser.take()?, rows, |_, _| Ok(None))?);
        Ok(())
    })?;
    for format in [Format::Text, Format::Csv, Format::Binary] {
        let options = Options::of_format(format);
        let mut data = Vec::new();
        let mut write = || -> Result<()> {
            data.clear();
            let mut writer = Writer::new(&options, columns(), forms.clone())?;
            writer.head(&mut data);
            batches.iter().try_for_each(|batch| writer.batch(batch, &mut data))?;
            writer.tail(&mut data);
            Ok(())
        };
        write()?;
        let bytes = data.len();
        let name = format!("{format:?}").to_lowercase();
        println!("{name}: {rows} rows of {} bytes", bytes / rows.max(1));
        let mut data = Vec::new();
        measure("  write", rows, bytes, rounds, || {
            data.clear();
            let mut writer = Writer::new(&options, columns(), forms.clone())?;
            writer.head(&mut data);
            batches.iter().try_for_each(|batch| writer.batch(batch, &mut data))?;
            writer.tail(&mut data);
            Ok(())
        })?;
        let ignore = &mut |parser: &mut Parser, _| parser.take().map(drop);
        measure("  split into blocks", rows, bytes, rounds, || {
            read(&data, &options, &mut None, ignore).map(drop)
        })?;
        if format != Format::Binary {
            let texts =
                columns().into_iter().map(|column| Column::new(column.name, ColumnType::Text));
            let mut parser = Some(Parser::new(&options, texts.collect(), forms.clone())?);
            measure("  + split into fields, as text", rows, bytes, rounds, || {
                read(&data, &options, &mut parser, ignore).map(drop)
            })?;
        }
        let mut parser = Some(Parser::new(&options, columns(), forms.clone())?);
        measure("  + parse into columns", rows, bytes, rounds, || {
            let parsed = read(&data, &options, &mut parser, ignore)?;
            assert_eq!(parsed, rows, "all rows are read");
            Ok(())
        })?;
    }
    Ok(())
}
