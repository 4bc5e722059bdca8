//! The parts that all queries of a server share: memory, spill files, rules, functions.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{AggregateUDF, WindowUDF};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::prelude::SessionConfig;
use relational::Result;
use tokio::runtime::Handle;

use super::bind::aggregates;
use super::from_datafusion;
use super::levels::Levels;
use crate::wide::BigtableReads;

/// Values that an engine starts with.
#[derive(Clone)]
pub struct EngineOptions {
    /// Memory that all queries may hold together, in bytes. More: fewer spills.
    pub memory_bytes: usize,
    /// Bytes of spill files at most.
    pub spill_bytes: u64,
    /// Directory of the spill files; none means that what does not fit into memory fails.
    pub spill: Option<PathBuf>,
    /// Partitions in which a query runs at once.
    pub partitions: usize,
    /// Threads of each height of queries that may read or wait, beside the ones that compute. More: more subqueries
    /// that run by row at one time.
    pub blocking_threads: usize,
    /// The Bigtable tables that queries read; none means that such reads are refused.
    pub bigtable: Option<Arc<dyn BigtableReads>>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            spill_bytes: 64 << 30,
            spill: None,
            partitions: 2,
            blocking_threads: 512,
            bigtable: None,
        }
    }
}

/// The memory that all queries have together. Cheap to clone.
#[derive(Debug, Clone)]
pub struct QueryMemory {
    pool: Arc<dyn MemoryPool>,
    max: usize,
}

impl QueryMemory {
    /// Returns the bytes that queries hold now.
    pub fn bytes(&self) -> usize {
        self.pool.reserved()
    }

    /// Returns the bytes that they may hold.
    pub fn max(&self) -> usize {
        self.max
    }
}

/// Plans and runs queries. Shared by all sessions.
pub struct Engine {
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    memory_bytes: usize,
    pub(super) aggregates: HashMap<String, Arc<AggregateUDF>>,
    pub(super) windows: HashMap<String, Arc<WindowUDF>>,
    /// DataFusion's own rules, which run after the binding.
    rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
    state: SessionState,
    /// Plans bodies of subqueries, which run in one partition.
    inner: SessionState,
    bigtable: Option<Arc<dyn BigtableReads>>,
    threads: Levels,
}

impl Engine {
    /// Returns an engine. Fails if the directory for spill files cannot be made.
    pub fn new(options: EngineOptions) -> Result<Arc<Self>> {
        let disk = match &options.spill {
            Some(path) => DiskManagerMode::Directories(vec![path.clone()]),
            None => DiskManagerMode::Disabled,
        };
        let consumers = std::num::NonZeroUsize::MIN;
        let pool = TrackConsumersPool::new(FairSpillPool::new(options.memory_bytes), consumers);
        let disk = DiskManagerBuilder::default()
            .with_mode(disk)
            .with_max_temp_directory_size(options.spill_bytes);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool))
            .with_disk_manager_builder(disk)
            .build_arc()
            .map_err(from_datafusion)?;
        let mut config = SessionConfig::new()
            .with_target_partitions(options.partitions.max(1))
            .with_batch_size(4096);
        {
            let own = config.options_mut();
            own.sql_parser.parse_float_as_decimal = false;
            own.sql_parser.map_string_types_to_utf8view = false;
            own.optimizer.prefer_existing_sort = true;
        }
        let first = datafusion::functions_aggregate::first_last::first_value_udaf();
        let state = SessionStateBuilder::new()
            .with_config(config.clone())
            .with_runtime_env(Arc::clone(&runtime))
            .with_aggregate_functions(vec![Arc::clone(&first)])
            .build();
        let mut one = config.clone().with_target_partitions(1);
        {
            // A body runs again and again: its filters must not learn from one run.
            let own = &mut one.options_mut().optimizer;
            own.enable_dynamic_filter_pushdown = false;
            own.enable_topk_dynamic_filter_pushdown = false;
            own.enable_join_dynamic_filter_pushdown = false;
            own.enable_aggregate_dynamic_filter_pushdown = false;
        }
        let inner = SessionStateBuilder::new()
            .with_config(one)
            .with_runtime_env(Arc::clone(&runtime))
            .with_aggregate_functions(vec![first])
            .build();
        let rules = Analyzer::new().rules;
        let aggregates = aggregates().into_iter().map(|udf| (udf.name().to_owned(), udf)).collect();
        let windows = datafusion::functions_window::all_default_window_functions();
        let windows = windows.into_iter().map(|udf| (udf.name().to_owned(), udf)).collect();
        let bigtable = options.bigtable;
        let threads = Levels::new(options.partitions.max(2), options.blocking_threads.max(1));
        threads.at(0)?;
        Ok(Arc::new(Self {
            config,
            runtime,
            memory_bytes: options.memory_bytes,
            aggregates,
            windows,
            rules,
            state,
            inner,
            bigtable,
            threads,
        }))
    }

    /// Returns the memory of all queries.
    pub(crate) fn memory(&self) -> QueryMemory {
        QueryMemory { pool: Arc::clone(&self.runtime.memory_pool), max: self.memory_bytes }
    }

    /// Returns the configuration that planners read.
    pub(super) fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Returns the Bigtable tables that queries read, if the server has them.
    pub(crate) fn bigtable(&self) -> Option<&Arc<dyn BigtableReads>> {
        self.bigtable.as_ref()
    }

    /// Returns a state that optimises bound plans.
    pub(super) fn state(&self) -> &SessionState {
        &self.state
    }

    /// Returns a state that plans bodies of subqueries.
    pub(super) fn inner_state(&self) -> &SessionState {
        &self.inner
    }

    /// Returns the memory and the spill files for one execution.
    pub(super) fn task(&self) -> Arc<TaskContext> {
        self.task_of(self.config.batch_size())
    }

    /// Returns the same, for operators that gather so many rows.
    pub(super) fn task_of(&self, rows: usize) -> Arc<TaskContext> {
        Arc::new(TaskContext::new(
            None,
            "query".to_owned(),
            self.config.clone().with_batch_size(rows),
            Default::default(),
            Default::default(),
            Default::default(),
            Default::default(),
            Arc::clone(&self.runtime),
        ))
    }

    /// Returns the threads on which a query of a height computes. 54001 if it is too high.
    pub(super) fn threads(&self, height: usize) -> Result<Handle> {
        self.threads.at(height)
    }

    /// Returns DataFusion's own analyzer rules.
    pub(super) fn rules(&self) -> &[Arc<dyn AnalyzerRule + Send + Sync>] {
        &self.rules
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Engine").finish_non_exhaustive()
    }
}
