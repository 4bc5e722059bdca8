//! Each case is an input and what is read from it: records as `line@end {name=value, …}`, bad
//! lines as `line@end ! reason`.

use super::*;

fn read(format: Format, layout: &Layout, text: &'static str) -> String {
    let mut lines = Lines::new(Box::new(text.as_bytes()));
    let mut records = match records(format, layout, &mut lines) {
        Ok(records) => records,
        Err(error) => return format!("! {error}"),
    };
    let mut out = String::new();
    while let Some(item) = records.next(&mut lines).unwrap() {
        let shown = match item.content {
            Ok(record) => {
                let field = |(name, value): &(Bytes, Bytes)| {
                    format!("{}={}", name.escape_ascii(), value.escape_ascii())
                };
                let fields: Vec<String> = record.fields.iter().map(field).collect();
                format!("{{{}}}", fields.join(", "))
            }
            Err(reason) => format!("! {reason}"),
        };
        out += &format!("{}@{} {shown}\n", item.line, item.end.offset);
    }
    out
}

#[track_caller]
fn check(format: Format, text: &'static str, want: &[&str]) {
    let got = read(format, &Layout::default(), text);
    assert_eq!(got.lines().collect::<Vec<_>>(), want, "{text:?}");
}

#[test]
fn csv_is_split_at_commas_outside_quotes() {
    check(
        Format::Csv,
        "a,b\r\n1,2\r\n\"x,\"\"y\"\"\",\n\n\"two\nlines\",\"\"\nplain \"quotes\",3",
        &[
            r"2@10 {a=1, b=2}",
            r#"3@21 {a=x,\"y\", b=}"#,
            r"5@37 {a=two\nlines, b=}",
            r#"7@53 {a=plain \"quotes\", b=3}"#,
        ],
    );
}

#[test]
fn a_bad_csv_line_costs_only_itself() {
    check(
        Format::Csv,
        "a,b\n1\n1,\"2\"x\n\"open,2\n3,4\n",
        &[
            "2@6 ! 1 fields, but the header has 2",
            "3@13 ! text between a closing quote and the next field",
            "4@21 ! a quote opened on this line is not closed",
            "5@25 {a=3, b=4}",
        ],
    );
}

#[test]
fn a_header_that_is_none_is_refused() {
    check(Format::Csv, "", &["! the input is empty; it has no header line"]);
    check(Format::Csv, "a,a\n1,2\n", &["! two columns have the name \"a\""]);
    check(Format::Csv, "a,\"b\n1,2\n", &["! line 1: the header has an unclosed quote"]);
}

#[test]
fn columns_may_be_named_by_the_caller_and_split_elsewhere() {
    let columns = Some(vec!["k".to_owned(), "v".to_owned()]);
    let layout = Layout { columns, delimiter: Some(b';') };
    assert_eq!(read(Format::Csv, &layout, "1;2,5\n"), "1@6 {k=1, v=2,5}\n");
}

#[test]
fn tsv_takes_every_byte_but_tab_as_it_is() {
    check(Format::Tsv, "a\tb\n\"1\t2\"\r\n", &[r#"2@11 {a=\"1, b=2\"}"#]);
}

#[test]
fn json_keeps_numbers_as_written_and_skips_null() {
    check(
        Format::Jsonl,
        "{\"s\":\"\\u00e9\\n\",\"n\":1.50,\"big\":123456789012345678901234567890,\"no\":null}\n\
         {\"o\":{\"x\":[1, 2]},\"t\":true}\n[1]\n{\"a\":\n",
        &[
            r"1@73 {big=123456789012345678901234567890, n=1.50, s=\xc3\xa9\n}",
            r#"2@101 {o={\"x\":[1, 2]}, t=true}"#,
            "3@105 ! not a JSON object: invalid type: sequence, expected a map at line 1 column 0",
            "4@111 ! not a JSON object: EOF while parsing a value at line 1 column 5",
        ],
    );
}

#[test]
fn stanzas_end_at_blank_lines_and_values_may_continue() {
    check(
        Format::Deb822,
        "Package: a\nTag: x,\n y\n\tz\n# note\n\n \nPackage: b\nDescription: c: d\n",
        &[r"1@32 {Package=a, Tag=x,\ny\nz}", "8@64 {Package=b, Description=c: d}"],
    );
}

#[test]
fn a_bad_stanza_is_rejected_whole() {
    check(
        Format::Deb822,
        " lost\nA: 1\n\nA: 1\nnothing\nB: 2\n\nA: 1\nA: 2\n\nA: 3\n",
        &[
            "1@11 ! line 1 continues a field, but no field precedes it",
            "4@30 ! line 5 has no \"Field:\"",
            "8@41 ! line 9 repeats field A",
            "11@47 {A=3}",
        ],
    );
}
