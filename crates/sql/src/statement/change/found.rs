//! Rows that an UPDATE or DELETE changes: found by an access, or by a query of the query side.

use super::Target;
use crate::access::{Access, Condition, Keys};
use crate::query;
use crate::statement::bind::{Binder, Bound, parse_query};
use crate::statement::select::{Select, scan_all};
use crate::statement::{Environment, Run};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins,
};
use engine::Direction;
use relational::catalog::Table;
use relational::{DataType, Error, LockMode, Result, Row, SqlState, Value, Wait};
use std::sync::Arc;

/// Most rows that a statement may change.
const ROWS_MAX: usize = 5_000_000;
/// Times that a statement starts again because rows changed while it looked for them.
pub(crate) const TRIES_MAX: usize = 20;

/// The way to the rows of a statement.
pub(crate) enum Finder {
    /// By the keys of the table, tested by a condition.
    Access { access: Access, filter: Option<Bound> },
    /// By a query whose first columns are the row's, and whose others are computed.
    Query { select: Box<Select>, width: usize },
}

/// A locked row, with the values that the query computed for it.
pub(crate) struct Found {
    pub(crate) row: Row,
    pub(crate) computed: Vec<Value>,
}

impl Finder {
    /// Plans the way by the keys of the table. Fails with 0A000 if the condition needs a query.
    pub(crate) fn by_access(
        binder: &mut Binder<'_>,
        table: &Arc<Table>,
        alias: &str,
        condition: Option<&Expr>,
    ) -> Result<Self> {
        let found = Condition::analyze(binder, table, alias, condition);
        let access = Access::choose(table, &found);
        let filter = condition.map(|condition| binder.bind_condition(condition)).transpose()?;
        Ok(Self::Access { access, filter })
    }

    /// Plans the way by a query: the rows of `target` in `from` that `condition` is true of, with `computed`
    /// beside them.
    pub(crate) fn by_query(
        environment: &Environment<'_>,
        text: &Arc<str>,
        (table, alias): (&Arc<Table>, &str),
        from: Vec<TableWithJoins>,
        condition: Option<&Expr>,
        computed: Vec<Expr>,
        params: &mut Vec<DataType>,
    ) -> Result<Self> {
        let id = table.primary_key.is_none().then_some(query::ROW_ID);
        let mut wanted = parse_query("SELECT 1")?;
        let SetExpr::Select(select) = wanted.body.as_mut() else {
            return Err(Error::internal("a SELECT is none"));
        };
        let column = |name: &str| {
            Expr::CompoundIdentifier(vec![
                Ident::with_quote('"', alias),
                Ident::with_quote('"', name),
            ])
        };
        let names = table.columns.iter().map(|column| column.name.as_str()).chain(id);
        let own: Vec<Expr> = names.map(column).collect();
        let width = own.len();
        let list = own.into_iter().chain(computed).enumerate().map(|(number, expr)| {
            // Names of their own, since several tables may have the same names.
            SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', format!("c{number}")) }
        });
        select.projection = list.collect();
        select.from = from;
        select.selection = condition.cloned();
        if id.is_none() {
            let select = Select::plan(environment, text, &wanted, params)?;
            return Ok(Self::Query { select: Box::new(select), width });
        }
        environment.check_query(&wanted)?;
        if let SetExpr::Select(select) = wanted.body.as_mut()
            && let Some(first) = select.from.first_mut()
        {
            name_by_number(first, table, alias);
        }
        let select = Select::by_query(environment, text, &wanted, params)?;
        Ok(Self::Query { select: Box::new(select), width })
    }

    /// Returns the plan as lines of text.
    pub(crate) fn explain(&self) -> Vec<String> {
        match self {
            Self::Access { access, filter } => crate::statement::select::explain_access(
                access,
                Direction::Forward,
                filter.is_some(),
                false,
            ),
            Self::Query { .. } => vec!["Query that finds the rows".to_owned()],
        }
    }

    /// Returns whether whole keys name the rows, so that they need no read before they are locked.
    fn points(&self, run: &Run<'_>) -> Result<Option<Vec<Vec<Value>>>> {
        match self {
            Self::Access { access, .. } if access.is_point() => match access.keys(&run.eval())? {
                Keys::Points(keys) => Ok(Some(keys)),
                Keys::Ranges(_) => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Finds and locks the rows.
    pub(crate) async fn find(
        &self,
        run: &mut Run<'_>,
        target: &Target,
        mode: LockMode,
    ) -> Result<Vec<Found>> {
        let oid = target.table.oid;
        if let Some(keys) = self.points(run)? {
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                let row = run.transaction.lock(oid, &key, mode, Wait::Wait).await?;
                if let Some(row) = row
                    && self.passes(&row, run)?
                {
                    found.push(Found { row, computed: Vec::new() });
                }
            }
            return Ok(found);
        }
        match self {
            Self::Access { access, filter } => {
                let mut tries = 0;
                loop {
                    let view = run.transaction.view();
                    let (way, eval) = ((oid, access, Direction::Forward), run.eval());
                    let (filter, flag) = (filter.as_ref(), &run.flag);
                    let rows = scan_all(view, way, filter, &eval, flag, ROWS_MAX).await?;
                    let (found, is_whole) = self.lock_all(rows, run, target, mode).await?;
                    tries += 1;
                    if is_whole || tries == TRIES_MAX {
                        return Ok(found);
                    }
                    run.transaction.start_statement().await?;
                }
            }
            Self::Query { select, width } => {
                for _ in 0..TRIES_MAX {
                    let found = lock_query(select, *width, run, target, mode).await?;
                    if let Some(found) = found {
                        return Ok(found);
                    }
                    // Rows changed after the view was taken. The locks stay, so that the next try meets
                    // fewer changes.
                    run.transaction.start_statement().await?;
                }
                let message = "could not serialize access due to concurrent update";
                Err(Error::new(SqlState::SERIALIZATION_FAILURE, message))
            }
        }
    }

    /// Locks rows that a view has, and returns the ones that still pass. The other value is false if one is gone: it
    /// was deleted, or has another key now, under which a later view has it.
    async fn lock_all(
        &self,
        rows: Vec<Row>,
        run: &mut Run<'_>,
        target: &Target,
        mode: LockMode,
    ) -> Result<(Vec<Found>, bool)> {
        let (mut found, mut is_whole) = (Vec::with_capacity(rows.len()), true);
        for row in rows {
            let key = target.table.key_of(&row);
            let locked = run.transaction.lock(target.table.oid, &key, mode, Wait::Wait).await?;
            let Some(locked) = locked else {
                is_whole = false;
                continue;
            };
            if locked == row || self.passes(&locked, run)? {
                found.push(Found { row: locked, computed: Vec::new() });
            }
        }
        Ok((found, is_whole))
    }

    fn passes(&self, row: &Row, run: &Run<'_>) -> Result<bool> {
        match self {
            Self::Access { filter: Some(filter), .. } => {
                Ok(filter.value(row, &run.eval())? == Value::Bool(true))
            }
            _ => Ok(true),
        }
    }
}

/// Names a table by its number, which makes its row id a column.
fn name_by_number(from: &mut TableWithJoins, table: &Table, alias: &str) {
    let TableFactor::Table { name, alias: known, .. } = &mut from.relation else { return };
    let oid = table.oid.to_string();
    let parts = [query::CHANGED, oid.as_str()].map(|part| Ident::with_quote('"', part));
    *name = ObjectName::from(parts.to_vec());
    *known = Some(TableAlias {
        explicit: true,
        name: Ident::with_quote('"', alias),
        columns: Vec::new(),
        at: None,
    });
}

/// Finds rows by a query, and locks them. Returns nothing if one of them has changed since.
async fn lock_query(
    select: &Select,
    width: usize,
    run: &mut Run<'_>,
    target: &Target,
    mode: LockMode,
) -> Result<Option<Vec<Found>>> {
    let mut rows = select.rows(run).await?;
    let mut all = Vec::new();
    loop {
        let batch = rows.next(1_000).await?;
        if batch.is_empty() {
            break;
        }
        all.extend(batch);
        if all.len() > ROWS_MAX {
            let message = format!("the statement changes more than {ROWS_MAX} rows");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
    }
    drop(rows);
    let mut seen = std::collections::HashSet::new();
    let mut found = Vec::with_capacity(all.len());
    for mut row in all {
        let computed = row.split_off(width);
        let key = target.table.key_of(&row);
        // A row that several rows of other tables join with is changed once.
        if !seen.insert(key.clone()) {
            continue;
        }
        let locked = run.transaction.lock(target.table.oid, &key, mode, Wait::Wait).await?;
        match locked {
            Some(locked) if locked == row => found.push(Found { row: locked, computed }),
            _ => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Returns the table that a statement changes, and the name by which it calls it.
pub(crate) fn changed_table(
    environment: &Environment<'_>,
    text: &str,
    from: &TableWithJoins,
) -> Result<(Arc<Table>, String)> {
    let TableFactor::Table { name, alias, .. } = &from.relation else {
        return Err(Error::unsupported("a change of something else than a table"));
    };
    if !from.joins.is_empty() {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"JOIN\""));
    }
    let table = environment.table(name, text)?;
    let alias = alias.as_ref().map(|alias| crate::statement::name_of(&alias.name));
    let alias = alias.unwrap_or_else(|| table.name.clone());
    Ok((table, alias))
}

/// Returns whether an error says that an expression needs the query side.
pub(crate) fn needs_query(error: &Error) -> bool {
    error.state == SqlState::FEATURE_NOT_SUPPORTED
}
