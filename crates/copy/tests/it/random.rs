//! Random data: the model and the parser agree, however the data is cut.

use crate::model::{Row, model};
use crate::reading::{Cuts, read, rows};
use copy::{
    Block, Column, ColumnType, Format, Header, IsoForms, Limits, Options, Parser, Splitter,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const ROUNDS: u64 = 20_000;

/// Returns pieces that mean something, and others, in a random order.
fn random_data(random: &mut StdRng, format: Format) -> Vec<u8> {
    let text: &[&[u8]] = &[
        b"a",
        b"bc",
        b"\t",
        b"\n",
        b"\n",
        b"\\",
        b"\\N",
        b"\\.",
        b"\\.\n",
        b"\\n",
        b"\\101",
        b"\\x42",
        b"\\\n",
        b"\\\\",
        b"\\\t",
        "\u{e9}".as_bytes(),
        b"a long field, longer than a word",
        b"x",
    ];
    let csv: &[&[u8]] = &[
        b"a",
        b"bc",
        b",",
        b"\n",
        b"\n",
        b"\"",
        b"\"",
        b"\"\"",
        b"\\",
        b"\\\"",
        b"\n\\.\n",
        b"\\.",
        b"\"q\"",
        b",\"r,\n\",",
        "\u{e9}".as_bytes(),
        b"a long field; longer than a word",
        b"N",
    ];
    let rare: &[&[u8]] = &[b"\r", b"\r\n", b"\0", b"\xff", b"\\377", b"\\0", b"\xe2\x82"];
    let common = if format == Format::Csv { csv } else { text };
    let has_rare = random.random_bool(0.3);
    let line_end: &[u8] = [&b"\n"[..], b"\n", b"\r\n", b"\r"][random.random_range(0..4)];
    let mut data = Vec::new();
    for _ in 0..random.random_range(0..30) {
        let pieces = if has_rare && random.random_bool(0.1) { rare } else { common };
        let piece = pieces[random.random_range(0..pieces.len())];
        for byte in piece {
            if *byte == b'\n' && random.random_bool(0.97) {
                data.extend_from_slice(line_end);
            } else {
                data.push(*byte);
            }
        }
    }
    data
}

fn random_options(random: &mut StdRng) -> Options {
    let format = if random.random() { Format::Text } else { Format::Csv };
    let mut options = Options::of_format(format);
    if random.random_bool(0.2) {
        options.null = ["N", "", "\\"][random.random_range(0..3)].to_owned();
    }
    if format == Format::Csv && random.random_bool(0.4) {
        options.escape = b'\\';
    }
    options
}

#[test]
fn random_data_is_read_as_the_model_reads_it() {
    for seed in 0..ROUNDS {
        let random = &mut StdRng::seed_from_u64(seed);
        let options = random_options(random);
        let data = random_data(random, options.format);
        let count = random.random_range(1..4);
        let columns: Vec<Column> =
            (0..count).map(|at| Column::new(format!("c{at}"), ColumnType::Text)).collect();
        let want = model(&data, &options, count);
        let rows_max = random.random_range(1..5);
        let block_bytes = random.random_range(1..40);
        let limits = Limits { block_bytes, ..Limits::default() };
        let piece = random.random_range(1..20);
        for cuts in [Cuts::none(), Cuts { piece, limits, rows: rows_max }] {
            let shown = || {
                let text = String::from_utf8_lossy(&data);
                format!("seed {seed}, {cuts:?}, {options:?}, {count} columns: {text:?}")
            };
            match read(&data, &options, &columns, Arc::new(IsoForms), cuts) {
                Ok(batches) => {
                    assert_eq!(want.problem, None, "{}", shown());
                    assert_eq!(texts(&rows(&batches)), want.rows, "{}", shown());
                }
                Err(error) => {
                    let got = (error.state().as_str().to_owned(), error.line().unwrap());
                    let want = want.problem.map(|(state, line)| (state.to_owned(), line));
                    assert_eq!(Some(got), want, "{error}, {}", shown());
                }
            }
        }
    }
}

fn texts(rows: &[Vec<Option<String>>]) -> Vec<Row> {
    let bytes = |cell: &Option<String>| cell.as_ref().map(|text| text.clone().into_bytes());
    rows.iter().map(|row| row.iter().map(bytes).collect()).collect()
}

#[test]
fn every_place_of_a_cut_gives_the_same() {
    let data = b"1\ta\\tb\\\\\r\n2\t\\N\r\n3\t\\101\\x42\r\n4\t\xc3\xa9\r\n\\.\r\nignored";
    let columns = [Column::new("a", ColumnType::Int4), Column::new("b", ColumnType::Text)];
    let options = Options::of_format(Format::Text);
    let read = |cuts| rows(&read(data, &options, &columns, Arc::new(IsoForms), cuts).unwrap());
    let whole = read(Cuts::none());
    assert_eq!(whole.len(), 4);
    for piece in 1..=data.len() {
        for block_bytes in 1..=data.len() {
            let limits = Limits { block_bytes, ..Limits::default() };
            assert_eq!(read(Cuts { piece, limits, rows: 3 }), whole, "{piece} {block_bytes}");
        }
    }
}

/// Blocks parsed by parsers of their own threads are the rows of the stream, and errors have their lines.
#[test]
fn blocks_can_be_parsed_apart() {
    let random = &mut StdRng::seed_from_u64(1);
    let mut data = b"n,text\n".to_vec();
    for number in 0..5_000 {
        let text = ["", "\"\"", "\"two\nlines\"", "\"a \"\"b\"\"\"", "plain"];
        let text = text[random.random_range(0..text.len())];
        data.extend_from_slice(format!("{number},{text}\n").as_bytes());
    }
    let bad_line = 1 + data.iter().filter(|byte| **byte == b'\n').count() as u64;
    data.extend_from_slice(b"x,last\n");
    let columns = [Column::new("n", ColumnType::Int4), Column::new("text", ColumnType::Text)];
    let options = Options { header: Header::Match, ..Options::of_format(Format::Csv) };
    let limits = Limits { block_bytes: 1_000, ..Limits::default() };
    let mut splitter = Splitter::new(&options, 2, limits).unwrap();
    let mut blocks = Vec::new();
    let mut piece = &data[..];
    while let Some(block) = splitter.push(&mut piece).unwrap() {
        blocks.push(block);
    }
    while let Some(block) = splitter.finish().unwrap() {
        blocks.push(block);
    }
    assert!(blocks.len() > 20);
    let parse = |mut block: Block| {
        let mut parser = Parser::new(&options, columns.to_vec(), Arc::new(IsoForms)).unwrap();
        parser.parse(&mut block, usize::MAX).map(|()| parser.take().unwrap())
    };
    let parse = &parse;
    let parsed: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            blocks.into_iter().map(|block| scope.spawn(move || parse(block))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (last, whole) = parsed.split_last().unwrap();
    assert_eq!(last.as_ref().unwrap_err().line(), Some(bad_line));
    let whole: Vec<_> = whole.iter().map(|batch| batch.clone().unwrap()).collect();
    let rows = rows(&whole);
    assert!(rows.len() > 4_000);
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row[0], Some(number.to_string()));
    }
}
