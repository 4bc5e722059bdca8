//! A server process, its CPU time, and its end.

use crate::AnyError;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to stop, and to come to rest. Instrumented ones are slow.
const PATIENCE: Duration = Duration::from_secs(120);
/// A server that used no CPU time for so long is at rest.
const REST: Duration = Duration::from_millis(150);
const ANYWHERE: [&str; 2] = ["--bigtable-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0"];

/// A running server. Killed if it is dropped before `terminate`.
pub(crate) struct Server {
    binary: PathBuf,
    dir: PathBuf,
    flags: Vec<String>,
    child: Child,
    /// Kept open: a server whose standard output is gone could not write to it.
    _stdout: BufReader<ChildStdout>,
    address: String,
    http_address: String,
    /// CPU time of its lives before this one.
    earlier: Duration,
}

impl Server {
    /// Starts `binary` with `flags` on a data directory in `dir`, on free ports of loopback, and
    /// waits until it serves.
    pub(crate) fn start(binary: &Path, dir: &Path, flags: &[String]) -> Result<Self, AnyError> {
        let mut command = Command::new(binary);
        command.arg("serve").arg("--data-dir").arg(dir.join("data")).args(ANYWHERE).args(flags);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let (mut address, mut http_address) = (None, None);
        for line in stdout.by_ref().lines().map_while(Result::ok) {
            if let Some(at) = line.strip_prefix("  Bigtable  ") {
                address = at.split_whitespace().next().map(str::to_owned);
            }
            if let Some(rest) = line.strip_prefix("  HTTP      ") {
                let url = rest.split_whitespace().next();
                http_address =
                    url.and_then(|url| url.split_once("://")).map(|(_, at)| at.to_owned());
            }
            // The last line of what a server says when it serves; a secured one says the other.
            if line.contains("BIGTABLE_EMULATOR_HOST") || line.contains("clients connect by TLS") {
                break;
            }
        }
        let (Some(address), Some(http_address)) = (address, http_address) else {
            let _ = child.kill();
            child.wait()?;
            return Err(format!("{} did not start", binary.display()).into());
        };
        let (binary, dir, flags) = (binary.to_owned(), dir.to_owned(), flags.to_vec());
        let earlier = Duration::ZERO;
        Ok(Self { binary, dir, flags, child, _stdout: stdout, address, http_address, earlier })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it serves, `HOST:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the address of its HTTP service, `HOST:PORT`.
    pub(crate) fn http_address(&self) -> &str {
        &self.http_address
    }

    /// The binary, for its other subcommands.
    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    /// CPU time of all its threads so far, over all its lives.
    pub(crate) fn cpu(&self) -> Result<Duration, AnyError> {
        Ok(self.earlier + cpu_of(self.child.id())?)
    }

    /// Waits until nothing runs in the background any more.
    pub(crate) async fn rest(&self) -> Result<(), AnyError> {
        rest_of(self.pid()).await
    }

    /// Sends SIGTERM and waits for the end, which must be exit status 0.
    pub(crate) async fn terminate(&mut self) -> Result<(), AnyError> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() { Ok(()) } else { Err(status.to_string().into()) };
            }
            if Instant::now() > deadline {
                return Err("the server does not stop".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Kills it, as a crash would, and waits for its end.
    pub(crate) fn kill_9(&mut self) -> Result<(), AnyError> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again after its end, on other ports.
    pub(crate) fn start_again(&mut self) -> Result<(), AnyError> {
        *self = Self::start(&self.binary, &self.dir, &self.flags.clone())?;
        Ok(())
    }

    /// Stops it and starts it again; it replays its log.
    pub(crate) async fn restart(&mut self) -> Result<(), AnyError> {
        self.restart_with(self.flags.clone()).await
    }

    /// Stops it and starts it again with other flags.
    pub(crate) async fn restart_with(&mut self, flags: Vec<String>) -> Result<(), AnyError> {
        let earlier = self.cpu()?;
        self.terminate().await?;
        *self = Self::start(&self.binary, &self.dir, &flags)?;
        self.earlier = earlier;
        Ok(())
    }
}

/// Returns the CPU time that all threads of process `pid` have had.
pub(crate) fn cpu_of(pid: u32) -> Result<Duration, AnyError> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the command in parentheses: state is field 3; user and system time are 14 and 15,
    // in ticks of 1/100 s.
    let after_name = stat.rsplit_once(')').ok_or("no process statistics")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).ok_or("no CPU time")?.parse().map_err(AnyError::from);
    let sum: u64 = [ticks(11)?, ticks(12)?].iter().sum();
    Ok(Duration::from_millis(sum * 10))
}

/// Waits until process `pid` uses no CPU time.
pub(crate) async fn rest_of(pid: u32) -> Result<(), AnyError> {
    let deadline = Instant::now() + PATIENCE;
    let mut last = cpu_of(pid)?;
    loop {
        tokio::time::sleep(REST).await;
        let now = cpu_of(pid)?;
        if now == last {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("the server does not come to rest".into());
        }
        last = now;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
