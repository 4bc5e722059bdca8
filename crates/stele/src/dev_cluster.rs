//! `stele dev-cluster`: a cluster of processes on one machine.

use crate::cluster;
use crate::config::DirectoryAt;
use crate::serve::signals::Signals;
use anyhow::{Context, anyhow};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Ports of a node: one for Bigtable clients, HTTP, other nodes, and PostgreSQL clients each.
const PORTS: u16 = 4;
/// Pause between two looks at the processes.
const LOOK: Duration = Duration::from_millis(200);

/// Arguments of the command `dev-cluster`.
#[derive(Debug, Args)]
pub(crate) struct DevClusterArgs {
    /// Directory for the data of all servers; created if missing. The cluster goes on where it ended.
    #[arg(long, value_name = "DIR", default_value = "./stele-cluster")]
    data_dir: PathBuf,

    /// Number of servers, 1 to 7. Tablets of a new cluster have as many replicas, but at most 3.
    #[arg(long, value_name = "COUNT", default_value_t = 3,
          value_parser = clap::value_parser!(u8).range(1..=7))]
    nodes: u8,

    /// Port of the first server for Bigtable clients. Each server has four ports, one after the other:
    /// for Bigtable clients, for HTTP, for the other servers, and for PostgreSQL clients.
    #[arg(long, value_name = "PORT", default_value_t = 8086,
          value_parser = clap::value_parser!(u16).range(1..=65_000))]
    port: u16,
}

/// Runs the servers until a signal comes, or one of them ends.
pub(crate) fn run(args: &DevClusterArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::catch().context("could not install signal handlers")?
    };
    let shown = args.data_dir.display();
    std::fs::create_dir_all(&args.data_dir).with_context(|| format!("cannot create {shown}"))?;
    let file = args.data_dir.join("directory");
    if !file.exists() {
        let id = cluster::init(&DirectoryAt::File(file.clone()), args.nodes.min(3))?;
        writeln!(std::io::stdout(), "Founded cluster {id}")?;
    }
    let mut servers = Vec::new();
    let ended = (1..=args.nodes)
        .try_for_each(|node| {
            servers.push(Server::start(args, node)?);
            anyhow::Ok(())
        })
        .and_then(|()| {
            announce(args)?;
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        () = signals.next() => return Ok(()),
                        () = tokio::time::sleep(LOOK) => {}
                    }
                    for server in &mut servers {
                        if let Some(status) = server.process.try_wait()? {
                            let node = server.node;
                            return Err(anyhow!(
                                "server {node} ended with {status}; see its lines above"
                            ));
                        }
                    }
                }
            })
        });
    servers.iter().for_each(Server::terminate);
    for server in &mut servers {
        server.process.wait()?;
    }
    ended.map(|()| ExitCode::SUCCESS)
}

fn announce(args: &DevClusterArgs) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "Starting {} servers in {}:", args.nodes, args.data_dir.display())?;
    for node in 1..=args.nodes {
        let [bigtable, http, _, sql] = ports(args, node);
        write!(out, "  {node}  Bigtable 127.0.0.1:{bigtable}  HTTP http://127.0.0.1:{http}")?;
        match cfg!(feature = "sql") {
            true => writeln!(out, "  SQL 127.0.0.1:{sql}")?,
            false => writeln!(out)?,
        }
    }
    writeln!(out, "Clients connect to any of them. For Bigtable clients:")?;
    writeln!(out, "  export BIGTABLE_EMULATOR_HOST=127.0.0.1:{}", args.port)?;
    if cfg!(feature = "sql") {
        let [.., sql] = ports(args, 1);
        writeln!(out, "For PostgreSQL clients:")?;
        writeln!(out, "  psql -h 127.0.0.1 -p {sql} -U stele")?;
    }
    out.flush()
}

fn ports(args: &DevClusterArgs, node: u8) -> [u16; PORTS as usize] {
    let first = args.port + PORTS * u16::from(node - 1);
    [first, first + 1, first + 2, first + 3]
}

struct Server {
    node: u8,
    process: Child,
}

impl Server {
    fn start(args: &DevClusterArgs, node: u8) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("could not find this program")?;
        let [bigtable, http, nodes, sql] = ports(args, node);
        let at = |port: u16| format!("127.0.0.1:{port}");
        let mut command = Command::new(program);
        command.arg("serve").arg("--data-dir").arg(args.data_dir.join(node.to_string()));
        command.arg("--join").arg(format!("file:{}", args.data_dir.join("directory").display()));
        command.arg("--bigtable-listen").arg(at(bigtable)).arg("--http-listen").arg(at(http));
        command.arg("--cluster-listen").arg(at(nodes)).arg("--zone").arg(node.to_string());
        if cfg!(feature = "sql") {
            command.arg("--sql-listen").arg(at(sql));
        }
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let process = process.with_context(|| format!("could not start server {node}"))?;
        Ok(Self { node, process })
    }

    fn terminate(&self) {
        // One that has ended takes no signal.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
    }
}
