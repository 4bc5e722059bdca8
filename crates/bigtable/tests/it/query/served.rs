//! The dialect: what queries give, and what is refused by name.

use super::{
    Parameters, bytes_parameter, columns, int_parameter, parameter, prepare_request, query,
    refused, try_query,
};
use crate::harness::{Clients, add, create_table, set, with_table};
use data::value::Kind;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use tonic::Code;

/// Rows `a` to `d`, of which `c` has no cell in the column `f:q`.
async fn with_rows() -> Clients {
    let mut clients = with_table().await;
    let number = 7i64.to_be_bytes();
    let cells = vec![
        set("f:q", 1_000, b"old"),
        set("f:q", 2_000, b"new"),
        set("g:n", 0, &number),
        add("sum:s", 0, 5),
        add("sum:s", 0, -7),
    ];
    clients.write("a", cells).await;
    clients.write("b", vec![set("f:q", 0, b"b"), set("f:p", 0, b"42")]).await;
    clients.write("c", vec![set("f:p", 0, b"x")]).await;
    clients.write("d", vec![set("f:q", 0, b"\xff")]).await;
    clients
}

#[tokio::test]
async fn queries_give_rows() {
    let mut clients = with_rows().await;
    let all: &[(&str, &[&str])] = &[
        ("SELECT _key FROM t", &["b'a'", "b'b'", "b'c'", "b'd'"]),
        (
            "SELECT * FROM `t` LIMIT 1",
            &[
                "b'a' [[b'q', b'new']] [[b'n', b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07']] [] [] [[b's', -2]]",
            ],
        ),
        ("SELECT f FROM t WHERE _key = 'b';", &["[[b'p', b'42'], [b'q', b'b']]"]),
        (
            "select _KEY, F['q'] as q from t",
            &["b'a' b'new'", "b'b' b'b'", "b'c' NULL", "b'd' b'\\xff'"],
        ),
        ("SELECT x._key, x.f['q'], x.sum FROM t AS x LIMIT 1", &["b'a' b'new' [[b's', -2]]"]),
        ("SELECT f[b'\\x71'], f['none'] FROM t LIMIT 2 OFFSET 1", &["b'b' NULL", "NULL NULL"]),
        ("SELECT _key FROM t ORDER BY _key DESC LIMIT 2", &["b'd'", "b'c'"]),
        ("SELECT _key FROM t WHERE _key > 'b' ORDER BY _key", &["b'c'", "b'd'"]),
        (
            "SELECT _key FROM t(with_history => FALSE) WHERE _key IN ('c', 'x', 'a')",
            &["b'a'", "b'c'"],
        ),
        ("SELECT _key FROM t WHERE _key BETWEEN 'b' AND b'c'", &["b'b'", "b'c'"]),
        ("SELECT _key FROM t WHERE STARTS_WITH(_key, 'b') OR _key LIKE 'd%'", &["b'b'", "b'd'"]),
        ("SELECT _key FROM t WHERE NOT _key <= 'c'", &["b'd'"]),
        ("SELECT _key FROM t WHERE CAST(_key AS STRING) LIKE '_' LIMIT 1", &["b'a'"]),
        ("SELECT CAST(_key AS STRING) AS k FROM t LIMIT 1", &["'a'"]),
        ("SELECT TO_INT64(g['n']), sum['s'] FROM t WHERE _key = 'a'", &["7 -2"]),
        ("SELECT _key FROM t WHERE sum['s'] < 0", &["b'a'"]),
        ("SELECT _key FROM t WHERE f['q'] = 'new'", &["b'a'"]),
        (
            "SELECT _key, f['q'] FROM t WHERE f['p'] = 'x' OR f['q'] = 'b'",
            &["b'b' b'b'", "b'c' NULL"],
        ),
        ("SELECT _key FROM t WHERE f['q'] IS NULL", &["b'c'"]),
        ("SELECT _key FROM t WHERE f['q'] IS NOT NULL AND _key < 'd'", &["b'a'", "b'b'"]),
        ("SELECT _key FROM t WHERE NOT MAP_CONTAINS_KEY(f, 'q')", &["b'c'"]),
        ("SELECT MAP_KEYS(f) FROM t WHERE _key = 'b'", &["[b'p', b'q']"]),
        ("SELECT SAFE_CAST(f['p'] AS STRING) FROM t WHERE _key = 'b'", &["'42'"]),
        ("SELECT CAST(CAST(f['p'] AS STRING) AS INT64) FROM t WHERE _key = 'b'", &["42"]),
        ("SELECT SAFE_CAST(f['q'] AS STRING) FROM t WHERE _key = 'd'", &["NULL"]),
        ("SELECT IFNULL(f['q'], 'none') FROM t WHERE _key >= 'c' LIMIT 1", &["b'none'"]),
        ("SELECT _key FROM t WHERE _key = '' OR _key = NULL", &[]),
        ("SELECT _key FROM t WHERE FALSE", &[]),
        (
            "SELECT _key FROM t WHERE f['q'] IN (f['p'], 'b') OR NOT f['p'] IN ('42')",
            &["b'b'", "b'c'"],
        ),
        ("SELECT _key FROM t WHERE NOT f['q'] IN ('b', NULL)", &[]),
        ("SELECT _key FROM t WHERE b'q' IN UNNEST(MAP_KEYS(f)) LIMIT 1 OFFSET 2", &["b'd'"]),
        (
            "SELECT 1 IN UNNEST([3, 1, 2]), 4 IN (1, NULL), 1.5 IN (1, 2), TO_HEX(b'\\x0f')",
            &["true NULL false '0f'"],
        ),
        ("SELECT _key FROM t LIMIT 0", &[]),
        (
            "SELECT 'text' AS s, b'f\\x00', 1, -2, 1.5, TRUE, NULL",
            &["'text' b'f\\x00' 1 -2 1.5 true NULL"],
        ),
        (
            "SELECT CAST(1.25 AS FLOAT32), [1, 2], STRUCT(1 AS a, \"b\" AS b)",
            &["1.25 [1, 2] [1, 'b']"],
        ),
        ("SELECT TIMESTAMP_FROM_UNIX_MILLIS(-1), DATE(2024, 02, 29)", &["@-1.999000000 2024-2-29"]),
    ];
    for (text, want) in all {
        assert_eq!(query(&mut clients, text).await, *want, "{text}");
    }
}

#[tokio::test]
async fn columns_have_names_and_types() {
    let mut clients = with_rows().await;
    let text = "SELECT *, f['q'] AS alias, sum['s'], CAST(_key AS STRING) FROM t";
    let request = prepare_request(text, &Parameters::new());
    let prepared = clients.data.prepare_query(request).await.unwrap().into_inner();
    let names: Vec<_> = columns(&prepared).iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["_key", "f", "g", "max", "min", "sum", "alias", "", ""]);
    let kinds: Vec<String> = columns(&prepared)
        .iter()
        .map(|column| match column.r#type.as_ref().unwrap().kind.as_ref().unwrap() {
            data::r#type::Kind::MapType(map) => {
                let value = map.value_type.as_ref().unwrap().kind.as_ref().unwrap();
                assert!(matches!(
                    map.key_type.as_ref().unwrap().kind,
                    Some(data::r#type::Kind::BytesType(_))
                ));
                format!("map {}", matches!(value, data::r#type::Kind::Int64Type(_)))
            }
            data::r#type::Kind::BytesType(_) => "bytes".into(),
            data::r#type::Kind::Int64Type(_) => "int64".into(),
            data::r#type::Kind::StringType(_) => "string".into(),
            other => panic!("{other:?}"),
        })
        .collect();
    let (raw, sums) = ("map false", "map true");
    assert_eq!(kinds, ["bytes", raw, raw, sums, sums, sums, "bytes", "int64", "string"]);
}

#[tokio::test]
async fn parameters_have_types_and_values() {
    let mut clients = with_rows().await;
    let text = |value: &str| {
        let kind = data::r#type::Kind::StringType(Default::default());
        parameter(kind, Some(Kind::StringValue(value.into())))
    };
    let element = data::Type { kind: Some(data::r#type::Kind::BytesType(Default::default())) };
    let array = data::r#type::Array { element_type: Some(Box::new(element)) };
    let values = ["c", "a"]
        .map(|key| data::Value { kind: Some(Kind::BytesValue(key.into())), ..Default::default() });
    let array = parameter(
        data::r#type::Kind::ArrayType(Box::new(array)),
        Some(Kind::ArrayValue(data::ArrayValue { values: values.into() })),
    );
    let parameters = Parameters::from([
        ("key".into(), bytes_parameter(b"b")),
        ("text".into(), text("q")),
        ("keys".into(), array),
        ("n".into(), int_parameter(2)),
        ("null".into(), parameter(data::r#type::Kind::BytesType(Default::default()), None)),
    ]);
    for (query, want) in [
        ("SELECT _key, @n FROM t WHERE _key = @key", &["b'b' 2"][..]),
        ("SELECT f[@text] FROM t WHERE _key = 'a'", &["b'new'"]),
        ("SELECT _key FROM t WHERE _key IN UNNEST(@keys)", &["b'a'", "b'c'"]),
        ("SELECT _key FROM t WHERE f['p'] = 'x' AND _key NOT IN UNNEST(@keys)", &[]),
        ("SELECT _key FROM t WHERE _key = @null", &[]),
        ("SELECT @null IS NULL, @keys", &["true [b'c', b'a']"]),
        ("SELECT _key FROM t LIMIT @n", &["b'a'", "b'b'"]),
        ("SELECT _key FROM t WHERE _key > @text", &[]),
    ] {
        assert_eq!(try_query(&mut clients, query, &parameters).await.unwrap(), want, "{query}");
    }
}

#[tokio::test]
async fn parameters_of_type_float32_have_its_precision() {
    let mut clients = with_table().await;
    let of = |value: f64| {
        let kind = data::r#type::Kind::Float32Type(Default::default());
        Parameters::from([("p".into(), parameter(kind, Some(Kind::FloatValue(value))))])
    };
    let text = "SELECT @p, @p = CAST('0.1' AS FLOAT32), CAST(@p AS STRING)";
    for (value, want) in [
        (0.1, "0.10000000149011612 true '0.1'"),
        (f64::NEG_INFINITY, "-inf false '-inf'"),
        (f64::NAN, "NaN false 'nan'"),
    ] {
        assert_eq!(try_query(&mut clients, text, &of(value)).await.unwrap(), [want]);
    }
    let status = try_query(&mut clients, text, &of(1e300)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("params.p"), "{status}");
}

#[tokio::test]
async fn literals_and_casts_are_those_of_googlesql() {
    let mut clients = with_rows().await;
    for (text, want) in [
        (r"SELECT r'\' OR TRUE -- '", &[r"'\' OR TRUE -- '"][..]),
        (r"SELECT r'a\n', r'\\', R'it\'s'", &[r"'a\n' '\\' 'it\'s'"]),
        (r#"SELECT r"\"x", r"it's""#, &[r#"'\"x' 'it's'"#]),
        (r#"SELECT r'''a'\'''', r"""a\"""""#, &[r#"'a'\'' 'a\"'"#]),
        (r#"SELECT b'\'', B"\"\x00", b'''\''''"#, &[r#"b'\'' b'\"\x00' b'\''"#]),
        ("SELECT 1 AS r, 2 AS b", &["1 2"]),
        ("SELECT -9223372036854775808", &["-9223372036854775808"]),
        (
            "SELECT SAFE_CAST('0x1F' AS INT64), CAST(' -0X8000000000000000' AS INT64)",
            &["31 -9223372036854775808"],
        ),
        (
            "SELECT CAST(1e300 AS STRING), CAST(CAST(1e-7 AS FLOAT32) AS STRING)",
            &["'1e+300' '1e-07'"],
        ),
        (
            "SELECT _key FROM t WHERE LENGTH(f['q']) NOT IN (CAST('nan' AS FLOAT64))",
            &["b'a'", "b'b'", "b'd'"],
        ),
    ] {
        assert_eq!(query(&mut clients, text).await, *want, "{text}");
    }
}

#[tokio::test]
async fn what_is_not_served_is_refused_by_name() {
    let mut clients = with_rows().await;
    let mut wrong = Vec::new();
    for (text, code, name) in [
        ("SELECT COUNT(*) FROM t", Code::Unimplemented, "aggregate function COUNT"),
        ("SELECT _key FROM t GROUP BY _key", Code::Unimplemented, "GROUP BY"),
        ("SELECT t.f FROM t JOIN u ON TRUE", Code::Unimplemented, "JOIN"),
        ("SELECT * FROM t, u", Code::Unimplemented, "more than one table"),
        ("SELECT _key FROM t ORDER BY f['q']", Code::Unimplemented, "ORDER BY"),
        ("SELECT DISTINCT _key FROM t", Code::Unimplemented, "DISTINCT"),
        ("SELECT * EXCEPT (f) FROM t", Code::Unimplemented, "EXCEPT"),
        ("SELECT _key FROM t UNION ALL SELECT 1", Code::Unimplemented, "UNION"),
        ("WITH x AS (SELECT 1) SELECT 1", Code::Unimplemented, "WITH"),
        ("SELECT (SELECT 1)", Code::Unimplemented, "subquery"),
        ("DELETE FROM t", Code::Unimplemented, "begins with DELETE"),
        ("SELECT * FROM t(with_history => TRUE)", Code::Unimplemented, "with_history => true"),
        ("SELECT * FROM t(as_of => NULL)", Code::Unimplemented, "as_of"),
        ("SELECT * FROM t TABLESAMPLE SYSTEM (1 PERCENT)", Code::Unimplemented, "TABLESAMPLE"),
        ("SELECT 1 + 1", Code::Unimplemented, "arithmetic"),
        ("SELECT REGEXP_CONTAINS('a', 'b')", Code::Unimplemented, "the function REGEXP_CONTAINS"),
        ("SELECT * FROM t |> LIMIT 1", Code::Unimplemented, "|>"),
        ("SELECT CAST('1' AS NUMERIC)", Code::Unimplemented, "NUMERIC"),
        ("SELECT FROM t", Code::InvalidArgument, "query"),
        ("", Code::InvalidArgument, "query"),
        ("SELECT", Code::InvalidArgument, "query"),
        ("SELECT 'a", Code::InvalidArgument, "query"),
        ("SELECT r'a''b'", Code::InvalidArgument, "a ' within its own quotes"),
        (r"SELECT r'a\'", Code::InvalidArgument, "Unterminated string"),
        ("SELECT rb'a'", Code::Unimplemented, "a literal of raw bytes"),
        ("SELECT 9223372036854775808", Code::InvalidArgument, "out of range of INT64"),
        ("SELECT - -9223372036854775808", Code::InvalidArgument, "out of range of INT64"),
        ("SELECT 1; SELECT 2", Code::Unimplemented, "subquery"),
        ("SELECT x FROM t", Code::InvalidArgument, "unrecognized name: x"),
        ("SELECT _key", Code::InvalidArgument, "unrecognized name: _key"),
        ("SELECT t.f FROM t AS x", Code::InvalidArgument, "unrecognized name: t.f"),
        ("SELECT @p", Code::InvalidArgument, "parameter @p has no type"),
        (
            "SELECT _key FROM t WHERE _key",
            Code::InvalidArgument,
            "a condition must be BOOL, not BYTES",
        ),
        (
            "SELECT _key FROM t WHERE f = 'x'",
            Code::InvalidArgument,
            "= cannot take MAP<BYTES, BYTES>",
        ),
        ("SELECT _key FROM t WHERE _key = 1", Code::InvalidArgument, "BYTES with INT64"),
        ("SELECT f[1] FROM t", Code::InvalidArgument, "a qualifier must be"),
        ("SELECT TO_INT64('x')", Code::InvalidArgument, "TO_INT64 takes (STRING)"),
        (
            "SELECT CAST(_key AS INT64) FROM t",
            Code::InvalidArgument,
            "BYTES cannot be cast to INT64",
        ),
        ("SELECT _key FROM t LIMIT -1", Code::InvalidArgument, "LIMIT must not be negative"),
        ("SELECT _key FROM t LIMIT 'a'", Code::InvalidArgument, "LIMIT must be a constant"),
        ("SELECT * FROM unknown", Code::NotFound, "tables/unknown"),
        ("SELECT * FROM `-bad-`", Code::InvalidArgument, "table id"),
        ("SELECT CAST(f['q'] AS STRING) FROM t", Code::OutOfRange, "cannot be cast to STRING"),
        ("SELECT TO_INT64(f['q']) FROM t", Code::OutOfRange, "INT64 needs 8 bytes"),
        ("SELECT DATE(2023, 2, 29)", Code::OutOfRange, "there is no date 2023-2-29"),
    ] {
        let (found, message) = refused(&mut clients, text).await;
        if found != code || !message.contains(name) {
            let start: String = text.chars().take(100).collect();
            wrong.push(format!("{start}: {found:?} {message}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test]
async fn the_size_of_a_query_is_bounded() {
    let mut clients = with_rows().await;
    let long = format!("SELECT '{}'", "x".repeat(70_000));
    let many = format!("SELECT 1 {}", "+ 1 ".repeat(5_000));
    let deep = format!("SELECT {}1{}", "(".repeat(100), ")".repeat(100));
    let nots = format!("SELECT _key FROM t WHERE {} TRUE", "NOT ".repeat(35));
    for (text, name) in [
        (long, "over the limit of 65536 bytes"),
        (many, "more than 4096 tokens"),
        (deep, "brackets are nested"),
        (nots, "nested"),
    ] {
        let (code, message) = refused(&mut clients, &text).await;
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(message.contains(name), "{message}");
    }
}

#[tokio::test]
async fn requests_that_are_wrong_name_the_field() {
    let mut clients = with_rows().await;
    let parameters = Parameters::from([("p".into(), int_parameter(1))]);
    let prepared = clients.data.prepare_query(prepare_request("SELECT @p", &parameters)).await;
    let prepared = prepared.unwrap().into_inner().prepared_query;
    let good = || super::execute_request(&prepared, &parameters);
    let with = |parameters: Parameters| data::ExecuteQueryRequest { params: parameters, ..good() };
    #[expect(deprecated, reason = "older clients send it")]
    let both = data::ExecuteQueryRequest { query: "SELECT 1".into(), ..good() };
    for (request, field) in [
        (
            data::ExecuteQueryRequest {
                instance_name: "projects/p/instances/other".into(),
                ..good()
            },
            "prepared_query",
        ),
        (data::ExecuteQueryRequest { prepared_query: "".into(), ..good() }, "prepared_query"),
        (
            data::ExecuteQueryRequest { prepared_query: "\u{1}nonsense".into(), ..good() },
            "prepared_query",
        ),
        (data::ExecuteQueryRequest { resume_token: "nonsense".into(), ..good() }, "resume_token"),
        (both, "prepared_query"),
        (with(Parameters::new()), "params.p"),
        (with(Parameters::from([("p".into(), bytes_parameter(b"x"))])), "params.p"),
        (
            with(Parameters::from([
                ("q".into(), int_parameter(1)),
                ("p".into(), int_parameter(1)),
            ])),
            "params.q",
        ),
        (with(Parameters::from([("p".into(), bytes_parameter(&vec![0; 2 << 20]))])), "params"),
    ] {
        let status = super::parts(&mut clients, request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(&format!("field '{field}'")), "{status}");
    }
    let mut no_format = prepare_request("SELECT 1", &Parameters::new());
    no_format.data_format = None;
    let status = clients.data.prepare_query(no_format).await.unwrap_err();
    assert!(status.message().contains("data_format"), "{status}");
    let long = Parameters::from([("p".repeat(300 << 10), int_parameter(1))]);
    let status = clients.data.prepare_query(prepare_request("SELECT 1", &long)).await.unwrap_err();
    assert!(status.message().contains("param_types"), "{status}");
    let map = parameter(data::r#type::Kind::MapType(Default::default()), None);
    let map = prepare_request("SELECT 1", &Parameters::from([("m".into(), map)]));
    let status = clients.data.prepare_query(map).await.unwrap_err();
    assert!(status.message().contains("param_types.m"), "{status}");
}

#[tokio::test]
async fn a_result_cannot_make_much_of_little() {
    let mut clients = with_table().await;
    clients.write("a", vec![set("f:q", 0, &vec![b'v'; 4 << 20])]).await;
    let many = |what: &str| [what; 100].join(", ");
    for (text, word) in [
        (format!("SELECT {} FROM t", many("f['q']")), "256 MiB of a few rows"),
        (format!("SELECT [{}] FROM t", many("f['q']")), "256 MiB of a few rows"),
        (format!("SELECT LENGTH(CONCAT({})) FROM t", many("f['q']")), "make more than 256 MiB"),
        (format!("SELECT [{}] FROM t", many("CAST(f['q'] AS STRING)")), "make more than 256 MiB"),
        (
            format!("SELECT _key FROM t WHERE f['q'] LIKE '{}'", "v".repeat(2_000)),
            "pattern of LIKE",
        ),
    ] {
        let (code, message) = refused(&mut clients, &text).await;
        assert_eq!(code, Code::OutOfRange, "{message}");
        assert!(message.contains(word), "{message}");
    }
    let twice = query(&mut clients, "SELECT LENGTH(f['q']), LENGTH(CONCAT(f['q'], f['q'])) FROM t");
    assert_eq!(twice.await, ["4194304 8388608"]);
}

#[tokio::test]
async fn families_with_types_have_values_of_them() {
    let mut clients = crate::harness::empty().await;
    let family = |kind| admin::ColumnFamily {
        value_type: Some(admin::Type { kind: Some(kind) }),
        ..Default::default()
    };
    use admin::r#type::{Int64, Kind as Type, Timestamp, int64, string, timestamp};
    let big_endian = int64::Encoding {
        encoding: Some(int64::encoding::Encoding::BigEndianBytes(Default::default())),
    };
    let text = string::Encoding {
        encoding: Some(string::encoding::Encoding::Utf8Bytes(Default::default())),
    };
    let micros = timestamp::Encoding {
        encoding: Some(timestamp::encoding::Encoding::UnixMicrosInt64(big_endian)),
    };
    let families = [
        ("f", Default::default()),
        ("n", family(Type::Int64Type(Int64 { encoding: Some(big_endian) }))),
        ("s", family(Type::StringType(admin::r#type::String { encoding: Some(text) }))),
        ("t", family(Type::TimestampType(Timestamp { encoding: Some(micros) }))),
    ];
    clients.tables.create_table(create_table("t", families)).await.unwrap();
    let number = |number: i64| number.to_be_bytes();
    let cells = vec![
        set("n:q", 0, &number(-5)),
        set("n:bad", 0, b"1"),
        set("s:q", 0, "\u{e9}".as_bytes()),
        set("s:bad", 0, b"\xff"),
        set("t:q", 0, &number(-1)),
    ];
    clients.write("a", cells).await;
    for (text, want) in [
        (
            "SELECT n, s, t FROM t",
            "[[b'bad', NULL], [b'q', -5]] [[b'bad', NULL], [b'q', '\u{e9}']] [[b'q', @-1.999999000]]",
        ),
        (
            "SELECT n['q'], n['bad'] IS NULL FROM t WHERE n['q'] < 0 AND s['q'] = '\u{e9}'",
            "-5 true",
        ),
        (
            "SELECT MAP_CONTAINS_KEY(n, 'bad'), MAP_CONTAINS_KEY(s, 'bad'), \
             MAP_CONTAINS_KEY(n, 'none') FROM t",
            "true true false",
        ),
        (
            "SELECT n['bad'], MAP_CONTAINS_KEY(n, 'bad') FROM t WHERE MAP_CONTAINS_KEY(n, 'bad')",
            "NULL true",
        ),
    ] {
        assert_eq!(query(&mut clients, text).await, [want], "{text}");
    }
}
