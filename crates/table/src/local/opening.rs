//! Opening a store: from what its engine and its schema say to the state that serves requests.

use super::kept::{records::RecordMap, shelf};
use super::locks::RowLocks;
use super::meta::{EngineMeta, MetaStore};
use super::pool::Pool;
use super::read::places::ReadPlaces;
use super::read::task::READ_IDLE_MAX;
use super::replicated::Tablets;
use super::table::{KeptState, Table};
use super::times::RowTimes;
use super::{ALONE, Core, Local};
use crate::error::{Error, Result};
use crate::gc::TableRules;
use crate::meter::{Heat, Queue, StoreMeter};
use crate::schema::TableName;
use crate::shape::Shape;
use crate::shelf::ShelfMap;
use base::env::Clock;
use engine::{Durability, Engine, Owner, TreeId};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

/// Change streams that read at the same time; others wait their turn.
const CHANGE_READS_MAX: usize = 8;

/// The tables, deleted tables and records that a store knows when it opens.
pub(super) struct Contents {
    pub(super) tables: BTreeMap<TableName, Arc<Table>>,
    pub(super) shelf: ShelfMap,
    pub(super) records: RecordMap,
}

impl Local {
    /// Opens the tables of `engine`: reads the schema, finishes what was being created or deleted,
    /// sets GC rules. Blocks. The store is a server's from then on.
    ///
    /// `FailedPrecondition` if it is of a program that embeds the engine. `DataLoss` if the schema is
    /// damaged or names a tree that is missing. Trees that no table names are logged, and kept.
    pub fn open(engine: Engine, clock: Arc<dyn Clock>) -> Result<Self> {
        let meta = EngineMeta::open(engine.clone())?;
        Self::with_meta(engine, clock, Box::new(meta))
    }

    /// As [`Local::open`], with a shape of its own, which is valid: for tests.
    #[doc(hidden)]
    pub fn open_shaped(engine: Engine, clock: Arc<dyn Clock>, shape: Shape) -> Result<Self> {
        let meta = EngineMeta::open(engine.clone())?;
        Self::shaped(engine, clock, Box::new(meta), shape)
    }

    /// As [`Local::open`], with the schema kept elsewhere.
    pub fn with_meta(
        engine: Engine,
        clock: Arc<dyn Clock>,
        meta: Box<dyn MetaStore>,
    ) -> Result<Self> {
        Self::shaped(engine, clock, meta, Shape::DEFAULT)
    }

    fn shaped(
        engine: Engine,
        clock: Arc<dyn Clock>,
        meta: Box<dyn MetaStore>,
        shape: Shape,
    ) -> Result<Self> {
        engine.claim(Owner::Server)?;
        let mut tables = BTreeMap::new();
        let meter = Arc::<StoreMeter>::default();
        let mut orphans: BTreeSet<TreeId> = engine.trees().into_iter().collect();
        orphans.retain(|tree| *tree >= TreeId::FIRST_OF_TABLES);
        for schema in meta.tables()? {
            let rules = Arc::new(TableRules::of(&schema));
            for tablet in &schema.tablets {
                if !orphans.remove(&tablet.tree) {
                    let text = format!("table {} uses tree {}", schema.name, tablet.tree.0);
                    return Err(Error::DataLoss(format!("{text}, which is missing or taken")));
                }
                engine.tree(tablet.tree)?.set_elision_rules(rules.clone())?;
            }
            let kept = KeptState::new(&schema.name, &meter, &shape);
            tables.insert(schema.name.clone(), Arc::new(Table::new(schema, ALONE, kept)));
        }
        for owned in meta.owned()? {
            if let Some(tree) = owned.trees.iter().find(|tree| !orphans.remove(tree)) {
                let text = format!("table {} uses tree {}", owned.name, tree.0);
                return Err(Error::DataLoss(format!("{text}, which is missing or taken")));
            }
        }
        let shelf = shelf::claim(&engine, &*meta, &mut orphans)?;
        carry_out_intents(&engine, &*meta, &mut orphans)?;
        for tree in orphans {
            let tree = tree.0;
            tracing::warn!(
                tree,
                "kept a tree that belongs to no table; 'stele adopt' makes it a table"
            );
        }
        let records = RecordMap::of(meta.records()?);
        let meta = Arc::from(meta);
        let contents = Contents { tables, shelf, records };
        Ok(Self::over(engine, clock, (meta, Tablets::Engine), contents, (meter, shape)))
    }

    /// Returns the store of `contents` over an engine.
    pub(super) fn over(
        engine: Engine,
        clock: Arc<dyn Clock>,
        (meta, tablets): (Arc<dyn MetaStore>, Tablets),
        contents: Contents,
        (meter, shape): (Arc<StoreMeter>, Shape),
    ) -> Self {
        let loses_writes = match &tablets {
            Tablets::Engine => engine.durability() != Durability::Sync,
            Tablets::Groups(_) => false,
        };
        let opened_micros = loses_writes.then(|| clock.now_micros());
        let (newest, shown) = (engine.commit_micros(), engine.clock_micros());
        let times = RowTimes::after(newest, shown, Arc::clone(&clock));
        let reads = ReadPlaces::new(&shape, cores(), &meter, &clock);
        let pool = |places, queue| Pool::new(places, queue, &meter, &clock);
        let filters = pool(shape.filters_max, Queue::Filters);
        let writes = pool(shape.writes_max, Queue::Writes);
        let loads = pool(shape.loads_max, Queue::Loads);
        let changes = pool(CHANGE_READS_MAX, Queue::ChangeReads);
        let core = Core {
            engine,
            meta,
            heat: Arc::new(Heat::new(Arc::clone(&clock))),
            tablets,
            clock,
            opened_micros,
            times,
            tables: RwLock::new(contents.tables),
            tables_version: AtomicU64::new(0),
            records: RwLock::new(contents.records),
            shelf: RwLock::new(contents.shelf),
            deleted_for: AtomicI64::new(0),
            schema_change: Mutex::new(()),
            streams_end: tokio::sync::watch::Sender::new(false),
            requests: AtomicU64::new(0),
            meter,
            shape,
        };
        Self {
            core: Arc::new(core),
            locks: Arc::new(RowLocks::new(shape.lock_stripes)),
            filters,
            reads,
            writes,
            loads,
            changes,
            read_idle_max: READ_IDLE_MAX,
        }
    }
}

/// Drops the trees that were to be dropped, of `trees`, which no table names: a tree that a table names
/// is the table's, whatever was intended.
fn carry_out_intents(
    engine: &Engine,
    meta: &dyn MetaStore,
    trees: &mut BTreeSet<TreeId>,
) -> Result<()> {
    for intent in meta.intents()? {
        for tree in intent.iter().filter(|tree| trees.remove(tree)) {
            tracing::info!(
                tree = tree.0,
                "dropping the tree of a table whose creation or deletion was interrupted"
            );
            engine.drop_tree(*tree)?;
        }
        meta.forget(&intent)?;
    }
    Ok(())
}

/// Returns the number of cores that reads share.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
