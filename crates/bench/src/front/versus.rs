//! The same work done by several server binaries, slice by slice in turns: CPU time of the server
//! for an operation, latencies, and the ratio to the first server within each pair of slices.

use super::{AnyError, Bench, FrontArgs, Work, create_table, print};
use crate::measure::Phase;
use crate::server::Server;
use bench_core::Spread;
use std::sync::Arc;

/// A server with its table.
struct Target {
    name: String,
    bench: Arc<Bench>,
    server: Server,
    _dir: tempfile::TempDir,
}

/// Starts and loads all servers, and measures them.
pub(super) async fn run(args: &FrontArgs) -> Result<(), AnyError> {
    let mut targets = Vec::new();
    for binary in &args.server {
        targets.push(start(args, binary).await?);
    }
    for (work, clients) in args.phases() {
        let mut slices: Vec<Vec<Phase>> = targets.iter().map(|_| Vec::new()).collect();
        for pair in 0..args.pairs {
            // Another server begins in every pair.
            for at in 0..targets.len() {
                let at = (at + pair) % targets.len();
                targets[at].server.rest().await?;
                slices[at].push(targets[at].bench.phase_of(work, clients).await?);
            }
        }
        for (target, of_target) in targets.iter().zip(&slices) {
            print(&line(args, work, &target.name, &slices[0], of_target));
        }
    }
    for target in &mut targets {
        target.server.terminate().await?;
    }
    Ok(())
}

async fn start(args: &FrontArgs, binary: &std::path::Path) -> Result<Target, AnyError> {
    let dir = tempfile::tempdir()?;
    let server = Server::start(&binary.canonicalize()?, dir.path(), &args.server_flag)?;
    let endpoint = format!("http://{}", server.address());
    let own = FrontArgs { endpoint, server_pid: Some(server.pid()), ..args.clone() };
    let bench = Arc::new(Bench { table: create_table(&own).await?, args: own });
    bench.load().await?;
    Ok(Target { name: binary.display().to_string(), bench, server, _dir: dir })
}

/// What was measured of a server in slices of one phase, beside those of the first server.
fn line(args: &FrontArgs, work: Work, name: &str, first: &[Phase], own: &[Phase]) -> String {
    let median = |value: &dyn Fn(&Phase) -> f64| Spread::of(own.iter().map(value)).median;
    let cpu_us = median(&Phase::cpu_ns) / 1e3;
    let pairs = first.iter().zip(own);
    let ratio = |value: &dyn Fn(&Phase) -> f64| {
        let Spread { median, low, high } =
            Spread::of(pairs.clone().map(|(a, b)| value(b) / value(a)));
        format!("{median:.2} ({low:.2} to {high:.2})")
    };
    let mut line = format!(
        "{:<26} {name}: {cpu_us:.2} us CPU/op, {} of the first; {:.0} ops/s",
        own[0].name,
        ratio(&Phase::cpu_ns),
        median(&Phase::per_second),
    );
    if own[0].percentiles_us.is_some() {
        for (at, quantile) in ["p50", "p99"].into_iter().enumerate() {
            let of = move |phase: &Phase| phase.percentiles_us.map_or(0.0, |of| of[at] as f64);
            line += &format!("; {quantile} {:.0} us, {}", median(&of), ratio(&of));
        }
    }
    if work == Work::Scan {
        let row_bytes = (args.key_bytes + args.value_bytes) as f64;
        line += &format!("; {:.0} MB per second of CPU", row_bytes / cpu_us);
    }
    line
}
