use super::*;

fn options(format: Format) -> Options {
    let mut options = Options::of(&[], &[]).unwrap();
    options.format = format;
    if format == Format::Csv {
        options.delimiter = b',';
        options.null = String::new();
    }
    options
}

/// Reads all records of `data`, in pieces of `piece` bytes.
fn read(options: &Options, data: &[u8], piece: usize) -> Result<Vec<Vec<Option<String>>>> {
    let (mut records, mut fields, mut all) =
        (Records::new(options.clone()), Fields::default(), Vec::new());
    let mut take = |records: &mut Records, is_last: bool| -> Result<()> {
        while records.next(&mut fields, is_last)? {
            let texts = (0..fields.len())
                .map(|at| fields.get(at).map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
            all.push(texts.collect());
        }
        Ok(())
    };
    for piece in data.chunks(piece) {
        records.push(piece)?;
        take(&mut records, false)?;
    }
    take(&mut records, true)?;
    Ok(all)
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| (*text != "NULL").then(|| (*text).to_owned())).collect()
}

#[test]
fn text_is_read_however_it_is_cut() {
    let data = b"1\ta\\tb\\\\\n2\t\\N\r\n\t\\101\\x42\\\nx\n\\.\nignored\n";
    for piece in 1..data.len() {
        let got = read(&options(Format::Text), data, piece).unwrap();
        let want = [some(&["1", "a\tb\\"]), some(&["2", "NULL"]), some(&["", "AB\nx"])];
        assert_eq!(got, want, "{piece}");
    }
    assert_eq!(read(&options(Format::Text), b"last", 9).unwrap(), [some(&["last"])]);
}

#[test]
fn a_mark_of_the_end_stands_at_the_end_of_a_line_or_is_an_error() {
    let text = options(Format::Text);
    let data = b"a\nb\\.\nc\n";
    for piece in 1..=data.len() {
        assert_eq!(read(&text, data, piece).unwrap(), [some(&["a"]), some(&["b"])], "{piece}");
    }
    assert_eq!(read(&text, b"a\\\\.\n", 9).unwrap(), [some(&["a\\."])]);
    for data in [&b"a\\.x\n"[..], b"\\.x\n", b"a\nb\\."] {
        let problem = read(&text, data, 9).unwrap_err();
        assert_eq!(problem.state, SqlState::BAD_COPY_FILE_FORMAT);
    }
}

#[test]
fn binary_data_behind_the_trailer_is_refused() {
    let mut data = [SIGNATURE, &[0; 8], &[0xff, 0xff]].concat();
    assert!(read(&options(Format::Binary), &data, 100).unwrap().is_empty());
    data.push(0);
    for piece in 1..=data.len() {
        assert!(read(&options(Format::Binary), &data, piece).is_err(), "{piece}");
    }
}

#[test]
fn csv_is_read_however_it_is_cut() {
    let mut options = options(Format::Csv);
    options.has_header = true;
    let data = b"a,b\n1,\"x \"\"y\"\"\nz\"\n,\"\"\r\n\"\",q";
    for piece in 1..data.len() {
        let got = read(&options, data, piece).unwrap();
        let want = [some(&["1", "x \"y\"\nz"]), some(&["NULL", ""]), some(&["", "q"])];
        assert_eq!(got, want, "{piece}");
    }
    let open = read(&options, b"a\n\"x\n", 100).unwrap_err();
    assert_eq!(open.state, SqlState::BAD_COPY_FILE_FORMAT);
}

#[test]
fn long_records_are_read_once_however_they_are_cut() {
    let long = "x,\n".repeat(100_000);
    let data = format!("1,\"{long}\"\n");
    let got = read(&options(Format::Csv), data.as_bytes(), 3).unwrap();
    assert_eq!(got, [some(&["1", &long])]);
    let long = "x".repeat(300_000);
    let got = read(&options(Format::Text), format!("{long}\n").as_bytes(), 3).unwrap();
    assert_eq!(got, [some(&[&long])]);
}

#[test]
fn binary_is_read_however_it_is_cut_and_refused_where_it_is_cut_off() {
    let mut data = SIGNATURE.to_vec();
    data.extend([0; 8]);
    data.extend([0, 2, 0, 0, 0, 1, b'a', 0xff, 0xff, 0xff, 0xff]);
    data.extend([0, 1, 0, 0, 0, 0, 0xff, 0xff]);
    for piece in 1..data.len() {
        let got = read(&options(Format::Binary), &data, piece).unwrap();
        assert_eq!(got, [some(&["a", "NULL"]), some(&[""])], "{piece}");
    }
    // The end may come without its mark, as some clients send it, but not within a record.
    let ends_of_records = [19, 30, 36];
    for len in 0..data.len() {
        let got = read(&options(Format::Binary), &data[..len], 7);
        assert_eq!(got.is_ok(), ends_of_records.contains(&len), "{len}");
    }
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let mut state = 1u32;
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..40)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                b"a,\t\"\\\n\r.x1\0"[(state >> 24) as usize % 11]
            })
            .collect();
        for format in [Format::Text, Format::Csv, Format::Binary] {
            let _ = read(&options(format), &bytes, 3);
        }
    }
}
