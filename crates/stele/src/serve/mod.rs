//! The server's life: listen, recover, serve, drain, close.
//!
//! 1. Signals are caught before anything is opened, so that SIGTERM always ends the process by
//!    returning from `main` (exit handlers run, profiles are written).
//! 2. Both addresses are bound before recovery: a wrong one fails at once. From then on HTTP
//!    answers, `/readyz` with 503 until Bigtable clients are served; early clients wait.
//! 3. A first SIGTERM or SIGINT drains: no new connections, requests in flight finish within
//!    `drain_seconds`. A second one cuts the waiting short. Then the engine is closed, which syncs
//!    the log and flushes nothing: the next start replays it. Last, the audit log is written to its end.

pub(crate) mod admin;
pub(crate) mod checkpoint;
mod connections;
mod console;
mod explain;
mod health;
mod http;
mod listen;
mod metrics;
mod node;
mod observe;
mod profile;
mod request_id;
mod scan_threads;
mod security;
pub(crate) mod signals;
#[cfg(feature = "sql")]
mod sql;
mod state;
mod upkeep;

use crate::config::{Config, ServeArgs, describe_durability};
use crate::logging;
use anyhow::{Context, anyhow};
use base::env::SystemClock;
use base::rss_monitor::RssMonitor;
use bigtable::{Bounds, Guarded};
use cluster::member::Member;
use connections::{Connection, Entry, Front, Limits, accept};
use console::Console;
use engine::Engine;
use explain::Explain;
use observe::Observe;
use request_id::RequestIds;
use scan_threads::ScanThreads;
use security::Guard;
use security::cluster::ClusterTls;
use security::gate::Gate;
use signals::Signals;
use state::{Phase, State};
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use table::{Local, Store};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// Time that blocking threads get to end after the shutdown.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Time that a stopping node gets to hand its tablets to other leaders.
const HAND_OVER_MAX: Duration = Duration::from_secs(3);

/// Runs the server until a signal ends it. Warns of the variables of the environment that are
/// `ignored`.
pub(crate) fn run(args: &ServeArgs, ignored: &[String]) -> anyhow::Result<ExitCode> {
    let config = Config::load(args)?;
    logging::init(config.log_format, &config.log_level)?;
    if !ignored.is_empty() {
        tracing::warn!(
            variables = ignored.join(" "),
            "ignored environment variables that Kubernetes set for services"
        );
    }
    if let Err(error) = ::profile::heap::start(config.heap_sample_bytes) {
        tracing::warn!(%error, "there will be no heap profiles");
    }
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    threads.enable_all();
    #[cfg(feature = "sql")]
    threads.thread_stack_size(::sql::STACK_BYTES);
    let runtime = threads.build().context("cannot start the server's threads")?;
    let scans = ScanThreads::start().context("cannot start the server's threads")?;
    let outcome = runtime.block_on(serve(&config, &scans));
    runtime.shutdown_timeout(LAST_WAIT);
    scans.end(LAST_WAIT);
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn serve(config: &Config, scans: &ScanThreads) -> anyhow::Result<()> {
    let signals = Signals::catch().context("could not install signal handlers")?;
    let hangups = signals::hangups().context("could not install signal handlers")?;
    let state = Arc::new(State::new(config.checkpoint_dir.clone()));
    let guard = Guard::load(&config.security, config.cluster.as_ref(), hangups, state.security())?;
    let gate = guard.gate.clone();
    let outcome = serve_guarded(config, scans, signals, state, guard).await;
    if let Some(gate) = gate {
        // A disk that takes nothing must not keep the server from stopping.
        let _ = tokio::time::timeout(LAST_WAIT, gate.flush()).await;
    }
    outcome
}

/// Serves the callers that `guard` lets in until a signal ends it.
async fn serve_guarded(
    config: &Config,
    scans: &ScanThreads,
    mut signals: Signals,
    state: Arc<State>,
    mut guard: Guard,
) -> anyhow::Result<()> {
    let bigtable = listen::bind("bigtable_listen", &config.bigtable_listen, config.reach).await?;
    let http = listen::bind("http_listen", &config.http_listen, config.reach).await?;
    let nodes = node::bind(config).await?;
    #[cfg(feature = "sql")]
    let sql_listener = sql::bind(config).await?;
    #[cfg(feature = "sql")]
    let sql_address = sql_listener.as_ref().map(TcpListener::local_addr).transpose()?;
    #[cfg(not(feature = "sql"))]
    let sql_address = None;
    let addresses = Addresses {
        bigtable: bigtable.local_addr()?,
        http: http.local_addr()?,
        nodes: nodes.as_ref().map(TcpListener::local_addr).transpose()?,
        sql: sql_address,
    };
    let accept = |listener, front| {
        accept(listener, front, guard.tls.clone(), state.security(), Limits::default())
    };

    let (stop, stopped) = watch::channel(());
    let hosts = config.http_hosts.clone().into();
    let admitted = http::Admitted { hosts, gate: guard.gate.clone() };
    let (http, limits) = (accept(http, Front::Http), http::Limits::default());
    let console = Arc::new(Console::new(Arc::clone(&state), guard.gate.clone()));
    tokio::spawn(console::sample(Arc::clone(&console)));
    let http = http::serve(http, Arc::clone(&state), console, admitted, limits, stopped.clone());
    let http = tokio::spawn(http);

    let memory = || base::memory::process_bytes().unwrap_or_default();
    let before = memory();
    let Opened { engine, store, member } = tokio::select! {
        opened = open(config, scans, nodes.zip(guard.cluster.take())) => opened?,
        () = signals.next() => {
            tracing::info!("stopped while opening the data directory");
            return Ok(());
        }
    };
    state.set_engine(engine.clone());
    state.set_store(Arc::clone(&store));
    if let Some(member) = &member {
        state.set_cluster(member.watcher().clone());
    }
    let reported = engine.clone();
    let report = move || reported.note_process_memory(memory().saturating_sub(before));
    let monitor = RssMonitor::start(report).context("cannot start the server's threads")?;
    let (drain, draining) = watch::channel(());
    tokio::spawn(upkeep::run(Arc::clone(&store)));
    let traces = (config.traces.as_ref(), state.spans());
    let (explain, exporter) = Explain::new((config.slow_request, state.slow()), traces)?;
    #[cfg(feature = "sql")]
    let sql = match sql_listener {
        None => None,
        Some(listener) => {
            let (tls, draining) = (guard.tls.clone(), draining.clone());
            let seen = (&*state, explain.clone());
            Some(match &member {
                None => sql::start(config, &store, tls, listener, draining, seen).await?,
                Some(member) => sql::start_on_node(config, member, tls, listener, draining, seen)?,
            })
        }
    };
    let observed = Observed { state: Arc::clone(&state), explain, gate: guard.gate.clone() };
    let connections = accept(bigtable, Front::Bigtable);
    let mut grpc = match &member {
        None => front(config, &store, &guard, observed, connections, draining),
        Some(member) => {
            let tables = Arc::new(member.tables().clone());
            front(config, &tables, &guard, observed, connections, draining)
        }
    };
    state.set_phase(Phase::Serving);
    announce(config, &addresses, member.as_ref()).context("could not write to standard output")?;

    tokio::select! {
        () = signals.next() => {}
        why = end_of(member.as_ref()) => return Err(anyhow!("the node cannot go on: {why}")),
        ended = &mut grpc => {
            ended.context("the Bigtable service panicked")??;
            return Err(anyhow!("the Bigtable service ended unexpectedly"));
        }
    }
    tracing::info!("draining");
    state.set_phase(Phase::Draining);
    // They would never end by themselves.
    store.end_change_streams();
    if let Some(member) = &member {
        member.hand_over(HAND_OVER_MAX).await;
    }
    drop(drain);
    finish(&mut grpc, config.drain, &mut signals).await?;
    #[cfg(feature = "sql")]
    if let Some(sql) = sql {
        let _ = tokio::time::timeout(config.drain + LAST_WAIT, sql).await;
    }
    // A collector that is away must not keep the server from stopping.
    let _ = tokio::time::timeout(LAST_WAIT, exporter).await;
    drop(monitor);
    if let Some(member) = member {
        member.stop().await;
    }
    tokio::task::spawn_blocking(move || engine.close())
        .await?
        .context("could not close the data directory cleanly")?;
    drop(stop);
    let _ = tokio::time::timeout(LAST_WAIT, http).await;
    tracing::info!("stopped");
    Ok(())
}

/// Waits until the node cannot go on, and returns the reason. A single server waits for ever.
async fn end_of(member: Option<&Member>) -> String {
    match member {
        Some(member) => member.ended().await,
        None => std::future::pending().await,
    }
}

/// Serves Bigtable clients of `connections` from `store` until `draining` closes.
fn front<S: Store>(
    config: &Config,
    store: &Arc<S>,
    guard: &Guard,
    observed: Observed,
    connections: mpsc::Receiver<Connection>,
    draining: watch::Receiver<()>,
) -> JoinHandle<anyhow::Result<()>> {
    let health = HealthReporter::new();
    let services = services(config, store, guard, &observed.state, &health);
    observed.state.set_routes(services.0.clone());
    tokio::spawn(grpc(connections, services, health, config.limits, observed, draining))
}

/// Returns the services over `store` and that of `health`, within the bounds of which the metrics tell.
fn services<S: Store>(
    config: &Config,
    store: &Arc<S>,
    guard: &Guard,
    state: &State,
    health: &HealthReporter,
) -> Services<S> {
    let known = match config.strict_instances {
        true => bigtable::KnownNames::Created,
        false => bigtable::KnownNames::All,
    };
    let callers = match guard.gate {
        Some(_) => bigtable::Callers::Named,
        None => bigtable::Callers::Anybody,
    };
    let bounds = Bounds::new(&config.limits);
    state.set_bounds(bounds.clone());
    let (routes, data) = bigtable::services_for(Arc::clone(store), known, callers, &bounds);
    (health::add_to(routes, health, &bounds), data)
}

/// The gRPC services, and the layer that they are best served with.
type Services<S> = (Routes, bigtable::DataFirst<S>);

struct Addresses {
    bigtable: SocketAddr,
    http: SocketAddr,
    /// Address for other nodes of the cluster.
    nodes: Option<SocketAddr>,
    /// Address that PostgreSQL clients connect to.
    sql: Option<SocketAddr>,
}

/// A data directory at work.
struct Opened {
    engine: Engine,
    /// The tables of this server. A node has its own tablets here, and no others.
    store: Arc<Local>,
    member: Option<Member>,
}

/// Opens the data directory and its tables, or starts the node of a cluster.
async fn open(
    config: &Config,
    scans: &ScanThreads,
    nodes: Option<(TcpListener, ClusterTls)>,
) -> anyhow::Result<Opened> {
    if let (Some(cluster), Some((nodes, tls))) = (&config.cluster, nodes) {
        let (read_idle, named_max) = (config.read_idle, config.metrics_tables_max);
        let scans = scans.runtime().clone();
        let is_counted = config.engine.read_path.counters;
        let tune = move |store: Local| {
            let store = store.with_named_tables_max(named_max).with_scan_threads(&scans);
            let store = if is_counted { store } else { store.without_heat() };
            store.with_read_idle_max(read_idle)
        };
        let member = node::start(config, cluster, (nodes, tls), tune).await?;
        let store = Arc::new(member.tables().local().clone());
        return Ok(Opened { engine: member.engine().clone(), store, member: Some(member) });
    }
    let (dir, options) = (config.data_dir.clone(), config.engine.clone());
    let (read_idle, named_max) = (config.read_idle, config.metrics_tables_max);
    let deleted_for = Duration::from_secs(config.deleted_table_days * 24 * 60 * 60);
    let scans = scans.runtime().clone();
    let is_counted = config.engine.read_path.counters;
    let opened = tokio::task::spawn_blocking(move || {
        let context = || format!("could not open the data directory {}", dir.display());
        let engine = Engine::open(&dir, options).with_context(context)?;
        let store = Local::open(engine.clone(), Arc::new(SystemClock)).with_context(context)?;
        store.keep_deleted_for(deleted_for);
        let store = store.with_named_tables_max(named_max).with_scan_threads(&scans);
        let store = if is_counted { store } else { store.without_heat() };
        anyhow::Ok((engine, store.with_read_idle_max(read_idle)))
    });
    let (engine, store) = opened.await??;
    Ok(Opened { engine, store: Arc::new(store), member: None })
}

/// Everything that requests are observed with.
struct Observed {
    state: Arc<State>,
    explain: Explain,
    gate: Option<Arc<Gate>>,
}

/// Serves the services on `connections` until `draining` closes and the requests in flight are done.
async fn grpc<S: Store>(
    connections: mpsc::Receiver<Connection>,
    (routes, data): Services<S>,
    health: HealthReporter,
    limits: bigtable::Limits,
    observed: Observed,
    mut draining: watch::Receiver<()>,
) -> anyhow::Result<()> {
    let Observed { state, explain, gate } = observed;
    let ids = RequestIds::new().context("the system gives no random numbers")?;
    health::set(&health, ServingStatus::Serving).await;
    let (all, per_address) = (limits.connections_max, limits.connections_per_address_max);
    let entry = Entry::new(all, per_address, state.security());
    let incoming = ReceiverStream::new(connections)
        .filter_map(move |connection| {
            let place = entry.place_for(&connection)?;
            Some(Guarded::new(connection, limits.connection).holding(place))
        })
        .map(Ok::<_, std::io::Error>);
    bigtable::server(&limits)
        .layer(Observe::new(state.requests().clone(), ids, explain, gate))
        .layer(data)
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, async move {
            let _ = draining.changed().await;
            health::set(&health, ServingStatus::NotServing).await;
        })
        .await
        .context("the Bigtable service failed")
}

/// Waits for the requests in flight, no longer than `limit` or until another signal.
async fn finish(
    grpc: &mut JoinHandle<anyhow::Result<()>>,
    limit: Duration,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    tokio::select! {
        ended = &mut *grpc => ended.context("the Bigtable service panicked")?,
        () = tokio::time::sleep(limit) => {
            tracing::warn!(seconds = limit.as_secs(), "drain timeout: ending requests in flight");
            grpc.abort();
            Ok(())
        }
        () = signals.next() => {
            tracing::warn!("second signal: ending requests in flight");
            grpc.abort();
            Ok(())
        }
    }
}

fn announce(
    config: &Config,
    addresses: &Addresses,
    member: Option<&Member>,
) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let durability = match member {
        None => describe_durability(config.engine.durability),
        Some(_) => "every write synced by a majority of its replicas".into(),
    };
    let (version, dir) = (env!("CARGO_PKG_VERSION"), config.data_dir.display());
    writeln!(out, "Stele {version} on {dir}; {durability}")?;
    let secured = config.security.tls.is_some();
    let (inside, scheme) = if secured { ("  (TLS)", "https") } else { ("", "http") };
    writeln!(out, "  Bigtable  {}{inside}", addresses.bigtable)?;
    writeln!(out, "  HTTP      {scheme}://{}  (/healthz /readyz /metrics)", addresses.http)?;
    if let Some(sql) = addresses.sql {
        writeln!(out, "  SQL       {sql}{inside}")?;
    }
    if let (Some(nodes), Some(member)) = (addresses.nodes, member) {
        writeln!(out, "  Nodes     {nodes}  (this is node {})", member.id().0)?;
    }
    if config.security.authenticates() || addresses.http.ip().is_loopback() {
        writeln!(out, "  Console   {scheme}://{}{}", addresses.http, console::PATH)?;
    }
    let names = match config.strict_instances {
        true => "with the names of created instances",
        false => "with any project and instance name",
    };
    if secured {
        writeln!(out, "Bigtable clients connect by TLS, {names}")?;
    } else {
        writeln!(out, "Any Bigtable client connects, {names}, after")?;
        writeln!(out, "  export BIGTABLE_EMULATOR_HOST={}", addresses.bigtable)?;
    }
    out.flush()
}
