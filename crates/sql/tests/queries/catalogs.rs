//! The queries that psql and drivers send about the catalog.

use super::harness::{Session, run};

#[test]
fn psql_lists_and_describes_tables() {
    run(async {
        let session = Session::with_tables().await;
        let list = "SELECT n.nspname as \"Schema\", c.relname as \"Name\", \
            CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'i' THEN 'index' END as \"Type\", \
            pg_catalog.pg_get_userbyid(c.relowner) as \"Owner\" \
            FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
            LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam \
            WHERE c.relkind IN ('r','p','') AND n.nspname <> 'pg_catalog' \
            AND n.nspname !~ '^pg_toast' AND n.nspname <> 'information_schema' \
            AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2";
        let got = session.answer(list, &[]).await;
        assert!(got.starts_with("public|t|table|") && got.contains("\npublic|u|table|"), "{got}");
        let find = "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c \
            LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
            WHERE c.relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default \
            AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 2, 3";
        let got = session.answer(find, &[]).await;
        let oid = got.split('|').next().unwrap().to_owned();
        assert!(got.ends_with("|public|t\n"), "{got}");
        let columns = format!(
            "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), \
            (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d \
             WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef), a.attnotnull \
            FROM pg_catalog.pg_attribute a WHERE a.attrelid = '{oid}' AND a.attnum > 0 \
            AND NOT a.attisdropped ORDER BY a.attnum"
        );
        let got = session.answer(&columns, &[]).await;
        assert!(got.starts_with("id|integer||t\nname|text||f\namount|numeric(10,2)||f\n"), "{got}");
        let indexes = format!(
            "SELECT c2.relname, i.indisprimary, pg_catalog.pg_get_indexdef(i.indexrelid, 0, true), \
            pg_catalog.pg_get_constraintdef(con.oid, true), contype \
            FROM pg_catalog.pg_class c, pg_catalog.pg_class c2, pg_catalog.pg_index i \
            LEFT JOIN pg_catalog.pg_constraint con ON (conrelid = i.indrelid AND conindid = i.indexrelid \
            AND contype IN ('p','u','x')) WHERE c.oid = '{oid}' AND c.oid = i.indrelid \
            AND i.indexrelid = c2.oid ORDER BY i.indisprimary DESC, c2.relname"
        );
        let got = session.answer(&indexes, &[]).await;
        let want =
            "t_pkey|t|CREATE UNIQUE INDEX t_pkey ON public.t USING btree (id)|PRIMARY KEY (id)|p\n";
        assert_eq!(got, want);
    });
}

#[test]
fn drivers_read_types_and_columns() {
    run(async {
        let session = Session::with_tables().await;
        for (query, want) in [
            ("select typname, typelem from pg_type where oid = 23", "int4|0\n"),
            ("select typname from pg_catalog.pg_type where typelem = 25", "_text\n"),
            ("select 't'::regclass::oid = oid from pg_class where relname = 't'", "t\n"),
            ("select oid::regclass from pg_class where relname = 'u'", "u\n"),
            (
                "select column_name, data_type, is_nullable from information_schema.columns \
                 where table_name = 'u' order by ordinal_position",
                "id|integer|NO\nt_id|integer|YES\nnote|character varying|YES\n",
            ),
            ("select datname from pg_database", "stele\n"),
            ("select current_schema(), current_schemas(false)", "public|{public}\n"),
            ("select count(*) from pg_trigger", "0\n"),
        ] {
            assert_eq!(session.answer(query, &[]).await, want, "{query}");
        }
    });
}
