//! Tasks whose writes are stopped, thousands of them: they cost next to nothing while they wait.

use crate::support::{TREE, small};
use crate::task_writes::Idle;
use base::env::sim::SimEnv;
use base::env::{Env, Tasks};
use base::testing::block_on;
use engine::elision_policy::{ElisionPolicy, ElisionRules, Verdict};
use engine::internals::Shape;
use engine::{Column, Engine, FamilyId, Options, Timestamp, Tree, TreeOptions, WriteBatch};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

const FAMILY: FamilyId = FamilyId(1);

/// Rules that keep everything. Each look for a compaction asks them, and is counted.
#[derive(Clone, Default)]
struct CountLooks(Arc<AtomicUsize>);

impl CountLooks {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

struct Keep;

impl ElisionRules for CountLooks {
    fn policy(&self, _: i64) -> Box<dyn ElisionPolicy> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::new(Keep)
    }
}

impl ElisionPolicy for Keep {
    fn verdict(&self, _: FamilyId, _: u32, _: Timestamp) -> Verdict {
        Verdict::Keep
    }
}

fn batch(row: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(&row.to_be_bytes(), Column::of(FAMILY, b"q"), Timestamp(1), &[7; 4 << 10]);
    batch
}

fn open(env: Env, options: Options) -> (Engine, Tree, CountLooks) {
    let engine = Engine::open_with_env(env, Path::new("/data"), options).unwrap();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let looks = CountLooks::default();
    tree.set_elision_rules(Arc::new(looks.clone())).unwrap();
    (engine, tree, looks)
}

/// Begins `count` writes, of which none may go on.
fn begin(tree: &Tree, count: usize) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..count {
        let mut room = Box::pin(tree.room_for(100));
        assert!(room.as_mut().poll(&mut context).is_pending());
    }
}

/// The clock of the machine stands still but for the test, and no flush ever runs.
#[test]
fn of_thousands_of_stopped_tasks_one_at_a_time_looks_for_work() {
    let machine = SimEnv::new(1);
    let env = Env { tasks: Arc::new(Idle), ..machine.env() };
    let (engine, tree, looks) = open(env, small());
    let mut context = Context::from_waker(Waker::noop());
    for row in 0.. {
        block_on(tree.write_in_task(batch(row).ready().unwrap(), |_| (), ())).unwrap();
        let _ = Box::pin(tree.room_for(100)).as_mut().poll(&mut context);
        if engine.metrics().get("write_stalls_total").unwrap() > 0 {
            break;
        }
    }
    let first = looks.count();
    assert!(first >= 1, "the first that was stopped has looked");
    begin(&tree, 3000);
    assert_eq!(looks.count(), first);
    for looked in 1..=3 {
        machine.clock.advance(Duration::from_millis(50));
        begin(&tree, 1000);
        assert_eq!(looks.count(), first + looked);
    }
}

#[test]
fn no_files_are_looked_at_while_as_many_compactions_run_as_may() {
    let machine = SimEnv::new(2);
    let shape = Shape { compactions_max: 1, ..Shape::DEFAULT };
    let options = Options { l0_runs_compact: 4, l0_runs_stall: 20, shape, ..small() };
    let (engine, tree, looks) = open(machine.env(), options);
    engine.pause_compactions();
    for row in 0..4 {
        tree.write(&batch(row)).unwrap();
        tree.flush().unwrap();
    }
    let before = looks.count();
    engine.resume_compactions();
    assert_eq!(looks.count(), before + 1, "a compaction is queued");
    engine.resume_compactions();
    assert_eq!(looks.count(), before + 1, "no other may start");
    let compactions = || engine.metrics().get("compactions_total").unwrap();
    assert_eq!(compactions(), 0);
    let mut helped = (0..1000).take_while(|_| compactions() == 0 && machine.tasks.help());
    assert!(helped.by_ref().count() < 1000 && compactions() > 0, "what was queued has run");
}
