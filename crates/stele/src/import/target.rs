//! Where rows go: the Bigtable service of a running server, or a data directory opened here.

use anyhow::{Result, bail};
use async_trait::async_trait;
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

/// Takes rows.
#[async_trait]
pub(crate) trait Target: Send + Sync {
    /// Makes the table and its families where they are missing.
    async fn create_table(&self, families: &[String]) -> Result<()>;

    /// Writes rows: one outcome for each, in order. No two of them have the same key.
    async fn write(&self, rows: &[RowMutations]) -> Result<Vec<Result<(), Failure>>, Failure>;

    /// Releases what the target holds, after the last write.
    async fn close(&self) -> Result<()>;
}

const ATTEMPTS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Writes `rows`, trying again what could not be taken; `None` for a row that was written, else
/// why it was refused. An error ends the import.
pub(crate) async fn write_all(
    target: &dyn Target,
    rows: &[RowMutations],
) -> Result<Vec<Option<String>>> {
    let mut outcomes = vec![None; rows.len()];
    let mut open: Vec<usize> = (0..rows.len()).collect();
    let mut pause = FIRST_PAUSE;
    for attempt in 1.. {
        let batch: Vec<RowMutations> = open.iter().map(|&index| rows[index].clone()).collect();
        let mut why = String::new();
        match target.write(&batch).await {
            Ok(results) => {
                let mut later = Vec::new();
                for (index, result) in open.into_iter().zip(results) {
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
                open = later;
            }
            Err(Failure::Later(reason)) => why = reason,
            Err(Failure::Refused(reason) | Failure::Fatal(reason)) => bail!(reason),
        }
        if open.is_empty() {
            break;
        }
        if attempt == ATTEMPTS {
            bail!("gave up after {ATTEMPTS} attempts: {why}");
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Ok(outcomes)
}
