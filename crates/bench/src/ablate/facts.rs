//! What is known of files and filters without comparing: bytes of metadata, use of filters.

use super::data::{Loaded, Opened};
use super::workloads::Workload;
use super::{AblateArgs, AnyError};
use base::env::RealFileSystem;
use engine::internals::{SstMemory, sst_memory};
use serde::Serialize;

/// Bytes of a data set's files in memory.
pub(super) fn memory(data: &Loaded) -> Result<SstMemory, AnyError> {
    let mut sum = SstMemory::default();
    for entry in std::fs::read_dir(&data.dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            let of = sst_memory(&RealFileSystem, &path)?;
            sum.file_bytes += of.file_bytes;
            sum.raw_bytes += of.raw_bytes;
            sum.pinned_bytes += of.pinned_bytes;
            sum.index_bytes += of.index_bytes;
            sum.filter_bytes += of.filter_bytes;
        }
    }
    Ok(sum)
}

/// How much point reads use filters, with everything on.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct FilterUse {
    /// Point reads.
    pub(super) reads: u64,
    /// Of these, reads that had to be merged.
    pub(super) merged: u64,
    /// Files that could have had the row: one for each run.
    pub(super) candidates: u64,
    /// By granularity.
    pub(super) asked: Vec<Asked>,
}

/// Filters asked at one granularity.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Asked {
    /// `row`, `family` or `column`.
    pub(super) granularity: &'static str,
    /// Filters asked.
    pub(super) probed: u64,
    /// Of these, the times a file was not read.
    pub(super) useful: u64,
    /// The times the answer was maybe and nothing was there.
    pub(super) false_positives: u64,
}

/// One slice of `workload`, with the filters it asked.
pub(super) fn filter_use(
    args: &AblateArgs,
    workload: &Workload,
    on: &Opened,
) -> Result<FilterUse, AnyError> {
    let before = counts(on)?;
    (workload.run)(on, &workload.questions(args, on, 0))?;
    let after = counts(on)?;
    let asked = after.asked.into_iter().zip(before.asked).map(|(after, before)| Asked {
        granularity: after.granularity,
        probed: after.probed - before.probed,
        useful: after.useful - before.useful,
        false_positives: after.false_positives - before.false_positives,
    });
    let reads = after.reads - before.reads;
    let runs = workload.data.runs();
    Ok(FilterUse {
        reads,
        merged: after.merged - before.merged,
        candidates: reads * runs,
        asked: asked.filter(|asked| asked.probed > 0).collect(),
    })
}

fn counts(opened: &Opened) -> Result<FilterUse, AnyError> {
    let asked = ["row", "family", "column"].map(|granularity| {
        let of = format!("granularity=\"{granularity}\"");
        Ok(Asked {
            granularity,
            probed: opened.counter(&format!("filter_checks_total{{{of}}}"))?,
            useful: opened.counter(&format!("filter_checks_total{{{of},result=\"useful\"}}"))?,
            false_positives: opened.counter(&format!("filter_false_positives_total{{{of}}}"))?,
        })
    });
    Ok(FilterUse {
        reads: opened.counter("point_reads_total")?,
        merged: opened.counter("point_reads_merged_total")?,
        candidates: 0,
        asked: asked.into_iter().collect::<Result<_, AnyError>>()?,
    })
}
