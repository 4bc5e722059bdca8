//! INSERT: from values or a query, with defaults, conflicts and RETURNING.

use super::returning::reads_row;
use super::target::Default;
use super::typed::typed_query;
use super::{References, Returning, Target, check_of_rows};
use crate::statement::bind::{Binder, Bound, is_default};
use crate::statement::names::{name_of, place_of};
use crate::statement::select::Select;
use crate::statement::{Column, Environment, Eval, Kept, Output, Rows, Run};
use crate::values::{CastContext, cast_with};
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, ConflictTarget, OnConflictAction, OnInsert, SetExpr, TableObject,
};
use relational::catalog::{Privileges, Relation, Table};
use relational::{DataType, Error, Oid, OnConflict, Result, Row, SqlState, Value, Writes};
use std::collections::HashSet;
use std::sync::Arc;

/// Rows that are inserted at once.
const BATCH_ROWS: usize = 512;

/// Values that a statement gives.
enum Source {
    /// Rows of expressions; nothing stands for DEFAULT.
    Values(Vec<Vec<Option<Bound>>>),
    /// A query, with the types of its columns.
    Query(Box<Select>),
}

/// The way of a row whose key is there.
enum Conflict {
    Simple(OnConflict),
    Update { arbiter: Oid, sets: Vec<(usize, Option<Bound>)>, condition: Option<Bound> },
}

/// Writes whole rows to a table: fills in defaults, and passes checks.
pub(crate) struct Writer {
    pub(crate) target: Target,
    /// Places of the columns that rows give, in their order.
    pub(crate) given: Vec<usize>,
    /// Defaults of all columns, in their order.
    defaults: Vec<Default>,
}

impl Writer {
    /// Returns the writer for rows that give the columns at `given`.
    pub(crate) fn new(
        environment: &Environment<'_>,
        table: &Arc<Table>,
        given: Vec<usize>,
    ) -> Result<Self> {
        let target = Target::of(environment, table)?;
        let places = 0..table.columns.len();
        let defaults = places.map(|place| target.default_of(environment, place));
        let defaults = defaults.collect::<Result<Vec<_>>>()?;
        Ok(Self { target, given, defaults })
    }

    /// Returns a whole row from the values that are given; nothing stands for DEFAULT.
    pub(crate) async fn row(&self, run: &mut Run<'_>, values: Vec<Option<Value>>) -> Result<Row> {
        let columns = &self.target.table.columns;
        let mut row: Vec<Option<Value>> = vec![None; columns.len()];
        for (place, value) in self.given.iter().zip(values) {
            row[*place] = value;
        }
        let mut whole = Vec::with_capacity(row.len() + 1);
        for ((value, default), column) in row.into_iter().zip(&self.defaults).zip(columns) {
            whole.push(match value {
                Some(value) => value,
                None if column.generated.is_some() => Value::Null,
                None => default.value(run, &column.data_type).await?,
            });
        }
        self.target.finish(&mut whole, &run.eval())?;
        Ok(whole)
    }

    /// Returns places and values of the columns that rows do not give, if all rows have the same values there, and
    /// nothing is computed from a row. Nothing if each row must be made by itself.
    pub(crate) fn repeated(&self, eval: &Eval) -> Option<Vec<(usize, Value)>> {
        let table = &self.target.table;
        let is_computed = table.columns.iter().any(|column| column.generated.is_some());
        if is_computed || !table.checks.is_empty() {
            return None;
        }
        let mut values = Vec::new();
        for (place, default) in self.defaults.iter().enumerate() {
            if self.given.contains(&place) {
                continue;
            }
            let value = match default {
                Default::Null => Value::Null,
                // A default that fails does so in a row, if there is any.
                Default::Expression(bound) if !bound.is_volatile() => {
                    bound.value(&[], eval).ok()?
                }
                Default::Expression(_) | Default::Sequence(_) => return None,
            };
            values.push((place, value));
        }
        Some(values)
    }
}

/// A planned INSERT, to be started any number of times.
pub(crate) struct Insert {
    writer: Writer,
    source: Source,
    conflict: Conflict,
    returning: Option<Returning>,
}

impl Insert {
    /// Plans an INSERT into one table.
    pub(crate) fn plan(
        environment: &Environment<'_>,
        text: &Arc<str>,
        insert: &ast::Insert,
        params: &mut Vec<DataType>,
    ) -> Result<Self> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(Error::unsupported("INSERT into something else than a table"));
        };
        if insert.replace_into || insert.overwrite || !insert.assignments.is_empty() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "this form of INSERT is not SQL"));
        }
        let table = environment.table(name, text)?;
        environment.check(&Relation::Table(Arc::clone(&table)), Privileges::INSERT)?;
        let given = places(&table, &insert.columns, text)?;
        let writer = Writer::new(environment, &table, given)?;
        let alias = insert.table_alias.as_ref().map(|alias| name_of(&alias.alias));
        let alias = alias.unwrap_or_else(|| table.name.clone());
        let source = plan_source(environment, text, insert, &writer, params)?;
        let writer = match &source {
            Source::Values(rows) => shortened(writer, rows.first().map_or(0, Vec::len)),
            Source::Query(query) => shortened(writer, query.columns().len()),
        };
        let conflict =
            plan_conflict(environment, text, insert.on.as_ref(), &writer.target, &alias, params)?;
        let returning = match &insert.returning {
            None => None,
            Some(list) => {
                if list.iter().any(reads_row) {
                    environment.check(&Relation::Table(Arc::clone(&table)), Privileges::SELECT)?;
                }
                let mut binder = Binder::of_table(environment, text, &table, &alias, params);
                Some(Returning::bind(&mut binder, &table, &alias, list)?)
            }
        };
        Ok(Self { writer, source, conflict, returning })
    }

    /// Returns the table that rows are inserted into.
    pub(crate) fn table(&self) -> &Table {
        &self.writer.target.table
    }

    /// Returns what the statement does to rows of its table.
    pub(crate) fn writes(&self) -> Writes {
        match self.conflict {
            Conflict::Simple(_) => Writes::Inserts,
            Conflict::Update { .. } => Writes::Changes,
        }
    }

    /// Returns the columns of RETURNING.
    pub(crate) fn columns(&self) -> Option<Arc<[Column]>> {
        self.returning.as_ref().map(Returning::columns)
    }

    /// Inserts the rows that the source gives.
    pub(crate) async fn start(&self, run: &mut Run<'_>) -> Result<Output> {
        let mut done = Done::new(References::of(run, self.table().oid));
        match &self.source {
            Source::Values(rows) => {
                for rows in rows.chunks(BATCH_ROWS) {
                    let mut batch = Vec::with_capacity(rows.len());
                    for row in rows {
                        let values = {
                            let eval = run.eval();
                            let value = |bound: &Option<Bound>| match bound {
                                Some(bound) => bound.value(&[], &eval).map(Some),
                                None => Ok(None),
                            };
                            row.iter().map(value).collect::<Result<Vec<_>>>()?
                        };
                        batch.push(self.writer.row(run, values).await?);
                    }
                    self.write(run, batch, &mut done).await?;
                }
            }
            Source::Query(query) => {
                let types = self.target_types();
                let mut rows = query.rows(run).await?;
                loop {
                    let found = rows.next(BATCH_ROWS).await?;
                    if found.is_empty() {
                        break;
                    }
                    let mut batch = Vec::with_capacity(found.len());
                    for row in found {
                        let settings = run.settings.of_values();
                        let value = |(value, data_type): (Value, &DataType)| {
                            let place = CastContext::Assignment;
                            cast_with(value, data_type, place, settings).map(Some)
                        };
                        let values = row.into_iter().zip(&types).map(value);
                        let values = values.collect::<Result<Vec<_>>>()?;
                        batch.push(self.writer.row(run, values).await?);
                    }
                    self.write(run, batch, &mut done).await?;
                }
            }
        }
        done.references.finish(run).await?;
        let tag = format!("INSERT 0 {}", done.count);
        Ok(match self.columns() {
            Some(columns) => {
                Output::Rows(Box::new(Rows::ready(columns, done.returned.rows(), &tag)))
            }
            None => Output::Done(tag),
        })
    }

    fn target_types(&self) -> Vec<DataType> {
        let columns = &self.writer.target.table.columns;
        self.writer.given.iter().map(|place| columns[*place].data_type.clone()).collect()
    }

    async fn write(&self, run: &mut Run<'_>, rows: Vec<Row>, done: &mut Done) -> Result<()> {
        let oid = self.table().oid;
        match &self.conflict {
            Conflict::Simple(on_conflict) => {
                let is_kept = self.returning.is_some() || done.references.is_needed();
                let kept = if is_kept { rows.clone() } else { Vec::new() };
                let inserted = run.transaction.insert(oid, rows, *on_conflict).await?;
                done.count += inserted.iter().filter(|inserted| **inserted).count();
                for (row, _) in kept.iter().zip(inserted).filter(|(_, inserted)| *inserted) {
                    if let Some(returning) = &self.returning {
                        done.returned.push(returning.row(row, &run.eval())?)?;
                    }
                    done.references.inserted(run, row).await?;
                }
                Ok(())
            }
            Conflict::Update { arbiter, sets, condition } => {
                for row in rows {
                    self.upsert(run, row, *arbiter, sets, condition.as_ref(), done).await?;
                }
                Ok(())
            }
        }
    }

    async fn upsert(
        &self,
        run: &mut Run<'_>,
        row: Row,
        arbiter: Oid,
        sets: &[(usize, Option<Bound>)],
        condition: Option<&Bound>,
        done: &mut Done,
    ) -> Result<()> {
        let table = &self.writer.target.table;
        let found = run.transaction.conflicting(table.oid, &row, Some(arbiter)).await?;
        let written = match found {
            None => {
                run.transaction.insert(table.oid, vec![row.clone()], OnConflict::Fail).await?;
                done.references.inserted(run, &row).await?;
                match table.primary_key {
                    Some(_) => row,
                    // With the id that it was given.
                    None => {
                        let stored = run.transaction.conflicting(table.oid, &row, Some(arbiter));
                        stored.await?.unwrap_or(row)
                    }
                }
            }
            Some(old) => {
                if done.keys.contains(&table.key_of(&old)) {
                    let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
                    return Err(Error::new(SqlState::CARDINALITY_VIOLATION, message));
                }
                let mut both = old[..table.columns.len()].to_vec();
                both.extend_from_slice(&row[..table.columns.len()]);
                if let Some(condition) = condition
                    && condition.value(&both, &run.eval())? != Value::Bool(true)
                {
                    return Ok(());
                }
                let mut new = old.clone();
                for (place, bound) in sets {
                    new[*place] = match bound {
                        Some(bound) => bound.value(&both, &run.eval())?,
                        None => {
                            let data_type = &table.columns[*place].data_type;
                            self.writer.defaults[*place].value(run, data_type).await?
                        }
                    };
                }
                self.writer.target.finish(&mut new, &run.eval())?;
                run.transaction.update(table.oid, &old, new.clone()).await?;
                done.references.updated(run, &old, &new).await?;
                new
            }
        };
        done.keys.insert(table.key_of(&written));
        done.count += 1;
        if let Some(returning) = &self.returning {
            done.returned.push(returning.row(&written, &run.eval())?)?;
        }
        Ok(())
    }
}

/// The work that an INSERT did so far.
struct Done {
    count: usize,
    returned: Kept,
    /// Keys of rows that the statement wrote, if it may update them.
    keys: HashSet<Vec<Value>>,
    references: References,
}

impl Done {
    fn new(references: References) -> Self {
        Self { count: 0, returned: Returning::kept(), keys: HashSet::new(), references }
    }
}

impl std::default::Default for Source {
    fn default() -> Self {
        Self::Values(Vec::new())
    }
}

/// Returns the places of columns that a statement names, or of all.
pub(crate) fn places(table: &Table, names: &[ast::ObjectName], text: &str) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let ident = name.0.last().and_then(|part| part.as_ident()).map(name_of);
        let ident = ident.unwrap_or_default();
        let Some((place, _)) = table.column(&ident) else {
            let message =
                format!("column \"{ident}\" of relation \"{}\" does not exist", table.name);
            let error = Error::new(SqlState::UNDEFINED_COLUMN, message);
            return Err(match place_of(text, name) {
                Some(position) => error.at(position),
                None => error,
            });
        };
        if places.contains(&place) {
            let message = format!("column \"{ident}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        places.push(place);
    }
    Ok(places)
}

/// Keeps only as many given columns as rows have values.
fn shortened(mut writer: Writer, count: usize) -> Writer {
    writer.given.truncate(count);
    writer
}

fn plan_source(
    environment: &Environment<'_>,
    text: &Arc<str>,
    insert: &ast::Insert,
    writer: &Writer,
    params: &mut Vec<DataType>,
) -> Result<Source> {
    let Some(query) = &insert.source else {
        return Ok(Source::Values(vec![Vec::new()]));
    };
    let (table, given) = (&writer.target.table, &writer.given);
    let is_plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    let SetExpr::Values(values) = query.body.as_ref() else {
        return plan_query(environment, text, query, writer, !insert.columns.is_empty(), params);
    };
    if !is_plain {
        return plan_query(environment, text, query, writer, !insert.columns.is_empty(), params);
    }
    let mut rows = Vec::with_capacity(values.rows.len());
    let width = values.rows.first().map_or(0, |row| row.len());
    check_width(width, given.len(), !insert.columns.is_empty())?;
    let mut binder = Binder::without_columns(environment, text, params);
    for row in &values.rows {
        if row.len() != width {
            let message = "VALUES lists must all be the same length";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut bound = Vec::with_capacity(width);
        for (expression, place) in row.iter().zip(given) {
            let column = &table.columns[*place];
            if is_default(expression) {
                bound.push(None);
                continue;
            }
            writer.target.check_is_writable(column, "insert")?;
            match binder.bind_to(expression, &column.data_type, &column.name) {
                Ok(value) => bound.push(Some(value)),
                // A subquery among the values.
                Err(error) if error.state == SqlState::FEATURE_NOT_SUPPORTED => {
                    let named = !insert.columns.is_empty();
                    return plan_query(environment, text, query, writer, named, params);
                }
                Err(error) => return Err(error),
            }
        }
        rows.push(bound);
    }
    Ok(Source::Values(rows))
}

fn plan_query(
    environment: &Environment<'_>,
    text: &Arc<str>,
    query: &ast::Query,
    writer: &Writer,
    is_named: bool,
    params: &mut Vec<DataType>,
) -> Result<Source> {
    let columns = &writer.target.table.columns;
    let types = writer.given.iter().map(|place| columns[*place].data_type.clone());
    let query = typed_query(query, &types.collect::<Vec<_>>());
    let select = Select::plan(environment, text, &query, params)?;
    let columns = select.columns();
    check_width(columns.len(), writer.given.len(), is_named)?;
    for (found, place) in columns.iter().zip(&writer.given) {
        let column = &writer.target.table.columns[*place];
        writer.target.check_is_writable(column, "insert")?;
        super::super::bind::check_assignment(&found.data_type, &column.data_type, &column.name)?;
    }
    Ok(Source::Query(Box::new(select)))
}

fn check_width(values: usize, columns: usize, is_named: bool) -> Result<()> {
    let message = if values > columns {
        "INSERT has more expressions than target columns"
    } else if values < columns && is_named {
        "INSERT has more target columns than expressions"
    } else {
        return Ok(());
    };
    Err(Error::new(SqlState::SYNTAX_ERROR, message))
}

fn plan_conflict(
    environment: &Environment<'_>,
    text: &Arc<str>,
    on: Option<&OnInsert>,
    target: &Target,
    alias: &str,
    params: &mut Vec<DataType>,
) -> Result<Conflict> {
    let conflict = match on {
        None => return Ok(Conflict::Simple(OnConflict::Fail)),
        Some(OnInsert::OnConflict(conflict)) => conflict,
        Some(_) => {
            let message = "ON DUPLICATE KEY UPDATE is not SQL; use ON CONFLICT";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
    };
    let table = &target.table;
    check_of_rows(table, "INSERT ... ON CONFLICT")?;
    let arbiter = conflict.conflict_target.as_ref().map(|wanted| arbiter(table, wanted));
    let arbiter = arbiter.transpose()?;
    if arbiter.is_some() {
        // To meet a conflict or none tells what the key has.
        environment.check(&Relation::Table(Arc::clone(table)), Privileges::SELECT)?;
    }
    let update = match &conflict.action {
        OnConflictAction::DoNothing => return Ok(Conflict::Simple(OnConflict::Skip(arbiter))),
        OnConflictAction::DoUpdate(update) => update,
    };
    let Some(arbiter) = arbiter else {
        let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    };
    environment.check(&Relation::Table(Arc::clone(table)), Privileges::UPDATE)?;
    let mut binder = Binder::of_conflict(environment, text, table, alias, params);
    let mut sets = Vec::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(Error::unsupported("SET of several columns at once in ON CONFLICT"));
        };
        for place in places(table, std::slice::from_ref(name), text)? {
            let column = &table.columns[place];
            let bound = if is_default(&assignment.value) {
                None
            } else {
                target.check_is_writable(column, "update")?;
                Some(binder.bind_to(&assignment.value, &column.data_type, &column.name)?)
            };
            sets.push((place, bound));
        }
    }
    let condition = update.selection.as_ref().map(|wanted| binder.bind_condition(wanted));
    Ok(Conflict::Update { arbiter, sets, condition: condition.transpose()? })
}

/// Returns the unique index that a conflict target names.
fn arbiter(table: &Table, wanted: &ConflictTarget) -> Result<Oid> {
    match wanted {
        ConflictTarget::OnConstraint(name) => {
            let name = name.0.last().and_then(|part| part.as_ident()).map(name_of);
            let name = name.unwrap_or_default();
            let key = table.primary_key.iter().filter(|key| key.name == name).map(|key| key.oid);
            let indexes = table.indexes.iter().filter(|i| i.name == name && i.unique);
            key.chain(indexes.map(|index| index.oid)).next().ok_or_else(|| {
                let table = &table.name;
                let message = format!("constraint \"{name}\" for table \"{table}\" does not exist");
                Error::new(SqlState::UNDEFINED_OBJECT, message)
            })
        }
        ConflictTarget::Columns(columns) => {
            let mut wanted = Vec::new();
            for name in columns.iter().map(name_of) {
                let Some((_, column)) = table.column(&name) else {
                    let message = format!("column \"{name}\" does not exist");
                    return Err(Error::new(SqlState::UNDEFINED_COLUMN, message));
                };
                wanted.push(column.number);
            }
            wanted.sort_unstable();
            wanted.dedup();
            let matches = |oid: Oid| {
                let parts = table.index_parts(oid).unwrap_or_default();
                let mut numbers: Vec<_> = parts.iter().map(|part| part.column).collect();
                numbers.sort_unstable();
                numbers == wanted
            };
            let key = table.primary_key.iter().map(|key| key.oid);
            let indexes = table.indexes.iter().filter(|index| index.unique && index.ready);
            key.chain(indexes.map(|index| index.oid)).find(|oid| matches(*oid)).ok_or_else(|| {
                let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                Error::new(SqlState::INVALID_COLUMN_REFERENCE, message)
            })
        }
    }
}
