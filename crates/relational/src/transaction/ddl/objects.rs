//! Schemas, views, sequences and comments.

use super::super::Transaction;
use super::definitions::{CommentOn, NewSequence, NewView, NewWide, SequenceChange};
use super::tables::{drop_tables, drop_views_over};
use super::{check_free, check_name, depends};
use crate::catalog::record::Object;
use crate::catalog::{BIGTABLE_SCHEMA, Schema, Sequence, ViewDefinition, WideTable};
use crate::error::{Error, Result};
use crate::state::SqlState;
use crate::types::Oid;

impl Transaction {
    /// Creates a schema and returns its number. 42P06 if the name is taken.
    pub async fn create_schema(&mut self, name: &str, owner: Oid) -> Result<Oid> {
        self.begin_change("CREATE SCHEMA").await?;
        check_name(name)?;
        if name.starts_with("pg_") || matches!(name, "information_schema" | "bigtable") {
            let message = format!("unacceptable schema name \"{name}\"");
            return Err(Error::new(SqlState::RESERVED_NAME, message));
        }
        self.change(|catalog| {
            if catalog.schema_named(name).is_some() {
                let message = format!("schema \"{name}\" already exists");
                return Err(Error::new(SqlState::DUPLICATE_SCHEMA, message));
            }
            let oid = catalog.take_oid();
            let (name, grants) = (name.to_owned(), Vec::new());
            catalog.put_schema(Schema { oid, name, owner, comment: None, grants });
            Ok(oid)
        })
    }

    /// Drops a schema. With `cascade` all in it goes too; without it that is a reason to refuse (2BP01).
    pub async fn drop_schema(&mut self, schema: Oid, cascade: bool) -> Result<()> {
        check_is_ours(schema, "drop")?;
        self.begin_change("DROP SCHEMA").await?;
        let in_schema = self.catalog.tables().filter(|table| table.schema == schema);
        let tables: Vec<_> = in_schema.map(|table| table.oid).collect();
        if cascade {
            for table in &tables {
                self.begin_table_change("DROP SCHEMA", *table).await?;
            }
            self.begin_change_of_referencing("DROP SCHEMA", &tables).await?;
        }
        self.change(|catalog| {
            if catalog.has_relations(schema) && !cascade {
                let name = catalog.schema(schema).map_or("", |schema| schema.name.as_str());
                return Err(depends(&format!("schema {name}"), &["what is in it".to_owned()]));
            }
            drop_tables(catalog, &tables, true)?;
            let views = catalog.views().filter(|view| view.schema == schema);
            let views: Vec<_> = views.map(|view| view.oid).collect();
            for view in views {
                drop_views_over(catalog, view, "", true)?;
                catalog.remove_view(view);
            }
            let wides = catalog.wides().filter(|wide| wide.schema == schema);
            let wides: Vec<_> = wides.map(|wide| wide.oid).collect();
            for wide in wides {
                drop_views_over(catalog, wide, "", true)?;
                catalog.remove_wide(wide);
            }
            let sequences = catalog.sequences().filter(|sequence| sequence.schema == schema);
            let sequences: Vec<_> = sequences.map(|sequence| sequence.oid).collect();
            sequences.into_iter().for_each(|sequence| catalog.remove_sequence(sequence));
            catalog.remove_schema(schema);
            Ok(())
        })
    }

    /// Gives a schema another name or owner.
    pub async fn alter_schema(
        &mut self,
        schema: Oid,
        name: Option<&str>,
        owner: Option<Oid>,
    ) -> Result<()> {
        check_is_ours(schema, "alter")?;
        self.begin_change("ALTER SCHEMA").await?;
        self.change(|catalog| {
            let found = catalog.schema(schema).map(|schema| Schema::clone(schema));
            let mut schema = found.ok_or_else(|| {
                Error::new(SqlState::INVALID_SCHEMA_NAME, "the schema does not exist")
            })?;
            if let Some(name) = name {
                check_name(name)?;
                if catalog.schema_named(name).is_some() {
                    let message = format!("schema \"{name}\" already exists");
                    return Err(Error::new(SqlState::DUPLICATE_SCHEMA, message));
                }
                schema.name = name.to_owned();
            }
            schema.owner = owner.unwrap_or(schema.owner);
            catalog.put_schema(schema);
            Ok(())
        })
    }

    /// Creates a view, or replaces one, and returns its number. 42P07 if the name is taken, 42P16 if the
    /// columns of a replaced view would change.
    pub async fn create_view(&mut self, new: NewView) -> Result<Oid> {
        self.begin_change("CREATE VIEW").await?;
        self.change(|catalog| {
            let found = catalog.find(new.schema, &new.name);
            let replaced = found.and_then(|found| catalog.view(found.oid()).cloned());
            let before = replaced.filter(|_| new.replace);
            if before.is_none() {
                check_free(catalog, new.schema, &new.name)?;
            }
            if let Some(before) = &before
                && !new.columns.starts_with(&before.columns)
            {
                let message = "cannot change names or types of the columns of a view";
                return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            let oid = before.as_ref().map_or_else(|| catalog.take_oid(), |view| view.oid);
            catalog.put_view(ViewDefinition {
                oid,
                schema: new.schema,
                name: new.name,
                owner: before.as_ref().map_or(new.owner, |view| view.owner),
                query: new.query,
                columns: new.columns,
                reads: new.reads,
                names: new.names,
                comment: before.as_ref().and_then(|view| view.comment.clone()),
                grants: before.map(|view| view.grants.clone()).unwrap_or_default(),
            });
            Ok(oid)
        })
    }

    /// Drops a view, and with `cascade` the views that read it; without it they are a reason to refuse (2BP01).
    pub async fn drop_view(&mut self, view: Oid, cascade: bool) -> Result<()> {
        self.begin_change("DROP VIEW").await?;
        self.change(|catalog| {
            let name = catalog.view(view).map(|view| format!("view {}", view.name));
            drop_views_over(catalog, view, &name.unwrap_or_default(), cascade)?;
            catalog.remove_view(view);
            Ok(())
        })
    }

    /// Declares a Bigtable table and returns its number. 42P07 if the name is taken.
    pub async fn create_wide(&mut self, new: NewWide) -> Result<Oid> {
        self.begin_change("CREATE FOREIGN TABLE").await?;
        self.change(|catalog| {
            check_free(catalog, new.schema, &new.name)?;
            new.columns.iter().try_for_each(|column| check_name(&column.name))?;
            let oid = catalog.take_oid();
            let NewWide { schema, name, owner, table, columns } = new;
            let (comment, grants) = (None, Vec::new());
            catalog.put_wide(WideTable {
                oid,
                schema,
                name,
                owner,
                table,
                columns,
                comment,
                grants,
            });
            Ok(oid)
        })
    }

    /// Drops the declaration of a Bigtable table, and with `cascade` the views that read it; without it they
    /// are a reason to refuse (2BP01). The Bigtable table stays.
    pub async fn drop_wide(&mut self, wide: Oid, cascade: bool) -> Result<()> {
        self.begin_change("DROP FOREIGN TABLE").await?;
        self.change(|catalog| {
            let name = catalog.wide(wide).map(|wide| format!("foreign table {}", wide.name));
            drop_views_over(catalog, wide, &name.unwrap_or_default(), cascade)?;
            catalog.remove_wide(wide);
            Ok(())
        })
    }

    /// Creates a sequence and returns its number. 42P07 if the name is taken, 22023 if its numbers do not
    /// fit each other.
    pub async fn create_sequence(&mut self, new: NewSequence) -> Result<Oid> {
        self.begin_change("CREATE SEQUENCE").await?;
        let oid = self.change(|catalog| {
            check_free(catalog, new.schema, &new.name)?;
            let sequence = Sequence {
                oid: catalog.take_oid(),
                schema: new.schema,
                name: new.name,
                owner: new.owner,
                data_type: new.data_type,
                start: new.start,
                increment: new.increment,
                min: new.min,
                max: new.max,
                cycle: new.cycle,
                owned_by: new.owned_by,
                comment: None,
                grants: Vec::new(),
            };
            check_sequence(&sequence)?;
            let oid = sequence.oid;
            catalog.put_sequence(sequence);
            Ok(oid)
        })?;
        // A rolled-back transaction may have left a state under this number.
        if let Some(sequence) = self.catalog.sequence(oid).cloned() {
            self.database.set_value(&sequence, sequence.start, false).await?;
        }
        Ok(oid)
    }

    /// Changes the definition of a sequence. Its position stays: see [`crate::Database::set_value`].
    pub async fn alter_sequence(&mut self, sequence: Oid, change: SequenceChange) -> Result<()> {
        self.begin_change("ALTER SEQUENCE").await?;
        if let Some(before) = self.catalog.sequence(sequence).cloned() {
            self.database.settle(&before).await?;
        }
        self.change(|catalog| {
            let found = catalog.sequence(sequence).map(|sequence| Sequence::clone(sequence));
            let mut sequence = found.ok_or_else(|| {
                Error::new(SqlState::UNDEFINED_TABLE, "the sequence does not exist")
            })?;
            sequence.increment = change.increment.unwrap_or(sequence.increment);
            sequence.min = change.min.unwrap_or(sequence.min);
            sequence.max = change.max.unwrap_or(sequence.max);
            sequence.start = change.start.unwrap_or(sequence.start);
            sequence.cycle = change.cycle.unwrap_or(sequence.cycle);
            sequence.owned_by = change.owned_by.unwrap_or(sequence.owned_by);
            check_sequence(&sequence)?;
            if let Some(name) = change.name {
                check_free(catalog, sequence.schema, &name)?;
                catalog.remove_sequence(sequence.oid);
                sequence.name = name;
            }
            catalog.put_sequence(sequence);
            Ok(())
        })
    }

    /// Drops a sequence. 2BP01 if a column owns it and `cascade` is not set; with it the default of the
    /// column is removed.
    pub async fn drop_sequence(&mut self, sequence: Oid, cascade: bool) -> Result<()> {
        let owner = self.catalog.sequence(sequence).and_then(|sequence| sequence.owned_by);
        match owner {
            Some((table, _)) => self.begin_table_change("DROP SEQUENCE", table).await?,
            None => self.begin_change("DROP SEQUENCE").await?,
        }
        self.change(|catalog| {
            let table = owner.and_then(|(table, _)| catalog.table(table));
            if let (Some((_, number)), Some(table)) = (owner, table) {
                let mut table = crate::catalog::Table::clone(table);
                let column = table.columns.iter_mut().find(|column| column.number == number);
                if let Some(column) = column.filter(|column| column.default.is_some()) {
                    if !cascade {
                        let what = format!("default value for column {}", column.name);
                        return Err(depends("sequence", &[what]));
                    }
                    column.default = None;
                    catalog.put_table(table);
                }
            }
            catalog.remove_sequence(sequence);
            Ok(())
        })
    }

    /// Sets or removes the comment of a thing. 42704 if it is not there.
    pub async fn comment(&mut self, on: CommentOn, comment: Option<String>) -> Result<()> {
        let table = match on {
            CommentOn::Object(oid) => {
                let of_index = self.catalog.table_of_index(oid);
                of_index.or_else(|| self.catalog.table(oid)).map(|table| table.oid)
            }
            CommentOn::Column(table, _) => Some(table),
        };
        match table {
            Some(table) => self.begin_table_change("COMMENT", table).await?,
            None => self.begin_change("COMMENT").await?,
        }
        self.change(|catalog| {
            let missing = || Error::new(SqlState::UNDEFINED_OBJECT, "the object does not exist");
            let oid = match on {
                CommentOn::Object(oid) => table.unwrap_or(oid),
                CommentOn::Column(table, _) => table,
            };
            let mut object = catalog.object(oid).ok_or_else(missing)?;
            let place = match &mut object {
                Object::Database(_) => None,
                Object::Schema(schema) => Some(&mut schema.comment),
                Object::View(view) => Some(&mut view.comment),
                Object::Sequence(sequence) => Some(&mut sequence.comment),
                Object::Role(role) => Some(&mut role.comment),
                Object::Wide(wide) => Some(&mut wide.comment),
                Object::Table(table) => match on {
                    CommentOn::Object(of) if of == table.oid => Some(&mut table.comment),
                    CommentOn::Object(of) => {
                        let key = table.primary_key.as_mut().filter(|key| key.oid == of);
                        let index = table.indexes.iter_mut().find(|index| index.oid == of);
                        let index = index.map(|index| &mut index.comment);
                        key.map(|key| &mut key.comment).or(index)
                    }
                    CommentOn::Column(_, number) => {
                        let column = table.columns.iter_mut().find(|c| c.number == number);
                        column.map(|column| &mut column.comment)
                    }
                },
            };
            *place.ok_or_else(missing)? = comment;
            catalog.put(object);
            Ok(())
        })
    }
}

/// Fails with 2BP01 for the schema of the store's own tables.
fn check_is_ours(schema: Oid, verb: &str) -> Result<()> {
    if schema != BIGTABLE_SCHEMA {
        return Ok(());
    }
    let message = format!("cannot {verb} schema bigtable because the database system requires it");
    Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message))
}

/// Fails with 22023 if the numbers of a sequence do not fit each other.
fn check_sequence(sequence: &Sequence) -> Result<()> {
    let Sequence { start, increment, min, max, .. } = *sequence;
    let message = if increment == 0 {
        "INCREMENT must not be zero".to_owned()
    } else if min >= max {
        format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")
    } else if start < min {
        format!("START value ({start}) cannot be less than MINVALUE ({min})")
    } else if start > max {
        format!("START value ({start}) cannot be greater than MAXVALUE ({max})")
    } else {
        return Ok(());
    };
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
}
