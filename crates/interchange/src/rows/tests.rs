//! Every format gives back what was written, and refuses damage.

use super::fuzz::{read, write};
use super::limits::{RECORD_BYTES, RECORD_CELLS};
use super::*;
use crate::error::Error;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const FORMATS: [Format; 5] =
    [Format::Csv, Format::Jsonl, Format::Avro, Format::Parquet, Format::SequenceFile];

/// Every combination of options that changes a file.
fn options() -> impl Iterator<Item = WriteOptions> {
    let encodings = [Encoding::Escaped, Encoding::Base64];
    let compressions = [Compression::None, Compression::Snappy, Compression::Zstd];
    encodings.into_iter().flat_map(move |encoding| {
        let sync = *b"0123456789abcdef";
        compressions.map(|compression| WriteOptions { encoding, compression, sync })
    })
}

const PLAIN: WriteOptions =
    WriteOptions { encoding: Encoding::Escaped, compression: Compression::None, sync: [7; 16] };

/// Returns bytes of any kind: text, quotes, backslashes, zeros, bytes that are not UTF-8.
fn bytes(random: &mut StdRng, len_max: usize) -> Bytes {
    let len = random.random_range(0..=len_max);
    let hard = b"\\\"',\n\r\t\0\xff\xc3{}x0a";
    let byte = |random: &mut StdRng| match random.random_range(0..3) {
        0 => hard[random.random_range(0..hard.len())],
        1 => random.random_range(b'a'..=b'z'),
        _ => random.random(),
    };
    (0..len).map(|_| byte(random)).collect()
}

fn rows(seed: u64, count: usize) -> Vec<Row> {
    let mut random = StdRng::seed_from_u64(seed);
    let families: [Arc<str>; 3] = ["f".into(), "long-family_1.x".into(), "g".into()];
    let row = |at: usize| {
        let mut key = format!("{at:06}").into_bytes();
        key.extend_from_slice(&bytes(&mut random, 20));
        let cells = (0..random.random_range(1..10)).map(|_| Cell {
            family: families[random.random_range(0..3)].clone(),
            qualifier: bytes(&mut random, 10),
            timestamp_micros: match random.random_range(0..3) {
                0 => 0,
                1 => i64::MAX / 1000 * 1000,
                _ => random.random_range(0..2_000_000_000_000) * 1000,
            },
            value: bytes(&mut random, 40),
        });
        let cells = cells.collect();
        Row { key: key.into(), cells }
    };
    (0..count).map(row).collect()
}

#[test]
fn what_is_written_is_read_again_in_every_format() {
    for seed in 0..20 {
        let rows = rows(seed, 200);
        for format in FORMATS {
            for options in options() {
                let file = write(format, options, &rows).unwrap();
                assert_eq!(read(format, &file).unwrap(), rows, "{format:?} {options:?} {seed}");
            }
        }
    }
}

#[test]
fn a_file_without_rows_is_a_file() {
    for format in FORMATS {
        let file = write(format, PLAIN, &[]).unwrap();
        assert_eq!(read(format, &file).unwrap(), [], "{format:?}");
    }
}

#[test]
fn a_long_record_is_read_in_parts() {
    let cell = |at: usize| Cell {
        family: "f".into(),
        qualifier: at.to_string().into(),
        timestamp_micros: 1000,
        value: "v".into(),
    };
    let many = Row { key: "many".into(), cells: (0..RECORD_CELLS * 2 + 1).map(cell).collect() };
    let large = Cell { value: vec![b'x'; RECORD_BYTES].into(), ..cell(0) };
    let large = Row { key: "large".into(), cells: vec![large.clone(), large] };
    for format in FORMATS {
        let file = write(format, PLAIN, &[many.clone(), large.clone()]).unwrap();
        let parts = read(format, &file).unwrap();
        let lens: Vec<usize> = parts.iter().map(|part| part.cells.len()).collect();
        assert_eq!(lens, [RECORD_CELLS, RECORD_CELLS, 1, 1, 1], "{format:?}");
        let joined: Vec<_> = parts[..3].iter().flat_map(|part| part.cells.clone()).collect();
        assert_eq!(joined, many.cells, "{format:?}");
    }
}

/// A value whose escaped form is the longest, in a row that has as many bytes as a record may.
#[test]
fn the_largest_row_is_read_again_in_every_format() {
    let cell = |len: usize| Cell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp_micros: 1000,
        value: vec![0; len].into(),
    };
    let row = [cell(RECORD_BYTES - 1000), cell(limits::VALUE_BYTES_MAX)];
    let row = [Row { key: "k".into(), cells: row.into() }];
    for format in FORMATS {
        let file = write(format, PLAIN, &row).unwrap();
        let read = read(format, &file).unwrap_or_else(|error| panic!("{format:?}: {error}"));
        // Without Debug output of that size.
        assert!(cells(&read) == cells(&row), "{format:?}");
    }
}

#[test]
fn a_row_that_was_read_keeps_no_block_in_memory() {
    for format in FORMATS {
        let file = write(format, PLAIN, &rows(7, 100)).unwrap();
        let rows = read(format, &file).unwrap();
        for row in rows {
            let parts = row.cells.into_iter().flat_map(|cell| [cell.qualifier, cell.value]);
            for part in parts.chain([row.key]).filter(|part| !part.is_empty()) {
                assert!(part.is_unique(), "{format:?}: {part:?} shares memory with other rows");
            }
        }
    }
}

#[test]
fn a_line_of_empty_cells_or_fields_takes_little_memory() {
    let cells = r#"{"family":"","qualifier":"","timestamp":0,"value":""},"#.repeat(1_000_000);
    let line =
        format!(r#"{{"key":"k","cells":[{cells}{}]}}"#, &cells[..cells.len() / 1_000_000 - 1]);
    let error = read(Format::Jsonl, format!("{line}\n").as_bytes()).unwrap_err().to_string();
    assert!(error.contains("more than 1000000 cells"), "{error}");
    let commas = ",".repeat(1_000_000);
    let file = format!("key,family,qualifier,timestamp,value\n{commas}\n");
    let error = read(Format::Csv, file.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("1000001 fields instead of 5"), "{error}");
}

#[test]
fn a_rejected_row_is_read_again() {
    let row = rows(6, 1).remove(0);
    let lines = rejected_lines(&row, &"é".repeat(5000)).unwrap();
    assert!(String::from_utf8_lossy(&lines).contains("\"rejected\":\"éé"));
    assert_eq!(read(Format::Jsonl, &lines).unwrap(), [row]);
}

#[test]
fn a_torn_file_is_never_taken_for_a_whole_one() {
    for rows in [rows(8, 0), rows(8, 20)] {
        for format in FORMATS {
            for options in options() {
                let file = fuzz::ended(format, options, &rows, |writer| writer.tear()).unwrap();
                let error = read(format, &file).unwrap_err();
                assert!(matches!(error, Error::Malformed { .. }), "{format:?}: {error}");
            }
        }
    }
}

#[test]
fn a_cut_file_gives_the_rows_before_the_cut_or_an_error() {
    let rows = rows(1, 20);
    for format in FORMATS {
        let file = write(format, PLAIN, &rows).unwrap();
        for len in 0..file.len() {
            // Parquet alone has a mark at its end: a cut between records or lines leaves a shorter file.
            match read(format, &file[..len]) {
                Ok(read) => {
                    let (all, read) = (cells(&rows), cells(&read));
                    let shorter = read.len() < all.len() || len + 1 == file.len();
                    assert!(shorter && all.starts_with(&read), "{format:?} {len}");
                }
                Err(Error::Malformed { .. } | Error::Unsupported(_)) => {}
                Err(error) => panic!("{format:?} cut at {len}: {error}"),
            }
        }
    }
}

fn cells(rows: &[Row]) -> Vec<(Bytes, Cell)> {
    rows.iter()
        .flat_map(|row| row.cells.iter().map(|cell| (row.key.clone(), cell.clone())))
        .collect()
}

#[test]
fn a_flipped_byte_never_panics() {
    let rows = rows(2, 8);
    for format in FORMATS {
        for options in options().take(3) {
            let file = write(format, options, &rows).unwrap();
            for at in 0..file.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut file = file.clone();
                    file[at] ^= flip;
                    fuzz::rows(format, &file);
                }
            }
        }
    }
}

#[test]
fn a_flipped_byte_of_a_compressed_block_is_found() {
    let rows = rows(3, 50);
    let options = WriteOptions { compression: Compression::Snappy, ..PLAIN };
    let file = write(Format::Avro, options, &rows).unwrap();
    let start = file.windows(16).position(|window| window == PLAIN.sync).unwrap() + 16;
    for at in start..file.len() {
        let mut file = file.clone();
        file[at] ^= 4;
        assert!(read(Format::Avro, &file).is_err(), "byte {at}");
    }
}

#[test]
fn errors_name_the_place() {
    let header = "key,family,qualifier,timestamp,value\n";
    for (format, file, want) in [
        (Format::Csv, "a,b\n".to_owned(), "the first line is neither"),
        (Format::Csv, format!("{header}a,f,q,1,v\nb,f,q,x,v\n"), "line 3: the timestamp"),
        (Format::Csv, format!("{header}a,f\n"), "line 2: 2 fields instead of 5"),
        (Format::Csv, format!("{header}a,f,q,1,\\z\n"), "line 2: the value is malformed"),
        (Format::Csv, format!("{header}a,f,q,1,v"), "line 2: the line has no end"),
        (Format::Jsonl, "{\"key\":\"a\",\"cells\":[]}\n".to_owned(), "line 1: the row has no cell"),
        (Format::Jsonl, "{\"cells\":[]}\n".to_owned(), "neither \"key\" nor \"key_base64\""),
        (Format::Jsonl, "{\"k\":1}\n".to_owned(), "line 1: this is no row"),
        (Format::Avro, "Obj".to_owned(), "offset 3: the file ends inside the magic number"),
        (Format::Avro, "PAR1".to_owned(), "no Avro file"),
        (Format::SequenceFile, "SEQ\x05".to_owned(), "version 5"),
    ] {
        let error = read(format, file.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(want), "{format:?} {file:?}: {error}");
    }
}

#[test]
fn lengths_that_lie_allocate_nothing() {
    // A block of 2^40 bytes, and metadata with 2^60 entries.
    let header = write(Format::Avro, PLAIN, &[]).unwrap();
    let lie = [&header[..], &[2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40]].concat();
    let error = read(Format::Avro, &lie).unwrap_err().to_string();
    assert!(error.contains("a block of 1099511627776 bytes; the limit is"), "{error}");
    let lie = [&b"Obj\x01"[..], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20]].concat();
    let error = read(Format::Avro, &lie).unwrap_err().to_string();
    assert!(error.contains("entries"), "{error}");
    // A block of 200 MiB of which nothing is there.
    let lie = [&header[..], &[2, 0x80, 0x80, 0x80, 0xc8, 0x01]].concat();
    let error = read(Format::Avro, &lie).unwrap_err().to_string();
    assert!(error.contains("truncated"), "{error}");
    // A snappy block that claims to become 200 MiB.
    let options = WriteOptions { compression: Compression::Snappy, ..PLAIN };
    let mut lie = write(Format::Avro, options, &[]).unwrap();
    lie.extend_from_slice(&[2, 18, 0x80, 0x80, 0x80, 0x64, 0, 0, 0, 0, 0]);
    lie.extend_from_slice(&PLAIN.sync);
    let error = read(Format::Avro, &lie).unwrap_err().to_string();
    assert!(error.contains("compressed data holds more"), "{error}");
}

#[test]
fn a_sequence_file_refuses_what_it_cannot_hold() {
    let mut rows = rows(4, 1);
    rows[0].cells[0].timestamp_micros = 1001;
    let error = write(Format::SequenceFile, PLAIN, &rows).unwrap_err().to_string();
    assert!(error.contains("milliseconds"), "{error}");
}

/// The file of one cell, byte by byte, as the classes of Hadoop and HBase write it.
#[test]
fn a_sequence_file_has_the_bytes_of_hbase() {
    let cell = Cell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp_micros: 5000,
        value: "v".into(),
    };
    let row = Row { key: "k".into(), cells: vec![cell] };
    let file = write(Format::SequenceFile, PLAIN, std::slice::from_ref(&row)).unwrap();
    let mut want = b"SEQ\x06\x31org.apache.hadoop.hbase.io.ImmutableBytesWritable".to_vec();
    want.extend_from_slice(b"\x25org.apache.hadoop.hbase.client.Result");
    want.extend_from_slice(&[0, 0, 0, 0, 0, 0]);
    want.extend_from_slice(&[7; 16]);
    want.extend_from_slice(&[0, 0, 0, 24, 0, 0, 0, 5, 0, 0, 0, 1, b'k']);
    want.extend_from_slice(&[18, 0x0a, 16, 0x0a, 1, b'k', 0x12, 1, b'f', 0x1a, 1, b'q']);
    want.extend_from_slice(&[0x20, 5, 0x28, 4, 0x32, 1, b'v']);
    assert_eq!(file, want);

    // The same record in a block that is compressed with zlib, after a sync marker.
    let (key, value) = (&file[file.len() - 24..file.len() - 19], &file[file.len() - 19..]);
    let mut packed = want[..4 + 50 + 38].to_vec();
    packed.extend_from_slice(b"\x01\x01\x2aorg.apache.hadoop.io.compress.DefaultCodec");
    packed.extend_from_slice(&[0; 4]);
    packed.extend_from_slice(&[7; 16]);
    packed.extend_from_slice(&[0xff; 4]);
    packed.extend_from_slice(&[7; 16]);
    packed.push(1);
    for part in [&[5][..], key, &[19], value] {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
        zlib.write_all(part).unwrap();
        let part = zlib.finish().unwrap();
        packed.push(part.len() as u8);
        packed.extend_from_slice(&part);
    }
    assert_eq!(read(Format::SequenceFile, &packed).unwrap(), [row]);
}

#[test]
fn text_records_take_any_bytes() {
    let mut random = StdRng::seed_from_u64(5);
    for _ in 0..2000 {
        fuzz::text_records(&bytes(&mut random, 200));
    }
    assert!(fuzz::text_records(b"a,b\n1,2\n") > 0);
}
