//! A door over a store in a directory of its own.

use engine::{Engine, Options};
use relational::{Database, DatabaseOptions};
use sql::{Door, DoorOptions};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use table::Local;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_postgres::{Client, NoTls};

/// A door that serves until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The Bigtable tables of the store.
    #[allow(dead_code, reason = "not every suite over this server writes to them")]
    pub(crate) tables: Local,
    #[allow(dead_code, reason = "not every suite over this server asks without a connection")]
    pub(crate) door: Door,
    _drain: watch::Sender<()>,
    _dir: tempfile::TempDir,
}

impl Server {
    /// Starts a door over an empty store.
    pub(crate) async fn start() -> Self {
        Self::with(DoorOptions::default()).await
    }

    /// Starts a door with options over an empty store.
    pub(crate) async fn with(options: DoorOptions) -> Self {
        Self::over(options, async |local| {
            Database::open(local, DatabaseOptions::default()).await.unwrap()
        })
        .await
    }

    /// Starts a door with options over a database that `open` makes in an empty store.
    pub(crate) async fn over(
        options: DoorOptions,
        open: impl AsyncFnOnce(&Local) -> Arc<Database>,
    ) -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), options, open).await
    }

    /// Starts a door over a copy of the store, which is opened as after a restart.
    #[allow(dead_code, reason = "not every suite over this server restarts it")]
    pub(crate) async fn restarted(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        self.tables.engine().checkpoint(dir.path()).unwrap();
        Self::in_dir(dir, DoorOptions::default(), async |local| {
            Database::open(local, DatabaseOptions::default()).await.unwrap()
        })
        .await
    }

    async fn in_dir(
        dir: tempfile::TempDir,
        options: DoorOptions,
        open: impl AsyncFnOnce(&Local) -> Arc<Database>,
    ) -> Self {
        let engine = Engine::open(dir.path(), Options::default()).unwrap();
        let local = Local::open(engine, Arc::new(base::env::SystemClock)).unwrap();
        let database = open(&local).await;
        let tables = Arc::new(local.clone());
        let door = Door::new(database, tables, (64 << 20, None), options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (drain, draining) = watch::channel(());
        let grace = Duration::from_millis(100);
        tokio::spawn(door.clone().serve(listener, Arc::new(|| None), draining, grace));
        Self { address, tables: local, door, _drain: drain, _dir: dir }
    }

    /// Connects as the owner of the database.
    pub(crate) async fn client(&self) -> Client {
        self.client_as("stele").await
    }

    /// Connects as a role without a password.
    pub(crate) async fn client_as(&self, user: &str) -> Client {
        let port = self.address.port();
        let config = format!("host=127.0.0.1 port={port} user={user} dbname=stele");
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

/// Returns the SQLSTATE of an error.
pub(crate) fn code(error: &tokio_postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}
