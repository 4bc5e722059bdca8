//! `bench hostile`: attacks on a running server, each beside an honest client that reads and measures.
//!
//! Attackers live in a process of their own, at a lower priority, as if on another machine: what
//! the honest client loses, it loses to the server's work and not to the attackers'. A server that
//! this program starts is started again before each attack, so that no attack inherits memory from
//! the one before.
//!
//! Attackers of a server that knows its clients have an identity of their own, which may read and write
//! rows. Intruders among them show credentials that are not good, or not good enough.
//!
//! An attack passes if the server's resident memory stays below 1.25 × its budget and 64 MiB, the
//! 99th percentile of the honest client below twice what it is without the attack and 5 ms, no
//! honest read fails, work ends within 2 s of the attack, no intruder is let in, no answer comes late,
//! and every refusal has a code that tells the client what to do.

mod attacker;
mod attacks;
mod credentials;
mod honest;
mod tables;
mod target;
mod verdict;
mod wire;

use crate::AnyError;
use attacker::Tally;
use attacks::Attack;
use bench_core::print;
use clap::{Args, ValueEnum};
use honest::Honest;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use target::Target;
use verdict::Outcome;

/// Options of the command `bench hostile`.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostileArgs {
    /// Server binary to start, such as target/release/stele.
    #[arg(long, required_unless_present = "address")]
    server: Option<PathBuf>,
    /// Flag for the server that is started.
    #[arg(long, allow_hyphen_values = true)]
    server_flag: Vec<String>,
    /// Address of a running Bigtable service to attack, HOST:PORT. Its tables of instance hostile
    /// are filled.
    #[arg(long, conflicts_with = "server", requires = "server_pid")]
    address: Option<SocketAddr>,
    /// Address of the running server's HTTP service, for attacks on it.
    #[arg(long, requires = "address")]
    http_address: Option<SocketAddr>,
    /// Process id of the running server.
    #[arg(long)]
    server_pid: Option<u32>,
    /// Memory budget of the server in MiB.
    #[arg(long, default_value_t = 256)]
    budget_mib: u64,
    /// Attacks, in their order. Default: all, on a running server all but those with credentials.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Attack>,
    /// Make every attack on a server that knows its clients, with an identity for the attackers and one
    /// for the honest client. Default: the attacks with credentials.
    #[arg(long, conflicts_with = "address")]
    identities: bool,
    /// Length of each attack; the honest client is measured for as long without one.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rows of the table that honest clients read and scans walk over.
    #[arg(long, default_value_t = 400_000)]
    rows: u64,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
    /// Runs one attack in this process and prints its tally: how the program starts its attackers.
    #[arg(long, value_enum, hide = true, requires = "address")]
    attack: Option<Attack>,
    /// File of the credentials of the attackers' process.
    #[arg(long, hide = true, requires = "attack")]
    credentials: Option<PathBuf>,
}

impl HostileArgs {
    /// Returns the attacks in their order.
    fn attacks(&self) -> Result<Vec<Attack>, AnyError> {
        let needy = |attack: &Attack| self.address.is_some() && attack.needs_identities();
        if self.only.iter().any(needy) {
            return Err("attacks with credentials need --server, which is started with them".into());
        }
        let mut attacks = self.only.clone();
        if attacks.is_empty() {
            attacks = Attack::value_variants().to_vec();
            attacks.retain(|attack| !needy(attack));
        }
        Ok(attacks)
    }
}

/// Runs the attacks, or one of them as the attackers' process.
pub(crate) fn run(args: &HostileArgs) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match (args.attack, args.address) {
        (Some(attack), Some(address)) => runtime.block_on(async {
            let length = Duration::from_secs(args.seconds);
            let read = |file: &PathBuf| {
                let bytes = std::fs::read(file)?;
                Ok::<_, AnyError>(serde_json::from_slice(&bytes)?)
            };
            let credentials = args.credentials.as_ref().map(read).transpose()?;
            let http = args.http_address;
            let tally = attacker::attack(attack, address, http, credentials, length).await?;
            print(&serde_json::to_string(&tally)?);
            // Streams and connections are left as they are; the system closes them.
            std::process::exit(0)
        }),
        _ => runtime.block_on(siege(args)),
    }
}

/// Attacks the server in every wanted way. Fails if an attack did not pass.
async fn siege(args: &HostileArgs) -> Result<(), AnyError> {
    let attacks = args.attacks()?;
    let mut target = Target::open(args).await?;
    tables::fill(target.address(), args.rows).await?;
    if !args.json {
        print(&verdict::heading());
    }
    let mut broken = 0;
    for attack in &attacks {
        let outcome = one(args, &mut target, *attack).await?;
        broken += usize::from(!outcome.faults().is_empty());
        print(&if args.json { outcome.json()? } else { outcome.line() });
    }
    match broken {
        0 => Ok(()),
        _ => Err(format!("{broken} of {} attacks did not pass", attacks.len()).into()),
    }
}

/// Measures the honest client without and beside one attack, and what the server is left with.
async fn one(args: &HostileArgs, target: &mut Target, attack: Attack) -> Result<Outcome, AnyError> {
    target.refresh(args.identities || attack.needs_identities()).await?;
    let length = Duration::from_secs(args.seconds);
    let honest = Honest::connect(target.address(), args.rows, target.sign_in()?).await?;
    honest.read_for(Duration::from_secs(1)).await?;
    let quiet = honest.read_for(length).await?;
    target.forget_peak();
    let attackers = tokio::task::spawn_blocking({
        let command = target.attackers(attack, args.seconds)?;
        move || tally_of(command)
    });
    let beside = honest.read_for(length).await?;
    let tally = attackers.await??;
    let resident_bytes = target.peak_bytes()?;
    let on_for = target.time_to_rest().await?;
    let budget_bytes = args.budget_mib << 20;
    Ok(Outcome { attack, budget_bytes, resident_bytes, quiet, beside, on_for, tally })
}

/// Runs the attackers' process to its end.
fn tally_of(mut command: std::process::Command) -> Result<Tally, AnyError> {
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the attackers' process failed: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
