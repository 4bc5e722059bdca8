//! Indexes: CREATE INDEX and ALTER INDEX.

use crate::door::Build;
use crate::statement::names::wrong_kind;
use crate::statement::{Run, name_of};
use datafusion::sql::sqlparser::ast::{
    AlterIndexOperation, CreateIndex, Expr, IndexType, ObjectName,
};
use relational::catalog::Relation;
use relational::{AlterTable, Error, IndexProgress, NewIndex, Result, SqlState};
use std::sync::Arc;

/// Carries out a CREATE INDEX.
pub(super) async fn create(
    create: &CreateIndex,
    text: &str,
    run: &mut Run<'_>,
) -> Result<&'static str> {
    refuse(create)?;
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let table = environment.table(&create.table_name, text)?;
    environment.check_owner(&Relation::Table(Arc::clone(&table)))?;
    let name = create.name.as_ref().and_then(|name| name.0.last()?.as_ident().map(name_of));
    if let Some(name) = &name
        && create.if_not_exists
        && catalog.find(table.schema, name).is_some()
    {
        run.notice(format!("relation \"{name}\" already exists, skipping"));
        return Ok("CREATE INDEX");
    }
    let mut columns = Vec::with_capacity(create.columns.len());
    for column in &create.columns {
        let name = match &column.column.expr {
            Expr::Identifier(name) => name_of(name),
            Expr::Collate { expr, collation } if matches!(**expr, Expr::Identifier(_)) => {
                super::table::check_collation(&collation.to_string())?;
                let Expr::Identifier(name) = expr.as_ref() else { continue };
                name_of(name)
            }
            _ => return Err(Error::unsupported("indexes over expressions are not supported")),
        };
        let options = &column.column.options;
        let descending = options.asc == Some(false);
        let nulls_first = options.nulls_first.unwrap_or(descending);
        columns.push((name, descending, nulls_first));
    }
    let new = NewIndex { table: table.oid, name, unique: create.unique, columns };
    if create.concurrently {
        create_beside_writers(new, run).await?;
    } else {
        run.transaction.create_index(new).await?;
    }
    Ok("CREATE INDEX")
}

/// Creates an index in transactions of its own. If the statement ends early, it is dropped.
async fn create_beside_writers(new: NewIndex, run: &mut Run<'_>) -> Result<()> {
    if run.is_in_block || run.transaction.has_written() {
        let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
        return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
    }
    let (database, flag) = (Arc::clone(&run.shared.database), run.flag.clone());
    let progress = IndexProgress::default();
    let listed = run.shared.builds.list(Build {
        pid: run.eval.context.backend,
        table: new.table,
        index: new.name.clone().unwrap_or_default(),
        progress: progress.clone(),
    });
    // A task of its own: it removes the index if nothing waits for it any more.
    let build = async move {
        let _listed = listed;
        database.create_index_online(new, progress, flag).await
    };
    match tokio::spawn(build).await {
        Ok(built) => built.map(|_| ()),
        Err(error) => Err(Error::internal(format!("the build of an index ended: {error}"))),
    }
}

fn refuse(create: &CreateIndex) -> Result<()> {
    let unsupported = |what: &str| Err(Error::unsupported(format!("{what} are not supported")));
    if create.predicate.is_some() {
        return unsupported("partial indexes");
    }
    if !create.include.is_empty() {
        return unsupported("INCLUDE columns of indexes");
    }
    if create.nulls_distinct == Some(false) {
        return unsupported("unique indexes with NULLS NOT DISTINCT");
    }
    match &create.using {
        None | Some(IndexType::BTree) => Ok(()),
        Some(other) => {
            let message = format!("access method \"{other}\" does not exist");
            Err(Error::new(SqlState::UNDEFINED_OBJECT, message.to_lowercase()))
        }
    }
}

/// Carries out an ALTER INDEX.
pub(super) async fn alter(
    name: &ObjectName,
    operation: &AlterIndexOperation,
    text: &str,
    run: &mut Run<'_>,
) -> Result<&'static str> {
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let relation = environment.relation(name, text)?;
    environment.check_owner(&relation)?;
    let Relation::Index(oid, table) = &relation else {
        return Err(wrong_kind(name, &relation, "an index"));
    };
    let AlterIndexOperation::RenameIndex { index_name } = operation;
    let to = index_name.0.last().and_then(|part| part.as_ident()).map(name_of);
    let to = to.unwrap_or_default();
    let keeps = table.primary_key.as_ref().is_some_and(|key| key.oid == *oid)
        || table.index(*oid).is_some_and(|index| index.constraint.is_some());
    if keeps {
        let from = name.0.last().and_then(|part| part.as_ident()).map(name_of).unwrap_or_default();
        let change = AlterTable::RenameConstraint { from, to };
        run.transaction.alter_table(table.oid, change).await?;
    } else {
        run.transaction.rename_index(*oid, &to).await?;
    }
    Ok("ALTER INDEX")
}
