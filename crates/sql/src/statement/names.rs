//! Names of statements: folded, and looked up in the catalog.

use super::Environment;
use super::privilege::{denied, may_use};
use crate::values;
use datafusion::sql::sqlparser::ast::{self, Ident, ObjectName};
use relational::catalog::Relation;
use relational::{Catalog, DataType, Error, Oid, Result, SqlState, Table};
use std::sync::Arc;

/// Longest name in bytes; longer ones are cut, as PostgreSQL does.
const NAME_BYTES_MAX: usize = 63;

/// Returns a name as the catalog has it: letters of ASCII in lower case, unless it is quoted.
pub(crate) fn name_of(ident: &Ident) -> String {
    let mut name = match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    };
    name.truncate(cut(&name).len());
    name
}

/// Returns as much of a name as the catalog keeps.
pub(crate) fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

/// Returns the schema, if it is named, and the name of an object.
pub(crate) fn parts_of(name: &ObjectName, database: &str) -> Result<(Option<String>, String)> {
    let parts: Option<Vec<_>> = name.0.iter().map(|part| part.as_ident().map(name_of)).collect();
    match parts.unwrap_or_default().as_slice() {
        [name] => Ok((None, name.clone())),
        [schema, name] => Ok((Some(schema.clone()), name.clone())),
        [catalog, schema, name] if catalog == database => Ok((Some(schema.clone()), name.clone())),
        [_, _, _] => {
            let message = format!("cross-database references are not implemented: \"{name}\"");
            Err(Error::unsupported(message))
        }
        _ => {
            let message = format!("improper qualified name (too many dotted names): {name}");
            Err(Error::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

/// Returns the type that a statement writes. 0A000 for one that rounds moments.
pub(crate) fn data_type(written: &ast::DataType) -> Result<DataType> {
    match column_type(written)? {
        (data_type, None) => Ok(data_type),
        (_, Some(_)) => {
            let text = written.to_string().to_lowercase();
            Err(Error::unsupported(format!("the precision of {text} is not supported here")))
        }
    }
}

/// Returns the type that a statement writes for a column, and the digits of a second that it rounds to.
pub(crate) fn column_type(written: &ast::DataType) -> Result<(DataType, Option<u8>)> {
    let text = written.to_string();
    let data_type = values::parse_type(&text).ok_or_else(|| values::unknown_type(&text))?;
    match values::time_precision(&text) {
        Some(_) if data_type.element().is_some() => {
            Err(Error::unsupported("arrays of moments of a precision are not supported"))
        }
        precision => Ok((data_type, precision)),
    }
}

/// Returns the position of a name in the text of its statement.
pub(crate) fn place_of(text: &str, name: &ObjectName) -> Option<u32> {
    let first = name.0.first().and_then(|part| part.as_ident())?;
    let start = first.span.start;
    (start.line > 0).then(|| super::parse::position_of(text, start))
}

impl Environment<'_> {
    /// Returns the numbers of the schemas in which names without one are looked for: the schemas of
    /// the path that the role may use.
    pub(crate) fn path(&self) -> impl Iterator<Item = Oid> {
        let acting = self.identity.acting;
        let names = self.settings.search_path(&self.identity.user);
        names.into_iter().filter_map(move |name| {
            let schema = self.catalog.schema_named(&name)?;
            may_use(self.catalog, acting, schema).then_some(schema.oid)
        })
    }

    /// Returns the schema in which an object is made: the one that is named, or the first of the path.
    pub(crate) fn schema_for(&self, schema: Option<&str>) -> Result<Oid> {
        match schema {
            Some(name) => self.schema(name),
            None => self.path().next().ok_or_else(|| {
                let message = "no schema has been selected to create in";
                Error::new(SqlState::INVALID_SCHEMA_NAME, message)
            }),
        }
    }

    /// Returns the number of a schema.
    pub(crate) fn schema(&self, name: &str) -> Result<Oid> {
        let found = self.catalog.schema_named(name).map(|schema| schema.oid);
        found.ok_or_else(|| {
            let message = format!("schema \"{name}\" does not exist");
            Error::new(SqlState::INVALID_SCHEMA_NAME, message)
        })
    }

    /// Returns a table, index, view or sequence, if there is one of the name: a table by its definition alone, which a
    /// plan may keep. 42501 if the role may not use the schema that is named.
    pub(crate) fn find(&self, name: &ObjectName) -> Result<Option<Relation>> {
        let (schema, name) = parts_of(name, &self.catalog.database)?;
        let found = match schema {
            Some(schema) => match self.catalog.schema_named(&schema) {
                Some(schema) if !may_use(self.catalog, self.identity.acting, schema) => {
                    return Err(denied("schema", &schema.name));
                }
                Some(schema) => self.catalog.find(schema.oid, &name),
                None => None,
            },
            None => self.path().find_map(|schema| self.catalog.find(schema, &name)),
        };
        Ok(found.map(|found| match found {
            Relation::Table(table) => Relation::Table(table.definition()),
            other => other,
        }))
    }

    /// Returns a table, index, view or sequence.
    pub(crate) fn relation(&self, name: &ObjectName, text: &str) -> Result<Relation> {
        self.find(name)?.ok_or_else(|| {
            let error = unknown_relation(name);
            match place_of(text, name) {
                Some(position) => error.at(position),
                None => error,
            }
        })
    }

    /// Returns a table by its name, or 42P01 or 42809.
    pub(crate) fn table(&self, name: &ObjectName, text: &str) -> Result<Arc<Table>> {
        match self.relation(name, text)? {
            Relation::Table(table) => Ok(table),
            other => Err(wrong_kind(name, &other, "a table")),
        }
    }
}

/// Returns the error of a table, index, view or sequence that does not exist.
pub(crate) fn unknown_relation(name: &ObjectName) -> Error {
    let parts = name.0.iter().filter_map(|part| part.as_ident()).map(name_of);
    let name = parts.collect::<Vec<_>>().join(".");
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

/// Returns the error of an object of another kind than a statement takes.
pub(crate) fn wrong_kind(name: &ObjectName, found: &Relation, wanted: &str) -> Error {
    let kind = match found {
        Relation::Table(_) => "a table",
        Relation::Index(..) => "an index",
        Relation::View(_) => "a view",
        Relation::Sequence(_) => "a sequence",
        Relation::Wide(_) => "a Bigtable table, which SQL reads and does not change",
    };
    let message = format!("\"{name}\" is not {wanted}");
    Error::new(SqlState::WRONG_OBJECT_TYPE, message).with_detail(format!("It is {kind}."))
}

/// Returns the name of the schema of a table.
pub(crate) fn schema_name(catalog: &Catalog, table: &Table) -> String {
    catalog.schema(table.schema).map_or_else(String::new, |schema| schema.name.clone())
}
