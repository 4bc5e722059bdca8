//! `psql`: its commands that describe objects, its variables, and COPY.

use super::{address, serve};
use crate::server::Server;
use crate::setup;
use std::path::Path;
use std::process::Command;

const SCHEMA: &str = "
    CREATE SCHEMA app;
    CREATE TABLE accounts (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner text NOT NULL,
        email varchar(80) UNIQUE, balance numeric(12,2) NOT NULL DEFAULT 0 CHECK (balance >= 0),
        created timestamptz NOT NULL DEFAULT now(), tags text[], meta jsonb);
    CREATE INDEX accounts_owner ON accounts (owner DESC, created);
    CREATE TABLE app.items (a int, b int DEFAULT 5, c char(3), CONSTRAINT items_pk PRIMARY KEY (a, b));
    CREATE TABLE app.serials (id serial PRIMARY KEY, s smallint, g int GENERATED ALWAYS AS (s + 1) STORED);
    CREATE VIEW rich AS SELECT id, owner FROM accounts WHERE balance > 100;
    CREATE SEQUENCE counter START 10 INCREMENT 5;
    CREATE ROLE reader;
    GRANT SELECT ON accounts TO reader;
    COMMENT ON TABLE accounts IS 'the accounts';
    COMMENT ON COLUMN accounts.owner IS 'who owns';";

/// Commands, and parts of what they print.
const COMMANDS: &[(&str, &[&str])] = &[
    (
        r"\d",
        &["public | accounts ", "| table ", "public | rich ", "| view", "counter", "| sequence"],
    ),
    (r"\d+", &["the accounts", "permanent"]),
    (
        r"\d accounts",
        &[
            "generated always as identity",
            "character varying(80)",
            "not null",
            "numeric(12,2)",
            r#""accounts_pkey" PRIMARY KEY, btree (id)"#,
            r#""accounts_email_key" UNIQUE CONSTRAINT, btree (email)"#,
            r#""accounts_owner" btree (owner DESC, created)"#,
            r#""accounts_balance_check" CHECK"#,
        ],
    ),
    (r"\d+ accounts", &["who owns", "Access method: heap"]),
    (r"\d app.items", &["character(3)", r#""items_pk" PRIMARY KEY, btree (a, b)"#]),
    (
        r"\d app.serials",
        &["nextval('app.serials_id_seq'::regclass)", "generated always as (s + 1) stored"],
    ),
    (r"\d rich", &[r#"View "public.rich""#]),
    (r"\d+ rich", &["View definition:", "balance > 100"]),
    (r"\d counter", &[r#"Sequence "public.counter""#, "bigint |    10 |"]),
    (r"\d app.serials_id_seq", &["Owned by: app.serials.id"]),
    (r"\d accounts_owner", &["owner", "btree, for table \"public.accounts\""]),
    (r"\dt", &["accounts | table | stele"]),
    (r"\dt+ app.*", &["items", "serials"]),
    (r"\di+", &["accounts_owner", "btree"]),
    (r"\dv+", &["rich"]),
    (r"\ds", &["counter"]),
    (r"\dn+", &["app", "standard public schema"]),
    (r"\l+", &["stele", "UTF8", "pg_default"]),
    (r"\du", &["reader", "Cannot login", "Superuser"]),
    (r"\dp accounts", &["stele=arwdDxt/stele", "reader=r/stele"]),
    (r"\df", &["(0 rows)"]),
    (r"\dT+", &["(0 rows)"]),
    (r"\dT int4", &["integer"]),
    (r"\dx", &["(0 rows)"]),
    (r"\dD", &["(0 rows)"]),
    (r"\dy", &["(0 rows)"]),
    (r"\des", &["bigtable"]),
    (r"\dRp", &["(0 rows)"]),
    (r"\dRs", &["(0 rows)"]),
    (r"\dd", &["(0 rows)"]),
    (r"\dA", &["btree", "heap"]),
    (r"\d pg_catalog.pg_class", &["relname", "relkind"]),
    (r"\dtS pg_cl*", &["pg_class"]),
    (r"\sv rich", &["CREATE OR REPLACE VIEW public.rich AS"]),
    (r"\conninfo", &[r#"You are connected to database "stele" as user "stele""#]),
    (r"\encoding", &["UTF8"]),
    (
        r"SELECT 1 AS a, 'x'::text AS b, NULL::numeric(10,2) AS c \gdesc",
        &["a      | integer", "c      | numeric(10,2)"],
    ),
    (r"SELECT 'SELECT 40 + 2 AS answer' \gexec", &["answer", "42"]),
    (r"\dconfig search_path", &["\"$user\", public"]),
    (r"\copy (SELECT 1, 'b') TO STDOUT CSV HEADER", &["?column?,?column?", "1,b"]),
];

fn psql(program: &Path, input: &str, server: &Server) -> Result<String, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{input}\n")).unwrap();
    let mut command = Command::new(program);
    command.args(["-X", "-v", "ON_ERROR_STOP=1", "-f"]).arg(file.path()).arg(address(server));
    setup::run(&mut command)
}

#[test]
fn psql_describes_what_is_there() {
    let Some(program) = setup::postgresql("STELE_PSQL", "psql") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut server = serve(dir.path());
    psql(&program, SCHEMA, &server).unwrap();
    let mut wrong = Vec::new();
    for (command, parts) in COMMANDS {
        match psql(&program, command, &server) {
            Ok(said) if parts.iter().all(|part| said.contains(part)) => {}
            Ok(said) | Err(said) => wrong.push(format!("{command}\n{said}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(server.terminate().success());
}
