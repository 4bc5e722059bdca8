//! Runs the body of a subquery on the thread that waits for it.
//!
//! 1. Rows that are gathered, and answers, count against the memory of queries. Quantifiers gather none.
//! 2. A quantifier ends at the first row that decides.
//! 3. The body's own tasks and scans run on threads that wait for no body of its height: see `../levels.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use futures::StreamExt;
use parking_lot::{Condvar, Mutex};
use relational::CancelFlag;
use tokio::runtime::Handle;

use super::slot::Slots;
use super::watched::watched;
use crate::query::bind::external;

/// Answers that one call remembers at most.
const REMEMBERED_MAX: usize = 4096;

/// A body that is ready to run.
pub(super) struct Ready {
    /// The body's plan, whose operators look at the flag.
    plan: Arc<dyn ExecutionPlan>,
    /// The memory and the spill files of the server.
    task: Arc<TaskContext>,
    /// The threads of the body's tasks and scans.
    threads: Handle,
    /// The outer values of the row that is computed.
    slots: Slots,
    /// Ends the execution with 57014.
    cancel: CancelFlag,
    /// Answers by outer values. Its lock is held while the body runs.
    remembered: Mutex<Remembered>,
}

/// Answers by outer values, and their memory.
struct Remembered {
    answers: HashMap<Vec<ScalarValue>, ScalarValue>,
    memory: MemoryReservation,
}

impl Ready {
    /// Returns a body of a plan in which outer columns are `slots`.
    pub(super) fn new(
        plan: Arc<dyn ExecutionPlan>,
        (task, threads): (Arc<TaskContext>, Handle),
        slots: Slots,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let plan = watched(plan, cancel)?;
        let memory = memory_of(&task);
        let remembered = Mutex::new(Remembered { answers: HashMap::new(), memory });
        Ok(Self { plan, task, threads, slots, cancel: cancel.clone(), remembered })
    }

    /// Returns the answer that `ask` finds for outer values, or found before.
    pub(super) fn answer(
        &self,
        outer: Vec<ScalarValue>,
        ask: impl FnOnce(&Self) -> Result<ScalarValue>,
    ) -> Result<ScalarValue> {
        let mut remembered = self.remembered.lock();
        if let Some(known) = remembered.answers.get(&outer) {
            return Ok(known.clone());
        }
        self.cancel.check().map_err(external)?;
        self.slots.lock().clone_from(&outer);
        let answer = ask(self)?;
        let bytes = answer.size() + outer.iter().map(ScalarValue::size).sum::<usize>();
        if remembered.answers.len() < REMEMBERED_MAX && remembered.memory.try_grow(bytes).is_ok() {
            remembered.answers.insert(outer, answer.clone());
        }
        Ok(answer)
    }

    /// Returns the columns of the body.
    pub(super) fn schema(&self) -> SchemaRef {
        self.plan.schema()
    }

    /// Returns a claim on the memory of queries, which is empty.
    pub(super) fn memory(&self) -> MemoryReservation {
        memory_of(&self.task)
    }

    /// Returns the rows of the body, and the claim on their memory: `rows_max` rows or a few more, or all.
    /// Fails with 53200 if they are too large.
    pub(super) fn gather(&self, rows_max: usize) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
        let (mut out, mut count) = (Vec::new(), 0);
        let memory = self.memory();
        self.each(|batch| {
            // They are copied into one.
            memory.try_grow(2 * batch.get_array_memory_size())?;
            count += batch.num_rows();
            out.push(batch);
            Ok(count < rows_max)
        })?;
        Ok((out, memory))
    }

    /// Returns whether the body has a row.
    pub(super) fn has_row(&self) -> Result<bool> {
        let mut found = false;
        self.each(|batch| {
            found |= batch.num_rows() > 0;
            Ok(!found)
        })?;
        Ok(found)
    }

    /// Returns the answer of a quantifier over the truth values of the body; `decisive` is the one that ends it.
    pub(super) fn quantified(&self, decisive: bool) -> Result<Option<bool>> {
        let (mut is_decided, mut is_open) = (false, false);
        self.each(|batch| {
            for truth in batch.column(0).as_boolean() {
                is_decided |= truth == Some(decisive);
                is_open |= truth.is_none();
            }
            Ok(!is_decided)
        })?;
        Ok(match (is_decided, is_open) {
            (true, _) => Some(decisive),
            (false, true) => None,
            (false, false) => Some(!decisive),
        })
    }

    /// Gives the batches of one run to `take`, until it returns false.
    fn each(&self, mut take: impl FnMut(RecordBatch) -> Result<bool>) -> Result<()> {
        let _threads = self.threads.enter();
        park(async {
            let plan = reset_plan_states(Arc::clone(&self.plan))?;
            for partition in 0..plan.properties().partitioning.partition_count() {
                let mut stream = plan.execute(partition, Arc::clone(&self.task))?;
                while let Some(batch) = stream.next().await {
                    if !take(batch?)? {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }
}

fn memory_of(task: &TaskContext) -> MemoryReservation {
    MemoryConsumer::new("subquery").register(task.memory_pool())
}

/// Runs work that waits. The runtime gets another thread for its tasks meanwhile.
pub(super) fn waiting<T>(work: impl FnOnce() -> T) -> T {
    crate::threads::aside(work)
}

/// Wakes the thread that waits for a future.
#[derive(Default)]
struct Wake {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl futures::task::ArcWake for Wake {
    fn wake_by_ref(wake: &Arc<Self>) {
        *wake.woken.lock() = true;
        wake.changed.notify_one();
    }
}

/// Runs a future on this thread to its end.
fn park<T>(future: impl Future<Output = T>) -> T {
    let wake = Arc::new(Wake::default());
    let waker = futures::task::waker(Arc::clone(&wake));
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(out) = future.as_mut().poll(&mut context) {
            return out;
        }
        let mut woken = wake.woken.lock();
        while !*woken {
            wake.changed.wait(&mut woken);
        }
        *woken = false;
    }
}
