//! The schema of a cluster's tables on one of its nodes.
//!
//! 1. The directory has the newest record of each table. A change is made to that record, if it is
//!    still of the version that was read, and gets a version above all others, with the change.
//! 2. A call that changes a table returns when the leaders of all its tablets have the new schema:
//!    no leader serves with an older one after it. A call that fails with `Unavailable` may have
//!    changed the record. Nodes learn it then from the directory, and give it to leaders that lack it. So
//!    does the call when it is repeated, also if it is refused because its change is there.
//! 3. A table's groups are there before its record, and go after it. An intent names them meanwhile.
//!    [`Local::finish_intents`] carries out what a change left behind, until every node has done its part.
//!    Groups that have rows stay, unless a later change than the one that they know removed their table: a
//!    directory that was restored from a backup may have the intent of a creation and not its table.
//! 4. Of two schemas under one name a node keeps that of the higher version. Compactions know the
//!    rules of new families before anybody can write to them.
//! 5. Changes run to their end, also where their caller goes away.

use super::super::meta::{MetaChange, trees_of};
use super::super::tables::{apply_changes, apply_update, check_unprotected, tablets};
use super::super::{Core, Local};
use super::Replicated;
use crate::error::{Error, Result};
use crate::gc::TableRules;
use crate::groups::{Removal, Versioned};
use crate::records::RecordChange;
use crate::schema::{CreateTable, FamilyChange, TableName, TableSchema, TableUpdate};
use engine::TreeId;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

/// Times that a change is made, where other nodes change the table meanwhile.
const ATTEMPTS_MAX: usize = 8;

impl Local {
    /// Takes note of a table's schema, unless a newer one is known. Compactions of the tablets that this
    /// node has go by its GC rules. Called again after a tablet's tree was created.
    pub fn learn(&self, known: Versioned) -> Result<()> {
        let core = &self.core;
        let Some(replicated) = core.replicated() else { return Err(not_replicated()) };
        let Versioned { schema, version } = known;
        let _learning = replicated.learning.lock();
        let before = core.tables.read().get(&schema.name).cloned();
        if before.as_ref().is_some_and(|before| before.version > version) {
            return Ok(());
        }
        core.set_rules_here(&schema)?;
        match before {
            Some(before) if before.version == version => return Ok(()),
            // Another table of the same name: nothing of it is kept.
            Some(before) if before.schema.created_micros != schema.created_micros => {
                core.forget_table(&schema.name);
            }
            _ => {}
        }
        core.publish_as(schema, version);
        Ok(())
    }

    /// Forgets a table that was deleted by a change of version `version`, unless there is a newer one of its
    /// name.
    pub fn forget(&self, table: &TableName, version: u64) {
        let Some(replicated) = self.core.replicated() else { return };
        let _learning = replicated.learning.lock();
        let mut tables = self.core.tables.write();
        if tables.get(table).is_some_and(|known| known.version < version) {
            self.core.note_tables(&mut tables).remove(table);
        }
    }

    /// Takes note of changed records of the front, in the order of their changes.
    pub fn learn_records(&self, changes: Vec<RecordChange>) {
        self.core.publish_records(changes);
    }

    /// Takes note of all tables and records of the front that the directory has, and forgets the others. What
    /// changes meanwhile is to be told afterwards.
    pub async fn refresh(&self) -> Result<()> {
        let core = Arc::clone(&self.core);
        let local = self.clone();
        self.writes
            .run(move || {
                let Some(replicated) = core.replicated() else { return Err(not_replicated()) };
                // A table that is known before the directory is read, and is not there then, is gone.
                let known = core.known_versions();
                let tables = replicated.meta.versioned_tables()?;
                let records = replicated.meta.records()?;
                let there: BTreeSet<_> =
                    tables.iter().map(|known| known.schema.name.clone()).collect();
                tables.into_iter().try_for_each(|known| local.learn(known))?;
                for (gone, version) in known.iter().filter(|(name, _)| !there.contains(name)) {
                    local.forget(gone, version + 1);
                }
                core.replace_records(records);
                Ok(())
            })
            .await
    }

    /// Asks the directory for tables that are said to be gone, and forgets each that is. Blocks.
    pub fn verify_gone(&self, names: &[TableName]) -> Result<()> {
        let Some(replicated) = self.core.replicated() else { return Err(not_replicated()) };
        for name in names {
            // Before the directory is asked: a table that takes the name later has a higher version.
            let known = self.core.tables.read().get(name).map(|table| table.version);
            match replicated.meta.versioned_table(name)? {
                Some(newer) => self.learn(newer)?,
                None => known.into_iter().for_each(|version| self.forget(name, version + 1)),
            }
        }
        Ok(())
    }

    /// Carries out the intents of this node that no call is about any more: removes groups that belong
    /// to no table, and forgets intents whose groups have to stay. What cannot be reached is left for the next call.
    /// Returns the number of intents that are left.
    pub async fn finish_intents(&self) -> Result<usize> {
        let Some(replicated) = self.core.replicated() else { return Err(not_replicated()) };
        let left = {
            // No creation of this node is under way here, and none that was can succeed afterwards.
            let _changing = replicated.changing.lock().await;
            self.ask(|replicated| {
                let removals = replicated.meta.removals()?;
                removals.iter().try_for_each(|removal| replicated.meta.claim(removal))?;
                let tables = replicated.meta.versioned_tables()?;
                let of_tables = tables.iter().flat_map(|known| &known.schema.tablets);
                let used: BTreeSet<TreeId> = of_tables.map(|tablet| tablet.tree).collect();
                let mut left = Vec::new();
                for removal in removals {
                    match removal.trees.iter().any(|tree| used.contains(tree)) {
                        true => replicated.meta.forget(&removal.trees)?,
                        false => left.push(removal),
                    }
                }
                Ok(left)
            })
            .await?
        };
        let mut failed = 0;
        for removal in left {
            failed += usize::from(!self.remove_intended(replicated, removal).await);
        }
        Ok(failed)
    }

    pub(in crate::local) async fn create_in_groups(
        &self,
        table: CreateTable,
    ) -> Result<Arc<TableSchema>> {
        self.to_the_end(|local| async move { local.create(table).await }).await
    }

    pub(in crate::local) async fn delete_in_groups(&self, table: &TableName) -> Result<()> {
        let table = table.clone();
        self.to_the_end(|local| async move { local.delete(table).await }).await
    }

    pub(in crate::local) async fn update_in_groups(
        &self,
        table: &TableName,
        update: TableUpdate,
    ) -> Result<Arc<TableSchema>> {
        if update.change_retention.flatten().is_some() {
            self.core.check_alone("change streams")?;
        }
        let change = move |schema: &mut TableSchema| apply_update(schema, update.clone());
        let table = table.clone();
        self.to_the_end(|local| async move { local.alter(table, change).await }).await
    }

    pub(in crate::local) async fn modify_families_in_groups(
        &self,
        table: &TableName,
        changes: Vec<FamilyChange>,
    ) -> Result<Arc<TableSchema>> {
        let change = move |schema: &mut TableSchema| apply_changes(schema, changes.clone());
        let table = table.clone();
        self.to_the_end(|local| async move { local.alter(table, change).await }).await
    }

    /// Runs a change of the schema in a task of its own.
    async fn to_the_end<T: Send + 'static, F>(&self, change: impl FnOnce(Self) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let task = tokio::spawn(change(self.clone()));
        task.await.map_err(|error| Error::Internal(format!("a call ended early: {error}")))?
    }

    /// Calls the directory on a blocking thread.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Replicated) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let core = Arc::clone(&self.core);
        let ask = move || match core.replicated() {
            Some(replicated) => question(replicated),
            None => Err(not_replicated()),
        };
        self.writes.run(ask).await
    }

    async fn create(self, table: CreateTable) -> Result<Arc<TableSchema>> {
        let Some(replicated) = self.core.replicated() else { return Err(not_replicated()) };
        let (mut schema, splits) = self.core.new_schema(table)?;
        let _changing = replicated.changing.lock().await;
        let prepare = move |replicated: &Replicated| {
            let meta = &replicated.meta;
            if meta.versioned_table(&schema.name)?.is_some() {
                return Err(already_there(&schema.name));
            }
            let first = meta.reserve_trees(splits.len() as u32 + 1)?;
            schema.tablets = tablets(splits, first);
            let version = meta.next_version()?;
            meta.intend_new(&trees_of(&schema), version)?;
            Ok(Versioned { schema, version })
        };
        let known = self.ask(prepare).await?;
        let removal = Removal { trees: trees_of(&known.schema), version: known.version };
        match replicated.groups.create(&known.schema, known.version).await {
            Ok(()) => {}
            // The groups are another table's: to remove them would remove its rows.
            Err(error @ Error::AlreadyExists { .. }) => {
                let trees = &removal.trees;
                tracing::error!(%error, ?trees, "the directory gave the ids of a table again: it was restored");
                self.ask(move |replicated| replicated.meta.abandon(&removal.trees)).await?;
                let text = "ids of the new table are in use; repeat the call";
                return Err(Error::Aborted(text.to_owned()));
            }
            Err(error) => {
                self.remove_intended(replicated, removal).await;
                return Err(error);
            }
        }
        let new = known.clone();
        let put = move |replicated: &Replicated| {
            let schema = &new.schema;
            let trees = trees_of(schema);
            let changes = [MetaChange::PutTable(schema), MetaChange::Forget(&trees)];
            match replicated.meta.change_if(&schema.name, None, &changes) {
                // Another node was faster, or took over the intent.
                Err(Error::Aborted(_))
                    if replicated.meta.versioned_table(&schema.name)?.is_some() =>
                {
                    Err(already_there(&schema.name))
                }
                outcome => outcome,
            }
        };
        // Above every version that was given while the groups were created.
        let version = match self.ask(put).await {
            Ok(version) => version,
            Err(error @ (Error::Aborted(_) | Error::AlreadyExists { .. })) => {
                self.remove_intended(replicated, removal).await;
                return Err(error);
            }
            // The record may be there: the groups stay.
            Err(error) => return Err(error),
        };
        self.known(Versioned { version, ..known })
    }

    async fn delete(self, name: TableName) -> Result<()> {
        let Some(replicated) = self.core.replicated() else { return Err(not_replicated()) };
        let _changing = replicated.changing.lock().await;
        let below = self.core.records_below(name.as_str());
        let below: Vec<_> = below.into_iter().map(|(name, _)| RecordChange::remove(name)).collect();
        let (table, removed) = (name.clone(), below.clone());
        let remove = move |replicated: &Replicated| {
            let mut trees = Vec::new();
            let after = change_newest(replicated, &table, |schema, before| {
                check_unprotected(schema)?;
                trees = trees_of(schema);
                let mut changes: Vec<_> = removed.iter().map(MetaChange::Record).collect();
                changes.extend([MetaChange::RemoveTable(&table), MetaChange::Intend(&trees)]);
                replicated.meta.change_if(&table, Some(before), &changes)
            });
            Ok((trees, after?.version))
        };
        let (trees, version) = self.ask(remove).await?;
        self.forget(&name, version);
        self.core.publish_records(below);
        // The table is gone whatever happens to its groups.
        self.remove_intended(replicated, Removal { trees, version }).await;
        Ok(())
    }

    async fn alter(
        self,
        name: TableName,
        change: impl Fn(&mut TableSchema) -> Result<()> + Send + 'static,
    ) -> Result<Arc<TableSchema>> {
        let Some(replicated) = self.core.replicated() else { return Err(not_replicated()) };
        let _changing = replicated.changing.lock().await;
        let table = name.clone();
        let put = move |replicated: &Replicated| {
            change_newest(replicated, &table, |schema, before| {
                change(schema)?;
                let changes = [MetaChange::PutTable(schema)];
                replicated.meta.change_if(&table, Some(before), &changes)
            })
        };
        let known = match self.ask(put).await {
            Ok(known) => known,
            // The change may be there, made by an earlier call that did not reach the groups.
            Err(error @ (Error::AlreadyExists { .. } | Error::NotFound { .. })) => {
                self.set_newest(replicated, name).await?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        replicated.groups.set_schema(&known.schema, known.version).await?;
        self.known(known)
    }

    /// Gives the groups of a table, if it is there, the schema that the directory has.
    async fn set_newest(&self, replicated: &Replicated, name: TableName) -> Result<()> {
        let newest = self.ask(move |replicated| replicated.meta.versioned_table(&name)).await?;
        let Some(newest) = newest else { return Ok(()) };
        replicated.groups.set_schema(&newest.schema, newest.version).await?;
        self.learn(newest)
    }

    /// Learns the outcome of a change of this node, and returns it.
    fn known(&self, known: Versioned) -> Result<Arc<TableSchema>> {
        let schema = Arc::new(known.schema.clone());
        self.learn(known)?;
        Ok(schema)
    }

    /// Removes groups that an intent names. What fails is left to the intent. Returns true if the intent is gone.
    async fn remove_intended(&self, replicated: &Replicated, removal: Removal) -> bool {
        let trees = removal.trees.clone();
        let removed = match replicated.groups.remove(&removal).await {
            Ok(()) => self.ask(move |replicated| replicated.meta.removed(&trees)).await,
            Err(error @ Error::AlreadyExists { .. }) => {
                tracing::error!(
                    %error, ?trees,
                    "the directory was restored from a backup and lacks a table: its rows stay, and cannot be reached"
                );
                self.ask(move |replicated| replicated.meta.abandon(&trees)).await
            }
            Err(error) => Err(error),
        };
        let trees = &removal.trees;
        if let Err(error) = &removed {
            let (first, count) = (trees.first().map(|tree| tree.0), trees.len());
            tracing::warn!(%error, first, count, "some groups of a table that is gone are still there; trying again");
        }
        removed.is_ok()
    }
}

impl Core {
    /// Returns the tables that are known here, with their versions.
    fn known_versions(&self) -> Vec<(TableName, u64)> {
        let tables = self.tables.read();
        tables.iter().map(|(name, table)| (name.clone(), table.version)).collect()
    }

    /// Sets the GC rules of a table in the trees that this node has.
    fn set_rules_here(&self, schema: &TableSchema) -> Result<()> {
        let rules = Arc::new(TableRules::of(schema));
        for tablet in &schema.tablets {
            match self.engine.tree(tablet.tree) {
                Ok(tree) => tree.set_elision_rules(rules.clone())?,
                Err(engine::Error::UnknownTree(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Makes `change` to the newest record of a table: it gets the schema and its version, and returns the
/// version of the change. Again where the record changed meanwhile. Returns the schema that it left, and
/// the version of the change.
fn change_newest(
    replicated: &Replicated,
    name: &TableName,
    mut change: impl FnMut(&mut TableSchema, u64) -> Result<u64>,
) -> Result<Versioned> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let found = replicated.meta.versioned_table(name)?;
        let Some(Versioned { mut schema, version: before }) = found else {
            return Err(Error::no_table(name));
        };
        match change(&mut schema, before) {
            Err(Error::Aborted(_)) if attempts < ATTEMPTS_MAX => {}
            outcome => return outcome.map(|version| Versioned { schema, version }),
        }
    }
}

fn already_there(name: &TableName) -> Error {
    Error::AlreadyExists { what: "table", name: name.to_string() }
}

fn not_replicated() -> Error {
    Error::FailedPrecondition("the server is not a node of a cluster".into())
}
