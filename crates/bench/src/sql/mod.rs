//! `bench sql`: Stele beside PostgreSQL, as clients of both see them.
//!
//! 1. In every round each server does the same work, one after the other. Both sync what they acknowledge.
//! 2. CPU time is that of all processes of a server, also of ended connections. Ratios are of
//!    medians over the rounds.
//! 3. At the end the sums of what was transferred must agree on each server, or the run fails.

pub(crate) mod peers;
mod work;

use crate::AnyError;
use bench_core::print;
use clap::Args;
use peers::Peer;
use std::path::PathBuf;
use work::{Seen, WORKS, Work};

/// The command line of `bench sql`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SqlArgs {
    /// The server binary to start and measure.
    #[arg(long)]
    server: PathBuf,
    /// The folder with the programs of PostgreSQL, such as /usr/lib/postgresql/15/bin.
    #[arg(long)]
    postgres: PathBuf,
    /// The user that PostgreSQL runs as, by number: it refuses root.
    #[arg(long)]
    postgres_uid: Option<u32>,
    /// Accounts, which are read and transferred between.
    #[arg(long, default_value_t = 100_000)]
    rows: i32,
    /// Number of rows of one COPY.
    #[arg(long, default_value_t = 200_000)]
    copy_rows: i32,
    /// Numbers of concurrent clients, one connection each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32])]
    clients: Vec<usize>,
    /// Length of each phase in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Rounds in which every server is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Kinds of work; all if none is given.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// Starts the servers and prints what it measures.
pub(crate) fn run(args: &SqlArgs) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(args))
}

async fn measure(args: &SqlArgs) -> Result<(), AnyError> {
    let dir = tempfile::tempdir()?;
    let peers = [
        Peer::stele(&args.server, dir.path(), "512MiB")?,
        Peer::postgres(&args.postgres, args.postgres_uid, dir.path()).await?,
    ];
    for peer in &peers {
        work::load(peer, args.rows).await?;
    }
    let is_wanted =
        |work: &Work| args.only.is_empty() || args.only.iter().any(|name| name == work.name());
    for work in WORKS.into_iter().filter(is_wanted) {
        let clients = if work == Work::Copy { &[1][..] } else { &args.clients };
        for clients in clients {
            compare(args, &peers, work, *clients).await?;
        }
    }
    for peer in &peers {
        work::check_sums(peer).await?;
        print(&format!("{}: sums agree; peak memory {} MiB", peer.name, peer.peak_bytes() >> 20));
    }
    Ok(())
}

async fn compare(
    args: &SqlArgs,
    peers: &[Peer; 2],
    work: Work,
    clients: usize,
) -> Result<(), AnyError> {
    let mut seen = [Seen::default(), Seen::default()];
    for _ in 0..args.rounds {
        for (peer, seen) in peers.iter().zip(&mut seen) {
            let phase = work::phase(args, peer, work, clients).await?;
            print(&phase.line());
            seen.add(&phase);
            peer.note_memory()?;
        }
    }
    let [ours, theirs] = seen.map(|seen| seen.medians());
    print(&format!(
        "{}, {clients} clients, over PostgreSQL: CPU {:.2}, p50 {:.2}, operations a second {:.2}",
        work.name(),
        ours.cpu_ns / theirs.cpu_ns,
        ours.p50_us / theirs.p50_us,
        ours.per_second / theirs.per_second,
    ));
    Ok(())
}
