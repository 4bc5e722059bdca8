//! A replication group of one machine, whose log is the engine's. Its next writes can be made to fail.

use async_trait::async_trait;
use engine::{ReadyBatch, Tree, TreeId};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use relational::GroupTerm;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use table::{
    CreateTable, Error, FamilySpec, Granularity, GroupWrite, Groups, Kept, Local, Removal, Result,
    Store, TableName, TableSchema, Term,
};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// The way in which a write fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The group has no room now.
    Busy,
    /// The outcome is not told. The write is made with the next one of its term.
    Unknown,
    /// The outcome is not told. The write is never made.
    Lost,
    /// The write is made, and its outcome told after [`LocalGroup::tell`].
    Untold,
    /// None: the write is made.
    Made,
}

/// A write whose outcome is not known.
type Late = (ReadyBatch, Kept);

/// The header of this file describes it.
pub(crate) struct LocalGroup {
    tree: Tree,
    term: Arc<AtomicU64>,
    faults: Mutex<VecDeque<Fault>>,
    late: Mutex<Vec<Late>>,
    told: Arc<Semaphore>,
    /// The threads that make writes and tell outcomes.
    threads: Handle,
}

impl LocalGroup {
    /// Returns the group of a store, which is made with the store.
    pub(crate) async fn of(local: &Local) -> std::result::Result<Arc<Self>, String> {
        let made = async {
            let name = TableName::new("sql/database")?;
            let known = match local.get_table(&name).await {
                Ok(known) => known,
                Err(_) => {
                    let table = CreateTable {
                        name,
                        families: vec![("rows".to_owned(), FamilySpec::default())],
                        splits: Vec::new(),
                        deletion_protection: true,
                        granularity: Granularity::Millis,
                        row_key_schema: None,
                    };
                    local.create_table(table).await?
                }
            };
            Ok::<_, Error>(local.engine().tree(known.tablets[0].tree)?)
        };
        let tree = made.await.map_err(|error| error.to_string())?;
        let (term, faults, late) = Default::default();
        let (told, threads) = (Arc::new(Semaphore::new(0)), Handle::current());
        Ok(Arc::new(Self { tree, term, faults, late, told, threads }))
    }

    /// Begins a term with all that was written in earlier ones, whose databases are refused from now on.
    pub(crate) async fn next_term(self: &Arc<Self>) -> GroupTerm {
        let late = std::mem::take(&mut *self.late.lock());
        write_all(&self.tree, late).await.unwrap();
        let number = self.term.fetch_add(1, Ordering::SeqCst) + 1;
        let groups: Arc<dyn Groups> = Arc::clone(self) as Arc<dyn Groups>;
        GroupTerm { groups, tree: self.tree.id(), term: Term { number, floor: 0 } }
    }

    /// Has the next writes fail, one after the other.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().extend(faults);
    }

    /// Returns how many writes are still to fail.
    pub(crate) fn faults(&self) -> usize {
        self.faults.lock().len()
    }

    /// Tells the outcomes of writes that were made.
    pub(crate) fn tell(&self, writes: usize) {
        self.told.add_permits(writes);
    }

    /// Forgets writes whose outcome is not known: a later leader does not have them.
    pub(crate) fn lose_late(&self) {
        let late = std::mem::take(&mut *self.late.lock());
        drop(late);
    }
}

#[async_trait]
impl Groups for LocalGroup {
    async fn readable(&self, _: TreeId) -> Result<Term> {
        Ok(Term { number: self.term.load(Ordering::SeqCst), floor: 0 })
    }

    async fn writable(&self, tree: TreeId) -> Result<Term> {
        self.readable(tree).await
    }

    fn commit(&self, write: GroupWrite) -> BoxFuture<'static, Result<()>> {
        let GroupWrite { tree, term, batch, kept, .. } = write;
        assert_eq!(tree, self.tree.id());
        if term.number != self.term.load(Ordering::SeqCst) {
            drop(kept);
            return Box::pin(async { Err(Error::NotLeader { leader: None }) });
        }
        let fault = self.faults.lock().pop_front();
        match fault {
            Some(Fault::Busy) => {
                drop(kept);
                return Box::pin(async { Err(Error::Busy("no room".to_owned())) });
            }
            Some(Fault::Unknown) => {
                self.late.lock().push((batch, kept));
                return Box::pin(async { Err(Error::Unavailable("no answer".to_owned())) });
            }
            Some(Fault::Lost) => {
                drop(kept);
                return Box::pin(async { Err(Error::Unavailable("no answer".to_owned())) });
            }
            Some(Fault::Untold | Fault::Made) | None => {}
        }
        let mut writes = std::mem::take(&mut *self.late.lock());
        writes.push((batch, kept));
        let tree = self.tree.clone();
        let term = Arc::clone(&self.term);
        let told = (fault == Some(Fault::Untold)).then(|| Arc::clone(&self.told));
        let written = self.threads.spawn(async move {
            let written = write_all(&tree, writes).await;
            if let Some(told) = told {
                told.acquire().await.unwrap().forget();
            }
            // A node ends with its disk, and its term with it.
            if written.is_err() {
                term.fetch_add(1, Ordering::SeqCst);
            }
            written
        });
        Box::pin(async move { written.await.unwrap() })
    }

    async fn create(&self, _: &TableSchema, _: u64) -> Result<()> {
        unreachable!("the database has its group")
    }

    async fn remove(&self, _: &Removal) -> Result<()> {
        unreachable!("the database keeps its group")
    }

    async fn set_schema(&self, _: &TableSchema, _: u64) -> Result<()> {
        unreachable!("the database changes no schema of the group")
    }

    fn leader(&self, _: TreeId) -> Option<u64> {
        Some(1)
    }
}

async fn write_all(tree: &Tree, writes: Vec<Late>) -> Result<()> {
    for (batch, kept) in writes {
        tree.write_in_task(batch, |_| (), Holder(kept)).await?;
    }
    Ok(())
}

/// Things that a write keeps.
struct Holder(#[expect(dead_code, reason = "only to be dropped")] Kept);
