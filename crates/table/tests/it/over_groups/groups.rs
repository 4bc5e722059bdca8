//! Groups of one replica in memory: a thread feeds the engine with what they agreed on. Tests take the office of
//! leader from the node, and give it back.

use async_trait::async_trait;
use engine::{Engine, Fed, LogPosition, ReadyBatch, TreeId, TreeOptions};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use table::{Error, GroupWrite, Groups, Kept, Removal, Result, TableSchema, Term};
use tokio::sync::oneshot;

/// The node that leads where this one does not.
pub(super) const OTHER: u64 = 2;

/// An entry of the log of a group.
struct Entry {
    tree: TreeId,
    position: u64,
    batch: ReadyBatch,
    kept: Option<Kept>,
    done: Option<oneshot::Sender<Result<()>>>,
}

struct Group {
    /// Version of the schema that it has.
    version: u64,
    leads: bool,
    term: u64,
    /// Newest time of the entries before the term.
    floor: u64,
    /// Newest time of all entries.
    newest: u64,
    position: u64,
}

type Hook = Box<dyn FnOnce(&MemoryGroups) + Send>;

pub(super) struct MemoryGroups {
    engine: Engine,
    groups: Mutex<BTreeMap<TreeId, Group>>,
    log: Mutex<mpsc::Sender<Entry>>,
    /// True while entries wait to be applied.
    halted: Arc<(Mutex<bool>, Condvar)>,
    /// Done after the next readings of a term, one for each.
    after_reading: Mutex<Vec<Hook>>,
    /// The answer to the next creation.
    creation: Mutex<Option<Error>>,
    /// Done while the next table is created.
    while_creating: Mutex<Option<Hook>>,
    /// True while another node cannot be reached: removals fail.
    pub(super) away: Mutex<bool>,
    /// Versions of the schemas that were set.
    pub(super) set: Mutex<Vec<u64>>,
    /// True while schemas cannot be set.
    pub(super) refuses_schemas: Mutex<bool>,
    /// Trees whose groups have lost their majority, and what was proposed there.
    undecided: Mutex<BTreeMap<TreeId, Vec<Entry>>>,
}

impl MemoryGroups {
    #[expect(clippy::disallowed_methods, reason = "the thread is the test's own")]
    pub(super) fn new(engine: Engine) -> Self {
        let (log, entries) = mpsc::channel::<Entry>();
        let halted = Arc::<(Mutex<bool>, Condvar)>::default();
        let (to, gate) = (engine.clone(), Arc::clone(&halted));
        std::thread::spawn(move || entries.iter().for_each(|entry| apply(&to, &gate, entry)));
        Self {
            engine,
            groups: Mutex::default(),
            log: Mutex::new(log),
            halted,
            after_reading: Mutex::default(),
            creation: Mutex::default(),
            while_creating: Mutex::default(),
            away: Mutex::default(),
            set: Mutex::default(),
            refuses_schemas: Mutex::default(),
            undecided: Mutex::default(),
        }
    }

    /// Nothing that is proposed for a tree from now on has an outcome.
    pub(super) fn lose_majority(&self, tree: TreeId) {
        self.undecided.lock().insert(tree, Vec::new());
    }

    /// Returns the number of proposals without an outcome.
    pub(super) fn undecided(&self) -> usize {
        self.undecided.lock().values().map(Vec::len).sum()
    }

    /// Lets entries wait from now on, or no longer.
    pub(super) fn halt(&self, halted: bool) {
        *self.halted.0.lock() = halted;
        self.halted.1.notify_all();
    }

    /// Another node leads all groups from now on.
    pub(super) fn lose(&self) {
        self.lose_one(|_| true);
    }

    /// Another node leads the groups of the picked trees from now on.
    pub(super) fn lose_one(&self, which: impl Fn(TreeId) -> bool) {
        let mut groups = self.groups.lock();
        let lost = groups.iter_mut().filter(|(tree, _)| which(**tree));
        lost.for_each(|(_, group)| (group.leads, group.term) = (false, group.term + 1));
    }

    /// Writes a batch as the other node, which leads.
    pub(super) fn write_elsewhere(&self, tree: TreeId, batch: ReadyBatch, newest: u64) {
        let mut groups = self.groups.lock();
        let group = groups.get_mut(&tree).unwrap();
        assert!(!group.leads);
        (group.position, group.newest) = (group.position + 1, group.newest.max(newest));
        let position = group.position;
        self.log.lock().send(Entry { tree, position, batch, kept: None, done: None }).unwrap();
    }

    /// This node leads all groups from now on, in a new term, and has applied all that was before.
    pub(super) fn lead(&self) {
        let mut groups = self.groups.lock();
        for (tree, group) in groups.iter_mut() {
            while self.engine.tree(*tree).unwrap().applied().unwrap().0 < group.position {
                std::thread::yield_now();
            }
            (group.leads, group.term, group.floor) = (true, group.term + 1, group.newest);
        }
    }

    /// Does `hook` after the next reading of a term that has no hook yet.
    pub(super) fn after_reading(&self, hook: impl FnOnce(&Self) + Send + 'static) {
        self.after_reading.lock().push(Box::new(hook));
    }

    pub(super) fn fail_creation(&self, error: Error) {
        *self.creation.lock() = Some(error);
    }

    /// Does `hook` while the groups of the next table are created.
    pub(super) fn while_creating(&self, hook: impl FnOnce(&Self) + Send + 'static) {
        *self.while_creating.lock() = Some(Box::new(hook));
    }

    fn after_reading_now(&self) {
        let hook = {
            let mut hooks = self.after_reading.lock();
            (!hooks.is_empty()).then(|| hooks.remove(0))
        };
        if let Some(hook) = hook {
            hook(self);
        }
    }

    fn term(&self, tree: TreeId) -> Result<Term> {
        match self.groups.lock().get(&tree) {
            Some(group) if group.leads => Ok(Term { number: group.term, floor: group.floor }),
            Some(_) => Err(Error::NotLeader { leader: Some(OTHER) }),
            None => Err(Error::NotLeader { leader: None }),
        }
    }
}

fn apply(engine: &Engine, (halted, changed): &(Mutex<bool>, Condvar), entry: Entry) {
    let mut waits = halted.lock();
    while *waits {
        changed.wait(&mut waits);
    }
    drop(waits);
    let Entry { tree, position, batch, kept, done } = entry;
    let fed = Fed { tree, position: LogPosition(position), batch: Some(&batch) };
    let applied = engine.apply(&[fed]);
    drop(kept);
    if let Some(done) = done {
        let _ = done.send(applied.map_err(Error::from));
    }
}

#[async_trait]
impl Groups for MemoryGroups {
    async fn readable(&self, tree: TreeId) -> Result<Term> {
        let term = self.term(tree)?;
        self.after_reading_now();
        Ok(term)
    }

    async fn writable(&self, tree: TreeId) -> Result<Term> {
        let term = self.term(tree)?;
        self.after_reading_now();
        Ok(term)
    }

    fn commit(&self, write: GroupWrite) -> BoxFuture<'static, Result<()>> {
        let GroupWrite { tree, term, batch, newest_micros, kept } = write;
        let now = self.term(tree);
        let mut groups = self.groups.lock();
        let group = match groups.get_mut(&tree) {
            Some(group) if now == Ok(term) && group.term == term.number => group,
            _ => {
                return std::future::ready(Err(Error::NotLeader { leader: Some(OTHER) })).boxed();
            }
        };
        assert!(newest_micros == 0 || newest_micros > group.floor, "a time was given before");
        (group.position, group.newest) = (group.position + 1, group.newest.max(newest_micros));
        let (done, outcome) = oneshot::channel();
        let position = group.position;
        let entry = Entry { tree, position, batch, kept: Some(kept), done: Some(done) };
        match self.undecided.lock().get_mut(&tree) {
            Some(undecided) => undecided.push(entry),
            None => self.log.lock().send(entry).unwrap(),
        }
        async { outcome.await.unwrap_or_else(|_| Err(Error::Unavailable("gone".into()))) }.boxed()
    }

    async fn create(&self, schema: &TableSchema, version: u64) -> Result<()> {
        let (refusal, hook) = (self.creation.lock().take(), self.while_creating.lock().take());
        if let Some(hook) = hook {
            hook(self);
        }
        for tablet in &schema.tablets {
            self.engine.create_tree(tablet.tree, TreeOptions::default())?;
            let group = Group { version, leads: true, term: 1, floor: 0, newest: 0, position: 0 };
            self.groups.lock().insert(tablet.tree, group);
        }
        refusal.map_or(Ok(()), Err)
    }

    async fn remove(&self, removal: &Removal) -> Result<()> {
        for tree in &removal.trees {
            let group = self.groups.lock().get(tree).map(|group| (group.version, group.position));
            if group.is_some_and(|(version, rows)| version >= removal.version && rows > 0) {
                return Err(Error::AlreadyExists { what: "resource", name: format!("{tree:?}") });
            }
        }
        for tree in &removal.trees {
            if self.groups.lock().remove(tree).is_some() {
                self.engine.drop_tree(*tree)?;
            }
        }
        match *self.away.lock() {
            true => Err(Error::Unavailable("a node is away".into())),
            false => Ok(()),
        }
    }

    async fn set_schema(&self, _: &TableSchema, version: u64) -> Result<()> {
        if *self.refuses_schemas.lock() {
            return Err(Error::Unavailable("no leader carries the call out".into()));
        }
        self.set.lock().push(version);
        Ok(())
    }

    fn leader(&self, tree: TreeId) -> Option<u64> {
        self.groups.lock().get(&tree).map(|group| if group.leads { 1 } else { OTHER })
    }
}
