//! Lives through a case: each act is done to the table and to the model, and then both are asked.

use crate::ask::{self, Asked};
use crate::case::{Act, BEGIN, Case, FAMILIES, What, World, request};
use crate::model::{Family, Model, rule};
use crate::refuse::{refuses_filter, refuses_rule};
use base::env::Rng;
use base::env::{Clock, Env};
use bytes::Bytes;
use engine::{Engine, IngestOptions, RowRange};
use sim::machine::Machine;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use table::*;

/// Names that the table has in turns.
const NAMES: [&str; 2] =
    ["projects/p/instances/i/tables/t", "projects/p/instances/i/tables/restored"];
/// Time for which deleted tables can come back.
const KEPT: Duration = Duration::from_secs(1_000_000);
/// Reads after each act.
const QUESTIONS: usize = 4;

struct Life {
    machine: Machine,
    clock: Arc<Wall>,
    /// `None` between two lives of the process.
    opened: Option<(Engine, Local)>,
    table: TableName,
    model: Model,
    /// Reads that began before the last act, and end after it.
    held: Vec<Asked>,
}

/// Lives through `case`; the error says after which act what was wrong.
pub(crate) fn live(case: &Case) -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(show)?;
    runtime.block_on(async {
        let mut life = Life::begin(case).await?;
        for (at, act) in case.acts.iter().enumerate() {
            let taken = life.take(act).await;
            taken.map_err(|what| format!("act {at}: {what}"))?;
        }
        life.engine().close().map_err(show)
    })
}

fn show(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The clock of a life, which goes on when an act lets it: no server's time depends on how long
/// something waited.
struct Wall {
    micros: AtomicI64,
    machine: Arc<dyn Clock>,
}

impl Clock for Wall {
    fn now_micros(&self) -> i64 {
        self.micros.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }
}

fn spec(name: &str) -> FamilySpec {
    let value_type = match name {
        "sum" => ValueType::Aggregate(Aggregate::SumInt64),
        _ => ValueType::Raw,
    };
    FamilySpec { gc: rule(name), value_type }
}

impl Life {
    async fn begin(case: &Case) -> Result<Self, String> {
        let machine = Machine::new(case.seed);
        let clock = Wall { micros: AtomicI64::new(BEGIN), machine: machine.env().clock };
        let table = TableName::new(NAMES[0]).map_err(show)?;
        let create = CreateTable {
            name: table.clone(),
            families: FAMILIES.iter().map(|name| ((*name).to_owned(), spec(name))).collect(),
            splits: vec!["b".into(), "c/1".into()],
            deletion_protection: false,
            granularity: Default::default(),
            row_key_schema: None,
        };
        let (model, clock) = (Model::new(BEGIN), Arc::new(clock));
        let mut life = Self { machine, clock, opened: None, table, model, held: Vec::new() };
        life.open(&case.world)?;
        life.local().create_table(create).await.map_err(show)?;
        Ok(life)
    }

    fn open(&mut self, world: &World) -> Result<(), String> {
        let env = Env { clock: self.clock.clone(), ..self.machine.env() };
        let engine = Engine::open_with_env(env, Path::new("/data/table"), world.options.clone());
        let engine = engine.map_err(show)?;
        let local = Local::open_shaped(engine.clone(), self.clock.clone(), world.shape);
        self.model.open_after(engine.commit_micros());
        let local = local.map_err(show)?;
        local.keep_deleted_for(KEPT);
        self.opened = Some((engine, local));
        Ok(())
    }

    fn engine(&self) -> &Engine {
        &self.opened.as_ref().unwrap().0
    }

    fn local(&self) -> &Local {
        &self.opened.as_ref().unwrap().1
    }

    async fn take(&mut self, act: &Act) -> Result<(), String> {
        self.act(&act.what).await?;
        self.finish_held().await?;
        let mut rng = Rng::new(act.questions);
        for _ in 0..QUESTIONS {
            let request = request(&mut rng);
            let asked = ask::begin(self.local(), &self.table, request, self.model.shown()).await?;
            let Some(mut asked) = asked else { continue };
            if rng.chance(15) {
                asked.step().await?;
                self.held.push(asked);
            } else {
                asked.finish().await?;
            }
        }
        Ok(())
    }

    async fn finish_held(&mut self) -> Result<(), String> {
        for held in self.held.drain(..) {
            held.finish().await.map_err(|what| format!("begun before: {what}"))?;
        }
        Ok(())
    }

    async fn act(&mut self, what: &What) -> Result<(), String> {
        match what {
            What::Mutate(rows) => self.mutate(rows).await?,
            What::Check(request) => self.check(request).await?,
            What::Modify(row, rules) => self.modify(row, rules).await?,
            What::Drop(rows) => {
                self.local().drop_rows(&self.table, rows.clone()).await.map_err(show)?;
                self.model.drop_rows(rows);
            }
            What::Tighten(family, gc) => self.tighten(family, gc).await?,
            What::Toggle => self.toggle().await?,
            What::Load(rows) => self.load(rows).await?,
            What::Flush => {
                self.engine()
                    .trees()
                    .into_iter()
                    .try_for_each(|tree| self.engine().tree(tree).and_then(|tree| tree.flush()))
                    .map_err(show)?;
            }
            What::Compact => {
                let compact = |tree| {
                    self.engine().tree(tree).and_then(|tree| tree.compact_range(&RowRange::ALL))
                };
                self.engine().trees().into_iter().try_for_each(compact).map_err(show)?;
            }
            What::Work(jobs) => (0..*jobs).for_each(|_| self.machine.work()),
            What::Wait(millis) => {
                let time = Duration::from_millis(*millis);
                self.machine.wait(time);
                let micros = time.as_micros() as i64;
                self.model.now = self.clock.micros.fetch_add(micros, Ordering::SeqCst) + micros;
            }
            What::Reopen(world) => self.reopen(world).await?,
            What::Undelete(jobs) => {
                self.local().delete_table(&self.table).await.map_err(show)?;
                (0..*jobs).for_each(|_| self.machine.work());
                self.local().undelete_table(&self.table).await.map_err(show)?;
            }
            What::Restore(jobs) => self.restore(*jobs).await?,
        }
        Ok(())
    }

    async fn mutate(&mut self, rows: &[RowMutations]) -> Result<(), String> {
        let results = match rows {
            [row] => vec![self.local().mutate_row(&self.table, row.clone()).await],
            rows => self.local().mutate_rows(&self.table, rows.to_vec()).await.map_err(show)?,
        };
        for (row, result) in rows.iter().zip(results) {
            match (self.model.knows(&row.mutations), result) {
                (true, Ok(())) => self.model.mutate(&row.row, &row.mutations),
                (false, Err(Error::NotFound { .. })) => {}
                (_, result) => return Err(format!("{row:?}: {result:?}")),
            }
        }
        Ok(())
    }

    async fn check(&mut self, request: &CheckAndMutate) -> Result<(), String> {
        let CheckAndMutate { row, predicate, on_true, on_false } = request;
        let told = self.local().check_and_mutate_row(&self.table, request.clone()).await;
        let refused = predicate.as_ref().is_some_and(refuses_filter);
        let unknown = !self.model.knows(on_true) || !self.model.knows(on_false);
        let holds = match told {
            Ok(holds) if !refused && !unknown => holds,
            Err(Error::InvalidArgument { .. }) if refused => return Ok(()),
            Err(Error::NotFound { .. }) if unknown => return Ok(()),
            told => return Err(format!("{request:?}: {told:?}")),
        };
        if holds != self.model.holds(row, predicate.as_ref()) {
            return Err(format!("{request:?}: {holds}"));
        }
        self.model.mutate(row, if holds { on_true } else { on_false });
        Ok(())
    }

    async fn modify(&mut self, row: &Bytes, rules: &[ReadModifyWriteRule]) -> Result<(), String> {
        let told =
            self.local().read_modify_write_row(&self.table, row.clone(), rules.to_vec()).await;
        let made = self.model.modify(row, rules);
        let same = match (&told, &made) {
            (Err(Error::NotFound { .. } | Error::FailedPrecondition(_)), None) => true,
            (Ok(row), Some(made)) => {
                let found = row.cells.iter().map(|cell| {
                    let family = self.model.family(&cell.family).unwrap();
                    ((family, cell.qualifier.clone()), (cell.timestamp.0, cell.value.clone()))
                });
                found.eq(made.clone())
            }
            _ => false,
        };
        if same { Ok(()) } else { Err(format!("{rules:?} of {row:?}: {told:?}, not {made:?}")) }
    }

    async fn tighten(&mut self, family: &'static str, gc: &GcRule) -> Result<(), String> {
        let Some(id) = self.model.family(family) else { return Ok(()) };
        let before = self.model.families[id].gc.clone();
        let both = GcRule::Union(vec![before, gc.clone()]);
        let name = family.to_owned();
        let update = FamilyChange::Update { name, gc: Some(both.clone()), value_type: None };
        let told = self.local().modify_families(&self.table, vec![update]).await;
        match (refuses_rule(&both), told) {
            (false, Ok(_)) => self.model.families[id].gc = both,
            (true, Err(Error::InvalidArgument { .. })) => {}
            (_, told) => return Err(format!("{both:?}: {:?}", told.err())),
        }
        Ok(())
    }

    async fn toggle(&mut self) -> Result<(), String> {
        let name = "gone";
        let known = self.model.family(name);
        let change = match known {
            Some(_) => FamilyChange::Drop { name: name.to_owned() },
            None => FamilyChange::Create { name: name.to_owned(), spec: spec(name) },
        };
        self.local().modify_families(&self.table, vec![change]).await.map_err(show)?;
        match known {
            Some(id) => self.model.drop_family(id),
            None => self.model.families.push(Family { name, gc: rule(name), gone: false }),
        }
        Ok(())
    }

    async fn load(&mut self, rows: &[RowMutations]) -> Result<(), String> {
        let load = self.local().load(&self.table, &IngestOptions::default());
        let mut load = load.map_err(show)?;
        rows.iter().try_for_each(|row| load.add(row)).map_err(show)?;
        let loaded = load.finish().map_err(show)?;
        self.local().install(loaded).await.map_err(show)?;
        rows.iter().for_each(|row| self.model.load(&row.row, &row.mutations));
        Ok(())
    }

    async fn restore(&mut self, jobs: usize) -> Result<(), String> {
        self.finish_held().await?;
        let restored = NAMES.into_iter().find(|name| *name != self.table.as_str());
        let restored = TableName::new(restored.unwrap()).map_err(show)?;
        let (local, backup) = (self.local(), "backup".to_owned());
        let record: BackupRecord = Box::new(|_| RecordChange::put("backup", "made"));
        let expires = self.model.now + KEPT.as_micros() as i64;
        local.back_up_table(&self.table, backup.clone(), expires, record).await.map_err(show)?;
        local.drop_table(&self.table).await.map_err(show)?;
        (0..jobs).for_each(|_| self.machine.work());
        let made = local.restore_table(backup.clone(), restored.clone(), Vec::new()).await;
        made.map_err(show)?;
        local.delete_backup(backup).await.map_err(show)?;
        self.table = restored;
        Ok(())
    }

    async fn reopen(&mut self, world: &World) -> Result<(), String> {
        self.finish_held().await?;
        self.engine().close().map_err(show)?;
        self.opened = None;
        self.open(world)
    }
}
