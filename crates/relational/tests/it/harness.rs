//! A database on a simulated machine, and short ways to define and change tables.
//!
//! Tests run over both forms of a store: trees of an engine, and the tree of a replication group ([`crate::group`]).

use crate::group::LocalGroup;
use base::env::sim::SimEnv;
use engine::{Durability, Engine, Options, RowRange, ScanRequest, Tree, TreeId};
use relational::{
    CreateTable, DataType, Database, DatabaseOptions, Isolation, NewColumn, NewConstraint, Oid,
    OnConflict, Result, Row, ScanSpec, Transaction, Value, View,
};
use std::cell::Cell;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use table::Local;

/// Number of the schema `public`.
pub(crate) const PUBLIC: Oid = relational::catalog::PUBLIC_SCHEMA;
/// Number of the role that owns everything.
pub(crate) const OWNER: Oid = relational::catalog::BOOTSTRAP_ROLE;

/// The form of the store below a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Machine,
    Group,
}

thread_local! {
    static FORM: Cell<Form> = const { Cell::new(Form::Machine) };
}

/// Returns the form of the test that runs on this thread.
pub(crate) fn form() -> Form {
    FORM.get()
}

/// Runs a test over both forms of a store, each on a runtime of this thread.
pub(crate) fn run(test: impl AsyncFn()) {
    for form in [Form::Machine, Form::Group] {
        run_over(form, &test);
    }
}

/// Runs a test over one form of a store.
pub(crate) fn run_over(form: Form, test: impl AsyncFn()) {
    FORM.set(form);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test());
}

/// Opens the store of a machine, with memtables so small that flushes happen.
pub(crate) fn store(machine: &SimEnv) -> std::result::Result<Local, String> {
    let options = Options {
        durability: Durability::Sync,
        memtable_bytes_max: 64 << 10,
        memory_bytes_max: 4 << 20,
        cache_bytes_max: Some(1 << 20),
        log_segment_bytes: 64 << 10,
        ..Options::default()
    };
    let engine = Engine::open_with_env(machine.env(), Path::new("data"), options);
    let engine = engine.map_err(|error| error.to_string())?;
    Local::open(engine, machine.env().clock).map_err(|error| error.to_string())
}

/// Opens the database of a machine.
pub(crate) async fn open(machine: &SimEnv) -> std::result::Result<Arc<Database>, String> {
    open_with(machine, DatabaseOptions::default()).await
}

/// Opens the database of a machine with options.
pub(crate) async fn open_with(
    machine: &SimEnv,
    options: DatabaseOptions,
) -> std::result::Result<Arc<Database>, String> {
    let local = store(machine)?;
    let database = match form() {
        Form::Machine => Database::open(&local, options).await,
        Form::Group => {
            let term = LocalGroup::of(&local).await?.next_term().await;
            Database::open_in_group(&local, term, options).await
        }
    };
    database.map_err(|error| error.to_string())
}

/// Returns the tree of the engine that has the keys of a tree of the database, and the bytes before them.
pub(crate) fn keys_of(database: &Arc<Database>, tree: u32) -> (Tree, Vec<u8>) {
    let engine = database.engine();
    match form() {
        Form::Machine => (engine.tree(TreeId(tree)).unwrap(), Vec::new()),
        Form::Group => {
            // There is one tree beside the trees of the store itself.
            let of_tables = |found: &TreeId| *found >= TreeId::FIRST_OF_TABLES;
            let group = engine.trees().into_iter().find(of_tables).unwrap();
            (engine.tree(group).unwrap(), tree.to_be_bytes().to_vec())
        }
    }
}

/// Returns the numbers of the trees with keys, the catalog's too.
pub(crate) fn used_trees(database: &Arc<Database>) -> Vec<u32> {
    let trees = match form() {
        Form::Machine => database.engine().trees().into_iter().map(|tree| tree.0).collect(),
        Form::Group => (2..64).collect::<Vec<u32>>(),
    };
    let is_used = |tree: &u32| {
        let (of, prefix) = keys_of(database, *tree);
        let mut scan = of.scan(&ScanRequest::rows(RowRange::prefix(&prefix)), None).unwrap();
        scan.next_row().unwrap().is_some()
    };
    trees.into_iter().filter(|tree| *tree >= 2).filter(is_used).collect()
}

/// Returns what a future that does not wait is ready with.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it waits"),
    }
}

/// A new database on a new machine.
pub(crate) async fn new() -> (SimEnv, Arc<Database>) {
    let machine = SimEnv::new(1);
    let database = open(&machine).await.unwrap();
    (machine, database)
}

/// Begins a READ COMMITTED transaction that writes.
pub(crate) fn begin(database: &Arc<Database>) -> Transaction {
    let mut transaction = database.begin(Isolation::ReadCommitted, false);
    at_once(transaction.start_statement()).unwrap();
    transaction
}

/// Begins a REPEATABLE READ transaction that writes.
pub(crate) fn begin_repeatable(database: &Arc<Database>) -> Transaction {
    let mut transaction = database.begin(Isolation::RepeatableRead, false);
    at_once(transaction.start_statement()).unwrap();
    transaction
}

/// A column that may be NULL.
pub(crate) fn column(name: &str, data_type: DataType) -> NewColumn {
    NewColumn {
        name: name.to_owned(),
        data_type,
        not_null: false,
        default: None,
        identity: None,
        precision: None,
        generated: None,
    }
}

/// A primary key over columns.
pub(crate) fn key(columns: &[&str]) -> NewConstraint {
    let columns = columns.iter().map(|name| name.to_string()).collect();
    NewConstraint::PrimaryKey { name: None, columns }
}

/// A unique key over columns.
pub(crate) fn unique(columns: &[&str]) -> NewConstraint {
    let columns = columns.iter().map(|name| name.to_string()).collect();
    NewConstraint::Unique { name: None, columns }
}

/// Creates a table in its own transaction.
pub(crate) async fn create(
    database: &Arc<Database>,
    name: &str,
    columns: Vec<NewColumn>,
    constraints: Vec<NewConstraint>,
) -> Oid {
    let mut transaction = begin(database);
    let oid = transaction.create_table(table(name, columns, constraints)).await.unwrap();
    transaction.commit().await.unwrap();
    oid
}

/// The definition of a table in the schema `public`.
pub(crate) fn table(
    name: &str,
    columns: Vec<NewColumn>,
    constraints: Vec<NewConstraint>,
) -> CreateTable {
    let (name, owner, columnar) = (name.to_owned(), OWNER, false);
    CreateTable { schema: PUBLIC, name, owner, columns, constraints, columnar }
}

/// Creates the table `name` with an integer key `id` and a text `name`, unique if `is_unique`.
pub(crate) async fn create_names(database: &Arc<Database>, name: &str, is_unique: bool) -> Oid {
    let columns = vec![column("id", DataType::Int4), column("name", DataType::Text)];
    let mut constraints = vec![key(&["id"])];
    constraints.extend(is_unique.then(|| unique(&["name"])));
    create(database, name, columns, constraints).await
}

/// A row of a table of [`create_names`].
pub(crate) fn named(id: i32, name: &str) -> Row {
    vec![Value::Int4(id), Value::text(name)]
}

/// Inserts rows in their own transaction.
pub(crate) async fn insert(database: &Arc<Database>, table: Oid, rows: Vec<Row>) -> Result<()> {
    let mut transaction = begin(database);
    transaction.insert(table, rows, OnConflict::Fail).await?;
    transaction.commit().await
}

/// All rows of a table in a view, in the order of the key or of an index.
pub(crate) async fn rows_in(view: View, table: Oid, index: Option<Oid>) -> Vec<Row> {
    let spec = ScanSpec { index, ..ScanSpec::of(table) };
    scan(view, spec).await
}

/// All rows of a scan.
pub(crate) async fn scan(view: View, spec: ScanSpec) -> Vec<Row> {
    let read = tokio::task::spawn_blocking(move || {
        let mut scan = view.scan(spec).unwrap();
        let mut rows = Vec::new();
        loop {
            let batch = scan.next_batch(3).unwrap();
            if batch.is_empty() {
                return rows;
            }
            rows.extend(batch);
        }
    });
    read.await.unwrap()
}

/// All rows of a table as they are committed.
pub(crate) async fn rows(database: &Arc<Database>, table: Oid) -> Vec<Row> {
    let view = begin(database).view();
    rows_in(view, table, None).await
}

/// Checks that every index of a table has an entry for each row, and no other.
pub(crate) async fn check_indexes(database: &Arc<Database>, table: Oid) {
    let mut rows = rows(database, table).await;
    rows.sort();
    let catalog = database.catalog();
    for index in &catalog.table(table).unwrap().indexes {
        let view = begin(database).view();
        let mut by_index = rows_in(view, table, Some(index.oid)).await;
        by_index.sort();
        assert_eq!(by_index, rows, "rows by index {}", index.name);
    }
}
