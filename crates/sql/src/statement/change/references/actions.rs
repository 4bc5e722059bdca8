//! Actions on rows that reference a key that is gone.
//!
//! The rows of one foreign key are looked for together: by an index, or in one scan of their table. A row that is
//! another one once it is locked may reference the key from another place, so all are looked for again then.

use super::{Gone, Key, Work, may_read, values_at};
use crate::statement::change::Target;
use crate::statement::change::target::Default;
use crate::statement::select::blocking;
use crate::statement::{Kept, Run};
use crate::values::{CastContext, cast_with};
use relational::catalog::KeyAction;
use relational::{LockMode, ReferencingScan, Result, Row, Value, Wait};
use std::collections::HashMap;

/// Rows that are looked for at once.
const BATCH_ROWS: usize = 1_024;
/// Most bytes of the rows that one action changes.
const FOUND_BYTES_MAX: usize = 512 << 20;

/// Keys that are gone and that one foreign key referenced.
pub(super) struct Group {
    key: Key,
    is_delete: bool,
    /// The values before, with the values that their rows have now.
    keys: Vec<(Vec<Value>, Option<Vec<Value>>)>,
}

/// Gathers keys by their foreign key, in the order in which they went.
fn groups(gone: Vec<Gone>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for Gone { key, old, new } in gone {
        let is_delete = new.is_none();
        let of = |group: &Group| group.key.key.oid == key.key.oid && group.is_delete == is_delete;
        match groups.iter_mut().find(|group| of(group)) {
            Some(group) => group.keys.push((old, new)),
            None => groups.push(Group { key, is_delete, keys: vec![(old, new)] }),
        }
    }
    groups
}

impl Work {
    pub(super) async fn finish(&mut self, run: &mut Run<'_>) -> Result<()> {
        let mut last = Vec::new();
        while !self.gone.is_empty() {
            for group in groups(std::mem::take(&mut self.gone)) {
                let key = &group.key.key;
                match if group.is_delete { key.on_delete } else { key.on_update } {
                    KeyAction::NoAction => last.push(group),
                    KeyAction::Restrict => self.refuse(run, &group, false).await?,
                    KeyAction::Cascade if group.is_delete => self.delete(run, &group).await?,
                    KeyAction::SetDefault => {
                        self.change(run, &group, KeyAction::SetDefault).await?;
                        // The default may be the key that is gone.
                        last.push(group);
                    }
                    action => self.change(run, &group, action).await?,
                }
            }
        }
        for group in &last {
            self.refuse(run, group, true).await?;
        }
        self.look_again(run).await
    }

    /// Fails with 23503 if a row references one of the keys. With `can_be_back`, keys that a row has again do not count.
    async fn refuse(&mut self, run: &mut Run<'_>, group: &Group, can_be_back: bool) -> Result<()> {
        let Key { table, key } = &group.key;
        let mut keys = HashMap::new();
        for (old, _) in &group.keys {
            if can_be_back && run.transaction.has_referenced(key, old).await? {
                continue;
            }
            if let Some(values) = key.referencing(table, old) {
                keys.insert(values, old);
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        while !self.refuse_found(run, &group.key, &keys).await? {}
        Ok(())
    }

    /// Fails with 23503 if a row that is found now references one of the keys, which are given by the values that
    /// reference them. Returns false if a row was another one once it was locked.
    async fn refuse_found(
        &self,
        run: &mut Run<'_>,
        of: &Key,
        keys: &HashMap<Vec<Value>, &Vec<Value>>,
    ) -> Result<bool> {
        let Key { table, key } = of;
        let places = key.places(table);
        let mut is_same = true;
        let mut scan = Some(search(run, of, keys.values().map(|old| (*old).clone()))?);
        while let Some(rows) = next_rows(&mut scan).await? {
            for row in rows {
                run.flag.check()?;
                let row_key = table.key_of(&row);
                let now = run.transaction.lock_referencing(table.oid, &row_key).await?;
                is_same &= now.as_ref() == Some(&row);
                let Some(now) = now else { continue };
                if let Some(old) = keys.get(&values_at(&now, &places)) {
                    let Some(referenced) = self.catalog.table(key.references) else { continue };
                    let shown = may_read(run, referenced).then_some(&old[..]);
                    return Err(key.still_referenced(&self.catalog, table, referenced, shown));
                }
            }
        }
        Ok(is_same)
    }

    /// Deletes the rows that reference the keys.
    async fn delete(&mut self, run: &mut Run<'_>, group: &Group) -> Result<()> {
        let table = &group.key.table;
        for (row, _) in locked_rows(run, group, LockMode::Update).await? {
            run.flag.check()?;
            self.left(table.oid, &row, None)?;
            run.transaction.delete(table.oid, &row).await?;
        }
        Ok(())
    }

    /// Changes the referencing columns of the rows that reference the keys.
    async fn change(&mut self, run: &mut Run<'_>, group: &Group, action: KeyAction) -> Result<()> {
        let Key { table, key } = &group.key;
        let places = key.places(table);
        let (target, defaults) = {
            let catalog = run.transaction.catalog();
            let environment = run.environment(&catalog);
            let target = Target::of(&environment, table)?;
            let default = |place: &usize| target.default_of(&environment, *place);
            let defaults: Vec<Default> = places.iter().map(default).collect::<Result<_>>()?;
            (target, defaults)
        };
        for (row, now) in locked_rows(run, group, mode_of(&group.key)).await? {
            run.flag.check()?;
            let mut new = row.clone();
            for (at, place) in places.iter().enumerate() {
                let data_type = &table.columns[*place].data_type;
                new[*place] = match action {
                    KeyAction::SetNull => Value::Null,
                    KeyAction::SetDefault => defaults[at].value(run, data_type).await?,
                    _ => {
                        let value = now.as_ref().and_then(|now| now.get(at).cloned());
                        let settings = run.settings.of_values();
                        let value = value.unwrap_or_default();
                        cast_with(value, data_type, CastContext::Assignment, settings)?
                    }
                };
            }
            target.finish(&mut new, &run.eval())?;
            self.left(table.oid, &row, Some(&new))?;
            run.transaction.update(table.oid, &row, new.clone()).await?;
            self.written(run, table.oid, Some(&row), &new).await?;
        }
        Ok(())
    }
}

/// Returns the lock that a change of the referencing columns needs: a weaker one if they are part of no key.
fn mode_of(Key { table, key }: &Key) -> LockMode {
    let primary = table.primary_key.iter().flat_map(|key| &key.parts);
    let unique = table.indexes.iter().filter(|index| index.unique).flat_map(|i| &i.parts);
    match primary.chain(unique).any(|part| key.columns.contains(&part.column)) {
        true => LockMode::Update,
        false => LockMode::NoKeyUpdate,
    }
}

/// Begins a search for the rows that reference one of some keys.
fn search(
    run: &Run<'_>,
    Key { table, key }: &Key,
    keys: impl Iterator<Item = Vec<Value>>,
) -> Result<ReferencingScan> {
    let keys: Vec<Vec<Value>> = keys.collect();
    run.transaction.latest_view().referencing(table, key, &keys, run.flag.clone())
}

/// Returns the next rows of a search; nothing at the end.
async fn next_rows(scan: &mut Option<ReferencingScan>) -> Result<Option<Vec<Row>>> {
    let Some(mut open) = scan.take() else { return Ok(None) };
    let (found, open) = blocking(move || (open.next_batch(BATCH_ROWS), open)).await?;
    let found = found?;
    if found.is_empty() {
        return Ok(None);
    }
    *scan = Some(open);
    Ok(Some(found))
}

/// Finds and locks the rows that reference the keys of a group. Returns each with the values that the referenced row has
/// now, if it is there.
async fn locked_rows(
    run: &mut Run<'_>,
    group: &Group,
    mode: LockMode,
) -> Result<Vec<(Row, Option<Vec<Value>>)>> {
    let Key { table, key } = &group.key;
    let values = |(old, new): &(Vec<Value>, Option<Vec<Value>>)| {
        Some((key.referencing(table, old)?, new.clone()))
    };
    let wanted: HashMap<Vec<Value>, Option<Vec<Value>>> =
        group.keys.iter().filter_map(values).collect();
    let places = key.places(table);
    loop {
        let rows = found_rows(run, group).await?;
        let mut locked = Vec::with_capacity(rows.len());
        let mut is_over = true;
        for row in rows.rows() {
            run.flag.check()?;
            let row_key = table.key_of(&row);
            let now = run.transaction.lock(table.oid, &row_key, mode, Wait::Wait).await?;
            is_over &= now.as_ref() == Some(&row);
            let Some(now) = now else { continue };
            if let Some(new) = wanted.get(&values_at(&now, &places)) {
                locked.push((now, new.clone()));
            }
        }
        if is_over {
            return Ok(locked);
        }
    }
}

/// Finds the rows that reference the keys of a group.
async fn found_rows(run: &mut Run<'_>, group: &Group) -> Result<Kept> {
    let mut rows = Kept::new(FOUND_BYTES_MAX, "an action of a foreign key");
    let mut scan = Some(search(run, &group.key, group.keys.iter().map(|(old, _)| old.clone()))?);
    while let Some(found) = next_rows(&mut scan).await? {
        found.into_iter().try_for_each(|row| rows.push(row))?;
    }
    Ok(rows)
}
