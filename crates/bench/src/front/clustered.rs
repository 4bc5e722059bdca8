//! `bench cluster`: three servers that keep every row three times, beside one server that keeps it once.
//!
//! 1. In every round each target does the same work, one after the other: one node, the node of the cluster
//!    that leads the table's tablet, and a node that passes requests to it.
//! 2. CPU time is that of all servers of a target. Ratios are of medians over the rounds.
//! 3. With `--etcd`, three members of etcd do the same work in the same rounds, for their CPU time.
//! 4. The end of a leader is seen through another node, by one client that writes row after row.

mod etcd;

use super::paced::KEY_BYTES;
use super::{Bench, FAMILY, FrontArgs, INSTANCE, Work, connect, create_table};
use crate::AnyError;
use crate::measure::Phase;
use crate::server::Server;
use bench_core::print;
use clap::Args;
use etcd::Etcd;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const NODES: usize = 3;
/// Tablets that a table is made with.
const TABLETS_MAX: usize = 100;
/// Longest time for a cluster to be ready, and to go on after a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command line of `bench cluster`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClusteredArgs {
    /// The server binary to start and measure.
    #[arg(long)]
    server: PathBuf,
    /// Program of etcd, 3.4 or newer, to measure beside the cluster.
    #[arg(long)]
    etcd: Option<PathBuf>,
    /// Rows of the table that is written and read.
    #[arg(long, default_value_t = 20_000)]
    rows: u64,
    /// Bytes of each value (incompressible).
    #[arg(long, default_value_t = 1024)]
    value_bytes: usize,
    /// Numbers of concurrent clients, one connection each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64])]
    clients: Vec<usize>,
    /// Length of each phase in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Rounds in which every target is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of kills of the leader.
    #[arg(long, default_value_t = 5)]
    kills: usize,
    /// Tablets of a table that sleeps while CPU time is measured.
    #[arg(long, default_value_t = 1_000)]
    idle_tablets: usize,
    /// Time that it sleeps, in seconds.
    #[arg(long, default_value_t = 20)]
    idle_seconds: u64,
}

/// Starts the servers and prints what it measures.
pub(crate) fn run(args: &ClusteredArgs) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(args))
}

async fn measure(args: &ClusteredArgs) -> Result<(), AnyError> {
    let dir = tempfile::tempdir()?;
    let mut one = Server::start(&args.server, &dir.path().join("one"), &[])?;
    let bench = Bench { args: front(args, one.address()), table: String::new() };
    let alone = Target::load("one node", bench, vec![one.pid()]).await?;
    let mut nodes = start_cluster(&args.server, dir.path())?;
    let pids: Vec<_> = nodes.iter().map(Server::pid).collect();
    let bench = Bench { args: front(args, nodes[0].address()), table: String::new() };
    let loaded = Target::load("cluster", bench, pids.clone()).await?;
    let leader = leader_of(&nodes).await?;
    let at = |name, node: usize| Target {
        name,
        bench: Arc::new(Bench {
            args: front(args, nodes[node].address()),
            table: loaded.bench.table.clone(),
        }),
        pids: pids.clone(),
    };
    let targets = [alone, at("leader", leader), at("forwarded", (leader + 1) % NODES)];
    let etcd = match &args.etcd {
        Some(program) => Some(Etcd::start(program, dir.path(), &targets[1].bench).await?),
        None => None,
    };
    rounds(args, &targets, etcd.as_ref(), &nodes).await?;
    drop(etcd);
    one.terminate().await?;
    failovers(args, &mut nodes, &loaded.bench.table).await?;
    idle(args, &nodes).await?;
    for node in &mut nodes {
        node.terminate().await?;
    }
    Ok(())
}

fn front(args: &ClusteredArgs, address: &str) -> FrontArgs {
    FrontArgs {
        endpoint: format!("http://{address}"),
        server: Vec::new(),
        server_flag: Vec::new(),
        pairs: 1,
        rows: args.rows,
        key_bytes: KEY_BYTES,
        value_bytes: args.value_bytes,
        clients: vec![4],
        work: Vec::new(),
        seconds: args.seconds,
        batch: 100,
        server_pid: None,
        json: false,
    }
}

/// Founds a cluster and starts its nodes.
fn start_cluster(binary: &Path, dir: &Path) -> Result<Vec<Server>, AnyError> {
    let directory = format!("file:{}", dir.join("directory").display());
    let mut init = std::process::Command::new(binary);
    let founded =
        init.args(["cluster", "init", "--replicas", "3", "--etcd", &directory]).output()?;
    if !founded.status.success() {
        return Err(String::from_utf8_lossy(&founded.stderr).into_owned().into());
    }
    let node = |number: usize| {
        let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let flags = [
            format!("--join={directory}"),
            format!("--cluster-listen={free}"),
            format!("--zone={number}"),
            "--log-level=error".to_owned(),
        ];
        Server::start(binary, &dir.join(format!("node-{number}")), &flags)
    };
    (0..NODES).map(node).collect()
}

/// A server, or a node of a cluster with all servers that work for it.
struct Target {
    name: &'static str,
    bench: Arc<Bench>,
    pids: Vec<u32>,
}

impl Target {
    /// Creates the table, as soon as that is possible, and loads its rows.
    async fn load(name: &'static str, mut bench: Bench, pids: Vec<u32>) -> Result<Self, AnyError> {
        let begun = Instant::now();
        bench.table = loop {
            match create_table(&bench.args).await {
                Ok(table) => break table,
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        };
        let bench = Arc::new(bench);
        print(&format!("{name}: {}", bench.load().await?.line()));
        Ok(Self { name, bench, pids })
    }

    async fn phase(&self, work: Work, clients: usize) -> Result<Phase, AnyError> {
        let before = self.cpu()?;
        let name = format!("{} {}, {clients} clients", self.name, work.name());
        let mut phase = self.bench.repeat(&name, work, clients).await?;
        phase.cpu = self.cpu()?.saturating_sub(before);
        Ok(phase)
    }

    fn cpu(&self) -> Result<Duration, AnyError> {
        self.pids.iter().map(|pid| crate::server::cpu_of(*pid)).sum()
    }
}

/// Measurements of each target, in the order of the rounds.
#[derive(Default)]
struct Seen {
    p50_us: [Vec<f64>; 3],
    cpu_ns: [Vec<f64>; 3],
    /// Syncs of a write on a node of the cluster.
    syncs: Vec<f64>,
    /// CPU time of an operation of etcd, in nanoseconds.
    etcd_cpu_ns: Vec<f64>,
}

async fn rounds(
    args: &ClusteredArgs,
    targets: &[Target; 3],
    etcd: Option<&Etcd>,
    nodes: &[Server],
) -> Result<(), AnyError> {
    let works = [Work::ReadPresent, Work::Write];
    let kinds: Vec<_> =
        args.clients.iter().flat_map(|clients| works.map(|work| (work, *clients))).collect();
    let mut seen: Vec<_> = kinds.iter().map(|_| Seen::default()).collect();
    for _ in 0..args.rounds {
        for ((work, clients), seen) in kinds.iter().zip(&mut seen) {
            for (at, target) in targets.iter().enumerate() {
                let before = sum_of(nodes, "stele_cluster_log_syncs_total").await?;
                let phase = target.phase(*work, *clients).await?;
                let syncs = sum_of(nodes, "stele_cluster_log_syncs_total").await? - before;
                seen.p50_us[at].push(phase.percentiles_us.map_or(0, |us| us[0]) as f64);
                seen.cpu_ns[at].push(phase.cpu_ns());
                if at == 1 {
                    seen.syncs.push(syncs / phase.operations as f64 / NODES as f64);
                }
                print(&phase.line());
            }
            if let Some(etcd) = etcd {
                let phase = etcd.phase(&targets[1].bench, *work, *clients).await?;
                seen.etcd_cpu_ns.push(phase.cpu_ns());
                print(&phase.line());
            }
        }
    }
    for ((work, clients), mut seen) in kinds.into_iter().zip(seen) {
        let [alone, leader, forwarded] = seen.p50_us.each_mut().map(|values| median(values));
        let [alone_cpu, leader_cpu, forwarded_cpu] =
            seen.cpu_ns.each_mut().map(|values| median(values));
        print(&format!(
            "{}, {clients} clients, over one node: leader p50 {:.2}, CPU {:.2}; forwarded p50 {:.2}, CPU {:.2}",
            work.name(),
            leader / alone,
            leader_cpu / alone_cpu,
            forwarded / alone,
            forwarded_cpu / alone_cpu,
        ));
        if !seen.etcd_cpu_ns.is_empty() {
            let etcd_cpu = median(&mut seen.etcd_cpu_ns);
            print(&format!(
                "  CPU of the leader's cluster over etcd: {:.2}",
                leader_cpu / etcd_cpu
            ));
        }
        if work == Work::Write {
            let syncs = median(&mut seen.syncs);
            print(&format!("  syncs of the group log a write and node: {syncs:.3}"));
        }
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Kills the leader again and again, and prints for how long no write was acknowledged.
async fn failovers(
    args: &ClusteredArgs,
    nodes: &mut [Server],
    table: &str,
) -> Result<(), AnyError> {
    let mut gaps = Vec::new();
    for _ in 0..args.kills {
        let leader = leader_of(nodes).await?;
        let bench = Bench {
            args: front(args, nodes[(leader + 1) % NODES].address()),
            table: table.to_owned(),
        };
        let mut client = bench.client().await?;
        nodes[leader].kill_9()?;
        let begun = Instant::now();
        loop {
            let write = data::MutateRowRequest {
                table_name: table.to_owned(),
                row_key: "failover".into(),
                mutations: vec![bench.cell(0)],
                ..Default::default()
            };
            match client.mutate_row(write).await {
                Ok(_) => break,
                Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        gaps.push(begun.elapsed().as_secs_f64());
        nodes[leader].start_again()?;
        in_sync(nodes).await?;
    }
    let longest = gaps.iter().copied().fold(0.0, f64::max);
    print(&format!(
        "writes after kill -9 of the leader: median {:.2} s, longest {longest:.2} s of {}",
        median(&mut gaps),
        args.kills
    ));
    Ok(())
}

/// Creates tables of many tablets and prints the CPU time of each node without requests.
async fn idle(args: &ClusteredArgs, nodes: &[Server]) -> Result<(), AnyError> {
    let begun = Instant::now();
    let (mut made, mut table) = (0, 0);
    while made < args.idle_tablets {
        let tablets = TABLETS_MAX.min(args.idle_tablets - made);
        create_idle(&front(args, nodes[0].address()), table, tablets).await?;
        (made, table) = (made + tablets, table + 1);
    }
    print(&format!("{made} tablets made in {:.1} s", begun.elapsed().as_secs_f64()));
    // They fall asleep first.
    tokio::time::sleep(Duration::from_secs(args.idle_seconds.min(20))).await;
    let cpu = || nodes.iter().map(Server::cpu).collect::<Result<Vec<_>, _>>();
    let (before, begun) = (cpu()?, Instant::now());
    tokio::time::sleep(Duration::from_secs(args.idle_seconds)).await;
    let wall = begun.elapsed().as_secs_f64();
    for (node, (now, before)) in cpu()?.into_iter().zip(before).enumerate() {
        let share = now.saturating_sub(before).as_secs_f64() / wall * 100.0;
        print(&format!("{} idle tablets, node {node}: {share:.2} % of a core", args.idle_tablets));
    }
    Ok(())
}

async fn create_idle(args: &FrontArgs, table: usize, tablets: usize) -> Result<(), AnyError> {
    let mut client =
        admin::bigtable_table_admin_client::BigtableTableAdminClient::new(connect(args).await?);
    let split = |number: usize| admin::create_table_request::Split {
        key: format!("{number:06}").into_bytes().into(),
    };
    let family = (FAMILY.to_owned(), admin::ColumnFamily::default());
    let request = admin::CreateTableRequest {
        parent: INSTANCE.to_owned(),
        table_id: format!("idle-{table}"),
        table: Some(admin::Table {
            column_families: BTreeMap::from([family]),
            ..Default::default()
        }),
        initial_splits: (1..tablets).map(split).collect(),
    };
    client.create_table(request).await?;
    Ok(())
}

/// Returns the place of the only node that leads a tablet, as soon as there is one.
async fn leader_of(nodes: &[Server]) -> Result<usize, AnyError> {
    let begun = Instant::now();
    loop {
        for (node, server) in nodes.iter().enumerate() {
            if metric(server, "stele_cluster_leaders").await? > 0.0 {
                return Ok(node);
            }
        }
        if begun.elapsed() > PATIENCE {
            return Err("no node leads the tablet".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until no follower lacks anything.
async fn in_sync(nodes: &[Server]) -> Result<(), AnyError> {
    let begun = Instant::now();
    loop {
        let lag = sum_of(nodes, "stele_cluster_lag_entries").await?;
        let leaderless = sum_of(nodes, "stele_cluster_leaderless_replicas").await?;
        if lag + leaderless == 0.0 {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err("the cluster does not come to rest".into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn sum_of(nodes: &[Server], name: &str) -> Result<f64, AnyError> {
    let mut sum = 0.0;
    for server in nodes {
        sum += metric(server, name).await?;
    }
    Ok(sum)
}

/// Returns the value of a metric without labels; 0 if the server does not tell it.
async fn metric(server: &Server, name: &str) -> Result<f64, AnyError> {
    let mut stream = TcpStream::connect(server.http_address()).await?;
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(value.map_or(Ok(0.0), |value| value.trim().parse())?)
}
