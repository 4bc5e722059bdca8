//! The beginning of a scan: which sources of a view it walks, and how it comes by their blocks.

use super::scan_source::Source;
use super::{Scan, ScanSources};
use crate::cache::CacheFill;
use crate::cell::SequenceNumber;
use crate::counters::perf_context::{self, PerfCount};
use crate::error::Result;
use crate::merge::run_cursor::RunCursor;
use crate::request::{Columns, RowRange, ScanRequest};
use crate::sstable::{FilterCounters, FilterQuery, ReadaheadSource, SstRun, filtered};
use crate::tree::read_parts::ReadParts;
use crate::tree::read_view::ReadView;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// How a scan comes by blocks that are not resident.
pub(crate) enum Blocks<'a> {
    Waits,
    /// It may read ahead.
    Ahead(&'a Arc<ReadaheadSource>),
    /// It must not wait: it fails.
    AtOnce,
}

/// Starts a scan that sees entries up to `snapshot`, comes by its blocks as `blocks` says, and
/// keeps `pin` until it ends.
pub(crate) fn scan(
    view: &ReadView,
    request: &ScanRequest,
    snapshot: SequenceNumber,
    parts: ReadParts,
    filters: &Arc<FilterCounters>,
    blocks: Blocks<'_>,
    pin: Option<Box<dyn Any + Send>>,
) -> Result<Scan> {
    // First of all: the sooner after the snapshot's number was read, the fewer ranges have been
    // dropped since, which an index may not tell apart from older ones.
    let dropped = view.dropped_at(snapshot);
    let (ahead, fill) = match blocks {
        Blocks::Waits => (None, CacheFill::Insert),
        Blocks::Ahead(source) => (Some(source), CacheFill::Insert),
        Blocks::AtOnce => (None, CacheFill::Resident),
    };
    let ahead = ahead.filter(|_| parts.path.readahead && !request.rows.is_single());
    let ahead = ahead.map(|source| (source, Arc::new(request.rows.clone())));
    let mut cursors = Vec::with_capacity(1 + view.frozen.len() + view.runs().len());
    for memtable in view.memtables() {
        if memtable.entries() > 0 {
            cursors.push(Source::Memtable(memtable.cursor()));
        }
    }
    let questions = if parts.path.filters { questions(request) } else { Vec::new() };
    let prefix = parts.path.filters.then(|| prefix_of(view, &request.rows)).flatten();
    for run in view.runs() {
        let rows = &request.rows;
        let Some(mut part) = candidates(run, rows, &questions, filters, fill)? else {
            continue;
        };
        // Only the first can be without the prefix: all others begin in `rows`.
        let asked = prefix.map(|prefix| run.ssts()[part.start].filter_says(rows, &prefix));
        let says = asked.transpose()?.flatten();
        if let (Some(prefix), Some(passed)) = (prefix, says) {
            filters.probed(&[prefix], 1, usize::from(!passed));
            perf_context::add([(PerfCount::FilteredByPrefix, u64::from(!passed))]);
            part.start += usize::from(!passed);
        }
        if !part.is_empty() {
            let cursor = RunCursor::new(Arc::clone(run), part, fill);
            let cursor = match &ahead {
                Some((source, rows)) => cursor.reading_ahead(source, rows),
                None => cursor,
            };
            let judged = says == Some(true);
            let cursor = if judged { cursor.judged(rows, filters) } else { cursor };
            cursors.push(Source::Run(cursor));
        }
    }
    filters.scanned(cursors.len());
    Ok(Scan::new(ScanSources { cursors, dropped, pin }, request, snapshot, &parts))
}

/// What a read of more than one row asks the filters: whether there is any row with the prefix
/// that all of `rows` have.
fn prefix_of<'a>(view: &ReadView, rows: &'a RowRange) -> Option<FilterQuery<'a>> {
    let len = view.version.options.row_prefix_bytes.into();
    if rows.is_single() {
        return None;
    }
    rows.shared_prefix(len).map(FilterQuery::prefix)
}

/// What a read of a single row asks the filters: if each answer is no, there is nothing for it.
/// Empty for a read of more rows.
fn questions(request: &ScanRequest) -> Vec<FilterQuery<'_>> {
    let row = request.rows.start.as_slice();
    match &request.columns {
        _ if !request.rows.is_single() => Vec::new(),
        Columns::All => vec![FilterQuery::row(row)],
        Columns::Ranges(ranges) => ranges
            .iter()
            .map(|range| match range.single() {
                Some(qualifier) => FilterQuery::column(row, range.family, qualifier),
                None => FilterQuery::family(row, range.family),
            })
            .collect(),
    }
}

/// The SSTables of `run` that can matter to a read of `rows`; `None` if none can.
fn candidates(
    run: &SstRun,
    rows: &RowRange,
    questions: &[FilterQuery<'_>],
    filters: &FilterCounters,
    fill: CacheFill,
) -> Result<Option<Range<usize>>> {
    let first = run.first_not_before(&rows.start);
    let behind = rows.end.as_ref().map_or(run.ssts().len(), |end| run.first_beginning_at(end));
    let (files, in_range) = (run.ssts().len(), behind.saturating_sub(first));
    let outside = (files - in_range) as u64;
    perf_context::add([(PerfCount::Files, files as u64), (PerfCount::FilesOutOfRange, outside)]);
    if first >= behind {
        return Ok(None);
    }
    if behind - first == 1 && !questions.is_empty() {
        let only = &run.ssts()[first];
        let mut passed = false;
        for question in questions {
            passed = passed || only.may_contain_for(question, fill)?;
        }
        filters.probed(questions, 1, usize::from(!passed));
        if !passed {
            perf_context::add([(filtered(questions), 1)]);
            return Ok(None);
        }
    }
    Ok(Some(first..behind))
}
