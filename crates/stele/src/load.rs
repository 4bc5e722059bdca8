//! `stele load`: the load tester on the connections of commands. The crate `load` does the work.
//!
//! Exit status 1 tells that an answer was wrong, or that no operation succeeded.

use crate::config::ConfigError;
use crate::connect::{ConnectArgs, Server};
use ::load::{Command, Dial, Error, Report, Servers, Sink, Stream};
use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use clap::Args;
use parking_lot::Mutex;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tonic::metadata::{Ascii, MetadataValue};

/// Arguments of the command `load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs a workload, or works on reports, and prints the summary.
pub(crate) fn run(args: &LoadArgs) -> Result<ExitCode> {
    let report = match &args.command {
        Command::Merge(merge) => merge.run(),
        Command::Report(report) => report.run(),
        workload => return run_workload(workload, &args.connect),
    };
    told(&report.map_err(explained)?)
}

fn run_workload(command: &Command, connect: &ConnectArgs) -> Result<ExitCode> {
    let (data, admin) = command.endpoints().context("the command has no endpoint")?;
    let dial = |address: &str| -> Result<Arc<dyn Dial>> {
        Ok(Arc::new(Dialer(connect.server(address, "h2")?)))
    };
    let servers = Servers { data: dial(&data)?, admin: dial(&admin)? };
    let runtime = Runtime::new().context("could not start threads")?;
    let sink: Sink = Arc::new(Mutex::new(std::io::stderr()));
    let report = runtime.block_on(async {
        let interrupt = interrupt()?;
        ::load::run(command, &servers, sink, interrupt).await.map_err(explained)
    })?;
    // Operations that never ended must not keep the process.
    runtime.shutdown_background();
    told(&report)
}

/// Prints the summary of a report. Fails if an answer was wrong or no operation succeeded.
fn told(report: &Report) -> Result<ExitCode> {
    std::io::stdout().write_all(report.summary().as_bytes())?;
    match (report.wrong_answers(), report.successes()) {
        (0, 0) => bail!("no operation succeeded"),
        (0, _) => Ok(ExitCode::SUCCESS),
        (wrong, _) => bail!("{wrong} answers were wrong"),
    }
}

/// Returns what completes at the first SIGINT or SIGTERM. The second one ends the process.
fn interrupt() -> Result<impl Future<Output = ()> + Send + 'static> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (first, interrupted) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        let _ = first.send(());
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(1);
    });
    Ok(async move {
        let _ = interrupted.await;
    })
}

/// Tells wrong flags, after which nothing was touched, from failures.
fn explained(error: Error) -> anyhow::Error {
    match error {
        Error::Setting(text) => ConfigError(text).into(),
        error => error.into(),
    }
}

/// Opens the connections of a load test.
struct Dialer(Server);

#[async_trait]
impl Dial for Dialer {
    fn address(&self) -> &str {
        &self.0.address
    }

    fn is_secured(&self) -> bool {
        self.0.is_secured()
    }

    fn authorization(&self) -> Result<Option<MetadataValue<Ascii>>, String> {
        self.0.authorization().map_err(|error| format!("{error:#}"))
    }

    async fn open(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.0.open().await?))
    }
}
