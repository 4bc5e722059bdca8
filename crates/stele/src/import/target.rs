//! Target of an import: the Bigtable service of a running server, or a data directory opened here.

use anyhow::{Result, bail};
use async_trait::async_trait;
use engine::Timestamp;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use std::future::Future;
use std::time::Duration;
use table::RowMutations;

/// Why a row was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The row is at fault and never will be taken; the import goes on without it.
    Refused(String),
    /// The table could not take it now.
    Later(String),
    /// No row can be written; the import must stop.
    Fatal(String),
}

impl Failure {
    /// Returns the failure with `what` could not be done in front of the reason.
    pub(crate) fn of(self, what: &str) -> Self {
        match self {
            Self::Refused(why) => Self::Refused(format!("{what}: {why}")),
            Self::Later(why) => Self::Later(format!("{what}: {why}")),
            Self::Fatal(why) => Self::Fatal(format!("{what}: {why}")),
        }
    }

    /// Returns the error of something that is not tried again.
    pub(crate) fn into_error(self) -> anyhow::Error {
        let (Self::Refused(why) | Self::Later(why) | Self::Fatal(why)) = self;
        anyhow::anyhow!(why)
    }
}

/// Takes rows.
#[async_trait]
pub(crate) trait Target: Send + Sync {
    /// Makes the table and the families of `schema` where they are missing. What is there stays as it is.
    async fn create_table(&self, schema: &admin::Table) -> Result<(), Failure>;

    /// Returns the schema of the table ([`bigtable::schema_message`]), or `None` if the target does not
    /// tell it.
    async fn schema(&self) -> Result<Option<admin::Table>, Failure>;

    /// Returns the identity of the table ([`table::TableIdentity`] as text).
    async fn identity(&self) -> Result<String, Failure>;

    /// Writes rows: one outcome for each, in order. No two of them have the same key.
    async fn write(&self, rows: &[RowMutations]) -> Result<Vec<Result<(), Failure>>, Failure>;

    /// Makes all rows durable that were written since `identity` was what it is. An error if the store
    /// may have lost some of them.
    async fn sync(&self, identity: &str) -> Result<(), Failure>;

    /// Returns whether a cell of that column is there whose timestamp is `from` or later.
    async fn has(
        &self,
        row: &[u8],
        column: (&str, &[u8]),
        from: Timestamp,
    ) -> Result<bool, Failure>;

    /// Releases what the target holds, after the last write.
    async fn close(&self) -> Result<()>;
}

/// Returns the schema of a table with the families, without rules and types.
pub(crate) fn plain_schema<'a>(families: impl IntoIterator<Item = &'a str>) -> admin::Table {
    let family = |name: &str| (name.to_owned(), admin::ColumnFamily::default());
    let column_families = families.into_iter().map(family).collect();
    admin::Table { column_families, ..Default::default() }
}

const ATTEMPTS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// When to try again.
pub(crate) struct Attempts {
    made: u32,
    pause: Duration,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Self { made: 0, pause: FIRST_PAUSE }
    }

    /// Waits before the next attempt; an error with `why` when there were enough.
    pub(crate) async fn failed(&mut self, why: &str) -> Result<()> {
        self.made += 1;
        if self.made == ATTEMPTS {
            bail!("gave up after {ATTEMPTS} attempts: {why}");
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

/// Does `act`, again where the table cannot now.
pub(crate) async fn persist<T, F>(act: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut attempts = Attempts::new();
    loop {
        match act().await {
            Ok(done) => return Ok(done),
            Err(Failure::Later(reason)) => attempts.failed(&reason).await?,
            Err(Failure::Refused(reason) | Failure::Fatal(reason)) => bail!(reason),
        }
    }
}

/// Does `act` as [`persist`] does, but returns the reason of a refusal.
pub(crate) async fn persist_unless_refused<F>(act: impl Fn() -> F) -> Result<Option<String>>
where
    F: Future<Output = Result<(), Failure>>,
{
    let refused = persist(|| {
        let acted = act();
        async move {
            match acted.await {
                Ok(()) => Ok(None),
                Err(Failure::Refused(why)) => Ok(Some(why)),
                Err(failure) => Err(failure),
            }
        }
    });
    refused.await
}

/// Writes `rows`, trying again what could not be taken; `None` for a row that was written, else
/// why it was refused. An error ends the import.
pub(crate) async fn write_all(
    target: &dyn Target,
    rows: &[RowMutations],
) -> Result<Vec<Option<String>>> {
    let mut outcomes = vec![None; rows.len()];
    let mut attempts = Attempts::new();
    // Groups of rows that are still to be written; each is sent by itself.
    let mut open: Vec<Vec<usize>> = vec![(0..rows.len()).collect()];
    while let Some(mut group) = open.pop().filter(|group| !group.is_empty()) {
        let batch: Vec<RowMutations> = group.iter().map(|&index| rows[index].clone()).collect();
        let why = match target.write(&batch).await {
            Ok(results) => {
                let (mut later, mut why) = (Vec::new(), String::new());
                for (index, result) in group.into_iter().zip(results) {
                    match result {
                        Ok(()) => {}
                        Err(Failure::Refused(reason)) => outcomes[index] = Some(reason),
                        Err(Failure::Later(reason)) => {
                            why = reason;
                            later.push(index);
                        }
                        Err(Failure::Fatal(reason)) => bail!(reason),
                    }
                }
                group = later;
                why
            }
            Err(Failure::Later(reason)) => reason,
            // The request was refused as a whole, and some row of it is at fault.
            Err(Failure::Refused(reason)) => {
                match group[..] {
                    [index] => outcomes[index] = Some(reason),
                    _ => {
                        let rest = group.split_off(group.len() / 2);
                        open.extend([rest, group]);
                    }
                }
                continue;
            }
            Err(Failure::Fatal(reason)) => bail!(reason),
        };
        if !group.is_empty() {
            attempts.failed(&why).await?;
            open.push(group);
        }
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    /// Takes requests without a row `bad`; a request of more than `rows_max` rows not now.
    struct Picky {
        rows_max: usize,
    }

    #[async_trait]
    impl Target for Picky {
        async fn create_table(&self, _: &admin::Table) -> Result<(), Failure> {
            Ok(())
        }

        async fn schema(&self) -> Result<Option<admin::Table>, Failure> {
            Ok(None)
        }

        async fn identity(&self) -> Result<String, Failure> {
            Ok(String::new())
        }

        async fn write(&self, rows: &[RowMutations]) -> Result<Vec<Result<(), Failure>>, Failure> {
            if rows.iter().any(|row| row.row.starts_with(b"bad")) {
                return Err(Failure::Refused("a bad row".into()));
            }
            let later = || Err(Failure::Later("later".into()));
            let taken = (0..rows.len()).map(|at| if at < self.rows_max { Ok(()) } else { later() });
            Ok(taken.collect())
        }

        async fn sync(&self, _: &str) -> Result<(), Failure> {
            Ok(())
        }

        async fn has(&self, _: &[u8], _: (&str, &[u8]), _: Timestamp) -> Result<bool, Failure> {
            Ok(true)
        }

        async fn close(&self) -> Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_row_for_which_a_whole_request_is_refused_is_found_and_the_others_are_written() {
        let names = ["a", "b", "bad", "c", "d", "bad too", "e"];
        let row = |name: &str| RowMutations {
            row: Bytes::copy_from_slice(name.as_bytes()),
            mutations: Vec::new(),
        };
        let rows: Vec<_> = names.into_iter().map(row).collect();
        let outcomes = write_all(&Picky { rows_max: 2 }, &rows).await.unwrap();
        for (name, outcome) in names.iter().zip(outcomes) {
            assert_eq!(outcome.is_some(), name.starts_with("bad"), "{name}");
        }
        assert_eq!(write_all(&Picky { rows_max: 2 }, &[]).await.unwrap(), []);
    }
}
