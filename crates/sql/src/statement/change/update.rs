//! UPDATE: of rows of one table, with values that other tables may give.

use super::found::{Finder, Found, changed_table, needs_query};
use super::insert::places;
use super::returning::reads_row;
use super::target::Default;
use super::typed::type_expr;
use super::{References, Returning, Target, check_of_rows};
use crate::statement::bind::{Binder, Bound, check_assignment, is_default};
use crate::statement::privilege::reads_columns;
use crate::statement::{Column, Environment, Output, Rows, Run};
use crate::values::{self, CastContext};
use datafusion::sql::sqlparser::ast::{self, AssignmentTarget, Expr, UpdateTableFromKind};
use relational::catalog::{Privileges, Relation, Table};
use relational::{DataType, Error, LockMode, Oid, Result, Row, SqlState, Value};
use std::sync::Arc;

/// New value of a column.
enum NewValue {
    Default(Default),
    /// An expression over the row.
    Bound(Box<Bound>),
    /// A value that the query computed, by its number among them, and its type in the table.
    Computed(usize, DataType),
}

/// A planned UPDATE, to be started any number of times.
pub(crate) struct Update {
    target: Target,
    finder: Finder,
    sets: Vec<(usize, NewValue)>,
    mode: LockMode,
    returning: Option<Returning>,
}

impl Update {
    /// Returns the number of the table.
    pub(crate) fn table(&self) -> Oid {
        self.target.table.oid
    }

    /// Plans an UPDATE of one table.
    pub(crate) fn plan(
        environment: &Environment<'_>,
        text: &Arc<str>,
        update: &ast::Update,
        params: &mut Vec<DataType>,
    ) -> Result<Self> {
        if update.or.is_some() || update.limit.is_some() || !update.order_by.is_empty() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "this form of UPDATE is not SQL"));
        }
        let (table, alias) = changed_table(environment, text, &update.table)?;
        let relation = Relation::Table(Arc::clone(&table));
        environment.check(&relation, Privileges::UPDATE)?;
        check_of_rows(&table, "UPDATE")?;
        let target = Target::of(environment, &table)?;
        let assigned = assigned(&table, update, text)?;
        let reads = assigned.iter().any(|(_, value)| reads_columns(value));
        let is_returned = update.returning.iter().flatten().any(reads_row);
        if reads || update.selection.is_some() || is_returned {
            environment.check(&relation, Privileges::SELECT)?;
        }
        for (place, value) in &assigned {
            if !is_default(value) {
                target.check_is_writable(&table.columns[*place], "update")?;
            }
        }
        let mode = mode_of(&table, &assigned);
        let returning = match &update.returning {
            None => None,
            Some(list) => {
                let mut binder = Binder::of_table(environment, text, &table, &alias, params);
                Some(Returning::bind(&mut binder, &table, &alias, list)?)
            }
        };
        let (finder, sets) =
            find_and_set(environment, text, update, (&target, &alias), assigned, params)?;
        Ok(Self { target, finder, sets, mode, returning })
    }

    /// Returns the columns of RETURNING.
    pub(crate) fn columns(&self) -> Option<Arc<[Column]>> {
        self.returning.as_ref().map(Returning::columns)
    }

    /// Returns the plan as lines of text.
    pub(crate) fn explain(&self) -> Vec<String> {
        let mut lines = vec![format!("Update on {}", self.target.table.name)];
        lines.extend(self.finder.explain().into_iter().map(|line| format!("  ->  {line}")));
        lines
    }

    /// Updates the rows that the plan finds.
    pub(crate) async fn start(&self, run: &mut Run<'_>) -> Result<Output> {
        let found = self.finder.find(run, &self.target, self.mode).await?;
        let (mut count, mut returned) = (0, Returning::kept());
        let mut references = References::of(run, self.target.table.oid);
        for Found { row: old, computed } in found {
            run.flag.check()?;
            let new = self.changed(run, &old, &computed).await?;
            if let Some(returning) = &self.returning {
                returned.push(returning.row(&new, &run.eval())?)?;
            }
            let kept = references.is_needed().then(|| new.clone());
            run.transaction.update(self.target.table.oid, &old, new).await?;
            if let Some(new) = kept {
                references.updated(run, &old, &new).await?;
            }
            count += 1;
        }
        references.finish(run).await?;
        let tag = format!("UPDATE {count}");
        Ok(match self.columns() {
            Some(columns) => Output::Rows(Box::new(Rows::ready(columns, returned.rows(), &tag))),
            None => Output::Done(tag),
        })
    }

    async fn changed(&self, run: &mut Run<'_>, old: &Row, computed: &[Value]) -> Result<Row> {
        let mut new = old.clone();
        for (place, value) in &self.sets {
            new[*place] = match value {
                NewValue::Bound(bound) => bound.value(old, &run.eval())?,
                NewValue::Default(default) => {
                    let data_type = &self.target.table.columns[*place].data_type;
                    default.value(run, data_type).await?
                }
                NewValue::Computed(number, data_type) => {
                    let value = computed.get(*number).cloned().unwrap_or_default();
                    let place = CastContext::Assignment;
                    values::cast_with(value, data_type, place, run.settings.of_values())?
                }
            };
        }
        self.target.finish(&mut new, &run.eval())?;
        Ok(new)
    }
}

/// Returns the places that a statement sets, with their expressions.
fn assigned(table: &Table, update: &ast::Update, text: &str) -> Result<Vec<(usize, Expr)>> {
    let mut all: Vec<(usize, Expr)> = Vec::new();
    for assignment in &update.assignments {
        let found = match &assignment.target {
            AssignmentTarget::ColumnName(name) => {
                let place = places(table, std::slice::from_ref(name), text)?;
                vec![(place[0], assignment.value.clone())]
            }
            AssignmentTarget::Tuple(names) => {
                let places = places(table, names, text)?;
                let values = match &assignment.value {
                    Expr::Tuple(values) => values.clone(),
                    Expr::Nested(value) => vec![value.as_ref().clone()],
                    _ => return Err(Error::unsupported("SET of columns by a subquery")),
                };
                if values.len() != places.len() {
                    let message = "number of columns does not match number of values";
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                }
                places.into_iter().zip(values).collect()
            }
        };
        for (place, value) in found {
            if all.iter().any(|(known, _)| *known == place) {
                let name = &table.columns[place].name;
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            all.push((place, value));
        }
    }
    Ok(all)
}

/// Returns the lock that the change needs: a weaker one if no key changes.
fn mode_of(table: &Table, assigned: &[(usize, Expr)]) -> LockMode {
    let is_set = |number: i16| {
        let place = table.place(number);
        assigned.iter().any(|(set, _)| Some(*set) == place)
    };
    let key = table.primary_key.iter().flat_map(|key| &key.parts);
    let unique = table.indexes.iter().filter(|index| index.unique).flat_map(|i| &i.parts);
    if key.chain(unique).any(|part| is_set(part.column)) {
        LockMode::Update
    } else {
        LockMode::NoKeyUpdate
    }
}

fn find_and_set(
    environment: &Environment<'_>,
    text: &Arc<str>,
    update: &ast::Update,
    (target, alias): (&Target, &str),
    assigned: Vec<(usize, Expr)>,
    params: &mut Vec<DataType>,
) -> Result<(Finder, Vec<(usize, NewValue)>)> {
    let table = &target.table;
    let others = match &update.from {
        None => Vec::new(),
        Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
            from.clone()
        }
    };
    let condition = update.selection.as_ref();
    let mut guessed = params.clone();
    if others.is_empty() {
        let mut binder = Binder::of_table(environment, text, table, alias, &mut guessed);
        let by_access =
            Finder::by_access(&mut binder, table, alias, condition).and_then(|finder| {
                let sets = assigned.iter().map(|(place, value)| {
                    let column = &table.columns[*place];
                    let new = match is_default(value) {
                        true => NewValue::Default(target.default_of(environment, *place)?),
                        false => {
                            let bound = binder.bind_to(value, &column.data_type, &column.name)?;
                            NewValue::Bound(Box::new(bound))
                        }
                    };
                    Ok((*place, new))
                });
                Ok((finder, sets.collect::<Result<Vec<_>>>()?))
            });
        match by_access {
            Err(error) if needs_query(&error) => {}
            found => {
                *params = guessed;
                return found;
            }
        }
    }
    let (mut sets, mut computed) = (Vec::new(), Vec::new());
    for (place, mut value) in assigned {
        let new = if is_default(&value) {
            NewValue::Default(target.default_of(environment, place)?)
        } else {
            type_expr(&mut value, &table.columns[place].data_type);
            computed.push(value);
            NewValue::Computed(computed.len() - 1, table.columns[place].data_type.clone())
        };
        sets.push((place, new));
    }
    let mut from = vec![update.table.clone()];
    from.extend(others);
    let finder =
        Finder::by_query(environment, text, (table, alias), from, condition, computed, params)?;
    if let Finder::Query { select, width } = &finder {
        let columns = select.columns();
        for (place, new) in &sets {
            let NewValue::Computed(number, data_type) = new else { continue };
            let found = columns.get(width + number).map(|column| &column.data_type);
            if let Some(found) = found {
                check_assignment(found, data_type, &table.columns[*place].name)?;
            }
        }
    }
    Ok((finder, sets))
}
