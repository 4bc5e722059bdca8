//! The server under attack: started here, or running somewhere on this machine.

use super::HostileArgs;
use super::attacks::Attack;
use super::credentials::Credentials;
use super::honest::SignIn;
use crate::AnyError;
use crate::server::{Server, cpu_of};
use clap::ValueEnum;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server is at rest when it used no more CPU time than `REST_CPU` in a time of `REST_WINDOW`.
const REST_WINDOW: Duration = Duration::from_millis(200);
const REST_CPU: Duration = Duration::from_millis(20);
/// Longest wait for the rest.
const REST_WAIT: Duration = Duration::from_secs(30);

const IDENTITIES_DIR: &str = "identities";
const CREDENTIALS: &str = "credentials.json";

/// A server whose memory and CPU time can be read.
pub(super) struct Target {
    address: SocketAddr,
    http: Option<SocketAddr>,
    pid: u32,
    own: Option<Own>,
    /// Identities that the running server knows; `None` if it lets in everybody.
    credentials: Option<Credentials>,
}

/// A server of this program's own.
struct Own {
    server: Server,
    dir: TempDir,
    flags: Vec<String>,
    /// Identities for the attacks that need them, once they were made.
    credentials: Option<Credentials>,
}

impl Own {
    /// Starts the server again, with identities or without; returns the ones it knows.
    async fn restart(&mut self, with_identities: bool) -> Result<Option<Credentials>, AnyError> {
        let (dir, mut flags) = (self.dir.path().join(IDENTITIES_DIR), self.flags.clone());
        if with_identities && self.credentials.is_none() {
            let made = Credentials::make(&dir)?;
            std::fs::write(dir.join(CREDENTIALS), serde_json::to_vec(&made)?)?;
            self.credentials = Some(made);
        }
        if with_identities {
            flags.extend(Credentials::flags(&dir));
        }
        self.server.restart_with(flags).await?;
        Ok(self.credentials.clone().filter(|_| with_identities))
    }

    /// Returns the file with the credentials, for the process of the attackers.
    fn credentials_file(&self) -> PathBuf {
        self.dir.path().join(IDENTITIES_DIR).join(CREDENTIALS)
    }
}

impl Target {
    /// Starts a server, or finds the running one.
    pub(super) async fn open(args: &HostileArgs) -> Result<Self, AnyError> {
        if let (Some(address), Some(pid)) = (args.address, args.server_pid) {
            let http = args.http_address;
            return Ok(Self { address, http, pid, own: None, credentials: None });
        }
        let binary = args.server.as_deref().ok_or("no server to attack")?;
        let dir = tempfile::tempdir()?;
        let mut flags = vec![
            format!("--memory-bytes-max={}MiB", args.budget_mib),
            "--durability=none".to_owned(),
            "--log-level=error".to_owned(),
        ];
        flags.extend(args.server_flag.iter().cloned());
        let server = Server::start(binary, dir.path(), &flags)?;
        let (address, http) = addresses(&server)?;
        let pid = server.pid();
        let own = Some(Own { server, dir, flags, credentials: None });
        Ok(Self { address, http, pid, own, credentials: None })
    }

    /// Address of the Bigtable service.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the credentials of the honest client.
    pub(super) fn sign_in(&self) -> Result<SignIn, AnyError> {
        match &self.credentials {
            Some(known) => SignIn::with_token(&known.honest),
            None => Ok(SignIn::not_needed()),
        }
    }

    /// Starts a server of this program's own again, with identities or without, and waits until it is
    /// at rest.
    pub(super) async fn refresh(&mut self, with_identities: bool) -> Result<(), AnyError> {
        if let Some(own) = &mut self.own {
            self.credentials = own.restart(with_identities).await?;
            (self.address, self.http) = addresses(&own.server)?;
            self.pid = own.server.pid();
        }
        self.time_to_rest().await?;
        Ok(())
    }

    /// Starts to measure the peak of the resident memory from here.
    pub(super) fn forget_peak(&self) {
        // If the system does not allow it, the peak is that of the process's whole life.
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.pid), "5");
    }

    /// Returns the most memory that was resident since the peak was forgotten.
    pub(super) fn peak_bytes(&self) -> Result<u64, AnyError> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.ok_or("no peak of memory")?.trim().trim_end_matches("kB").trim();
        Ok(kib.parse::<u64>()? << 10)
    }

    /// Waits until the server works no more; returns how long it still did.
    pub(super) async fn time_to_rest(&self) -> Result<Duration, AnyError> {
        let begin = Instant::now();
        loop {
            let (before, since) = (cpu_of(self.pid)?, begin.elapsed());
            tokio::time::sleep(REST_WINDOW).await;
            if cpu_of(self.pid)? - before <= REST_CPU || since > REST_WAIT {
                return Ok(since);
            }
        }
    }

    /// Returns the command that attacks the server for `seconds`.
    pub(super) fn attackers(&self, attack: Attack, seconds: u64) -> Result<Command, AnyError> {
        // By way of nice: the honest client must not lose its share of the cores to the attackers.
        let mut command = Command::new("nice");
        command.arg("-n10").arg(std::env::current_exe()?).arg("hostile");
        let name = attack.to_possible_value().ok_or("no such attack")?;
        command.arg(format!("--attack={}", name.get_name()));
        command.arg(format!("--address={}", self.address));
        command.arg(format!("--server-pid={}", self.pid)).arg(format!("--seconds={seconds}"));
        if let Some(http) = self.http {
            command.arg(format!("--http-address={http}"));
        }
        if let (Some(own), Some(_)) = (&self.own, &self.credentials) {
            command.arg(format!("--credentials={}", own.credentials_file().display()));
        }
        Ok(command)
    }
}

fn addresses(server: &Server) -> Result<(SocketAddr, Option<SocketAddr>), AnyError> {
    Ok((server.address().parse()?, Some(server.http_address().parse()?)))
}
