//! Time series: writers append points, readers read the newest points of a series.
//!
//! A row is `PREFIX#SERIES#MILLISECONDS`, so that the points of a series lie next to each other in
//! order of time. A point is written once, with its own time as timestamp; its value follows from
//! series and time.
//!
//! Invariants:
//! 1. One worker writes a series, one point after the other. `ends` counts the acknowledged points.
//! 2. A point that failed is written again before the next one, with the same bytes.

use super::findings::{Findings, Problem};
use super::lane::Share;
use super::verify::Expected;
use super::{Next, Trouble};
use crate::client::{Api, NewCell, NewRow, Rows, Selection};
use crate::data::{Identity, Seen, Version, column, value};
use crate::measure::Operation;
use bench_core::{SplitMix64, mix};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time of the first point of every series, in milliseconds: 2026-01-01.
const FIRST_MS: u64 = 1_767_225_600_000;
/// Points that a series can have.
const POINTS_MAX: u64 = 1 << 40;

/// Lane of the workers that append points.
pub(super) const WRITERS: usize = 0;

/// All series of this process.
pub(crate) struct Series {
    pub(super) identity: Identity,
    pub(super) share: Share,
    /// Acknowledged points of each series; published with Release.
    pub(super) ends: Box<[AtomicU64]>,
    pub(super) writers: usize,
    pub(super) interval_ms: u64,
    /// Points that a read asks for, and that the fill writes to each series.
    pub(super) read_points: u64,
    pub(super) columns: u64,
    pub(super) value_len: usize,
    /// First series that the fill did not begin.
    pub(super) fill_next: AtomicU64,
    /// Series whose fill failed and is tried again.
    pub(super) failed: parking_lot::Mutex<Vec<u64>>,
    pub(super) findings: Arc<Findings>,
}

/// One operation on a series of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SeriesTask {
    Append { series: u64, point: u64 },
    Read { series: u64 },
}

impl SeriesTask {
    pub(super) fn operation(&self) -> Operation {
        match self {
            Self::Append { .. } => Operation::Insert,
            Self::Read { .. } => Operation::ReadSeries,
        }
    }
}

/// The first points of a series.
#[derive(Debug)]
pub(crate) struct SeriesBatch {
    series: u64,
    pub(super) rows: Vec<NewRow>,
}

impl Series {
    pub(super) fn next(
        &self,
        lane: usize,
        worker: usize,
        random: &mut SplitMix64,
    ) -> Next<SeriesTask> {
        let count = self.ends.len() as u64;
        if lane != WRITERS {
            let series = random.below(count);
            return match self.end(series) {
                0 => Next::Later,
                _ => Next::Do(SeriesTask::Read { series }),
            };
        }
        let (worker, writers) = (worker as u64, self.writers as u64);
        let own = count.saturating_sub(worker).div_ceil(writers);
        if own == 0 {
            return Next::Done;
        }
        let series = random.below(own) * writers + worker;
        match self.end(series) {
            POINTS_MAX.. => Next::Done,
            point => Next::Do(SeriesTask::Append { series, point }),
        }
    }

    fn end(&self, series: u64) -> u64 {
        self.ends[series as usize].load(Ordering::Acquire)
    }

    fn time_ms(&self, point: u64) -> u64 {
        FIRST_MS + point.saturating_mul(self.interval_ms)
    }

    fn row(&self, series: u64, point: u64) -> Vec<u8> {
        let (prefix, series) = (self.identity.prefix(), self.share.global(series));
        format!("{prefix}#{series:010}#{:020}", self.time_ms(point)).into_bytes()
    }

    /// Returns the number of the first cell of a point among all cells.
    fn first_cell(&self, series: u64, point: u64) -> u64 {
        mix(self.share.global(series)).wrapping_add(point).wrapping_mul(self.columns)
    }

    fn new_row(&self, series: u64, point: u64) -> NewRow {
        let timestamp = self.timestamp(point);
        let first = self.first_cell(series, point);
        let cells = (0..self.columns).map(|index| NewCell {
            qualifier: column(index),
            timestamp,
            value: value(
                self.identity.seed(),
                first.wrapping_add(index),
                timestamp,
                self.value_len,
            ),
        });
        NewRow { key: self.row(series, point), cells: cells.collect() }
    }

    fn timestamp(&self, point: u64) -> Version {
        i64::try_from(self.time_ms(point).saturating_mul(1000)).unwrap_or(i64::MAX / 1000 * 1000)
    }

    pub(super) async fn perform(
        &self,
        task: &SeriesTask,
        client: &mut impl Api,
    ) -> Result<u64, Trouble> {
        match *task {
            SeriesTask::Append { series, point } => {
                client.write(self.new_row(series, point)).await?;
                self.ends[series as usize].fetch_max(point + 1, Ordering::AcqRel);
                Ok(1)
            }
            SeriesTask::Read { series } => self.read(series, client).await,
        }
    }

    /// Reads the newest points of a series; every point must be there.
    async fn read(&self, series: u64, client: &mut impl Api) -> Result<u64, Trouble> {
        let end = self.end(series);
        let first = end.saturating_sub(self.read_points);
        let cells = (end - first).saturating_mul(self.columns);
        let selection = Selection {
            rows: Rows::Range {
                start: self.row(series, first),
                end: self.row(series, end),
                limit: end - first,
            },
            columns: None,
            cells_max: cells,
            bytes_max: cells.saturating_mul(self.value_len as u64 + 16).saturating_add(4096),
        };
        let rows = client.read(selection).await?;
        let mut rows = rows.iter();
        for point in first..end {
            let wanted = self.row(series, point);
            let row = rows.next();
            let Some(row) = row.filter(|row| row.key == wanted) else {
                let (problem, row, detail) = match row {
                    Some(row) if row.key < wanted => {
                        (Problem::Unexpected, &row.key[..], "a row that nobody wrote")
                    }
                    _ => (Problem::MissingRow, &wanted[..], "an acknowledged point is not there"),
                };
                let problem = self.findings.report(problem, row, detail.to_owned());
                return Err(Trouble::Wrong(problem));
            };
            let time = self.timestamp(point);
            let judge = |_, seen: Version| match seen == time {
                true => Seen::Good,
                false => Seen::NeverWritten,
            };
            self.expected(series, point).verify(row, judge).map_err(Trouble::Wrong)?;
        }
        if let Some(row) = rows.next() {
            let detail = "more rows than were asked for".to_owned();
            let problem = self.findings.report(Problem::Unexpected, &row.key, detail);
            return Err(Trouble::Wrong(problem));
        }
        Ok(end - first)
    }

    fn expected(&self, series: u64, point: u64) -> Expected<'_> {
        Expected {
            seed: self.identity.seed(),
            first_cell: self.first_cell(series, point),
            columns: 0..self.columns,
            value_len: self.value_len,
            findings: &self.findings,
        }
    }

    pub(super) fn fill_rows(&self) -> u64 {
        (self.ends.len() as u64).saturating_mul(self.read_points)
    }

    pub(super) fn fill(&self) -> Next<SeriesBatch> {
        let again = self.failed.lock().pop();
        let series = again.unwrap_or_else(|| self.fill_next.fetch_add(1, Ordering::Relaxed));
        if series >= self.ends.len() as u64 {
            return Next::Done;
        }
        let rows = (0..self.read_points).map(|point| self.new_row(series, point)).collect();
        Next::Do(SeriesBatch { series, rows })
    }

    pub(super) fn filled(&self, batch: &SeriesBatch, outcomes: &[bool]) -> u64 {
        let all = outcomes.len() == batch.rows.len() && outcomes.iter().all(|written| *written);
        if !all {
            self.failed.lock().push(batch.series);
            return 0;
        }
        self.ends[batch.series as usize].fetch_max(self.read_points, Ordering::AcqRel);
        batch.rows.len() as u64
    }
}
