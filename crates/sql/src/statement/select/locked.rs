//! SELECT … FOR UPDATE and FOR SHARE: rows of one table, locked one by one in their order.

use super::scan::{FIRST_ROWS, Reader, passes};
use super::single::{explain_access, limits, number, order_of, plain_select};
use super::{not_lockable, only_table, scan_all};
use crate::access::{Access, Condition};
use crate::statement::bind::{Binder, Bound};
use crate::statement::change::{Returning, TRIES_MAX, check_of_rows};
use crate::statement::{Column, Environment, Kept, Run};
use datafusion::sql::sqlparser::ast::{LockType, NonBlock, OrderByKind, Query};
use engine::Direction;
use relational::catalog::{Privileges, Relation, Table};
use relational::{DataType, LockMode, Oid, Result, Row, Value, Wait};
use std::cmp::Ordering;
use std::sync::Arc;

/// Most rows that a statement may lock.
pub(crate) const ROWS_MAX: usize = 5_000_000;

/// Most bytes of the rows that a statement that locks them gives.
const ROWS_BYTES_MAX: usize = 512 << 20;

/// A column or expression that rows are sorted by.
struct Sort {
    bound: Bound,
    descending: bool,
    nulls_first: bool,
}

/// A planned query that locks its rows.
pub(crate) struct Locked {
    table: Arc<Table>,
    access: Access,
    direction: Direction,
    filter: Option<Bound>,
    projection: Returning,
    sort: Vec<Sort>,
    limit: Option<Bound>,
    offset: Option<Bound>,
    mode: LockMode,
    wait: Wait,
}

impl Locked {
    /// Plans a query that locks its rows.
    pub(crate) fn plan(
        environment: &Environment<'_>,
        text: &Arc<str>,
        query: &Query,
        params: &mut Vec<DataType>,
    ) -> Result<Self> {
        let select =
            plain_select(query).ok_or_else(|| not_lockable("DISTINCT, GROUP BY, UNION or WITH"))?;
        let [from] = select.from.as_slice() else { return Err(not_lockable("several tables")) };
        let Some((table, alias)) = only_table(environment, from)? else {
            return Err(not_lockable("joins, views and subqueries"));
        };
        environment.check(&Relation::Table(Arc::clone(&table)), Privileges::UPDATE)?;
        check_of_rows(&table, "SELECT ... FOR UPDATE or FOR SHARE")?;
        let mut binder = Binder::of_table(environment, text, &table, &alias, params);
        let condition = Condition::analyze(&mut binder, &table, &alias, select.selection.as_ref());
        // An order that a key has needs no sort, so that a LIMIT reads no more than its rows.
        let by_key = order_of(query, select, &table, &alias).filter(|order| !order.is_empty());
        let by_key = by_key.and_then(|order| Access::in_order(&table, &condition, &order));
        let narrowest = Access::choose(&table, &condition);
        let by_key = by_key.filter(|(access, _)| access.is_narrow() || !narrowest.is_narrow());
        let is_ordered = by_key.is_some();
        let (access, direction) = by_key.unwrap_or((narrowest, Direction::Forward));
        let filter = select.selection.as_ref().map(|filter| binder.bind_condition(filter));
        let projection = Returning::bind(&mut binder, &table, &alias, &select.projection)?;
        let mut sort = Vec::new();
        if let Some(order) = query.order_by.as_ref().filter(|_| !is_ordered) {
            let OrderByKind::Expressions(items) = &order.kind else {
                return Err(not_lockable("ORDER BY ALL"));
            };
            for item in items {
                let descending = item.options.asc == Some(false);
                let nulls_first = item.options.nulls_first.unwrap_or(descending);
                sort.push(Sort { bound: binder.bind(&item.expr)?, descending, nulls_first });
            }
        }
        let (limit, offset) = limits(query).ok_or_else(|| not_lockable("this LIMIT"))?;
        let limit = limit.map(|limit| binder.bind_number(limit)).transpose()?;
        let offset = offset.map(|offset| binder.bind_number(offset)).transpose()?;
        let (mode, wait) = strongest(query);
        let filter = filter.transpose()?;
        Ok(Self { table, access, direction, filter, projection, sort, limit, offset, mode, wait })
    }

    /// Returns the number of the table.
    pub(crate) fn table(&self) -> Oid {
        self.table.oid
    }

    /// Returns the columns of the rows.
    pub(crate) fn columns(&self) -> Arc<[Column]> {
        self.projection.columns()
    }

    /// Returns the plan as lines of text.
    pub(crate) fn explain(&self) -> Vec<String> {
        let has_limit = self.limit.is_some();
        let mut lines = vec!["LockRows".to_owned()];
        let below = explain_access(&self.access, self.direction, self.filter.is_some(), has_limit);
        lines.extend(below.into_iter().map(|line| format!("  {line}")));
        lines
    }

    /// Locks the rows, and returns them as they are then.
    pub(crate) async fn rows(&self, run: &mut Run<'_>) -> Result<Vec<Row>> {
        let mut tries = 0;
        loop {
            let (rows, is_whole) = self.rows_once(run).await?;
            tries += 1;
            // A row that is gone under its lock may have another key, under which a later view has it.
            if is_whole || tries == TRIES_MAX || self.wait == Wait::Skip {
                return Ok(rows);
            }
            run.transaction.start_statement().await?;
        }
    }

    /// Locks the rows of a view. The other value is false if one of them is gone.
    async fn rows_once(&self, run: &mut Run<'_>) -> Result<(Vec<Row>, bool)> {
        let eval = run.eval();
        let limit = number(self.limit.as_ref(), &eval, "LIMIT")?.unwrap_or(u64::MAX);
        let mut offset = number(self.offset.as_ref(), &eval, "OFFSET")?.unwrap_or_default();
        let view = run.transaction.view();
        let mut is_whole = true;
        let way = (self.table.oid, &self.access, self.direction);
        let mut rows = Kept::new(ROWS_BYTES_MAX, "a statement that locks rows");
        if self.sort.is_empty() {
            let mut reader = Reader::new(view, way, &eval, &run.flag)?;
            while (rows.len() as u64) < limit
                && let Some(found) = reader.next(FIRST_ROWS).await?
            {
                for row in found {
                    if (rows.len() as u64) < limit && passes(self.filter.as_ref(), &row, &eval)? {
                        is_whole &= self.take(row, &mut offset, &mut rows, run).await?;
                    }
                }
            }
            return Ok((rows.rows(), is_whole));
        }
        let found = scan_all(view, way, self.filter.as_ref(), &eval, &run.flag, ROWS_MAX).await?;
        for row in self.sorted(found, &eval)? {
            if rows.len() as u64 >= limit {
                break;
            }
            is_whole &= self.take(row, &mut offset, &mut rows, run).await?;
        }
        Ok((rows.rows(), is_whole))
    }

    /// Locks a row that was found, and keeps what the query selects of it. Returns false if it is gone.
    async fn take(
        &self,
        row: Row,
        offset: &mut u64,
        rows: &mut Kept,
        run: &mut Run<'_>,
    ) -> Result<bool> {
        if *offset > 0 {
            *offset -= 1;
            return Ok(true);
        }
        run.flag.check()?;
        let eval = run.eval();
        let key = self.table.key_of(&row);
        let locked = run.transaction.lock(self.table.oid, &key, self.mode, self.wait).await?;
        let Some(locked) = locked else { return Ok(false) };
        if locked == row || passes(self.filter.as_ref(), &locked, &eval)? {
            rows.push(self.projection.row(&locked, &eval)?)?;
        }
        Ok(true)
    }

    fn sorted(&self, rows: Vec<Row>, eval: &crate::statement::Eval) -> Result<Vec<Row>> {
        if self.sort.is_empty() {
            return Ok(rows);
        }
        let mut keyed = Vec::with_capacity(rows.len());
        for row in rows {
            let key = self.sort.iter().map(|sort| sort.bound.value(&row, eval));
            keyed.push((key.collect::<Result<Vec<_>>>()?, row));
        }
        keyed.sort_by(|(a, _), (b, _)| {
            let orders = self.sort.iter().zip(a.iter().zip(b)).map(|(sort, (a, b))| {
                match (*a == Value::Null, *b == Value::Null) {
                    (true, true) => Ordering::Equal,
                    (true, false) if sort.nulls_first => Ordering::Less,
                    (true, false) => Ordering::Greater,
                    (false, true) if sort.nulls_first => Ordering::Greater,
                    (false, true) => Ordering::Less,
                    (false, false) if sort.descending => b.cmp(a),
                    (false, false) => a.cmp(b),
                }
            });
            orders.fold(Ordering::Equal, Ordering::then)
        });
        Ok(keyed.into_iter().map(|(_, row)| row).collect())
    }
}

/// Returns the strongest lock that a query asks for, and what it does about locks of others.
fn strongest(query: &Query) -> (LockMode, Wait) {
    let is_update = query.locks.iter().any(|lock| matches!(lock.lock_type, LockType::Update));
    let mode = if is_update { LockMode::Update } else { LockMode::Share };
    let wait = query.locks.iter().find_map(|lock| lock.nonblock.as_ref());
    let wait = match wait {
        None => Wait::Wait,
        Some(NonBlock::Nowait) => Wait::NoWait,
        Some(NonBlock::SkipLocked) => Wait::Skip,
    };
    (mode, wait)
}
