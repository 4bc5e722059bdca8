//! `stele admin`: inspects and controls a running server over its HTTP address.

use crate::connect::{ConnectArgs, Server};
use crate::serve::admin::{Compaction, Compactions};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use hyper::Method;
use hyper::body::Bytes;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Time that a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `admin`.
#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    #[command(subcommand)]
    what: What,

    /// HTTP address of the server; with TLS, https://HOST:PORT.
    #[arg(
        long,
        global = true,
        env = "STELE_HTTP",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:8087"
    )]
    http: String,

    /// Print the server's response as JSON.
    #[arg(long, global = true)]
    json: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum What {
    /// Show running compactions with their progress, and whether compactions are paused.
    Compactions,
    /// Start no new compactions until they are resumed or the server restarts.
    ///
    /// Running compactions continue. A table whose writers would be throttled is still compacted,
    /// so writes never wait for the end of the pause. Reads of tables that are written during the
    /// pause visit more files.
    PauseCompactions,
    /// Resume compactions; those that became due during the pause start.
    ResumeCompactions,
}

/// Asks the server and prints its answer.
pub(crate) fn run(args: &AdminArgs) -> anyhow::Result<ExitCode> {
    let server = args.connect.server(&args.http, "http/1.1")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start a thread")?;
    let answer = runtime.block_on(async {
        let asked = tokio::time::timeout(PATIENCE, ask(&server, args.what)).await;
        asked.unwrap_or_else(|_| bail!("no response within {} s", PATIENCE.as_secs()))
    });
    let answer = answer.with_context(|| {
        format!(
            "could not query the server at {}; check that it runs and that --http is its address",
            args.http
        )
    })?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", String::from_utf8_lossy(&answer).trim_end())?;
    } else {
        let answer: Compactions = serde_json::from_slice(&answer)
            .context("invalid response; the server may have another version")?;
        show(&mut out, &answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(server: &Server, what: What) -> anyhow::Result<Bytes> {
    let (method, path) = match what {
        What::Compactions => (Method::GET, "/admin/compactions"),
        What::PauseCompactions => (Method::POST, "/admin/compactions/pause"),
        What::ResumeCompactions => (Method::POST, "/admin/compactions/resume"),
    };
    server.ask(method, path, Bytes::new()).await
}

fn show(out: &mut impl Write, answer: &Compactions) -> std::io::Result<()> {
    let paused = if answer.paused { "paused" } else { "not paused" };
    writeln!(out, "compactions are {paused}; {} running", answer.running.len())?;
    for Compaction { tree, reason, ssts, bytes_total, bytes_written, seconds } in &answer.running {
        let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
        let percent = (bytes_written * 100).checked_div(*bytes_total).unwrap_or(100).min(100);
        writeln!(
            out,
            "  tree {tree}: {ssts} files for {reason}, {:.1} of {:.1} MiB ({percent} %), {seconds} s",
            mib(bytes_written),
            mib(bytes_total),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_shown_a_line_a_compaction() {
        let one = |bytes_total, bytes_written| Compaction {
            tree: 7,
            reason: "garbage".into(),
            ssts: 3,
            bytes_total,
            bytes_written,
            seconds: 5,
        };
        let running = vec![one(4 << 20, 1 << 20), one(0, 0), one(1 << 20, 2 << 20)];
        let mut out = Vec::new();
        show(&mut out, &Compactions { paused: true, running }).unwrap();
        let out = String::from_utf8(out).unwrap();
        let want = "compactions are paused; 3 running
  tree 7: 3 files for garbage, 1.0 of 4.0 MiB (25 %), 5 s
  tree 7: 3 files for garbage, 0.0 of 0.0 MiB (100 %), 5 s
  tree 7: 3 files for garbage, 2.0 of 1.0 MiB (100 %), 5 s
";
        assert_eq!(out, want);
    }
}
