//! The door for PostgreSQL clients, in the life of the server.

mod node;
mod observer;

use super::connections::CurrentTls;
use super::explain::Explain;
use super::listen;
use super::state::State;
use crate::config::Config;
use ::sql::wide::BigtableReads;
use ::sql::{DoorOptions, DoorParts, NodeDoor, Seat, Trust};
use anyhow::Context;
use cluster::member::Member;
use observer::StatementObserver;
use relational::{Database, DatabaseOptions};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use table::Local;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Part of the memory budget that queries may take at most.
const QUERY_MEMORY_SHARE: usize = 4;
/// Directory of files of queries that exceed it, in the data directory.
const SPILL_DIR: &str = "sql-spill";

/// Binds the address of the door, if the server has one. The default address may be taken: by a server of
/// PostgreSQL's, or by another one of Stele.
pub(super) async fn bind(config: &Config) -> anyhow::Result<Option<TcpListener>> {
    let Some(sql) = &config.sql else { return Ok(None) };
    match listen::bind("sql_listen", &sql.listen, sql.reach).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if sql.is_default => {
            tracing::warn!("PostgreSQL clients are not served: {error:#}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The seat that the console asks for the database. When this is dropped, also by a panic of the door's task, the
/// database is nowhere: the console reads from it no more, so that it closes before the engine.
struct KeptSeat(watch::Sender<Seat>);

impl Drop for KeptSeat {
    fn drop(&mut self) {
        self.0.send_replace(Seat::Unknown);
    }
}

/// Opens the database of the store, and serves the clients of `listener` until `draining` changes.
pub(super) async fn start(
    config: &Config,
    store: &Arc<Local>,
    tls: Option<CurrentTls>,
    listener: TcpListener,
    draining: watch::Receiver<()>,
    (state, explain): (&State, Explain),
) -> anyhow::Result<JoinHandle<()>> {
    let database = Database::open(store, DatabaseOptions::default());
    let database = database.await.context("could not open the tables of SQL")?;
    let parts = parts(config, Arc::<Local>::clone(store), (state, explain))?;
    let door = parts.door(database);
    let (seat, seated) = watch::channel(Seat::Here(door.clone()));
    state.set_sql_seat(seated);
    let seat = KeptSeat(seat);
    let (tls, grace) = (current(tls), config.drain);
    Ok(tokio::spawn(async move {
        let _seat = seat;
        door.serve(listener, tls, draining, grace).await;
    }))
}

/// Serves the clients of `listener` on a node of a cluster, until `draining` changes: here while the node leads the
/// database, and by the node that leads it otherwise.
pub(super) fn start_on_node(
    config: &Config,
    member: &Member,
    tls: Option<CurrentTls>,
    listener: TcpListener,
    draining: watch::Receiver<()>,
    (state, explain): (&State, Explain),
) -> anyhow::Result<JoinHandle<()>> {
    let parts = parts(config, Arc::new(member.tables().clone()), (state, explain))?;
    let cluster = config.cluster.as_ref();
    let named = cluster.map(|cluster| cluster.advertise.as_ref().unwrap_or(&cluster.listen));
    let address = advertised(named.map_or("", String::as_str), listener.local_addr()?);
    if address.is_none() {
        tracing::warn!(
            address = %listener.local_addr()?,
            "PostgreSQL clients of other nodes are not served while this node leads the database, \
             since sql_listen cannot be reached from there"
        );
    }
    let (group, tls, grace) = (member.database(), current(tls), config.drain);
    let (seat, seated) = watch::channel(Seat::Unknown);
    state.set_sql_seat(seated.clone());
    Ok(tokio::spawn(async move {
        let seat = KeptSeat(seat);
        let keeping = node::keep_seat(&group, &parts, &seat.0);
        let door = NodeDoor::new(Arc::clone(&parts), seated);
        tokio::select! {
            () = door.serve(listener, tls, draining, grace) => {}
            () = keeping => {}
            () = group.keep_door(address.as_deref()) => {}
        }
    }))
}

/// Returns what all doors of the server share.
fn parts(
    config: &Config,
    tables: Arc<dyn BigtableReads>,
    (state, explain): (&State, Explain),
) -> anyhow::Result<Arc<DoorParts>> {
    let trust = match config.sql.as_ref().is_some_and(|sql| sql.is_insecure) {
        true => Trust::Everywhere,
        false => Trust::Loopback,
    };
    let observer: Arc<dyn ::sql::Observer> = Arc::new(StatementObserver::new(explain)?);
    let options = DoorOptions {
        trust,
        version: env!("CARGO_PKG_VERSION"),
        observer: Some(observer),
        ..DoorOptions::default()
    };
    let memory = config.engine.memory_bytes_max / QUERY_MEMORY_SHARE;
    let spill = config.data_dir.join(SPILL_DIR);
    let parts = DoorParts::new(tables, (memory, Some(spill)), options);
    let parts = parts.context("could not open the door for PostgreSQL clients")?;
    state.set_sql(parts.counts(), parts.query_memory());
    Ok(parts)
}

fn current(tls: Option<CurrentTls>) -> ::sql::CurrentTls {
    Arc::new(move || tls.as_ref().map(|tls| Arc::clone(&tls.load().postgresql)))
}

/// Returns the address at which other nodes reach the door of this one, which listens at `at`; nothing if they cannot.
/// `named` is the address at which they reach the node itself.
fn advertised(named: &str, at: SocketAddr) -> Option<String> {
    let host = named.rsplit_once(':').map_or("", |(host, _)| host);
    if at.ip().is_unspecified() {
        return Some(format!("{host}:{}", at.port()));
    }
    (!at.ip().is_loopback() || is_loopback(host)).then(|| at.to_string())
}

fn is_loopback(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.map_or(host == "localhost", |ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A door's task that panics.
    async fn fail(_seat: KeptSeat) {
        tokio::task::yield_now().await;
        panic!("on purpose");
    }

    #[tokio::test]
    async fn the_database_has_no_seat_after_the_end_of_its_door() {
        let here = || watch::channel(Seat::At("db-1.example:5433".to_owned()));
        let (seat, seated) = here();
        let seat = KeptSeat(seat);
        assert!(matches!(*seated.borrow(), Seat::At(_)));
        assert!(tokio::spawn(fail(seat)).await.unwrap_err().is_panic());
        assert!(matches!(*seated.borrow(), Seat::Unknown), "after a panic");
        let (seat, seated) = here();
        drop(KeptSeat(seat));
        assert!(matches!(*seated.borrow(), Seat::Unknown), "after the end");
    }

    #[test]
    fn other_nodes_are_not_told_of_an_address_that_they_cannot_reach() {
        for (named, at, told) in [
            ("10.0.0.1:1", "10.0.0.1:5433", Some("10.0.0.1:5433")),
            ("db-1.example:1", "0.0.0.0:5433", Some("db-1.example:5433")),
            ("[2001:db8::1]:1", "[::]:5433", Some("[2001:db8::1]:5433")),
            ("db-1.example:1", "127.0.0.1:5433", None),
            ("10.0.0.1:1", "[::1]:5433", None),
            ("127.0.0.1:1", "127.0.0.1:5433", Some("127.0.0.1:5433")),
            ("localhost:1", "127.0.0.1:5433", Some("127.0.0.1:5433")),
        ] {
            let got = advertised(named, at.parse().unwrap());
            assert_eq!(got.as_deref(), told, "{named} {at}");
        }
    }
}
