//! Schemas, tables, indexes, constraints and what depends on them.

use std::sync::Arc;

use relational::catalog::{IndexPart, KeyMatch, Privileges};
use relational::{Catalog, DataType, Row, Table, Value};

use super::definitions::{action_code, constraint_names};
use super::grants::{Kind, acl, to_all};
use super::types::{COLUMNAR, HEAP};

use super::{Definition, INFORMATION_SCHEMA, PG_CATALOG, list, nothing, row};
use crate::expression::EvalContext;
use crate::statement::privilege::{has, is_superuser};

pub(super) const TABLES: &[Definition] = &[
    (
        "pg_namespace",
        "oid oid, nspname name, nspowner oid, nspacl text[], xmin int4, tableoid oid",
        namespaces,
    ),
    (
        "pg_class",
        "oid oid, relname name, relnamespace oid, reltype oid, reloftype oid, relowner oid, relam oid, \
         relfilenode oid, reltablespace oid, relpages int4, reltuples float4, relallvisible int4, \
         reltoastrelid oid, relhasindex bool, relisshared bool, relpersistence text, relkind text, \
         relnatts int2, relchecks int2, relhasrules bool, relhastriggers bool, relhassubclass bool, \
         relrowsecurity bool, relforcerowsecurity bool, relispopulated bool, relreplident text, \
         relispartition bool, relrewrite oid, relfrozenxid int4, relminmxid int4, relacl text[], \
         reloptions text[], relpartbound text, xmin int4",
        classes,
    ),
    (
        "pg_index",
        "indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool, \
         indnullsnotdistinct bool, indisprimary bool, indisexclusion bool, indimmediate bool, \
         indisclustered bool, indisvalid bool, indcheckxmin bool, indisready bool, indislive bool, \
         indisreplident bool, indkey int2[], indcollation oid[], indclass oid[], indoption int2[], \
         indexprs text, indpred text",
        indexes,
    ),
    (
        "pg_constraint",
        "oid oid, conname name, connamespace oid, contype text, condeferrable bool, condeferred bool, \
         convalidated bool, conrelid oid, contypid oid, conindid oid, conparentid oid, confrelid oid, \
         confupdtype text, confdeltype text, confmatchtype text, conislocal bool, coninhcount int4, \
         connoinherit bool, conkey int2[], confkey int2[], conpfeqop oid[], conexclop oid[], \
         conbin text, confdelsetcols int2[], tableoid oid",
        constraints,
    ),
    ("pg_inherits", "inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool", nothing),
    (
        "pg_tables",
        "schemaname name, tablename name, tableowner name, tablespace name, hasindexes bool, \
         hasrules bool, hastriggers bool, rowsecurity bool",
        tables,
    ),
    ("pg_views", "schemaname name, viewname name, viewowner name, definition text", views),
    (
        "pg_matviews",
        "schemaname name, matviewname name, matviewowner name, definition text",
        nothing,
    ),
    (
        "pg_indexes",
        "schemaname name, tablename name, indexname name, tablespace name, indexdef text",
        index_texts,
    ),
    (
        "pg_sequence",
        "seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8, seqmin int8, \
         seqcache int8, seqcycle bool",
        sequences,
    ),
    (
        "pg_sequences",
        "schemaname name, sequencename name, sequenceowner name, data_type text, start_value int8, \
         min_value int8, max_value int8, increment_by int8, cycle bool, cache_size int8, last_value int8",
        named_sequences,
    ),
    (
        "pg_depend",
        "classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, refobjsubid int4, deptype text",
        dependencies,
    ),
    (
        "pg_rewrite",
        "oid oid, rulename name, ev_class oid, ev_type text, ev_enabled text, is_instead bool, \
         ev_qual text, ev_action text, tableoid oid",
        nothing,
    ),
    ("pg_rules", "schemaname name, tablename name, rulename name, definition text", nothing),
    (
        "pg_partitioned_table",
        "partrelid oid, partstrat text, partnatts int2, partdefid oid",
        nothing,
    ),
    ("pg_user_mapping", "oid oid, umuser oid, umserver oid, umoptions text[]", nothing),
    (
        "pg_user_mappings",
        "umid oid, srvid oid, srvname name, umuser oid, usename name, umoptions text[]",
        nothing,
    ),
];

/// Number of PostgreSQL's own table `pg_constraint`.
const CLASS_OF_CONSTRAINTS: u32 = 2606;
/// Number of PostgreSQL's own table `pg_class`, by which dependencies name relations.
const CLASS_OF_CLASSES: u32 = 1259;

/// Number of PostgreSQL's own table `pg_namespace`.
const CLASS_OF_SCHEMAS: u32 = 2615;

fn namespaces(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let own = catalog.schemas().map(|schema| {
        let acl = acl(catalog, schema.owner, &schema.grants, Kind::Schema);
        (schema.oid, schema.name.clone(), schema.owner, acl)
    });
    let fixed = [(PG_CATALOG, "pg_catalog"), (INFORMATION_SCHEMA, "information_schema")];
    let everyone = [to_all(Privileges::USAGE)];
    let fixed = fixed
        .into_iter()
        .map(|(oid, name)| (oid, name.to_owned(), 10, acl(catalog, 10, &everyone, Kind::Schema)));
    fixed
        .chain(own)
        .map(|(oid, name, owner, acl)| row![oid, name, owner, acl, 0_i32, CLASS_OF_SCHEMAS])
        .collect()
}

/// The values of one line of `pg_class`.
struct Class<'a> {
    oid: u32,
    name: &'a str,
    schema: u32,
    owner: u32,
    access: u32,
    indexed: bool,
    /// True if foreign keys are from or to it, which PostgreSQL keeps by triggers.
    triggers: bool,
    kind: &'a str,
    width: usize,
    checks: usize,
    acl: Value,
}

impl Class<'_> {
    fn row(self) -> Row {
        let (rules, identity) = (self.kind == "v", if self.kind == "r" { "d" } else { "n" });
        row![
            self.oid,
            self.name,
            self.schema,
            0_u32,
            0_u32,
            self.owner,
            self.access,
            self.oid,
            0_u32,
            0_i32,
            -1_f32,
            0_i32,
            0_u32,
            self.indexed,
            false,
            "p",
            self.kind,
            self.width as i16,
            self.checks as i16,
            rules,
            self.triggers,
            false,
            false,
            false,
            true,
            identity,
            false,
            0_u32,
            0_i32,
            0_i32,
            self.acl,
            Value::Null,
            Value::Null,
            0_i32,
        ]
    }
}

fn classes(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for table in catalog.tables() {
        let indexed = table.primary_key.is_some() || !table.indexes.is_empty();
        let (schema, owner) = (table.schema, table.owner);
        let (width, checks) = (table.columns.len(), table.checks.len());
        let (oid, name) = (table.oid, table.name.as_str());
        let acl = acl(catalog, owner, &table.grants, Kind::Table);
        let access = if table.is_columnar() { COLUMNAR } else { HEAP };
        let (kind, triggers) = ("r", catalog.has_foreign_keys(oid));
        let class =
            Class { oid, name, schema, owner, access, indexed, triggers, kind, width, checks, acl };
        out.push(class.row());
        for (oid, name, parts) in keys(table) {
            let (width, kind) = (parts.len(), "i");
            let class = Class {
                oid,
                name,
                schema,
                owner,
                access: 403,
                indexed: false,
                triggers: false,
                kind,
                width,
                checks: 0,
                acl: Value::Null,
            };
            out.push(class.row());
        }
    }
    for found in super::numbered() {
        let (oid, schema, kind, name) = (found.oid, found.schema, found.kind(), found.name());
        let (access, width) = (if kind == "r" { HEAP } else { 0 }, found.table.columns.len());
        let (owner, grants) = (10, [to_all(Privileges::SELECT)]);
        let acl = acl(catalog, owner, &grants, Kind::Table);
        let class = Class {
            oid,
            name,
            schema,
            owner,
            access,
            indexed: false,
            triggers: false,
            kind,
            width,
            checks: 0,
            acl,
        };
        out.push(class.row());
    }
    for view in catalog.views() {
        let (oid, name, schema, owner) = (view.oid, view.name.as_str(), view.schema, view.owner);
        let width = view.columns.len();
        let class = Class {
            oid,
            name,
            schema,
            owner,
            access: 0,
            indexed: false,
            triggers: false,
            kind: "v",
            width,
            checks: 0,
            acl: acl(catalog, owner, &view.grants, Kind::Table),
        };
        out.push(class.row());
    }
    for wide in catalog.wides() {
        let (oid, name, schema, owner) = (wide.oid, wide.name.as_str(), wide.schema, wide.owner);
        let (access, indexed, kind, width, checks) = (0, false, "f", wide.columns.len(), 0);
        let acl = acl(catalog, owner, &wide.grants, Kind::Table);
        let triggers = false;
        let class =
            Class { oid, name, schema, owner, access, indexed, triggers, kind, width, checks, acl };
        out.push(class.row());
    }
    for found in catalog.sequences() {
        let (oid, name, schema, owner) =
            (found.oid, found.name.as_str(), found.schema, found.owner);
        let class = Class {
            oid,
            name,
            schema,
            owner,
            access: 0,
            indexed: false,
            triggers: false,
            kind: "S",
            width: 3,
            checks: 0,
            acl: acl(catalog, owner, &found.grants, Kind::Sequence),
        };
        out.push(class.row());
    }
    out
}

/// Returns number, name and columns of the primary key and the indexes of a table.
pub(super) fn keys(table: &Table) -> Vec<(u32, &str, &[IndexPart])> {
    let primary =
        table.primary_key.iter().map(|key| (key.oid, key.name.as_str(), key.parts.as_slice()));
    let others =
        table.indexes.iter().map(|index| (index.oid, index.name.as_str(), index.parts.as_slice()));
    primary.chain(others).collect()
}

fn numbers(parts: &[IndexPart]) -> Value {
    list(&DataType::Int2, parts.iter().map(|part| Value::Int2(part.column)).collect())
}

fn indexes(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for table in catalog.tables() {
        for (oid, _, parts) in keys(table) {
            let primary = table.primary_key.as_ref().is_some_and(|key| key.oid == oid);
            let index = table.index(oid);
            let unique = primary || index.is_some_and(|index| index.unique);
            let valid = primary || index.is_some_and(|index| index.ready);
            let option = |part: &IndexPart| {
                Value::Int2(i16::from(part.descending) | (i16::from(part.nulls_first) << 1))
            };
            let zeros = |_: &IndexPart| Value::Oid(0);
            let width = parts.len() as i16;
            out.push(row![
                oid,
                table.oid,
                width,
                width,
                unique,
                false,
                primary,
                false,
                true,
                false,
                valid,
                false,
                valid,
                true,
                false,
                numbers(parts),
                list(&DataType::Oid, parts.iter().map(zeros).collect()),
                list(&DataType::Oid, parts.iter().map(zeros).collect()),
                list(&DataType::Int2, parts.iter().map(option).collect()),
                Value::Null,
                Value::Null,
            ]);
        }
    }
    out
}

fn constraints(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for table in catalog.tables() {
        for found in constraint_names(table) {
            let list_of = |numbers: &[i16]| {
                list(&DataType::Int2, numbers.iter().copied().map(Value::Int2).collect())
            };
            let key = match found.columns.as_slice() {
                [] => Value::Null,
                columns => list_of(columns),
            };
            let of_key = found.foreign.map(|key| {
                let matching = if key.matching == KeyMatch::Full { "f" } else { "s" };
                (action_code(key.on_update), action_code(key.on_delete), matching)
            });
            let (on_update, on_delete, matching) = of_key.unwrap_or((" ", " ", " "));
            let references = found.foreign.map_or(0, |key| key.references);
            let referenced = found.foreign.map_or(Value::Null, |key| list_of(&key.referenced));
            out.push(row![
                found.oid,
                found.name,
                table.schema,
                found.kind,
                false,
                false,
                true,
                table.oid,
                0_u32,
                found.index,
                0_u32,
                references,
                on_update,
                on_delete,
                matching,
                true,
                0_i32,
                found.kind != "c",
                key,
                referenced,
                Value::Null,
                Value::Null,
                found.expression,
                Value::Null,
                CLASS_OF_CONSTRAINTS,
            ]);
        }
    }
    out
}

fn schema_name(catalog: &Catalog, oid: u32) -> String {
    catalog.schema(oid).map(|schema| schema.name.clone()).unwrap_or_default()
}

pub(super) fn role_name(catalog: &Catalog, oid: u32) -> String {
    catalog.role(oid).map_or_else(|| format!("unknown (OID={oid})"), |role| role.name.clone())
}

fn tables(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let line = |table: &Table| {
        let indexed = !keys(table).is_empty();
        let (schema, owner) = (schema_name(catalog, table.schema), role_name(catalog, table.owner));
        row![schema, table.name.as_str(), owner, Value::Null, indexed, false, false, false]
    };
    catalog.tables().map(|table| line(table)).collect()
}

fn views(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let all = catalog.views();
    all.map(|view| {
        let (schema, owner) = (schema_name(catalog, view.schema), role_name(catalog, view.owner));
        row![schema, view.name.as_str(), owner, format!(" {};", view.query)]
    })
    .collect()
}

fn index_texts(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for table in catalog.tables() {
        for (oid, name, _) in keys(table) {
            let text = super::definitions::index(catalog, oid);
            out.push(row![
                schema_name(catalog, table.schema),
                table.name.as_str(),
                name,
                Value::Null,
                text
            ]);
        }
    }
    out
}

fn sequences(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let all = catalog.sequences();
    all.map(|found| {
        let number = crate::values::type_oid(&found.data_type);
        row![
            found.oid,
            number,
            found.start,
            found.increment,
            found.max,
            found.min,
            1_i64,
            found.cycle
        ]
    })
    .collect()
}

fn named_sequences(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let all = catalog.sequences();
    all.map(|found| {
        let may = |catalog: &Arc<Catalog>, privilege| {
            is_superuser(catalog, context.acting)
                || has(catalog, context.acting, found.owner, &found.grants, privilege)
        };
        let may_see = context.catalog.as_ref().is_some_and(|catalog| {
            may(catalog, Privileges::USAGE) || may(catalog, Privileges::SELECT)
        });
        // NULL until a number was given.
        let last = context.server.as_ref().filter(|_| may_see);
        let last = last.and_then(|server| server.last_value(found).ok());
        let last = last.filter(|(_, is_called)| *is_called).map(|(last, _)| last);
        let (schema, owner) = (schema_name(catalog, found.schema), role_name(catalog, found.owner));
        row![
            schema,
            found.name.as_str(),
            owner,
            found.data_type.to_string(),
            found.start,
            found.min,
            found.max,
            found.increment,
            found.cycle,
            1_i64,
            last
        ]
    })
    .collect()
}

/// Sequences that go with a column, and indexes that foreign keys need, which clients find by their dependency.
fn dependencies(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for found in catalog.sequences() {
        let Some((table, column)) = found.owned_by else { continue };
        let identity = catalog.table(table).is_some_and(|table| {
            let mut columns = table.columns.iter();
            columns.any(|other| other.number == column && other.identity.is_some())
        });
        let kind = if identity { "i" } else { "a" };
        out.push(row![
            CLASS_OF_CLASSES,
            found.oid,
            0_i32,
            CLASS_OF_CLASSES,
            table,
            i32::from(column),
            kind
        ]);
    }
    for key in catalog.tables().flat_map(|table| &table.foreign_keys) {
        out.push(row![
            CLASS_OF_CONSTRAINTS,
            key.oid,
            0_i32,
            CLASS_OF_CLASSES,
            key.index,
            0_i32,
            "n"
        ]);
    }
    out
}
