//! Databases, roles, settings and the activity of the server.

use relational::catalog::PUBLIC_ROLE;
use relational::{Catalog, Row, Value};

use super::{Cell, Definition, nothing, row};
use crate::door::{Build, SessionInfo};
use crate::expression::{Acting, EvalContext};
use crate::statement::privilege::{is_superuser, roles_of};

pub(super) const TABLES: &[Definition] = &[
    (
        "pg_database",
        "oid oid, datname name, datdba oid, encoding int4, datlocprovider text, datistemplate bool, \
         datallowconn bool, datconnlimit int4, datfrozenxid int4, datminmxid int4, dattablespace oid, \
         datcollate text, datctype text, daticulocale text, datcollversion text, datacl text[]",
        databases,
    ),
    (
        "pg_roles",
        "rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, \
         rolcanlogin bool, rolreplication bool, rolconnlimit int4, rolpassword text, \
         rolvaliduntil timestamptz, rolbypassrls bool, rolconfig text[], oid oid",
        roles,
    ),
    (
        "pg_authid",
        "rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, \
         rolcanlogin bool, rolreplication bool, rolconnlimit int4, rolpassword text, \
         rolvaliduntil timestamptz, rolbypassrls bool, rolconfig text[], oid oid",
        roles,
    ),
    (
        "pg_user",
        "usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, usebypassrls bool, \
         passwd text, valuntil timestamptz, useconfig text[]",
        users,
    ),
    ("pg_auth_members", "roleid oid, member oid, grantor oid, admin_option bool", members),
    ("pg_db_role_setting", "setdatabase oid, setrole oid, setconfig text[]", nothing),
    (
        "pg_tablespace",
        "oid oid, spcname name, spcowner oid, spcacl text[], spcoptions text[]",
        tablespaces,
    ),
    (
        "pg_settings",
        "name text, setting text, unit text, category text, short_desc text, extra_desc text, \
         context text, vartype text, source text, min_val text, max_val text, enumvals text[], \
         boot_val text, reset_val text, sourcefile text, sourceline int4, pending_restart bool",
        settings,
    ),
    (
        "pg_stat_activity",
        "datid oid, datname name, pid int4, leader_pid int4, usesysid oid, usename name, \
         application_name text, client_addr text, client_hostname text, client_port int4, \
         backend_start timestamptz, xact_start timestamptz, query_start timestamptz, \
         state_change timestamptz, wait_event_type text, wait_event text, state text, query text, \
         backend_type text",
        activity,
    ),
    (
        "pg_locks",
        "locktype text, database oid, relation oid, page int4, tuple int2, virtualxid text, \
         transactionid int4, classid oid, objid oid, objsubid int2, virtualtransaction text, pid int4, \
         mode text, granted bool, fastpath bool",
        nothing,
    ),
    (
        "pg_stat_progress_create_index",
        "pid int4, datid oid, datname name, relid oid, index_relid oid, command text, phase text, \
         blocks_total int8, blocks_done int8, tuples_total int8, tuples_done int8",
        builds,
    ),
    ("pg_stat_user_tables", "relid oid, schemaname name, relname name, n_live_tup int8", nothing),
    ("pg_prepared_statements", "name text, statement text, prepare_time timestamptz", nothing),
    ("pg_prepared_xacts", "transaction int4, gid text, prepared timestamptz, owner name", nothing),
    ("pg_cursors", "name text, statement text, is_holdable bool", nothing),
    ("pg_timezone_names", "name text, abbrev text, utc_offset interval, is_dst bool", zones),
    ("pg_stat_ssl", "pid int4, ssl bool, version text, cipher text, bits int4", nothing),
    ("pg_stat_replication", "pid int4, usename name, state text", nothing),
    (
        "pg_available_extensions",
        "name name, default_version text, installed_version text, comment text",
        nothing,
    ),
    ("pg_seclabel", "objoid oid, classoid oid, objsubid int4, provider text, label text", nothing),
    (
        "pg_shdepend",
        "dbid oid, classid oid, objid oid, refclassid oid, refobjid oid, deptype text",
        nothing,
    ),
    (
        "pg_default_acl",
        "oid oid, defaclrole oid, defaclnamespace oid, defaclobjtype text, defaclacl text[]",
        nothing,
    ),
];

/// Number of the database, of which a server has one.
const DATABASE: u32 = 5;

fn databases(_catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let name: &str = &context.database;
    vec![row![
        DATABASE,
        name,
        10_u32,
        6_i32,
        "c",
        false,
        true,
        -1_i32,
        0_i32,
        0_i32,
        1663_u32,
        "C",
        "C",
        Value::Null,
        Value::Null,
        Value::Null
    ]]
}

fn roles(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let line = |role: &relational::catalog::Role| {
        row![
            role.name.as_str(),
            role.superuser,
            role.inherit,
            role.create_role,
            role.superuser,
            role.login,
            false,
            -1_i32,
            role.password.as_ref().map(|_| "********"),
            Value::Null,
            role.superuser,
            Value::Null,
            role.oid
        ]
    };
    catalog.roles().map(|role| line(role)).collect()
}

fn users(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let all = catalog.roles().filter(|role| role.login);
    all.map(|role| {
        row![
            role.name.as_str(),
            role.oid,
            role.superuser,
            role.superuser,
            false,
            role.superuser,
            "********",
            Value::Null,
            Value::Null
        ]
    })
    .collect()
}

fn members(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for role in catalog.roles() {
        for group in role.member_of.iter().filter(|group| **group != PUBLIC_ROLE) {
            out.push(row![*group, role.oid, 10_u32, false]);
        }
    }
    out
}

fn tablespaces(_catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    vec![row![1663_u32, "pg_default", 10_u32, Value::Null, Value::Null]]
}

/// Settings that clients look for.
const SETTINGS: &[&str] = &[
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_isolation",
    "extra_float_digits",
    "integer_datetimes",
    "IntervalStyle",
    "lock_timeout",
    "max_identifier_length",
    "max_index_keys",
    "search_path",
    "server_encoding",
    "server_version",
    "server_version_num",
    "standard_conforming_strings",
    "statement_timeout",
    "TimeZone",
    "transaction_isolation",
];

fn settings(_catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for name in SETTINGS {
        let Some(value) = context.show.as_ref().and_then(|show| show(name)) else { continue };
        out.push(row![
            *name,
            value.clone(),
            Value::Null,
            "Settings",
            "",
            Value::Null,
            "user",
            "string",
            "default",
            Value::Null,
            Value::Null,
            Value::Null,
            value.clone(),
            value,
            Value::Null,
            Value::Null,
            false
        ]);
    }
    out
}

fn activity(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let sessions = context.server.as_ref().map(|server| server.sessions()).unwrap_or_default();
    let database: &str = &context.database;
    let is_superuser = is_superuser(catalog, context.acting);
    let roles = roles_of(catalog, context.acting);
    let line = |session: SessionInfo| {
        let role = match session.acting {
            Acting::Owner | Acting::Reader => None,
            Acting::Role(role) => Some(role),
        };
        let may_see = is_superuser
            || session.pid == context.backend
            || role.is_some_and(|role| roles.contains(&role));
        let shown = |value: Value| if may_see { value } else { Value::Null };
        let moment = |micros: Option<i64>| shown(micros.map_or(Value::Null, Value::TimestampTz));
        let address = session.client.map(|client| client.ip().to_canonical().to_string());
        let port = session.client.map(|client| i32::from(client.port()));
        row![
            DATABASE,
            database,
            session.pid,
            Value::Null,
            role,
            &*session.user,
            &*session.application,
            shown(address.cell()),
            Value::Null,
            shown(port.cell()),
            moment(Some(session.started)),
            moment(session.transaction_started),
            moment(session.statement_started),
            moment(Some(session.changed)),
            Value::Null,
            Value::Null,
            shown(Value::text(session.state)),
            if may_see { &*session.query } else { "<insufficient privilege>" },
            shown(Value::text("client backend"))
        ]
    };
    sessions.into_iter().map(line).collect()
}

fn builds(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let builds = context.server.as_ref().map(|server| server.builds()).unwrap_or_default();
    let database: &str = &context.database;
    let line = |build: Build| {
        let table = catalog.table(build.table);
        let index = table.and_then(|table| {
            table.indexes.iter().find(|index| index.name == build.index).map(|index| index.oid)
        });
        row![
            build.pid,
            DATABASE,
            database,
            build.table,
            index.unwrap_or_default(),
            "CREATE INDEX CONCURRENTLY",
            "building index: scanning table",
            0_i64,
            0_i64,
            0_i64,
            build.progress.rows() as i64
        ]
    };
    builds.into_iter().map(line).collect()
}

fn zones(_catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let now = context.settings.now;
    let line = |zone: &chrono_tz::Tz| {
        let own = crate::values::time::Zone::Named(*zone);
        let micros = i64::from(own.offset_of_moment(now)) * crate::values::time::SECOND;
        let offset = Value::Interval { months: 0, days: 0, micros };
        row![zone.name(), own.abbreviation(now), offset, false]
    };
    chrono_tz::TZ_VARIANTS.iter().map(line).collect()
}
