//! Promises of privileges: a role gets to nothing but by an object that it was granted.

use crate::server::{Server, code};
use tokio_postgres::Client;

/// Sends `text`; fails unless the server refuses it with `state`.
async fn refused(client: &Client, text: &str, state: &str) {
    match client.batch_execute(text).await {
        Ok(()) => panic!("{text} is not refused"),
        Err(error) => assert_eq!(code(&error), state, "{text}: {error:?}"),
    }
}

/// Returns the first column of a query as text.
async fn shown(client: &Client, text: &str) -> Vec<String> {
    let rows = client.query(text, &[]).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}

/// A server with the roles `app` and `other`, and the owner's client.
async fn with_roles() -> (Server, Client) {
    let server = Server::start().await;
    let owner = server.client().await;
    owner.batch_execute("CREATE ROLE app LOGIN; CREATE ROLE other LOGIN").await.unwrap();
    (server, owner)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_path_leads_around_no_privilege() {
    let (server, owner) = with_roles().await;
    let setup = "CREATE SCHEMA hr; CREATE TABLE hr.salaries (who text PRIMARY KEY, pay int); \
                 INSERT INTO hr.salaries VALUES ('ada', 9); \
                 CREATE SCHEMA t1; CREATE SCHEMA t2; \
                 CREATE TABLE t1.orders (a text); INSERT INTO t1.orders VALUES ('one'); \
                 CREATE TABLE t2.orders (a text); INSERT INTO t2.orders VALUES ('two'); \
                 GRANT USAGE ON SCHEMA hr TO app; GRANT USAGE ON SCHEMA t1, t2 TO app; \
                 GRANT SELECT ON t1.orders TO app; GRANT SELECT ON t2.orders TO app";
    owner.batch_execute(setup).await.unwrap();
    let app = server.client_as("app").await;
    app.batch_execute("SET search_path = hr; SELECT 1").await.unwrap();
    for text in [
        "SELECT * FROM salaries",
        "SELECT count(*) FROM salaries",
        "COPY (SELECT who FROM salaries) TO STDOUT",
        "COPY salaries TO STDOUT",
        "EXPLAIN SELECT count(*) FROM salaries",
        "CREATE TABLE stolen AS SELECT * FROM salaries",
        "SELECT who FROM salaries WHERE who = 'ada'",
        "SELECT (SELECT max(pay) FROM salaries)",
        "DECLARE c CURSOR WITH HOLD FOR SELECT count(*) FROM salaries",
    ] {
        refused(&app, text, "42501").await;
    }
    app.batch_execute("SET search_path = nowhere").await.unwrap();
    refused(&app, "SELECT * FROM salaries", "42P01").await;
    refused(&app, "SELECT count(*) FROM salaries", "42P01").await;
    assert_eq!(code(&app.query("SELECT count(*) FROM salaries", &[]).await.unwrap_err()), "42P01");
    for (path, expected) in [("t1", "one"), ("t2", "two"), ("t1", "one")] {
        app.batch_execute(&format!("SET search_path = {path}")).await.unwrap();
        assert_eq!(shown(&app, "SELECT max(a) FROM orders").await, [expected]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_is_closed_to_a_role_without_usage() {
    let (server, owner) = with_roles().await;
    let setup = "CREATE SCHEMA s; CREATE TABLE s.t (a text PRIMARY KEY); INSERT INTO s.t VALUES ('x'); \
                 GRANT SELECT, INSERT, UPDATE, DELETE ON s.t TO app; \
                 CREATE TABLE p (a text); GRANT SELECT ON p TO app; \
                 CREATE VIEW v AS SELECT a FROM s.t; GRANT SELECT ON v TO app";
    owner.batch_execute(setup).await.unwrap();
    let app = server.client_as("app").await;
    for text in [
        "SELECT * FROM s.t",
        "SELECT a FROM s.t WHERE a = 'x'",
        "SELECT count(*) FROM s.t",
        "SELECT (SELECT max(a) FROM s.t)",
        "SELECT * FROM s.nothing",
        "INSERT INTO s.t VALUES ('y')",
        "UPDATE s.t SET a = 'y'",
        "DELETE FROM s.t",
        "COPY s.t TO STDOUT",
    ] {
        refused(&app, text, "42501").await;
    }
    refused(&app, "SET search_path = s, public; SELECT count(*) FROM t", "42P01").await;
    refused(&app, "SET search_path = s, public; SELECT a FROM t", "42P01").await;
    // Names in a view were looked up for its owner.
    assert_eq!(shown(&app, "SELECT a FROM v").await, ["x"]);
    owner.batch_execute("GRANT USAGE ON SCHEMA s TO app").await.unwrap();
    assert_eq!(shown(&app, "SELECT a FROM s.t").await, ["x"]);
    owner.batch_execute("REVOKE USAGE ON SCHEMA s FROM app").await.unwrap();
    refused(&app, "SELECT a FROM s.t", "42501").await;
    app.batch_execute("SELECT a FROM public.p").await.unwrap();
    owner.batch_execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC").await.unwrap();
    refused(&app, "SELECT a FROM public.p", "42501").await;
    refused(&app, "SELECT a FROM p", "42P01").await;
    owner.batch_execute("SELECT a FROM p").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_inherit_has_nothing_of_its_groups() {
    let (server, owner) = with_roles().await;
    let setup = "CREATE ROLE boss; CREATE TABLE g (a text); INSERT INTO g VALUES ('x'); \
                 GRANT SELECT ON g TO boss; CREATE ROLE lone LOGIN NOINHERIT IN ROLE boss; \
                 CREATE ROLE one LOGIN IN ROLE boss; CREATE ROLE two LOGIN IN ROLE lone";
    owner.batch_execute(setup).await.unwrap();
    let (one, lone) = (server.client_as("one").await, server.client_as("lone").await);
    assert_eq!(shown(&one, "SELECT a FROM g").await, ["x"]);
    refused(&lone, "SELECT a FROM g", "42501").await;
    refused(&server.client_as("two").await, "SELECT a FROM g", "42501").await;
    let asked = "SELECT pg_has_role('lone', 'boss', 'MEMBER')::text \
                 UNION ALL SELECT pg_has_role('lone', 'boss', 'USAGE')::text";
    // Rows of UNION ALL come branch by branch.
    assert_eq!(shown(&owner, asked).await, ["true", "false"]);
    owner.batch_execute("ALTER ROLE lone INHERIT").await.unwrap();
    assert_eq!(shown(&lone, "SELECT a FROM g").await, ["x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_reads_what_it_read_when_it_was_made_with_the_rights_of_its_owner() {
    let (server, owner) = with_roles().await;
    let setup = "CREATE TABLE t (a text PRIMARY KEY); INSERT INTO t VALUES ('t'); \
                 CREATE SCHEMA hr; CREATE TABLE hr.accounts (a text); INSERT INTO hr.accounts VALUES ('hr'); \
                 CREATE SCHEMA mine; GRANT CREATE, USAGE ON SCHEMA mine TO app; \
                 GRANT SELECT ON t TO app; \
                 CREATE VIEW public.all_of_t AS SELECT * FROM t; GRANT SELECT ON all_of_t TO other";
    owner.batch_execute(setup).await.unwrap();
    let (app, other) = (server.client_as("app").await, server.client_as("other").await);
    // Its owner may read the table, so its reader need not.
    assert_eq!(shown(&other, "SELECT a FROM all_of_t").await, ["t"]);
    refused(&other, "SELECT a FROM t", "42501").await;
    app.batch_execute(
        "CREATE VIEW mine.v AS SELECT * FROM t; \
         CREATE TABLE mine.accounts (a text); INSERT INTO mine.accounts VALUES ('mine'); \
         SET search_path = mine, public; CREATE VIEW mine.w AS SELECT * FROM accounts; \
         SET search_path = hr",
    )
    .await
    .unwrap();
    assert_eq!(shown(&app, "SELECT a FROM mine.w").await, ["mine"]);
    assert_eq!(shown(&app, "SELECT a FROM mine.v").await, ["t"]);
    owner.batch_execute("REVOKE SELECT ON t FROM app").await.unwrap();
    refused(&app, "SELECT a FROM mine.v", "42501").await;
    // A table under the old name of another one is not what the view was made for.
    owner.batch_execute("ALTER TABLE t RENAME TO u; CREATE TABLE t (a text)").await.unwrap();
    assert_eq!(shown(&owner, "SELECT a FROM all_of_t").await, ["t"]);
    refused(&app, "CREATE OR REPLACE VIEW public.all_of_t AS SELECT 'x' AS a", "42501").await;
    owner.batch_execute("GRANT CREATE ON SCHEMA public TO app").await.unwrap();
    refused(&app, "CREATE OR REPLACE VIEW public.all_of_t AS SELECT 'x' AS a", "42501").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sequences_have_privileges() {
    let (server, owner) = with_roles().await;
    let setup = "CREATE SEQUENCE s; CREATE TABLE victim (id int PRIMARY KEY, n int); \
                 GRANT CREATE ON SCHEMA public TO app";
    owner.batch_execute(setup).await.unwrap();
    let app = server.client_as("app").await;
    refused(&app, "SELECT nextval('s')", "42501").await;
    refused(&app, "SELECT setval('s', 1)", "42501").await;
    refused(&app, "CREATE SEQUENCE mine OWNED BY victim.id", "42501").await;
    owner.batch_execute("GRANT USAGE ON SEQUENCE s TO app").await.unwrap();
    app.batch_execute("SELECT nextval('s')").await.unwrap();
    refused(&app, "SELECT setval('s', 1)", "42501").await;
    refused(&app, "BEGIN READ ONLY; SELECT nextval('s')", "25006").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_superuser_has_no_more_rights_in_its_session() {
    let (server, owner) = with_roles().await;
    owner.batch_execute("CREATE ROLE boss LOGIN SUPERUSER; CREATE TABLE t (a int)").await.unwrap();
    let boss = server.client_as("boss").await;
    boss.batch_execute("SELECT * FROM t").await.unwrap();
    owner.batch_execute("ALTER ROLE boss NOSUPERUSER").await.unwrap();
    refused(&boss, "SELECT * FROM t", "42501").await;
    owner.batch_execute("DROP ROLE boss; ALTER ROLE stele PASSWORD 'x'").await.unwrap();
    refused(&boss, "SELECT * FROM t", "42501").await;
    refused(&boss, "CREATE TABLE of_a_ghost (a int)", "42501").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_dropped_role_has_no_rights_and_no_other_role_gives_it_some() {
    let (server, owner) = with_roles().await;
    let app = server.client_as("app").await;
    let setup = "CREATE TABLE t (a text); GRANT SELECT ON t TO app; CREATE TABLE for_all (a text); \
                 GRANT SELECT ON for_all TO PUBLIC; GRANT CREATE ON SCHEMA public TO PUBLIC; \
                 CREATE SEQUENCE s";
    owner.batch_execute(setup).await.unwrap();
    app.batch_execute("SELECT a FROM t; PREPARE p AS SELECT a FROM t").await.unwrap();
    let pid: i32 = owner.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let terminate = format!("SELECT pg_terminate_backend({pid})");
    for again in ["", "CREATE ROLE app LOGIN; GRANT SELECT ON t TO app", "ALTER ROLE app SUPERUSER"]
    {
        if again.is_empty() {
            owner.batch_execute("DROP ROLE app").await.unwrap();
        }
        owner.batch_execute(again).await.unwrap();
        for text in [
            "SELECT a FROM t",
            "SELECT count(*) FROM t",
            "EXECUTE p",
            "COPY t TO STDOUT",
            "SELECT nextval('s')",
            "CREATE ROLE boss SUPERUSER",
            "ALTER ROLE stele PASSWORD 'taken'",
            "DROP TABLE t",
            &terminate,
        ] {
            refused(&app, text, "42501").await;
        }
        // An object needs an owner.
        refused(&app, "CREATE TABLE mine (a int)", "42704").await;
        app.batch_execute("SELECT a FROM for_all; SELECT 1").await.unwrap();
        let asked = "SELECT has_table_privilege('t', 'SELECT')::text";
        assert_eq!(shown(&app, asked).await, ["false"]);
        let activity = format!("SELECT query FROM pg_stat_activity WHERE pid = {pid}");
        assert_eq!(shown(&app, &activity).await, ["<insufficient privilege>"]);
    }
    refused(&app, "ALTER ROLE app PASSWORD 'taken'", "42501").await;
    shown(&server.client_as("app").await, "SELECT a FROM t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_let_in_as_the_owner_stays_the_owner_when_a_role_takes_the_name() {
    let (server, owner) = with_roles().await;
    let guest = server.client_as("guest").await;
    owner.batch_execute("CREATE ROLE guest LOGIN; CREATE TABLE t (a text)").await.unwrap();
    guest.batch_execute("SELECT a FROM t; CREATE TABLE made (a text)").await.unwrap();
    let made = "SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE relname = 'made'";
    assert_eq!(shown(&guest, made).await, ["stele"]);
    refused(&server.client_as("guest").await, "SELECT a FROM t", "42501").await;
    owner.batch_execute("ALTER ROLE stele PASSWORD 'x'").await.unwrap();
    refused(&guest, "SELECT a FROM t", "42501").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_given_to_roles_of_which_its_owner_is_a_member_and_who_may_create_there() {
    let (server, owner) = with_roles().await;
    let setup = "CREATE SCHEMA s; GRANT CREATE, USAGE ON SCHEMA s TO app; CREATE ROLE crew; \
                 CREATE ROLE boss SUPERUSER; GRANT CREATE, USAGE ON SCHEMA s TO other";
    owner.batch_execute(setup).await.unwrap();
    let app = server.client_as("app").await;
    app.batch_execute("CREATE TABLE s.mine (a int)").await.unwrap();
    for role in ["other", "boss", "stele", "crew"] {
        refused(&app, &format!("ALTER TABLE s.mine OWNER TO {role}"), "42501").await;
    }
    refused(&app, "ALTER TABLE s.mine OWNER TO nobody", "42704").await;
    app.batch_execute("ALTER TABLE s.mine OWNER TO app; ALTER TABLE s.mine OWNER TO CURRENT_USER")
        .await
        .unwrap();
    owner.batch_execute("GRANT crew TO app").await.unwrap();
    // The new owner could not have made the table there.
    refused(&app, "ALTER TABLE s.mine OWNER TO crew", "42501").await;
    owner.batch_execute("GRANT CREATE ON SCHEMA s TO crew").await.unwrap();
    app.batch_execute("ALTER TABLE s.mine OWNER TO crew").await.unwrap();
    owner.batch_execute("ALTER TABLE s.mine OWNER TO other").await.unwrap();
    refused(&app, "SELECT a FROM s.mine", "42501").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn information_schema_shows_what_a_role_has_privileges_on() {
    let (server, owner) = with_roles().await;
    let setup = "CREATE TABLE hidden (id int PRIMARY KEY, a int UNIQUE); CREATE SCHEMA closed; \
                 CREATE VIEW hidden_view AS SELECT id FROM hidden; CREATE SEQUENCE hidden_numbers; \
                 CREATE TABLE other_hidden (id int REFERENCES hidden)";
    owner.batch_execute(setup).await.unwrap();
    let (app, other) = (server.client_as("app").await, server.client_as("other").await);
    let all = [
        ("tables", "table_name", "table_schema = 'public'"),
        ("columns", "table_name || '.' || column_name", "table_schema = 'public'"),
        ("views", "table_name || ' ' || (view_definition IS NULL)", "true"),
        ("sequences", "sequence_name", "true"),
        ("table_constraints", "constraint_name", "constraint_schema = 'public'"),
        ("key_column_usage", "column_name", "true"),
        ("constraint_column_usage", "column_name", "true"),
        ("referential_constraints", "constraint_name", "true"),
        (
            "schemata",
            "schema_name",
            "schema_name NOT IN ('public', 'bigtable') AND schema_name !~ '_'",
        ),
    ];
    let list = |(view, column, condition): (&str, &str, &str)| {
        format!(
            "SELECT ({column})::text FROM information_schema.{view} WHERE {condition} ORDER BY 1"
        )
    };
    for view in all {
        assert_eq!(shown(&app, &list(view)).await, [""; 0], "{view:?}");
        assert_ne!(shown(&owner, &list(view)).await, [""; 0], "{view:?}");
    }
    let grants = "GRANT SELECT ON hidden_view TO PUBLIC; GRANT USAGE ON SEQUENCE hidden_numbers TO app; \
                  GRANT INSERT ON hidden TO other; GRANT other TO app; GRANT CREATE ON SCHEMA closed TO app";
    owner.batch_execute(grants).await.unwrap();
    for (view, expected) in all.into_iter().zip([
        &["hidden", "hidden_view"][..],
        &["hidden.a", "hidden.id", "hidden_view.id"],
        &["hidden_view true"],
        &["hidden_numbers"],
        &["hidden_a_key", "hidden_pkey"],
        &["a", "id"],
        &[],
        &[],
        &["closed"],
    ]) {
        assert_eq!(shown(&app, &list(view)).await, expected, "{view:?}");
    }
    assert_eq!(shown(&other, &list(all[3])).await, [""; 0]);
    assert_eq!(shown(&owner, &list(all[2])).await, ["hidden_view false"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_update_learns_no_value() {
    let (server, owner) = with_roles().await;
    let setup = "CREATE TABLE t (id int PRIMARY KEY, secret text, n int); \
                 INSERT INTO t VALUES (1, 'hidden', 0); GRANT UPDATE, INSERT ON t TO app";
    owner.batch_execute(setup).await.unwrap();
    let app = server.client_as("app").await;
    refused(&app, "UPDATE t SET n = secret::int", "42501").await;
    let upsert = "INSERT INTO t VALUES (1, 'x', 0) ON CONFLICT (id) DO UPDATE SET n =";
    refused(&app, &format!("{upsert} t.secret::int"), "42501").await;
    // The key that is in the way is read.
    refused(&app, &format!("{upsert} excluded.n + 1"), "42501").await;
    for target in ["(id)", "ON CONSTRAINT t_pkey"] {
        let skip = format!("INSERT INTO t VALUES (1, 'x', 0) ON CONFLICT {target} DO NOTHING");
        refused(&app, &skip, "42501").await;
    }
    app.batch_execute("INSERT INTO t VALUES (1, 'x', 0) ON CONFLICT DO NOTHING").await.unwrap();
    refused(&app, "UPDATE t AS excluded SET n = excluded.secret::int", "42501").await;
    for read in ["secret", "*", "t", "t.*", "(SELECT max(secret) FROM t)", "n + 1"] {
        refused(&app, &format!("UPDATE t SET n = 2 RETURNING {read}"), "42501").await;
    }
    refused(&app, "UPDATE t AS excluded SET n = 2 RETURNING excluded.secret", "42501").await;
    assert_eq!(shown(&app, "UPDATE t SET n = 2 RETURNING 'done'").await, ["done"]);
    let inserted = "INSERT INTO t VALUES (2, 'y', 0) RETURNING 'in' AS done";
    assert_eq!(shown(&app, inserted).await, ["in"]);
    refused(&app, "DELETE FROM t RETURNING 'out'", "42501").await;
    owner.batch_execute("GRANT DELETE ON t TO app").await.unwrap();
    refused(&app, "DELETE FROM t RETURNING id", "42501").await;
    refused(&app, "BEGIN; LOCK TABLE t IN ACCESS SHARE MODE", "42501").await;
    app.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(shown(&app, "DELETE FROM t RETURNING 'out'").await, ["out", "out"]);
    owner.batch_execute("GRANT SELECT ON t TO app").await.unwrap();
    app.batch_execute(&format!("{upsert} excluded.n + 1")).await.unwrap();
    app.batch_execute("BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_folded_in_ascii_and_cut_alike_for_checks_and_plans() {
    let (server, owner) = with_roles().await;
    let long = "x".repeat(70);
    let setup = format!(
        "CREATE TABLE \"Élèves\" (a text); CREATE TABLE {long} (a text); INSERT INTO {long} VALUES ('1')"
    );
    owner.batch_execute(&setup).await.unwrap();
    assert_eq!(shown(&owner, &format!("SELECT max(a) FROM {long}")).await, ["1"]);
    owner.batch_execute("SELECT count(*) FROM Élèves").await.unwrap();
    let app = server.client_as("app").await;
    refused(&app, "SELECT count(*) FROM Élèves", "42501").await;
    refused(&app, &format!("SELECT count(*) FROM {long}"), "42501").await;
}
