//! The engine through its public API, on the real file system.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "this is a test")]

mod against_model;
mod cache_warming;
mod changes;
mod checkpoint;
mod cold;
mod commit_lead;
mod compaction;
mod concurrent;
mod copies;
mod copy_notes;
mod descriptors;
mod divided;
mod examples;
mod failures;
mod fed;
mod granularity;
mod group_log;
mod ingest;
mod kv;
mod kv_api;
mod lifecycle;
mod limits;
// Only builds with debug assertions know who holds a lock.
#[cfg(debug_assertions)]
mod locks;
mod lost_manifest;
mod memory;
mod prefixes;
mod queue_waits;
mod range_drops;
mod readahead;
mod row_spans;
mod stopped_tasks;
mod support;
mod task_writes;
mod tasks;
mod together;
mod upkeep;
