//! Types, functions, operators' classes, collations and other objects that every database has.

use std::collections::BTreeMap;

use relational::{Catalog, DataType, Row, Value};

use super::{Definition, PG_CATALOG, nothing, row};
use crate::expression::EvalContext;
use crate::expression::registry;
use crate::expression::resolve::{Category, category, preferred};
use crate::values::{array_oid, parse_type, type_len, type_oid, type_short_name};

pub(super) const TABLES: &[Definition] = &[
    (
        "pg_type",
        "oid oid, typname name, typnamespace oid, typowner oid, typlen int2, typbyval bool, typtype text, \
         typcategory text, typispreferred bool, typisdefined bool, typdelim text, typrelid oid, \
         typsubscript oid, typelem oid, typarray oid, typinput oid, typoutput oid, typreceive oid, \
         typsend oid, typmodin oid, typmodout oid, typanalyze oid, typalign text, typstorage text, \
         typnotnull bool, typbasetype oid, typtypmod int4, typndims int4, typcollation oid, \
         typdefaultbin text, typdefault text, typacl text[]",
        types,
    ),
    (
        "pg_proc",
        "oid oid, proname name, pronamespace oid, proowner oid, prolang oid, procost float4, \
         prorows float4, provariadic oid, prokind text, prosecdef bool, proleakproof bool, \
         proisstrict bool, proretset bool, provolatile text, proparallel text, pronargs int2, \
         pronargdefaults int2, prorettype oid, proargtypes oid[], proallargtypes oid[], \
         proargmodes text[], proargnames text[], prosrc text, probin text, proacl text[], \
         proargdefaults text",
        functions,
    ),
    ("pg_am", "oid oid, amname name, amhandler oid, amtype text", methods),
    (
        "pg_collation",
        "oid oid, collname name, collnamespace oid, collowner oid, collprovider text, \
         collisdeterministic bool, collencoding int4, collcollate text, collctype text, \
         colliculocale text, collversion text",
        collations,
    ),
    (
        "pg_language",
        "oid oid, lanname name, lanowner oid, lanispl bool, lanpltrusted bool, lanplcallfoid oid, \
         laninline oid, lanvalidator oid, lanacl text[], tableoid oid",
        nothing,
    ),
    ("pg_enum", "oid oid, enumtypid oid, enumsortorder float4, enumlabel name", nothing),
    ("pg_range", "rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid", nothing),
    (
        "pg_opclass",
        "oid oid, opcmethod oid, opcname name, opcnamespace oid, opcowner oid, opcfamily oid, \
         opcintype oid, opcdefault bool, opckeytype oid, tableoid oid",
        nothing,
    ),
    (
        "pg_opfamily",
        "oid oid, opfmethod oid, opfname name, opfnamespace oid, opfowner oid, tableoid oid",
        nothing,
    ),
    (
        "pg_amop",
        "oid oid, amopfamily oid, amoplefttype oid, amoprighttype oid, amopstrategy int2, amoppurpose text, amopopr oid, amopmethod oid, amopsortfamily oid",
        nothing,
    ),
    (
        "pg_amproc",
        "oid oid, amprocfamily oid, amproclefttype oid, amprocrighttype oid, amprocnum int2, amproc oid",
        nothing,
    ),
    (
        "pg_operator",
        "oid oid, oprname name, oprnamespace oid, oprkind text, oprleft oid, oprright oid, oprresult oid, \
         oprowner oid, oprcanmerge bool, oprcanhash bool, oprcom oid, oprnegate oid, oprcode oid, \
         oprrest oid, oprjoin oid",
        nothing,
    ),
    ("pg_aggregate", "aggfnoid oid, aggkind text, aggnumdirectargs int2", nothing),
    (
        "pg_cast",
        "oid oid, castsource oid, casttarget oid, castfunc oid, castcontext text, castmethod text",
        nothing,
    ),
    (
        "pg_conversion",
        "oid oid, conname name, connamespace oid, conowner oid, conforencoding int4, \
         contoencoding int4, conproc oid, condefault bool",
        nothing,
    ),
    (
        "pg_trigger",
        "oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, tgenabled text, tgisinternal bool, tgconstraint oid, tgdeferrable bool, tginitdeferred bool, tgnargs int2, tgattr int2[], tgqual text, tgconstrrelid oid, tgconstrindid oid, tgargs bytea, tgoldtable name, tgnewtable name, tableoid oid",
        nothing,
    ),
    (
        "pg_event_trigger",
        "oid oid, evtname name, evtevent name, evtowner oid, evtfoid oid, evtenabled text, evttags text[]",
        nothing,
    ),
    (
        "pg_policy",
        "oid oid, polname name, polrelid oid, polcmd text, polpermissive bool, polroles oid[], polqual text, polwithcheck text",
        nothing,
    ),
    (
        "pg_extension",
        "oid oid, extname name, extowner oid, extnamespace oid, extrelocatable bool, extversion text, extconfig oid[], extcondition text[]",
        nothing,
    ),
    (
        "pg_publication",
        "oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool, pubupdate bool, pubdelete bool, pubtruncate bool, pubviaroot bool",
        nothing,
    ),
    (
        "pg_publication_rel",
        "oid oid, prpubid oid, prrelid oid, prqual text, prattrs int2[]",
        nothing,
    ),
    ("pg_publication_namespace", "oid oid, pnpubid oid, pnnspid oid", nothing),
    ("pg_publication_tables", "pubname name, schemaname name, tablename name", nothing),
    (
        "pg_subscription",
        "oid oid, subdbid oid, subname name, subowner oid, subenabled bool, subbinary bool, \
         substream bool, subtwophasestate text, subdisableonerr bool, subconninfo text, \
         subslotname name, subsynccommit text, subpublications text[], subskiplsn text",
        nothing,
    ),
    (
        "pg_statistic_ext",
        "oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid, stxstattarget int4, stxkeys int2[], stxkind text[], stxexprs text",
        nothing,
    ),
    (
        "pg_ts_config",
        "oid oid, cfgname name, cfgnamespace oid, cfgowner oid, cfgparser oid",
        nothing,
    ),
    (
        "pg_ts_dict",
        "oid oid, dictname name, dictnamespace oid, dictowner oid, dicttemplate oid, dictinitoption text",
        nothing,
    ),
    ("pg_ts_parser", "oid oid, prsname name, prsnamespace oid", nothing),
    ("pg_ts_template", "oid oid, tmplname name, tmplnamespace oid", nothing),
    ("pg_largeobject_metadata", "oid oid, lomowner oid, lomacl text[]", nothing),
];

/// The types of the server, each of them once.
const NAMES: &[&str] = &[
    "bool",
    "bytea",
    "name",
    "int8",
    "int2",
    "int4",
    "text",
    "oid",
    "json",
    "float4",
    "float8",
    "bpchar",
    "varchar",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "numeric",
    "uuid",
    "jsonb",
];

fn all_types() -> Vec<DataType> {
    let one = |name: &&str| match *name {
        "bpchar" => Some(DataType::Char(1)),
        name => parse_type(name),
    };
    NAMES.iter().filter_map(one).collect()
}

fn letter(data_type: &DataType) -> &'static str {
    match category(data_type) {
        Category::Bool => "B",
        Category::Number => "N",
        Category::Text => "S",
        Category::Moment => "D",
        Category::Span => "T",
        Category::Array => "A",
        Category::Other | Category::Unknown => "U",
    }
}

fn type_row(oid: u32, name: String, data_type: &DataType, element: u32, array: u32) -> Row {
    let length = if element != 0 { -1 } else { type_len(data_type) };
    let kind = if element != 0 { "A" } else { letter(data_type) };
    let collation = if category(data_type) == Category::Text { 100_u32 } else { 0 };
    row![
        oid,
        name,
        PG_CATALOG,
        10_u32,
        length,
        length > 0 && length <= 8,
        "b",
        kind,
        preferred(data_type) && element == 0,
        true,
        ",",
        0_u32,
        0_u32,
        element,
        array,
        if element != 0 { ARRAY_IN.0 } else { 0 },
        0_u32,
        0_u32,
        0_u32,
        0_u32,
        0_u32,
        0_u32,
        "i",
        "p",
        false,
        0_u32,
        -1_i32,
        0_i32,
        collation,
        Value::Null,
        Value::Null,
        Value::Null,
    ]
}

fn types(_catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for data_type in all_types() {
        let (oid, array) = (type_oid(&data_type), array_oid(&data_type));
        let name = type_short_name(&data_type);
        out.push(type_row(oid, name.clone(), &data_type, 0, array));
        out.push(type_row(array, format!("_{name}"), &data_type, oid, 0));
    }
    out
}

/// Number of the first function in `pg_proc`.
const FIRST_FUNCTION: u32 = 14_000;

/// Returns the functions that have names which SQL can write, by their names, each with its number of
/// forms.
fn named_functions() -> BTreeMap<&'static str, usize> {
    let names =
        registry::names().filter(|name| !name.starts_with("op:") && !name.starts_with("__"));
    names.map(|name| (name, registry::overloads(name).len())).collect()
}

/// The function that reads arrays, by which clients tell the types of arrays from others.
const ARRAY_IN: (u32, &str) = (750, "array_in");

/// Returns the number of the first form of a function.
pub(super) fn function_number(name: &str) -> Option<u32> {
    let bare = name.split('(').next().unwrap_or(name).trim().to_lowercase();
    let bare = bare.strip_prefix("pg_catalog.").unwrap_or(&bare);
    if bare == ARRAY_IN.1 {
        return Some(ARRAY_IN.0);
    }
    let mut number = FIRST_FUNCTION;
    for (name, count) in named_functions() {
        if name == bare {
            return Some(number);
        }
        number += count as u32;
    }
    None
}

/// Returns the name of a function by its number.
pub(super) fn function_name(oid: u32) -> Option<&'static str> {
    if oid == ARRAY_IN.0 {
        return Some(ARRAY_IN.1);
    }
    let mut number = FIRST_FUNCTION;
    for (name, count) in named_functions() {
        if (number..number + count as u32).contains(&oid) {
            return Some(name);
        }
        number += count as u32;
    }
    None
}

/// The functions that have names which SQL can write, numbered in the order of their names.
fn functions(_catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for (name, count) in named_functions() {
        for _ in 0..count {
            let oid = FIRST_FUNCTION + out.len() as u32;
            out.push(row![
                oid,
                name,
                PG_CATALOG,
                10_u32,
                12_u32,
                1_f32,
                0_f32,
                0_u32,
                "f",
                false,
                false,
                true,
                false,
                "i",
                "s",
                0_i16,
                0_i16,
                25_u32,
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                name,
                Value::Null,
                Value::Null,
                Value::Null,
            ]);
        }
    }
    out
}

/// Number of the access method of tables of rows, as PostgreSQL has it.
pub(super) const HEAP: u32 = 2;
/// Number of the access method of columnar tables, below the numbers that users' objects get.
pub(super) const COLUMNAR: u32 = 9_900;

fn methods(_catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    vec![
        row![HEAP, "heap", 0_u32, "t"],
        row![COLUMNAR, "columnar", 0_u32, "t"],
        row![403_u32, "btree", 0_u32, "i"],
    ]
}

fn collations(_catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let line = |oid: u32, name: &str, provider: &str| {
        row![
            oid,
            name,
            PG_CATALOG,
            10_u32,
            provider,
            true,
            -1_i32,
            "C",
            "C",
            Value::Null,
            Value::Null
        ]
    };
    vec![line(100, "default", "d"), line(950, "C", "c"), line(951, "POSIX", "c")]
}
