//! Rows straight into a data directory that no server has open.

use super::target::{Failure, Target};
use anyhow::{Context, Result};
use async_trait::async_trait;
use base::env::SystemClock;
use bigtable::{schema_message, table_of_message};
use bytes::Bytes;
use engine::{Engine, Options, Timestamp, TimestampRange};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use table::filter::ColumnRange;
use table::{
    Error, FamilyChange, FamilySpec, Local, Pieces, ReadRows, RowFilter, RowMutations, RowSet,
    Store, TableName,
};

/// An open data directory.
pub(crate) struct Direct {
    engine: Engine,
    store: Local,
    table: TableName,
}

impl Direct {
    /// Opens `dir`, creating it if it is missing. Blocks.
    pub(crate) fn open(dir: &Path, table: TableName) -> Result<Self> {
        let context = || format!("could not open the data directory {}", dir.display());
        let engine = Engine::open(dir, Options::default()).with_context(context)?;
        let store = Local::open(engine.clone(), Arc::new(SystemClock)).with_context(context)?;
        Ok(Self { engine, store, table })
    }

    /// The tables of the directory.
    pub(crate) fn store(&self) -> &Local {
        &self.store
    }

    /// The engine beneath them.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn add_family(&self, name: &str, spec: FamilySpec) -> table::Result<()> {
        let change = FamilyChange::Create { name: name.to_owned(), spec };
        match self.store.modify_families(&self.table, vec![change]).await {
            Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Target for Direct {
    async fn create_table(&self, schema: &admin::Table) -> Result<(), Failure> {
        let table = table_of_message(self.table.clone(), Vec::new(), schema.clone());
        let table = table.map_err(|why| {
            Failure::Refused(format!("could not create the table: {}", why.message()))
        })?;
        let families = table.families.clone();
        match self.store.create_table(table).await {
            Ok(_) => return Ok(()),
            Err(Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(not_created(error).of("could not create the table")),
        }
        for (name, spec) in families {
            let added = self.add_family(&name, spec).await;
            added.map_err(|why| not_created(why).of(&format!("could not add family {name}")))?;
        }
        Ok(())
    }

    async fn schema(&self) -> Result<Option<admin::Table>, Failure> {
        let schema = self.store.get_table(&self.table).await.map_err(failure)?;
        Ok(Some(schema_message(&schema)))
    }

    async fn identity(&self) -> Result<String, Failure> {
        Ok(self.store.identity(&self.table).await.map_err(failure)?.to_string())
    }

    async fn write(&self, rows: &[RowMutations]) -> Result<Vec<Result<(), Failure>>, Failure> {
        let outcomes = self.store.mutate_rows(&self.table, rows.to_vec()).await.map_err(failure)?;
        Ok(outcomes.into_iter().map(|outcome| outcome.map_err(failure)).collect())
    }

    /// This process is all of the store's life.
    async fn sync(&self, _: &str) -> Result<(), Failure> {
        self.store.sync().await.map_err(failure)
    }

    async fn has(
        &self,
        row: &[u8],
        (family, qualifier): (&str, &[u8]),
        from: Timestamp,
    ) -> Result<bool, Failure> {
        let qualifier = Bound::Included(Bytes::copy_from_slice(qualifier));
        let column =
            ColumnRange { family: family.to_owned(), start: qualifier.clone(), end: qualifier };
        let filter = RowFilter::Chain(vec![
            RowFilter::ColumnRange(column),
            RowFilter::TimestampRange(TimestampRange { start: from, end: None }),
            RowFilter::CellsPerColumnLimit(1),
            RowFilter::StripValue,
        ]);
        let rows = RowSet::key(Bytes::copy_from_slice(row));
        let read = ReadRows { rows, filter: Some(filter), ..ReadRows::default() };
        let found = self.store.read_rows(&self.table, read, Pieces::default()).await;
        let found = found.map_err(failure)?.collect_rows().await.map_err(failure)?;
        Ok(!found.is_empty())
    }

    async fn close(&self) -> Result<()> {
        let engine = self.engine.clone();
        tokio::task::spawn_blocking(move || engine.close())
            .await?
            .context("could not close the data directory cleanly")
    }
}

fn failure(error: Error) -> Failure {
    let text = error.to_string();
    match error {
        Error::InvalidArgument { .. } => Failure::Refused(text),
        Error::NotFound { .. } => Failure::Fatal(format!(
            "{text}; pass --create-table to create missing tables and families"
        )),
        Error::ResourceExhausted(_) | Error::Busy(_) => Failure::Later(text),
        _ => Failure::Fatal(text),
    }
}

/// Converts the error of creating something. A refusal by what the table has is final.
fn not_created(error: Error) -> Failure {
    match error {
        Error::NotFound { .. } => Failure::Fatal(error.to_string()),
        Error::FailedPrecondition(_) => Failure::Refused(error.to_string()),
        error => failure(error),
    }
}
