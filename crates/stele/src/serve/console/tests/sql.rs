//! Tables of SQL, without clients of PostgreSQL.

use super::access::Secured;
use super::*;
use ::relational::catalog::{BOOTSTRAP_ROLE, PUBLIC_SCHEMA, WideColumn, WideEncoding, WideSource};
use ::relational::{
    CreateTable, DataType, Database, DatabaseOptions, Isolation, NewColumn, NewConstraint, NewView,
    NewWide, OnConflict, RoleChange, Transaction,
};
use ::sql::wide::BigtableReads;
use ::sql::{DoorOptions, DoorParts, Seat};
use serde_json::json;
use tokio::sync::watch;

/// A name and a text that would be a script, if a page took it for HTML, and that turns what stands behind
/// it.
const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&\u{202e}";
const ROWS: i32 = 5;

/// A server with a database of SQL.
struct Sql {
    database: Arc<Database>,
    /// The table, which has the name [`HOSTILE`].
    table: u32,
    seat: watch::Sender<Seat>,
}

impl Sql {
    /// Opens the database of a server, with a table of [`ROWS`] rows, an index, a view and a declared table.
    async fn of(server: &Server) -> Self {
        let database = Database::open(&server.store, DatabaseOptions::default()).await.unwrap();
        let options = DoorOptions { connections_max: 1, ..DoorOptions::default() };
        let tables: Arc<dyn BigtableReads> = Arc::<Local>::clone(&server.store);
        let parts = DoorParts::new(tables, (1 << 20, None), options).unwrap();
        let (seat, seated) = watch::channel(Seat::Here(parts.door(Arc::clone(&database))));
        server.console.server.set_sql_seat(seated);
        let mut transaction = begin(&database).await;
        let table = transaction.create_table(hostile_table()).await.unwrap();
        transaction.commit().await.unwrap();
        let mut transaction = begin(&database).await;
        let rows = (1..=ROWS).map(row).collect();
        transaction.insert(table, rows, OnConflict::Fail).await.unwrap();
        transaction.commit().await.unwrap();
        let mut transaction = begin(&database).await;
        transaction.create_view(view("names", table)).await.unwrap();
        transaction.create_wide(people()).await.unwrap();
        transaction.commit().await.unwrap();
        Self { database, table, seat }
    }

    fn index(&self) -> u32 {
        self.database.catalog().table(self.table).unwrap().indexes[0].oid
    }
}

async fn begin(database: &Arc<Database>) -> Transaction {
    let mut transaction = database.begin(Isolation::ReadCommitted, false);
    transaction.start_statement().await.unwrap();
    transaction
}

fn hostile_table() -> CreateTable {
    let column = |name: &str, data_type| NewColumn {
        name: name.to_owned(),
        data_type,
        not_null: false,
        default: None,
        identity: None,
        precision: None,
        generated: None,
    };
    CreateTable {
        schema: PUBLIC_SCHEMA,
        name: HOSTILE.to_owned(),
        owner: BOOTSTRAP_ROLE,
        columns: vec![
            column("id", DataType::Int4),
            column(HOSTILE, DataType::Text),
            column("data", DataType::Bytea),
        ],
        constraints: vec![
            NewConstraint::PrimaryKey { name: None, columns: vec!["id".to_owned()] },
            NewConstraint::Unique {
                name: Some("by_data".to_owned()),
                columns: vec!["data".to_owned()],
            },
        ],
        columnar: false,
    }
}

/// Returns a row. The first one has a NULL, and the last one a long text.
fn row(id: i32) -> ::relational::Row {
    let text = match id {
        1 => ::relational::Value::Null,
        ROWS => ::relational::Value::text("x".repeat(600)),
        _ => ::relational::Value::text(HOSTILE),
    };
    let data = ::relational::Value::Bytea(vec![0, id as u8, 0xff].into());
    vec![::relational::Value::Int4(id), text, data]
}

fn view(name: &str, reads: u32) -> NewView {
    NewView {
        schema: PUBLIC_SCHEMA,
        name: name.to_owned(),
        owner: BOOTSTRAP_ROLE,
        query: "SELECT 1 AS x".to_owned(),
        columns: vec![("x".to_owned(), DataType::Int4)],
        reads: vec![reads],
        names: Vec::new(),
        replace: false,
    }
}

fn people() -> NewWide {
    let key = WideColumn {
        name: "k".to_owned(),
        data_type: DataType::Text,
        source: WideSource::Key,
        encoding: WideEncoding::Text,
        not_null: true,
        comment: None,
    };
    NewWide {
        schema: PUBLIC_SCHEMA,
        name: "people".to_owned(),
        owner: BOOTSTRAP_ROLE,
        table: TABLE.to_owned(),
        columns: vec![key],
    }
}

/// Returns names and kinds of a list.
fn listed(answer: &Value) -> Vec<(&str, &str)> {
    let relations = answer["relations"].as_array().unwrap().iter();
    relations.map(|one| (one["name"].as_str().unwrap(), one["kind"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn relations_are_listed_with_their_kinds_and_bounded() {
    let server = Server::start(None).await;
    let sql = Sql::of(&server).await;
    let (status, told) = server.get("/sql/tables", None).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let all =
        [(HOSTILE, "table"), ("by_data", "index"), ("names", "view"), ("people", "bigtable table")];
    assert_eq!(listed(&told), all);
    assert_eq!((&told["more"], &told["database"]), (&false.into(), &"stele".into()));
    let [table, index, _, wide] = [0usize, 1, 2, 3].map(|at| &told["relations"][at]);
    assert_eq!((&table["oid"], &table["columns"]), (&sql.table.into(), &3.into()));
    assert!(table["bytes"].as_u64() > Some(0), "{table}");
    assert_eq!((&index["of"], &wide["of"]), (&HOSTILE.into(), &TABLE.into()));
    let (_, rest) = server.get("/sql/tables?after_schema=public&after=by_data", None).await;
    assert_eq!(listed(&rest), all[2..]);
    let (_, few) = server.get("/sql/tables?filter=by_", None).await;
    assert_eq!(listed(&few), all[1..2]);
    let (_, tables) = server.get("/sql/tables?kind=table", None).await;
    assert_eq!(listed(&tables), all[..1]);
    assert_eq!(tables["relations"][0]["bytes"], Value::Null, "no sizes where none are shown");

    let mut transaction = begin(&sql.database).await;
    for at in 0..500 {
        transaction.create_view(view(&format!("v{at:03}"), sql.table)).await.unwrap();
    }
    transaction.commit().await.unwrap();
    let (_, first) = server.get("/sql/tables", None).await;
    assert_eq!((listed(&first).len(), &first["more"]), (500, &true.into()));
    let (_, last) = server.get("/sql/tables?after_schema=public&after=v498", None).await;
    assert_eq!((listed(&last), &last["more"]), (vec![("v499", "view")], &false.into()));
}

#[tokio::test]
async fn the_structure_has_columns_keys_and_indexes() {
    let server = Server::start(None).await;
    let sql = Sql::of(&server).await;
    let (status, told) = server.get(&format!("/sql/table?oid={}", sql.table), None).await;
    assert_eq!((status, &told["name"]), (StatusCode::OK, &HOSTILE.into()), "{told}");
    let columns = told["columns"].as_array().unwrap().iter();
    let columns = columns.map(|column| (&column["name"], &column["type"], &column["not_null"]));
    let want = [("id", "integer", true), (HOSTILE, "text", false), ("data", "bytea", false)];
    let want = want.map(|(name, of, not_null)| (json!(name), json!(of), json!(not_null)));
    for (have, want) in columns.zip(&want) {
        assert_eq!(have, (&want.0, &want.1, &want.2));
    }
    assert_eq!(told["primary_key"]["columns"], json!([{"name": "id", "order": ""}]));
    let index = &told["indexes"][0];
    assert_eq!((&index["name"], &index["unique"]), (&"by_data".into(), &true.into()));
    assert_eq!(index["columns"], json!([{"name": "data", "order": ""}]));
    assert!(told["rows_bytes"].as_u64() <= told["bytes"].as_u64(), "{told}");
    // Rows and entries of indexes are in memory alone: none is taken for bytes of the rows on disk.
    assert_eq!((&told["rows_bytes"], &told["is_shared"]), (&0.into(), &false.into()));
    let none = json!({"indexes": false, "checks": false, "foreign_keys": false});
    assert_eq!(told["more"], none);
    let (_, same) = server.get(&format!("/sql/table?oid={}", sql.index()), None).await;
    assert_eq!(same["oid"], sql.table, "an index is told with its table");
    let (_, list) = server.get("/sql/tables", None).await;
    let of = async |at: usize| {
        let oid = list["relations"][at]["oid"].as_u64().unwrap();
        server.get(&format!("/sql/table?oid={oid}"), None).await.1
    };
    assert_eq!(of(2).await["query"], "SELECT 1 AS x");
    let wide = of(3).await;
    assert_eq!((&wide["table"], &wide["columns"][0]["source"]), (&TABLE.into(), &"row key".into()));
}

#[tokio::test]
async fn rows_come_in_pages_by_their_key_and_are_bounded() {
    let server = Server::start(None).await;
    let sql = Sql::of(&server).await;
    let path = format!("/sql/rows?oid={}&limit=2", sql.table);
    let ids = |answer: &Value| -> Vec<Vec<u8>> {
        answer["rows"].as_array().unwrap().iter().map(|row| decoded(&row[0]["string"])).collect()
    };
    let (status, first) = server.get(&path, None).await;
    assert_eq!((status, ids(&first)), (StatusCode::OK, vec![b"1".to_vec(), b"2".to_vec()]));
    assert_eq!(first["columns"][1], json!({"name": HOSTILE, "type": "text"}));
    assert_eq!(first["rows"][0][1], Value::Null);
    assert_eq!(decoded(&first["rows"][1][1]["string"]), HOSTILE.as_bytes());
    assert_eq!(decoded(&first["rows"][1][2]["bytes"]), [0, 2, 0xff]);
    let next = first["next"]["data"].as_str().unwrap();
    let (_, second) = server.get(&format!("{path}&after={next}"), None).await;
    assert_eq!(ids(&second), [b"3", b"4"]);
    let next = second["next"]["data"].as_str().unwrap();
    let (_, last) = server.get(&format!("{path}&after={next}"), None).await;
    assert_eq!((ids(&last), &last["next"]), (vec![b"5".to_vec()], &Value::Null));
    let long = &last["rows"][0][1]["string"];
    assert_eq!((decoded(long).len(), &long["bytes"]), (512, &600.into()));
    let (_, from) = server.get(&format!("{path}&from=4"), None).await;
    assert_eq!((ids(&from), &from["next"]), (vec![b"4".to_vec(), b"5".to_vec()], &Value::Null));
}

#[tokio::test]
async fn a_page_of_rows_ends_after_the_bytes_that_it_reads() {
    let server = Server::start(None).await;
    let sql = Sql::of(&server).await;
    let large = |id| {
        let text = ::relational::Value::text("x".repeat(4 << 20));
        vec![::relational::Value::Int4(id), text, ::relational::Value::Null]
    };
    let mut transaction = begin(&sql.database).await;
    let rows = (11..=19).map(large).collect();
    transaction.insert(sql.table, rows, OnConflict::Fail).await.unwrap();
    transaction.commit().await.unwrap();
    let path = format!("/sql/rows?oid={}", sql.table);
    let count = |answer: &Value| answer["rows"].as_array().unwrap().len();
    let (status, first) = server.get(&path, None).await;
    assert_eq!((status, count(&first)), (StatusCode::OK, ROWS as usize + 8));
    let next = first["next"]["data"].as_str().unwrap();
    let (_, last) = server.get(&format!("{path}&after={next}"), None).await;
    assert_eq!((count(&last), &last["next"]), (1, &Value::Null));
}

#[tokio::test]
async fn wrong_requests_say_what_is_wrong() {
    let server = Server::start(None).await;
    let sql = Sql::of(&server).await;
    let (table, bad) = (sql.table, StatusCode::BAD_REQUEST);
    for (path, status, part) in [
        ("/sql/rows".to_owned(), bad, "oid"),
        ("/sql/rows?oid=4294967296".to_owned(), bad, "oid"),
        ("/sql/rows?oid=1".to_owned(), StatusCode::NOT_FOUND, "number 1"),
        (format!("/sql/rows?oid={table}&after=AAE"), bad, "after"),
        (format!("/sql/rows?oid={table}&after=____"), bad, "after"),
        (format!("/sql/rows?oid={table}&from=x"), bad, "invalid input syntax"),
        (format!("/sql/rows?oid={table}&limit=201"), bad, "200"),
        (format!("/sql/tree?oid={table}&index=1"), StatusCode::NOT_FOUND, "no index"),
        ("/sql/tree?oid=1".to_owned(), StatusCode::NOT_FOUND, "number 1"),
        ("/sql/table?oid=1".to_owned(), StatusCode::NOT_FOUND, "number 1"),
        ("/sql/tables?kind=view".to_owned(), bad, "kind"),
    ] {
        let (have, told) = server.get(&path, None).await;
        assert_eq!(have, status, "{path}: {told}");
        let message = told["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{path}: {message}");
    }
}

#[tokio::test]
async fn the_tree_has_the_files_of_the_table_and_of_each_index() {
    let server = Server::start(None).await;
    let sql = Sql::of(&server).await;
    let path = format!("/sql/tree?oid={}", sql.table);
    let (status, before) = server.get(&path, None).await;
    assert_eq!((status, &before["runs"]), (StatusCode::OK, &json!([])), "{before}");
    assert_eq!((&before["is_shared"], &before["index_count"]), (&false.into(), &1.into()));
    let tree = before["tree"].as_u64().unwrap() as u32;
    server.engine.tree(engine::TreeId(tree)).unwrap().flush().unwrap();
    let by_index = format!("{path}&index={}", sql.index());
    for path in [&path, &by_index] {
        let (_, after) = server.get(path, None).await;
        let run = &after["runs"][0];
        let entries = 2 * ROWS;
        assert_eq!((&run["files"], &run["entries"]), (&1.into(), &entries.into()), "{after}");
        assert_eq!(after["indexes"][0]["name"], "by_data");
    }
}

#[tokio::test]
async fn each_part_needs_its_own_permission() {
    let secured = Secured::start(&[
        ("stele.sqlViewer", "*", &[]),
        ("stele.sqlReader", "*", &[]),
        ("stele.operator", "*", &[]),
        ("bigtable.admin", "*", &[]),
    ])
    .await;
    let sql = Sql::of(&secured.server).await;
    let [viewer, reader, operator, admin] = [0, 1, 2, 3];
    let oid = sql.table;
    let (table, rows) = (format!("/sql/table?oid={oid}"), format!("/sql/rows?oid={oid}"));
    let tree = format!("/sql/tree?oid={oid}");
    let (yes, no) = (StatusCode::OK, StatusCode::FORBIDDEN);
    for (who, path, want) in [
        (viewer, "/sql/tables", yes),
        (viewer, table.as_str(), yes),
        (viewer, &rows, no),
        (viewer, &tree, no),
        (reader, "/sql/tables", yes),
        (reader, &rows, yes),
        (reader, &tree, no),
        (operator, "/sql/tables", no),
        (operator, &rows, no),
        (operator, &tree, no),
        (admin, "/sql/tables", no),
        (admin, &table, no),
        (admin, &rows, no),
    ] {
        assert_eq!(secured.status(who, path).await, want, "v{who} {path}");
    }
    for (who, may) in [(viewer, true), (admin, false)] {
        let (_, session) = secured.server.get("/session", Some(&secured.tokens[who])).await;
        assert_eq!((&session["sql"], &session["may"]["sql_tables"]), (&true.into(), &may.into()));
    }
    // A password of SQL is for its clients. The policy says what others see.
    set_password(&sql.database).await;
    assert_eq!(secured.status(reader, &rows).await, yes);
}

/// A declared table tells of a Bigtable table, whose schema the visitor of SQL may not see.
#[tokio::test]
async fn a_declared_table_keeps_what_it_reads_from_those_who_may_not_see_it() {
    let policy = "[[bindings]]\nrole = 'stele.sqlViewer'\nmembers = ['token:v0', 'token:v1']\n\
                  resource = '*'\n[[bindings]]\nrole = 'bigtable.viewer'\n\
                  members = ['token:v1']\nresource = '*'\n";
    let secured = Secured::start_with(2, Some(policy)).await;
    let _sql = Sql::of(&secured.server).await;
    for (who, sees) in [(0, false), (1, true)] {
        let token = Some(secured.tokens[who].as_str());
        let (status, list) = secured.server.get("/sql/tables?filter=people", token).await;
        assert_eq!(status, StatusCode::OK, "{list}");
        let one = &list["relations"][0];
        assert_eq!((&one["kind"], one["of"].is_string()), (&"bigtable table".into(), sees));
        let (_, told) = secured.server.get(&format!("/sql/table?oid={}", one["oid"]), token).await;
        assert_eq!(told["table"].is_string(), sees, "{told}");
        let column = &told["columns"][0];
        assert_eq!((&column["name"], column["source"].is_string()), (&"k".into(), sees));
        assert_eq!(list.to_string().contains(TABLE) || told.to_string().contains(TABLE), sees);
    }
}

#[tokio::test]
async fn what_has_no_room_in_a_structure_is_counted() {
    let server = Server::start(None).await;
    let sql = Sql::of(&server).await;
    let long = "x".repeat(2 << 10);
    let mut transaction = begin(&sql.database).await;
    let columns = (0..600).map(|at| NewColumn {
        name: format!("c{at}"),
        data_type: DataType::Int4,
        not_null: false,
        default: Some(format!("'{long}'")),
        identity: None,
        precision: None,
        generated: None,
    });
    let checks = (0..501).map(|at| NewConstraint::Check {
        name: Some(format!("k{at}")),
        expression: format!("c{at} > 0"),
    });
    let wide = CreateTable {
        schema: PUBLIC_SCHEMA,
        name: "wide".to_owned(),
        owner: BOOTSTRAP_ROLE,
        columns: columns.collect(),
        constraints: checks.collect(),
        columnar: false,
    };
    let oid = transaction.create_table(wide).await.unwrap();
    transaction.commit().await.unwrap();
    let (status, told) = server.get(&format!("/sql/table?oid={oid}"), None).await;
    assert_eq!(status, StatusCode::OK);
    let len = |part: &str| told[part].as_array().unwrap().len();
    assert_eq!((len("columns"), len("checks"), len("indexes")), (600, 500, 0));
    assert_eq!(told["more"], json!({"indexes": false, "checks": true, "foreign_keys": false}));
    let texts = told["columns"].as_array().unwrap().iter();
    let texts: Vec<&str> = texts.map(|column| column["default"].as_str().unwrap()).collect();
    assert!(texts.iter().map(|text| text.len()).sum::<usize>() < (1 << 20) + 600 * 4);
    assert!(texts[0].len() > 2 << 10, "it is cut for its own bound");
    assert_eq!(texts[599], " …");
}

async fn set_password(database: &Arc<Database>) {
    let mut transaction = begin(database).await;
    let change =
        RoleChange { password: Some(Some("a verifier".to_owned())), ..RoleChange::default() };
    transaction.alter_role(BOOTSTRAP_ROLE, change).await.unwrap();
    transaction.commit().await.unwrap();
}

#[tokio::test]
async fn without_identities_a_password_of_sql_keeps_its_tables_away() {
    let server = Server::start(None).await;
    let sql = Sql::of(&server).await;
    set_password(&sql.database).await;
    let oid = sql.table;
    for path in [
        "/sql/tables".to_owned(),
        format!("/sql/table?oid={oid}"),
        format!("/sql/rows?oid={oid}"),
        format!("/sql/tree?oid={oid}"),
    ] {
        let (status, told) = server.get(&path, None).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {told}");
        let text = told.to_string();
        assert!(text.contains("--identities") && !text.contains("img"), "{path}: {text}");
    }
}

/// Without a policy every identity may do everything, and still has no role and password of SQL.
#[tokio::test]
async fn without_a_policy_no_identity_sees_tables_of_sql() {
    let secured = Secured::start_with(1, None).await;
    let sql = Sql::of(&secured.server).await;
    let oid = sql.table;
    let paths = [
        "/sql/tables".to_owned(),
        format!("/sql/table?oid={oid}"),
        format!("/sql/rows?oid={oid}"),
        format!("/sql/tree?oid={oid}"),
    ];
    assert_eq!(secured.status(0, "/overview").await, StatusCode::OK);
    for has_password in [false, true] {
        if has_password {
            set_password(&sql.database).await;
        }
        for path in &paths {
            let (status, told) = secured.server.get(path, Some(&secured.tokens[0])).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{path} {has_password}: {told}");
            let text = told.to_string();
            assert!(text.contains("--policy") && !text.contains("img"), "{path}: {text}");
        }
    }
}

#[tokio::test]
async fn a_server_without_the_database_says_where_it_is() {
    let server = Server::start(None).await;
    let (status, _) = server.get("/sql/tables", None).await;
    let (_, session) = server.get("/session", None).await;
    assert_eq!((status, &session["sql"]), (StatusCode::NOT_FOUND, &false.into()));
    let sql = Sql::of(&server).await;
    assert_eq!(server.get("/sql/tables", None).await.0, StatusCode::OK);
    for (seat, want, part) in [
        (Seat::At("db-2.example:5433".to_owned()), StatusCode::CONFLICT, "db-2.example:5433"),
        (Seat::Unknown, StatusCode::SERVICE_UNAVAILABLE, "retry soon"),
    ] {
        sql.seat.send_replace(seat);
        let (status, told) = server.get("/sql/tables", None).await;
        assert_eq!(status, want, "{told}");
        assert!(told["error"]["message"].as_str().unwrap().contains(part), "{told}");
    }
}

/// Returns the answer to a statement of the prompt.
async fn prompt(
    server: &Server,
    text: &str,
    explain: bool,
    token: Option<&str>,
) -> (StatusCode, Value) {
    let body = json!({ "sql": text, "explain": explain }).to_string();
    server.send(Request::post(format!("{API}/sql/query")), token, body.into()).await
}

/// Returns the table of the tests as SQL names it.
fn quoted() -> String {
    format!("\"{}\"", HOSTILE.replace('"', "\"\""))
}

#[tokio::test]
async fn a_query_gives_its_first_rows_or_its_plan() {
    let server = Server::start(None).await;
    let _sql = Sql::of(&server).await;
    let table = quoted();
    let text = format!("SELECT * FROM {table} ORDER BY id LIMIT 2");
    let (status, told) = prompt(&server, &text, false, None).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!(told["columns"][1], json!({"name": HOSTILE, "type": "text"}));
    assert_eq!((&told["more"], &told["rows"][0][1]), (&false.into(), &Value::Null));
    let row = told["rows"][1].as_array().unwrap().iter();
    let row: Vec<_> = row.map(|value| decoded(&value["string"])).collect();
    assert_eq!(row, [b"2".to_vec(), HOSTILE.as_bytes().to_vec(), b"\\x0002ff".to_vec()]);
    let (_, long) = prompt(&server, "SELECT repeat('x', 2000)", false, None).await;
    let long = &long["rows"][0][0]["string"];
    assert_eq!((decoded(long).len(), &long["bytes"]), (1_024, &2_000.into()));
    let many = "SELECT n FROM generate_series(1, 2000) AS g(n)";
    let (_, many) = prompt(&server, many, false, None).await;
    let count = many["rows"].as_array().unwrap().len();
    assert_eq!((count, &many["more"]), (1_000, &true.into()));
    let text = format!("SELECT count(*) FROM {table}");
    let (status, told) = prompt(&server, &text, true, None).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert!(told["plan"]["name"].is_string() && told["plan"]["inputs"].is_array(), "{told}");
}

#[tokio::test]
async fn a_statement_that_fails_tells_its_state_and_its_place() {
    let server = Server::start(None).await;
    let _sql = Sql::of(&server).await;
    for explain in [false, true] {
        let (status, told) = prompt(&server, "SELECT 'é', 1 2", explain, None).await;
        let error = &told["error"];
        assert_eq!((status, &error["code"]), (StatusCode::BAD_REQUEST, &json!("INVALID_ARGUMENT")));
        assert_eq!((&error["sqlstate"], &error["position"]), (&json!("42601"), &json!(15)));
    }
    let table = quoted();
    let (bad, no) = (StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN);
    let absent = StatusCode::NOT_IMPLEMENTED;
    for (text, status, state) in [
        (String::new(), bad, "42601"),
        ("SELECT 1; SELECT 2".to_owned(), bad, "42601"),
        ("SELECT 1 / 0".to_owned(), bad, "22012"),
        ("SELECT * FROM none".to_owned(), bad, "42P01"),
        (format!("DELETE FROM {table}"), bad, "25006"),
        (format!("SELECT * FROM {table} FOR UPDATE"), bad, "25006"),
        (format!("DROP TABLE {table}"), absent, "0A000"),
        (format!("COPY {table} TO STDOUT"), absent, "0A000"),
        ("LISTEN a".to_owned(), absent, "0A000"),
        ("SELECT set_config('search_path', 'x', false)".to_owned(), absent, "0A000"),
        ("SELECT nextval('q')".to_owned(), absent, "0A000"),
        ("SELECT pg_advisory_lock(1)".to_owned(), absent, "0A000"),
        ("SELECT pg_terminate_backend(pg_backend_pid())".to_owned(), no, "42501"),
        // Rights on Bigtable tables are asked for by their own names.
        ("SELECT * FROM people".to_owned(), bad, "42P01"),
        ("SELECT * FROM bigtable.t".to_owned(), bad, "42P01"),
    ] {
        let (have, told) = prompt(&server, &text, false, None).await;
        assert_eq!((have, &told["error"]["sqlstate"]), (status, &json!(state)), "{text}: {told}");
    }
    let known = "SELECT count(*) FROM pg_class WHERE relname IN ('people', 't')";
    let (_, told) = prompt(&server, known, false, None).await;
    assert_eq!(decoded(&told["rows"][0][0]["string"]), b"0", "{told}");
    let quoted = "SELECT repeat('x', 1000000)::int";
    let (status, told) = prompt(&server, quoted, false, None).await;
    assert_eq!((status, &told["error"]["sqlstate"]), (bad, &json!("22P02")));
    assert!(told.to_string().len() < 10_000, "{} bytes", told.to_string().len());
    let long = format!("SELECT '{}'", "x".repeat(64 << 10));
    let (status, told) = prompt(&server, &long, false, None).await;
    assert_eq!(status, bad);
    assert!(told["error"]["message"].as_str().unwrap().starts_with("sql:"), "{told}");
}

#[tokio::test]
async fn the_prompt_needs_the_permission_on_rows_and_shows_no_password() {
    let secured =
        Secured::start(&[("stele.sqlViewer", "*", &[]), ("stele.sqlReader", "*", &[])]).await;
    let sql = Sql::of(&secured.server).await;
    set_password(&sql.database).await;
    let text = "SELECT * FROM pg_authid";
    for (who, want) in [(0, StatusCode::FORBIDDEN), (1, StatusCode::OK)] {
        let token = Some(secured.tokens[who].as_str());
        let (status, told) = prompt(&secured.server, text, false, token).await;
        assert_eq!(status, want, "{told}");
        let told = told.to_string();
        assert!(!told.contains(&encoded(b"a verifier")), "{told}");
        let (_, session) = secured.server.get("/session", token).await;
        assert_eq!(session["may"]["sql_query"], status == StatusCode::OK);
    }
    let server = Server::start(None).await;
    let sql = Sql::of(&server).await;
    set_password(&sql.database).await;
    let (status, told) = prompt(&server, "SELECT 1", false, None).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{told}");
    assert!(told.to_string().contains("--identities"), "{told}");
    let secured = Secured::start_with(1, None).await;
    let _sql = Sql::of(&secured.server).await;
    let token = Some(secured.tokens[0].as_str());
    let (status, told) = prompt(&secured.server, "SELECT 1", false, token).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{told}");
    assert!(told.to_string().contains("--policy"), "{told}");
}

#[tokio::test]
async fn more_statements_than_have_a_place_are_refused() {
    let server = Server::start(None).await;
    let _sql = Sql::of(&server).await;
    let sleep = || prompt(&server, "SELECT pg_sleep(1)", false, None);
    let answers = tokio::join!(sleep(), sleep(), sleep(), sleep(), sleep());
    let (one, two, three, four, five) = answers;
    let statuses = [one, two, three, four, five].map(|(status, _)| status);
    let count = |wanted| statuses.iter().filter(|status| **status == wanted).count();
    let refused = StatusCode::TOO_MANY_REQUESTS;
    assert_eq!((count(StatusCode::OK), count(refused)), (4, 1), "{statuses:?}");
}
