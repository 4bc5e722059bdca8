//! Statements about objects of the catalog: from the parser's tree to definitions of `relational`.
//!
//! A statement is carried out when it is started, by the catalog of its transaction then. Expressions of
//! defaults and checks are bound once when they are defined, so that a wrong one is refused at once.

mod alter;
mod checks;
mod foreign_key;
mod index;
mod rename;
mod role;
mod sequence;
mod storage;
mod table;
mod view;

pub(crate) use checks::names_in;

use super::names::{parts_of, unknown_relation, wrong_kind};
use super::privilege::{role_name, role_oid};
use super::{AlterSequence, Environment, Output, Run, name_of};
use crate::expression::Acting;
use datafusion::sql::sqlparser::ast::{
    CascadeOption, CommentObject, CreateExtension, ObjectName, ObjectType, SchemaName, Statement,
    Truncate, TruncateIdentityOption,
};
use relational::catalog::{BOOTSTRAP_ROLE, Privileges, Relation};
use relational::{Catalog, CommentOn, Error, Oid, Result, SqlState};
use std::sync::Arc;

/// Returns whether a statement is one of this room.
pub(super) fn is_supported(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateTable(_)
            | Statement::AlterTable(_)
            | Statement::CreateIndex(_)
            | Statement::AlterIndex { .. }
            | Statement::CreateView(_)
            | Statement::CreateSequence { .. }
            | Statement::CreateSchema { .. }
            | Statement::Truncate(_)
            | Statement::Drop { .. }
            | Statement::Comment { .. }
            | Statement::CreateExtension(_)
            | Statement::CreateRole(_)
            | Statement::AlterRole { .. }
            | Statement::Grant(_)
            | Statement::Revoke(_)
    )
}

/// Carries out a statement that defines or drops objects.
pub(super) async fn start(
    statement: &Statement,
    text: &Arc<str>,
    run: &mut Run<'_>,
) -> Result<Output> {
    let tag = match statement {
        Statement::CreateTable(create) => return table::create(create, text, run).await,
        Statement::AlterTable(alter) => alter::table(alter, text, run).await?,
        Statement::CreateIndex(create) => index::create(create, text, run).await?,
        Statement::AlterIndex { name, operation } => {
            index::alter(name, operation, text, run).await?
        }
        Statement::CreateView(create) => view::create(create, text, run).await?,
        Statement::CreateSequence { .. } => sequence::create(statement, text, run).await?,
        Statement::CreateSchema { schema_name, if_not_exists, .. } => {
            create_schema(schema_name, *if_not_exists, run).await?
        }
        Statement::Truncate(wanted) => truncate(wanted, text, run).await?,
        Statement::Drop { .. } => drop(statement, run).await?,
        Statement::Comment { object_type, object_name, comment, if_exists: _ } => {
            comment_on(*object_type, object_name, comment.clone(), text, run).await?;
            "COMMENT"
        }
        Statement::CreateExtension(create) => create_extension(create, run)?,
        Statement::CreateRole(create) => role::create(create, run).await?,
        Statement::AlterRole { name, operation } => role::alter(name, operation, run).await?,
        Statement::Grant(grant) => role::grant(grant, text, run).await?,
        Statement::Revoke(revoke) => role::revoke(revoke, text, run).await?,
        _ => return Err(Error::internal("a statement came to the wrong room")),
    };
    Ok(Output::Done(tag.to_owned()))
}

/// Carries out an ALTER SEQUENCE.
pub(super) async fn alter_sequence(
    alter: &AlterSequence,
    text: &Arc<str>,
    run: &mut Run<'_>,
) -> Result<Output> {
    sequence::alter(alter, text, run).await?;
    Ok(Output::Done("ALTER SEQUENCE".into()))
}

impl<'a> Run<'a> {
    /// Returns what planning depends on, with a catalog of the transaction.
    pub(crate) fn environment<'b>(&'b self, catalog: &'b Arc<Catalog>) -> Environment<'b> {
        let (shared, settings, identity) = (self.shared, self.settings, self.identity);
        Environment { shared, catalog, settings, identity, evaluation: &self.eval.context }
    }

    /// Returns the number of the role that acts, which owns what it makes. 42704 if the role was dropped.
    pub(crate) fn role(&self) -> Result<Oid> {
        let oid = match self.identity.acting {
            Acting::Owner => return Ok(BOOTSTRAP_ROLE),
            Acting::Role(oid) => oid,
            Acting::Reader => {
                let message = "a reader who is no role makes nothing";
                return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
        };
        if self.transaction.catalog().role(oid).is_some() {
            return Ok(oid);
        }
        let message = format!("role {oid} was concurrently dropped");
        Err(Error::new(SqlState::UNDEFINED_OBJECT, message))
    }
}

/// Extensions whose functions that most clients use are there without them.
const EXTENSIONS: [&str; 3] = ["plpgsql", "pgcrypto", "uuid-ossp"];

/// Takes an extension whose functions are there. 0A000 for any other.
fn create_extension(create: &CreateExtension, run: &mut Run<'_>) -> Result<&'static str> {
    let name = name_of(&create.name);
    if !EXTENSIONS.contains(&name.as_str()) {
        return Err(Error::unsupported(format!("the extension \"{name}\" is not supported")));
    }
    run.notice(format!("extension \"{name}\" already exists, skipping"));
    Ok("CREATE EXTENSION")
}

async fn create_schema(
    name: &SchemaName,
    if_not_exists: bool,
    run: &mut Run<'_>,
) -> Result<&'static str> {
    let catalog = run.transaction.catalog();
    run.environment(&catalog).check_superuser("create a schema")?;
    let (name, owner) = match name {
        SchemaName::Simple(name) => (role_name(name)?, run.role()?),
        SchemaName::UnnamedAuthorization(owner) => {
            (name_of(owner), role_oid(&catalog, &name_of(owner))?)
        }
        SchemaName::NamedAuthorization(name, owner) => {
            (role_name(name)?, role_oid(&catalog, &name_of(owner))?)
        }
    };
    if name.starts_with("pg_") {
        let message = format!("unacceptable schema name \"{name}\"");
        let detail = "The prefix \"pg_\" is reserved for system schemas.";
        return Err(Error::new(SqlState::RESERVED_NAME, message).with_detail(detail));
    }
    if catalog.schema_named(&name).is_some() {
        let message = format!("schema \"{name}\" already exists");
        if !if_not_exists {
            return Err(Error::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        run.notice(format!("{message}, skipping"));
        return Ok("CREATE SCHEMA");
    }
    run.transaction.create_schema(&name, owner).await?;
    Ok("CREATE SCHEMA")
}

async fn truncate(wanted: &Truncate, text: &str, run: &mut Run<'_>) -> Result<&'static str> {
    let catalog = run.transaction.catalog();
    let mut tables: Vec<Oid> = Vec::new();
    for target in &wanted.table_names {
        let table = run.environment(&catalog).table(&target.name, text)?;
        if !tables.contains(&table.oid) {
            tables.push(table.oid);
        }
    }
    if matches!(wanted.cascade, Some(CascadeOption::Cascade)) {
        let mut at = 0;
        while let Some(table) = tables.get(at).copied() {
            at += 1;
            for (other, _) in catalog.references_to(table) {
                if !tables.contains(&other.oid) {
                    tables.push(other.oid);
                    run.notice(format!("truncate cascades to table \"{}\"", other.name));
                }
            }
        }
    }
    for table in tables.iter().filter_map(|table| catalog.table(*table)) {
        let relation = Relation::Table(Arc::clone(table));
        run.environment(&catalog).check(&relation, Privileges::TRUNCATE)?;
    }
    run.transaction.truncate(&tables).await?;
    if matches!(wanted.identity, Some(TruncateIdentityOption::Restart)) {
        for table in tables.iter().filter_map(|table| catalog.table(*table)) {
            for column in &table.columns {
                if let Some(sequence) = catalog.sequence_of(table.oid, column.number) {
                    run.transaction.restart_sequence(sequence.oid, None).await?;
                }
            }
        }
    }
    Ok("TRUNCATE TABLE")
}

async fn drop(statement: &Statement, run: &mut Run<'_>) -> Result<&'static str> {
    let Statement::Drop { object_type, if_exists, names, cascade, .. } = statement else {
        return Err(Error::internal("a DROP is none"));
    };
    let tag = match object_type {
        ObjectType::Table => "DROP TABLE",
        ObjectType::View => "DROP VIEW",
        ObjectType::Index => "DROP INDEX",
        ObjectType::Sequence => "DROP SEQUENCE",
        ObjectType::Schema => "DROP SCHEMA",
        ObjectType::Role | ObjectType::User => "DROP ROLE",
        other => return Err(Error::unsupported(format!("DROP {other} is not supported"))),
    };
    if *object_type == ObjectType::Table {
        drop_tables(names, *if_exists, *cascade, run).await?;
        return Ok(tag);
    }
    for name in names {
        let dropped = match object_type {
            ObjectType::Schema => drop_schema(name, *cascade, run).await,
            ObjectType::Role | ObjectType::User => role::drop(name, run).await,
            kind => drop_relation(name, *kind, *cascade, run).await,
        };
        match dropped {
            Err(error) if *if_exists && is_missing(&error) => {
                skip(&error, *object_type, run);
            }
            other => other?,
        }
    }
    Ok(tag)
}

/// Tells the client of a thing that is not dropped since it is not there.
fn skip(error: &Error, kind: ObjectType, run: &mut Run<'_>) {
    let message = error.message.replace("relation", kind_name(kind));
    run.notice(format!("{message}, skipping"));
}

/// Drops tables together, since they may reference each other.
async fn drop_tables(
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
    run: &mut Run<'_>,
) -> Result<()> {
    let mut tables: Vec<Oid> = Vec::new();
    for name in names {
        match relation_to_drop(name, ObjectType::Table, run) {
            Err(error) if if_exists && is_missing(&error) => skip(&error, ObjectType::Table, run),
            Err(error) => return Err(error),
            Ok(Relation::Table(table)) if tables.contains(&table.oid) => {}
            Ok(Relation::Table(table)) => tables.push(table.oid),
            Ok(relation) => {
                let error = wrong_kind(name, &relation, "a table");
                return Err(match relation {
                    Relation::Wide(_) => {
                        error.with_hint("Use DROP FOREIGN TABLE to remove its declaration.")
                    }
                    _ => error,
                });
            }
        }
    }
    run.transaction.drop_tables(&tables, cascade).await
}

fn kind_name(kind: ObjectType) -> &'static str {
    match kind {
        ObjectType::View => "view",
        ObjectType::Index => "index",
        ObjectType::Sequence => "sequence",
        _ => "table",
    }
}

fn is_missing(error: &Error) -> bool {
    let missing =
        [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_OBJECT, SqlState::INVALID_SCHEMA_NAME];
    missing.contains(&error.state)
}

async fn drop_schema(name: &ObjectName, cascade: bool, run: &mut Run<'_>) -> Result<()> {
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    environment.check_superuser("drop a schema")?;
    let schema = environment.schema(&role_name(name)?)?;
    run.transaction.drop_schema(schema, cascade).await
}

async fn drop_relation(
    name: &ObjectName,
    kind: ObjectType,
    cascade: bool,
    run: &mut Run<'_>,
) -> Result<()> {
    let relation = relation_to_drop(name, kind, run)?;
    match (kind, &relation) {
        (ObjectType::View, Relation::View(view)) => {
            run.transaction.drop_view(view.oid, cascade).await
        }
        (ObjectType::Index, Relation::Index(oid, table)) => {
            let is_key = table.primary_key.as_ref().is_some_and(|key| key.oid == *oid);
            let keeps = table.index(*oid).is_some_and(|index| index.constraint.is_some());
            if is_key || keeps {
                let message = format!("cannot drop index {name} because a constraint requires it");
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .with_hint("Drop the constraint instead."));
            }
            run.transaction.drop_index(*oid).await
        }
        (ObjectType::Sequence, Relation::Sequence(sequence)) => {
            run.transaction.drop_sequence(sequence.oid, cascade).await
        }
        (_, other) => Err(wrong_kind(name, other, &format!("a {}", kind_name(kind)))),
    }
}

/// Returns what a name of a DROP stands for, which the role owns.
fn relation_to_drop(name: &ObjectName, kind: ObjectType, run: &Run<'_>) -> Result<Relation> {
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let relation = environment.find(name)?.ok_or_else(|| {
        let mut error = unknown_relation(name);
        let message = error.message.replace("relation", kind_name(kind));
        if kind != ObjectType::Table && kind != ObjectType::View {
            error.state = SqlState::UNDEFINED_OBJECT;
        }
        error.message = message;
        error
    })?;
    environment.check_owner(&relation)?;
    Ok(relation)
}

async fn comment_on(
    kind: CommentObject,
    name: &ObjectName,
    comment: Option<String>,
    text: &str,
    run: &mut Run<'_>,
) -> Result<()> {
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let on = match kind {
        CommentObject::Column => {
            let mut parts = name.0.clone();
            let column = parts.pop().and_then(|part| part.as_ident().map(name_of));
            let table = environment.table(&ObjectName(parts), text)?;
            environment.check_owner(&Relation::Table(Arc::clone(&table)))?;
            let column = column.unwrap_or_default();
            let (_, column) = table.column(&column).ok_or_else(|| {
                let message =
                    format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                Error::new(SqlState::UNDEFINED_COLUMN, message)
            })?;
            CommentOn::Column(table.oid, column.number)
        }
        CommentObject::Table
        | CommentObject::View
        | CommentObject::Index
        | CommentObject::Sequence => {
            let relation = environment.relation(name, text)?;
            environment.check_owner(&relation)?;
            CommentOn::Object(relation.oid())
        }
        CommentObject::Schema => {
            environment.check_superuser("comment on a schema")?;
            CommentOn::Object(environment.schema(&role_name(name)?)?)
        }
        CommentObject::Role | CommentObject::User => {
            environment.check_superuser("comment on a role")?;
            CommentOn::Object(role_oid(&catalog, &role_name(name)?)?)
        }
        // Tools write them with every dump, and nothing depends on them.
        CommentObject::Database | CommentObject::Extension => return Ok(()),
        other => return Err(Error::unsupported(format!("COMMENT ON {other} is not supported"))),
    };
    run.transaction.comment(on, comment).await
}

/// Returns the schema and the name of an object to be made, which the role may make there.
pub(crate) fn new_name(environment: &Environment<'_>, name: &ObjectName) -> Result<(Oid, String)> {
    let (schema, name) = parts_of(name, &environment.catalog.database)?;
    if let Some(system @ ("pg_catalog" | "information_schema" | "bigtable")) = schema.as_deref() {
        let message = format!("permission denied to create \"{system}.{name}\"");
        return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .with_detail("System catalog modifications are currently disallowed."));
    }
    let schema = environment.schema_for(schema.as_deref())?;
    environment.check_create(schema)?;
    Ok((schema, name))
}
