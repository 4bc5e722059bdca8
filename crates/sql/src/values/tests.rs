use super::*;

/// Types, texts and the answers of PostgreSQL 15; `!` marks the state of an error. Arrays of several
/// dimensions, and ones that do not begin at 1, are refused.
const TEXTS: &str = include_str!("../../testdata/values/text");

fn settings() -> Settings {
    let zone = time::Zone::named("Europe/Berlin").unwrap();
    Settings { zone, ..Settings::default() }
}

/// Returns type, input and PostgreSQL's answer of each line.
fn cases() -> Vec<(&'static str, &'static str, &'static str)> {
    let fields = |line: &'static str| {
        let (data_type, rest) = line.split_once('|').unwrap();
        let (input, answer) = rest.split_once('|').unwrap();
        (data_type, input, answer)
    };
    TEXTS.lines().map(fields).collect()
}

/// Returns the text form of what a text is read as, or its error as the file writes it.
fn answer(name: &str, input: &str) -> String {
    let data_type = parse_type(name).unwrap_or_else(|| panic!("{name}"));
    match parse_value(input, &data_type, &settings()) {
        Err(problem) => format!("!{}", problem.state.code()),
        Ok(value) => {
            let mut out = Vec::new();
            encode_text(&value, &data_type, &settings(), &mut out);
            String::from_utf8(out).unwrap()
        }
    }
}

#[test]
fn texts_are_read_and_printed_as_postgresql_does() {
    let mut wrong = Vec::new();
    for (name, input, want) in cases() {
        let got = answer(name, input);
        if got != want {
            wrong.push(format!("{name} {input:?}: {got:?}, PostgreSQL has {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases().len(), wrong.join("\n"));
}

#[test]
fn binary_forms_come_back() {
    for (name, input, want) in cases().into_iter().filter(|case| !case.2.starts_with('!')) {
        let data_type = parse_type(name).unwrap();
        let value = parse_value(input, &data_type, &settings()).unwrap();
        let mut bytes = Vec::new();
        encode_binary(&value, &data_type, &settings(), &mut bytes);
        let back = decode_binary(&bytes, &data_type, &settings()).unwrap();
        let mut text = Vec::new();
        encode_text(&back, &data_type, &settings(), &mut text);
        assert_eq!(String::from_utf8(text).unwrap(), want, "{name} {input:?}");
        for length in 0..bytes.len() {
            // A shorter message is an error or another value, never a panic.
            let _ = decode_binary(&bytes[..length], &data_type, &settings());
        }
    }
}

#[test]
fn a_count_in_a_message_reserves_nothing() {
    let mut message = Vec::new();
    for field in [1_i32, 0, 23, i32::MAX, 1] {
        message.extend_from_slice(&field.to_be_bytes());
    }
    let integers = DataType::Array(Box::new(DataType::Int4));
    let problem = decode_binary(&message, &integers, &settings()).unwrap_err();
    assert_eq!(problem.state, SqlState::INVALID_BINARY_REPRESENTATION);
}

#[test]
fn an_array_of_two_dimensions_or_with_another_beginning_is_refused() {
    let integers = DataType::Array(Box::new(DataType::Int4));
    for fields in [&[2_i32, 0, 23, 1, 1, 1, 1, 4, 7][..], &[1, 0, 23, 1, 2, 4, 7]] {
        let message: Vec<u8> = fields.iter().flat_map(|field| field.to_be_bytes()).collect();
        let problem = decode_binary(&message, &integers, &settings()).unwrap_err();
        assert_eq!(problem.state, SqlState::FEATURE_NOT_SUPPORTED);
    }
}

#[test]
fn names_and_numbers_of_types_agree() {
    for name in ["int4", "text[]", "numeric(10,2)", "varchar(3)", "timestamptz", "bpchar", "jsonb"]
    {
        let data_type = parse_type(name).unwrap();
        let oid = type_oid(&data_type);
        assert_eq!(type_oid(&type_from_oid(oid).unwrap()), oid, "{name}");
        assert_eq!(parse_type(&type_name(&data_type)), Some(data_type.clone()), "{name}");
    }
    assert_eq!(type_modifier(&parse_type("numeric(10,2)").unwrap()), 655_366);
    assert_eq!(parse_type("timestamp(3) with time zone"), Some(DataType::TimestampTz));
    assert_eq!(parse_type("numeric(0)"), None);
}

#[test]
fn text_that_is_no_utf8_is_refused() {
    for bytes in [&b"a\0b"[..], &b"\xff"[..]] {
        let problem = decode_text(bytes, &DataType::Text, &settings()).unwrap_err();
        assert_eq!(problem.state, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
    }
}

#[test]
fn casts_are_allowed_where_postgresql_allows_them() {
    use CastContext::{Assignment, Explicit, Implicit};
    for (from, to, least) in [
        ("int4", "int8", Some(Implicit)),
        ("int8", "int4", Some(Assignment)),
        ("int4", "text", Some(Assignment)),
        ("text", "int4", Some(Explicit)),
        ("int4", "bool", Some(Explicit)),
        ("int8", "bool", None),
        ("date", "timestamptz", Some(Implicit)),
        ("timestamptz", "date", Some(Assignment)),
        ("uuid", "int4", None),
        ("int4[]", "int8[]", Some(Implicit)),
    ] {
        let (from, to) = (parse_type(from).unwrap(), parse_type(to).unwrap());
        for context in [Implicit, Assignment, Explicit] {
            let want = least.is_some_and(|least| least <= context);
            assert_eq!(can_cast(&from, &to, context), want, "{from} {to} {context:?}");
        }
    }
}
