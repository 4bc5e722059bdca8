//! Tables, rows, queries and trees, by a visitor who may see all.

use super::*;

/// A name that would be a script, if a page took it for HTML.
const HOSTILE: &[u8] = b"<img src=x onerror=alert(1)>\"'&\x00\xff\xe2\x80\xae";

fn keys(answer: &Value) -> Vec<Vec<u8>> {
    answer["rows"].as_array().unwrap().iter().map(|row| decoded(&row["key"])).collect()
}

#[tokio::test]
async fn tables_are_listed_in_pages_and_by_a_part_of_their_name() {
    let server = Server::start(None).await;
    for at in 0..501 {
        server.create(&format!("many-{at:03}")).await;
    }
    let (status, first) = server.get("/tables", None).await;
    let names = |answer: &Value| {
        let tables = answer["tables"].as_array().unwrap().iter();
        tables.map(|table| table["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((status, names(&first).len()), (StatusCode::OK, 500));
    assert_eq!(first["more"], true);
    let last = names(&first).pop().unwrap().replace('/', "%2F");
    let (_, second) = server.get(&format!("/tables?after={last}"), None).await;
    assert_eq!(names(&second), [format!("{INSTANCE}/tables/many-500"), TABLE.to_owned()]);
    assert_eq!(second["more"], false);
    let (_, few) = server.get("/tables?filter=many-1", None).await;
    assert_eq!(names(&few).len(), 100);
}

#[tokio::test]
async fn a_schema_is_told_in_words() {
    let server = Server::start(None).await;
    let (status, told) = server.get(&format!("/table?name={TABLE}"), None).await;
    assert_eq!((status, &told["family_count"]), (StatusCode::OK, &2.into()));
    assert_eq!(told["families"][0]["gc"], "keeps every cell");
    for (name, status) in [
        ("projects/p/instances/i/tables/none", StatusCode::NOT_FOUND),
        ("projects/p/instances/i/tables/%3Cscript%3E", StatusCode::BAD_REQUEST),
        ("t", StatusCode::BAD_REQUEST),
    ] {
        let (have, told) = server.get(&format!("/table?name={name}"), None).await;
        assert_eq!(have, status, "{name}: {told}");
    }
}

#[tokio::test]
async fn rows_come_in_pages_by_prefix_and_key() {
    let server = Server::start(None).await;
    for key in ["a", "b1", "b2", "b3", "c"] {
        server.write(key.as_bytes(), &[("f", b"q", b"v".to_vec())]).await;
    }
    let path = format!("/rows?table={TABLE}&prefix={}&limit=2", encoded(b"b"));
    let (_, first) = server.get(&path, None).await;
    assert_eq!(keys(&first), [b"b1", b"b2"]);
    let next = first["next"]["data"].as_str().unwrap();
    let (_, second) = server.get(&format!("{path}&start={next}"), None).await;
    assert_eq!((keys(&second), &second["next"]), (vec![b"b3".to_vec()], &Value::Null));
    let (_, rest) =
        server.get(&format!("/rows?table={TABLE}&start={}", encoded(b"b3")), None).await;
    assert_eq!(keys(&rest), [b"b3".to_vec(), b"c".to_vec()]);
}

#[tokio::test]
async fn the_heat_map_has_the_uses_of_rows_by_range_and_the_hottest_keys() {
    let server = Server::start(None).await;
    for at in 0..100u8 {
        let times = if at == 50 { 200 } else { 1 };
        for _ in 0..times {
            server.write(&[b'k', at], &[("f", b"q", b"v".to_vec())]).await;
        }
    }
    let (_, read) = server.get(&format!("/rows?table={TABLE}&limit=25"), None).await;
    assert_eq!(keys(&read).len(), 25);
    let (status, told) = server.get(&format!("/heat?name={TABLE}"), None).await;
    assert_eq!((status, &told["tablet_count"]), (StatusCode::OK, &1.into()), "{told}");
    let ranges = told["ranges"].as_array().unwrap();
    assert!((2..=48).contains(&ranges.len()), "{}", ranges.len());
    assert_eq!(decoded(&ranges[0]["start"]), b"");
    let sum = |of: &str| -> f64 {
        let of_range = |range: &Value| range[of].as_array().unwrap()[0].as_f64().unwrap();
        ranges.iter().map(of_range).sum()
    };
    let (writes, reads) = (sum("writes"), sum("reads"));
    assert!(writes > 5.0 * reads && reads > 0.0, "{writes} {reads}");
    let hottest = &told["keys"][0];
    assert_eq!(decoded(&hottest["key"]), [b'k', 50]);
    assert!((0.5..0.7).contains(&hottest["part"].as_f64().unwrap()), "{hottest}");
    let tablet = &told["tablets"][0];
    assert_eq!((&tablet["tablet"], told["tablets"].as_array().unwrap().len()), (&0.into(), 1));
    let (status, _) = server.get("/heat?name=projects/p/instances/i/tables/none", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_heat_map_tells_long_keys_apart_and_no_key_of_a_deleted_table() {
    let server = Server::start(None).await;
    let [a, b] = [1, 2].map(|last| [&[b'k'; 200][..], &[last]].concat());
    for key in [&a, &b, &a, &b, &a, &b, &a] {
        server.write(key, &[("f", b"q", b"v".to_vec())]).await;
    }
    let heat = format!("/heat?name={TABLE}");
    let (_, told) = server.get(&heat, None).await;
    let keys = told["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 2, "{told}");
    assert_eq!(
        (decoded(&keys[0]["key"]), &keys[0]["key"]["bytes"]),
        (a[..128].to_vec(), &201.into())
    );
    server.store.delete_table(&TableName::new(TABLE).unwrap()).await.unwrap();
    server.create("t").await;
    let (status, told) = server.get(&heat, None).await;
    assert_eq!(
        (status, &told["samples"], &told["keys"]),
        (StatusCode::OK, &0.into(), &Value::Array(vec![]))
    );
}

#[tokio::test]
async fn hostile_keys_and_values_come_back_byte_by_byte() {
    let server = Server::start(None).await;
    server.write(HOSTILE, &[("f", HOSTILE, HOSTILE.to_vec())]).await;
    let (status, told) = server.get(&format!("/rows?table={TABLE}"), None).await;
    assert_eq!((status, keys(&told)), (StatusCode::OK, vec![HOSTILE.to_vec()]));
    let cell = &told["rows"][0]["cells"][0];
    assert_eq!(
        (decoded(&cell["qualifier"]), decoded(&cell["value"])),
        (HOSTILE.into(), HOSTILE.into())
    );
    let (key, of) = (encoded(HOSTILE), encoded(HOSTILE));
    let path = format!("/cell?table={TABLE}&key={key}&family=f&qualifier={of}&timestamp=1000");
    let (status, told) = server.get(&path, None).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!(decoded(&told["row"]["cells"][0]["value"]), HOSTILE);
}

#[tokio::test]
async fn a_wide_row_and_a_long_value_are_told_in_parts() {
    let server = Server::start(None).await;
    let names: Vec<Vec<u8>> = (0..450u32).map(|at| format!("{at:03}").into()).collect();
    let cells: Vec<_> = names.iter().map(|name| ("f", name.as_slice(), vec![b'x'; 600])).collect();
    server.write(b"wide", &cells).await;
    server.write(b"zong", &[("g", b"q", vec![b'y'; 3 << 20])]).await;
    let (_, told) = server.get(&format!("/rows?table={TABLE}"), None).await;
    let wide = &told["rows"][0];
    assert_eq!((wide["cells"].as_array().unwrap().len(), &wide["more_cells"]), (60, &true.into()));
    assert_eq!(
        (decoded(&wide["cells"][0]["value"]).len(), &wide["cells"][0]["value"]["bytes"]),
        (512, &600.into())
    );
    let long = &told["rows"][1]["cells"][0]["value"];
    assert_eq!((decoded(long).len(), &long["bytes"]), (512, &(3 << 20).into()));
    let mut offset = 0;
    let mut seen = Vec::new();
    loop {
        let path = format!("/row?table={TABLE}&key={}&offset={offset}", encoded(b"wide"));
        let (_, told) = server.get(&path, None).await;
        let cells = told["row"]["cells"].as_array().unwrap();
        seen.extend(cells.iter().map(|cell| decoded(&cell["qualifier"])));
        match told["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(seen, names);
    let (key, of) = (encoded(b"zong"), encoded(b"q"));
    let path = format!("/cell?table={TABLE}&key={key}&family=g&qualifier={of}&timestamp=1000");
    let (_, told) = server.get(&path, None).await;
    let value = &told["row"]["cells"][0]["value"];
    assert_eq!((decoded(value).len(), &value["bytes"]), (1 << 20, &(3 << 20).into()));
}

#[tokio::test]
async fn wrong_reads_are_refused_with_the_field() {
    let server = Server::start(None).await;
    let row = format!("/row?table={TABLE}");
    for (path, status, part) in [
        ("/rows".to_owned(), StatusCode::BAD_REQUEST, "table"),
        (format!("/rows?table={INSTANCE}/tables/none"), StatusCode::NOT_FOUND, "none"),
        ("/rows?table=t".to_owned(), StatusCode::BAD_REQUEST, "table_name"),
        (format!("/rows?table={TABLE}&limit=201"), StatusCode::BAD_REQUEST, "limit"),
        (format!("/rows?table={TABLE}&start=*"), StatusCode::BAD_REQUEST, "start"),
        (format!("/rows?table={TABLE}&unknown=1"), StatusCode::BAD_REQUEST, "unknown"),
        (format!("{row}&offset=99999999999"), StatusCode::BAD_REQUEST, "offset"),
        (format!("{row}&key="), StatusCode::BAD_REQUEST, "row"),
        (
            format!("/cell?table={TABLE}&key=YQ&family=f&qualifier="),
            StatusCode::BAD_REQUEST,
            "timestamp",
        ),
        (format!("/tree?name={TABLE}&tablet=1"), StatusCode::BAD_REQUEST, "from 0 to 0"),
        (format!("/tree?name={INSTANCE}/tables/none"), StatusCode::NOT_FOUND, "none"),
        ("/backups".to_owned(), StatusCode::BAD_REQUEST, "instance"),
        ("/backups?instance=i".to_owned(), StatusCode::BAD_REQUEST, "projects"),
    ] {
        let (have, told) = server.get(&path, None).await;
        assert_eq!(have, status, "{path}: {told}");
        let message = told["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{path}: {message}");
    }
}

#[tokio::test]
async fn a_query_gives_columns_and_rows_or_says_what_is_wrong() {
    let server = Server::start(None).await;
    for at in 0..1_100u32 {
        server.write(format!("{at:04}").as_bytes(), &[("f", b"q", HOSTILE.to_vec())]).await;
    }
    let query = "SELECT _key, f['q'] AS q, 1.5, NULL FROM t WHERE _key >= '0010' LIMIT 2";
    let (status, told) = server.sql("/query", query, None).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!(told["columns"][1], serde_json::json!({ "name": "q", "type": "BYTES" }));
    let row = &told["rows"][0];
    assert_eq!(decoded(&row[0]["bytes"]), b"0010");
    assert_eq!(decoded(&row[1]["bytes"]), HOSTILE);
    assert_eq!((&row[2]["float64"], &row[3]), (&"1.5".into(), &Value::Null));
    let (_, all) = server.sql("/query", "SELECT _key FROM t", None).await;
    assert_eq!((all["rows"].as_array().unwrap().len(), &all["more"]), (1_000, &true.into()));
    for (query, part) in [
        ("SELECT _key FROM t WHERE _key = = 1", "Line: 1"),
        ("SELECT x FROM t", "x"),
        ("", "query"),
    ] {
        let (status, told) = server.sql("/query", query, None).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
        assert!(told["error"]["message"].as_str().unwrap().contains(part), "{query}: {told}");
    }
}

#[tokio::test]
async fn a_plan_is_a_chain_of_steps_with_its_ranges_of_keys() {
    let server = Server::start(None).await;
    let query = "SELECT f['q'] FROM t WHERE _key LIKE 'a%' AND f['q'] = b'x' LIMIT 5 OFFSET 2";
    let (status, told) = server.sql("/explain", query, None).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let mut names = Vec::new();
    let mut step = &told["plan"];
    while !step.is_null() {
        names.push(step["name"].as_str().unwrap());
        if step["input"].is_null() {
            break;
        }
        step = &step["input"];
    }
    assert_eq!(names, ["Result", "Limit", "Filter", "Read"]);
    assert_eq!(decoded(&step["keys"][0]["start"]), b"a");
    assert_eq!(decoded(&step["keys"][0]["end"]), b"b");
    let facts = step["facts"].to_string();
    assert!(facts.contains("f:q") && facts.contains("1 range"), "{facts}");
    let (status, _) = server.sql("/explain", "SELECT * FROM none", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn bodies_are_bounded_and_must_be_a_query() {
    let server = Server::start(None).await;
    let long = serde_json::json!({ "instance": INSTANCE, "query": "x".repeat(200 << 10) });
    for body in [long.to_string(), "{".into(), "[]".into(), "{\"query\": \"SELECT 1\"}".into()] {
        let request = Request::post(format!("{API}/query"));
        let (status, told) = server.send(request, None, body.into()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
        assert!(told["error"]["message"].as_str().unwrap().starts_with("body"), "{told}");
    }
    let request = Request::get(format!("{API}/query"));
    let (status, _) = server.send(request, None, Body::empty()).await;
    assert_eq!(status, StatusCode::NOT_IMPLEMENTED);
}

#[tokio::test]
async fn a_tree_is_told_level_by_level() {
    let server = Server::start(None).await;
    let path = format!("/tree?name={TABLE}");
    server.write(b"a", &[("f", b"q", vec![b'x'; 1_000])]).await;
    let (_, before) = server.get(&path, None).await;
    assert_eq!(before["runs"], Value::Array(Vec::new()));
    assert!(before["active_bytes"].as_u64().unwrap() > 0);
    let schema = server.store.get_table(&TableName::new(TABLE).unwrap()).await.unwrap();
    let tree = server.engine.tree(schema.tablets[0].tree).unwrap();
    server.write(b"b", &[("f", b"q", b"y".to_vec())]).await;
    tree.flush().unwrap();
    let (_, after) = server.get(&path, None).await;
    let run = &after["runs"][0];
    assert_eq!((&run["level"], &run["files"], &run["entries"]), (&0.into(), &1.into(), &2.into()));
    let file = &run["listed"][0];
    assert_eq!((decoded(&file["first"]), decoded(&file["last"])), (b"a".to_vec(), b"b".to_vec()));
    assert_eq!(file["compacting"], false);
}

#[tokio::test]
async fn backups_of_tables_are_listed() {
    let server = Server::start(None).await;
    let (status, told) = server.get(&format!("/backups?instance={INSTANCE}"), None).await;
    assert_eq!((status, &told["backups"]), (StatusCode::OK, &Value::Array(Vec::new())));
    assert_eq!(told["next"], Value::Null);
}

#[tokio::test]
async fn reads_beyond_their_places_are_refused_and_the_places_come_back() {
    let server = Server::start(None).await;
    let rows = format!("{API}/rows?table={TABLE}");
    let mut held = Vec::new();
    for _ in 0..READS_MAX {
        let answer = ask(&server.console, HERE, &rows, &[(guard::HEADER, "1")]).await;
        assert_eq!(answer.status(), StatusCode::OK);
        held.push(answer);
    }
    for path in [
        format!("/rows?table={TABLE}"),
        format!("/row?table={TABLE}&key=YQ"),
        format!("/cell?table={TABLE}&key=YQ&family=f&qualifier=cQ&timestamp=1000"),
        "/tables".to_owned(),
        format!("/table?name={TABLE}"),
        format!("/tree?name={TABLE}"),
        format!("/backups?instance={INSTANCE}"),
    ] {
        let (status, told) = server.get(&path, None).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{path}: {told}");
    }
    for path in ["/query", "/explain"] {
        let (status, told) = server.sql(path, "SELECT _key FROM t", None).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{path}: {told}");
    }
    assert_eq!(server.get("/overview", None).await.0, StatusCode::OK, "it has places of its own");
    drop(held);
    for _ in 0..2 * READS_MAX {
        assert_eq!(server.get(&format!("/rows?table={TABLE}"), None).await.0, StatusCode::OK);
    }
    assert_eq!(server.console.reads.free(), READS_MAX);
}

#[tokio::test]
async fn a_version_of_a_table_of_microseconds_is_found_among_those_of_its_millisecond() {
    let server = Server::start(None).await;
    server.create_with("u", Granularity::Micros).await;
    let name = TableName::new(format!("{INSTANCE}/tables/u")).unwrap();
    for micros in [1_500, 1_501, 1_502] {
        let cell = RowMutation::SetCell {
            family: "f".to_owned(),
            qualifier: b"q".to_vec().into(),
            timestamp: WriteTime::At(Timestamp(micros)),
            value: micros.to_string().into_bytes().into(),
        };
        let row = RowMutations { row: b"a".to_vec().into(), mutations: vec![cell] };
        server.store.mutate_row(&name, row).await.unwrap();
    }
    for micros in [1_500, 1_501, 1_502] {
        let path = format!("/cell?table={name}&key=YQ&family=f&qualifier=cQ&timestamp={micros}");
        let (status, told) = server.get(&path, None).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        assert_eq!(decoded(&told["row"]["cells"][0]["value"]), micros.to_string().as_bytes());
    }
}

#[tokio::test]
async fn cells_beyond_the_bytes_that_are_read_are_told_with_their_length() {
    let server = Server::start(None).await;
    let long = 33 << 20;
    let cells: [(&str, &[u8], Vec<u8>); 3] = [
        ("f", b"a", b"first".to_vec()),
        ("f", b"b", vec![b'x'; long]),
        ("f", b"c", b"last".to_vec()),
    ];
    server.write(b"row", &cells).await;
    let (mut seen, mut offset) = (Vec::new(), 0);
    loop {
        let path = format!("/row?table={TABLE}&key={}&offset={offset}", encoded(b"row"));
        let (_, told) = server.get(&path, None).await;
        for cell in told["row"]["cells"].as_array().unwrap() {
            let bytes = cell["value"]["bytes"].as_u64().unwrap() as usize;
            seen.push((decoded(&cell["qualifier"]), bytes));
        }
        match told["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(seen, [(b"a".to_vec(), 5), (b"b".to_vec(), long), (b"c".to_vec(), 4)]);
}

/// A family of many small cells is a map of many nodes.
#[tokio::test]
async fn a_query_of_many_small_values_is_cut() {
    let server = Server::start(None).await;
    for row in 0..20u8 {
        let names: Vec<_> = (0..100u32).map(|at| at.to_be_bytes()).collect();
        let cells: Vec<_> = names.iter().map(|name| ("f", &name[..], Vec::new())).collect();
        server.write(&[row], &cells).await;
    }
    let families = vec!["f"; 50].join(", ");
    let (status, told) = server.sql("/query", &format!("SELECT {families} FROM t"), None).await;
    assert_eq!((status, &told["more"]), (StatusCode::OK, &true.into()));
    let nodes = told.to_string().matches("\"bytes\":{").count();
    assert!(nodes > 1_000 && nodes < (2 << 20) / 64, "{nodes}");
    let last = told["rows"].as_array().unwrap().last().unwrap();
    assert!(last.as_array().unwrap().len() < 50, "the answer ends within a row");
}
