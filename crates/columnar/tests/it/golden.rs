//! Bytes of pages and descriptors, with what they mean, in testdata/format. They are frozen with version 1:
//! a change of them needs a new version. `REWRITE=1` writes the files again.

use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use arrow_buffer::Buffer;
use columnar::{
    Choice, Compression, EncodingKind, Page, PageOptions, SegmentDescriptor, encode_page,
    encode_segment,
};
use std::fmt::Write;
use std::sync::Arc;

/// Returns integers if all words of a line are, else texts; `null` is NULL.
fn array(words: &str) -> ArrayRef {
    let words = || words.split_whitespace().map(|word| (word != "null").then_some(word));
    let integers: Option<Vec<Option<i64>>> =
        words().map(|word| word.map(str::parse).transpose().ok()).collect();
    match integers {
        Some(integers) => Arc::new(Int64Array::from(integers)),
        None => Arc::new(words().collect::<StringViewArray>()),
    }
}

fn options(encoding: &str) -> PageOptions {
    let kind = EncodingKind::ALL.into_iter().find(|kind| kind.to_string() == encoding);
    let choice = kind.map_or(Choice::Sampled, Choice::Forced);
    PageOptions { choice, compression: Compression::None }
}

/// Returns lines with offset, bytes and meaning, each item as long as its number says; what follows them has
/// no more meaning than that.
fn annotate(bytes: &[u8], items: &[(usize, &str)]) -> String {
    let mut out = String::new();
    let mut at = 0usize;
    let rest = [(usize::MAX, "")];
    for (len, meaning) in items.iter().chain(&rest) {
        let end = bytes.len().min(at.saturating_add(*len));
        for (index, row) in bytes[at..end].chunks(16).enumerate() {
            let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
            let meaning = if index == 0 { meaning } else { "" };
            let line = format!("{:04x}  {:48}{meaning}", at + 16 * index, hex.join(" "));
            writeln!(out, "{}", line.trim_end()).unwrap();
        }
        at = end;
    }
    out
}

const PAGE: [(usize, &str); 11] = [
    (1, "version"),
    (1, "type"),
    (1, "compression"),
    (1, "zero"),
    (4, "rows"),
    (4, "nulls"),
    (4, "length of the body"),
    (4, "length of the stored body"),
    (8, "encoding tree"),
    (32, "zero"),
    (4, "checksum"),
];

fn page(input: &str, encoding: &str) -> String {
    let array = array(input);
    let page = encode_page(&array, &options(encoding)).unwrap().bytes;
    let read = Page::open(Buffer::from_slice_ref(&page)).unwrap();
    let back = read.decode(array.data_type()).unwrap();
    assert_eq!(back.to_data(), array.to_data());
    let tree: Vec<String> = read.tree().iter().map(ToString::to_string).collect();
    format!("tree: {}\n{}", tree.join(", "), annotate(&page, &PAGE))
}

fn descriptor(input: &str) -> String {
    let columns: Vec<(u32, ArrayRef)> = (1..).zip(input.lines().map(array)).collect();
    let segment = encode_segment(&columns, &options("sampled")).unwrap();
    let bytes = segment.descriptor.encode();
    let read = SegmentDescriptor::decode(&bytes).unwrap();
    assert_eq!(read, segment.descriptor);
    let head = [(4, "version, zero"), (4, "rows"), (2, "columns"), (2, "zero")];
    let mut out = annotate(&bytes, &[&head[..], &[(bytes.len() - 16, "columns, pages")]].concat());
    for column in read.columns {
        let (number, kind, distinct) = (column.number, column.column_type, &column.distinct);
        writeln!(out, "column {number}: {kind:?}, {} different", distinct.estimate()).unwrap();
        for page in column.pages {
            let columnar::PageDescriptor { rows, nulls, stored_bytes, tree, bounds, .. } = page;
            writeln!(out, "  {rows} rows, {nulls} nulls, {stored_bytes} bytes, {tree:?}").unwrap();
            writeln!(out, "  min {:?}, cut: {}", bounds.min, bounds.min_cut).unwrap();
            writeln!(out, "  max {:?}, cut: {}", bounds.max, bounds.max_cut).unwrap();
        }
    }
    out
}

#[test]
fn bytes_are_what_the_format_page_says() {
    datadriven::walk("testdata/format", |file| {
        file.run(|case| match case.directive.as_str() {
            "page" => {
                let encoding: String = case.take_arg("encoding").unwrap();
                page(&case.input, &encoding.replace('_', " "))
            }
            "descriptor" => descriptor(&case.input),
            other => panic!("no directive {other}"),
        });
    });
}
