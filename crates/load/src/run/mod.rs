//! A run from its begin to its report.
//!
//! 1. Connect, make the table, write the rows that the workload needs.
//! 2. Wait for the time of the begin; then workers work, and once a second the recorder is drained.
//! 3. Stop by time, count, signal, or when nothing succeeds any more. Operations in flight may end.
//! 4. Report.

mod clocked;
mod control;
mod fill;
mod measured;
mod progress;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use control::Control;
pub(crate) use progress::Progress;

use crate::Error;
use crate::args::{Command, RunArgs};
use crate::client::{Client, Dial, Place, Service, connect, make_table};
use crate::report::Report;
use crate::workload::{Findings, Plan, Sink, plan};
use base::env::{Clock, SystemClock};
use bench_core::mix;
use fill::fill;
use measured::Measured;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait of one sleep for the begin, after which the clock is read again.
const WAIT_MAX: Duration = Duration::from_secs(1);

pub struct Servers {
    /// The endpoint of the data API.
    pub data: Arc<dyn Dial>,
    /// The endpoint of the table admin API.
    pub admin: Arc<dyn Dial>,
}

/// Runs a workload, writes its report to the files of its flags, and returns it. Progress and wrong
/// answers are written to `sink`. The run ends early and cleanly when `interrupt` completes.
pub async fn run(
    command: &Command,
    servers: &Servers,
    sink: Sink,
    interrupt: impl Future<Output = ()> + Send + 'static,
) -> Result<Report, Error> {
    let args = command
        .run_args()
        .ok_or_else(|| Error::Program("merge and report run no workload".to_owned()))?;
    args.output.check()?;
    let now_ms = SystemClock.now_micros() / 1000;
    let random =
        mix(SystemClock.now_micros().cast_unsigned() ^ u64::from(std::process::id()) << 40);
    let findings = Arc::new(Findings::new(Arc::clone(&sink)));
    let plan = plan(command, now_ms, random >> 32, findings)?;
    let progress = Progress::new(sink, args.output.quiet);
    progress.say(&format!(
        "{}: data set {} (seed {}), {} workers at {}",
        plan.name,
        plan.identity.prefix(),
        plan.seed,
        plan.lanes.iter().map(|lane| lane.workers).sum::<usize>(),
        servers.data.address()
    ));
    let control = Arc::new(Control::default());
    let interrupted = tokio::spawn({
        let control = Arc::clone(&control);
        async move {
            interrupt.await;
            control.stop();
        }
    });
    let report = tokio::select! {
        report = run_plan(plan, args, servers, &control, &progress) => report,
        // A connection that never opens must not keep a stopped run.
        () = stopped_for_long(&control, args) => Err(Error::Program(
            "the run was stopped, and the server did not let it end".to_owned()
        )),
    };
    interrupted.abort();
    let report = report?;
    report.save(args.output.json.as_deref(), args.output.html.as_deref())?;
    Ok(report)
}

/// Waits until the run is stopped, and then for as long as operations may take, and some more.
async fn stopped_for_long(control: &Control, args: &RunArgs) {
    control.stopped().await;
    tokio::time::sleep(args.load.timeout.saturating_add(Duration::from_secs(20))).await;
}

async fn run_plan(
    plan: Plan,
    args: &RunArgs,
    servers: &Servers,
    control: &Arc<Control>,
    progress: &Progress,
) -> Result<Report, Error> {
    let place = Arc::new(place(args)?);
    let clients = clients(args, &place, servers).await?;
    if !args.target.no_create {
        let service: Service = connect(&servers.admin, &[("name", &place.table)]).await?;
        progress.say(&make_table(service, &place).await?);
    }
    let workload = Arc::new(plan.workload);
    let give_up = args.load.give_up_after;
    let filled = fill(&workload, &clients, control, give_up, progress).await?;
    if let Some(filled) = &filled {
        progress.say(&format!("wrote {} rows in {:.1} s", filled.rows, filled.seconds));
    }
    wait_for_begin(args, control, progress).await;
    let measured = Measured {
        name: plan.name,
        workload,
        lanes: plan.lanes,
        identity: plan.identity,
        seed: plan.seed,
        findings: plan.findings,
        settings: plan.settings,
        args,
        filled,
    };
    measured.run(&clients, control, progress).await
}

/// Returns the table and family of the flags.
fn place(args: &RunArgs) -> Result<Place, Error> {
    let target = &args.target;
    let named = |flag: &str, name: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        match !name.is_empty() && name.len() <= 128 && name.chars().all(plain) {
            true => Ok(name.to_owned()),
            false => Err(Error::Setting(format!(
                "--{flag} must be 1 to 128 letters, digits, '-', '_', '.' or ':', not {name:?}"
            ))),
        }
    };
    let (project, instance) =
        (named("project", &target.project)?, named("instance", &target.instance)?);
    let table = named("table", &target.table)?;
    let profile = target.app_profile.as_deref();
    Ok(Place {
        table: format!("projects/{project}/instances/{instance}/tables/{table}"),
        family: named("family", &target.family)?,
        profile: profile.map_or(Ok(String::new()), |name| named("app-profile", name))?,
    })
}

/// Opens the connections; each is the client of some workers.
async fn clients(
    args: &RunArgs,
    place: &Arc<Place>,
    servers: &Servers,
) -> Result<Vec<Client>, Error> {
    let mut routing = vec![("table_name", place.table.as_str())];
    if !place.profile.is_empty() {
        routing.push(("app_profile_id", place.profile.as_str()));
    }
    let mut clients = Vec::new();
    for _ in 0..args.load.connections {
        let service = connect(&servers.data, &routing).await?;
        clients.push(Client::new(service, Arc::clone(place), args.load.timeout));
    }
    Ok(clients)
}

/// Sleeps until the wanted time of the begin.
async fn wait_for_begin(args: &RunArgs, control: &Control, progress: &Progress) {
    let Some(start) = args.data.start_at else { return };
    let mut said = false;
    loop {
        let wait_ms = start.0.saturating_sub(SystemClock.now_micros() / 1000);
        if wait_ms <= 0 {
            if !said {
                progress.say(&format!(
                    "--start-at was {} ms before the data was written: this process begins late",
                    wait_ms.unsigned_abs()
                ));
            }
            return;
        }
        if !said {
            progress.say(&format!("begins in {:.1} s", wait_ms as f64 / 1e3));
            said = true;
        }
        if control.is_stopped() {
            return;
        }
        control.sleep(Duration::from_millis(wait_ms.unsigned_abs()).min(WAIT_MAX)).await;
    }
}
