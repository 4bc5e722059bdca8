//! The names that programs may rely on (docs/embedding.md). One that no longer compiles here is a
//! breaking change: say so in the changelog. New names are added.

#[allow(unused_imports, reason = "that they are there is the test")]
use engine::{
    Answer, BackgroundRate, Buckets, Cause, Cell, Column, ColumnOf, Columns, CompactionReason,
    Compression, Corruption, Deferred, Direction, Durability, ElisionPolicy, ElisionRules, Engine,
    Env, Error, FamilyId, FilterGranularity, FoundCell, GetPipeline, HistogramReading,
    HistogramUnit, IngestFiles, IngestOptions, Label, MetricKind, Metrics, OpenTimes, Operand,
    Operator, Options, OwnedCell, Owner, QualifierRange, Reading, Result, RowEnd, RowRange,
    RowReads, RowSelection, RowSorter, RunningCompaction, Scan, ScanRequest, Scope, SequenceNumber,
    Snapshot, SortOptions, SortedRows, SstWriter, StoreId, TIMES_AHEAD_MICROS_MAX, Timestamp,
    TimestampRange, Tree, TreeId, TreeOptions, Verdict, WriteBatch,
};
#[allow(unused_imports, reason = "that they are there is the test")]
use engine::{
    BATCH_BYTES_MAX, QUALIFIER_BYTES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX,
    check::{Finding, Progress, Report, TreeReading, check_dir, read_tree},
    dump::{DumpOptions, dump_dir, dump_file},
    kv::{Kv, KvBatch, KvGetPipeline, KvRange, KvScan, KvSortedWriter},
    repair::{Loss, Lost, RepairReport, repair_dir},
};

fn shared_by_threads<T: Send + Sync + Clone>() {}
fn sent_to_threads<T: Send>() {}

#[test]
fn the_api_works_across_threads() {
    shared_by_threads::<Engine>();
    shared_by_threads::<Tree>();
    shared_by_threads::<Snapshot>();
    shared_by_threads::<Kv>();
    shared_by_threads::<Error>();
    sent_to_threads::<Scan>();
    sent_to_threads::<GetPipeline>();
    sent_to_threads::<SstWriter>();
    sent_to_threads::<IngestFiles>();
    sent_to_threads::<WriteBatch>();
}
