//! The two servers: how they start, and the CPU time and memory of all their processes.
//!
//! 1. All memory of Stele is bounded by what its caller gives. PostgreSQL has 256 MiB of shared buffers beside
//!    what its processes take, and the page cache of the system, which nothing counts.
//! 2. A server ends when its value is dropped.

use crate::AnyError;
use crate::server::{Server, cpu_of};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Config, NoTls};

/// Longest time until a server takes connections.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of the servers that are compared.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    config: Config,
    process: Process,
    /// Largest memory seen. Publishes nothing.
    peak: AtomicU64,
}

enum Process {
    Stele(Server),
    Postgres(Postmaster),
}

/// The first process of PostgreSQL, the parent of all others.
struct Postmaster(Child);

impl Drop for Postmaster {
    fn drop(&mut self) {
        // SIGQUIT ends it with all its children at once.
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        let _ = self.0.wait();
    }
}

impl Peer {
    /// Starts Stele in `dir` with a bound of its memory, such as `512MiB`.
    pub(crate) fn stele(binary: &Path, dir: &Path, memory: &str) -> Result<Self, AnyError> {
        let port = free_port()?;
        let flags = [
            format!("--sql-listen=127.0.0.1:{port}"),
            format!("--memory-bytes-max={memory}"),
            "--log-level=error".to_owned(),
        ];
        let server = Server::start(binary, dir, &flags)?;
        Ok(Self::at("stele", port, Process::Stele(server)))
    }

    pub(crate) async fn postgres(
        programs: &Path,
        uid: Option<u32>,
        dir: &Path,
    ) -> Result<Self, AnyError> {
        let (data, port) = (dir.join("postgres"), free_port()?);
        std::fs::create_dir(&data)?;
        if let Some(uid) = uid {
            std::os::unix::fs::chown(&data, Some(uid), None)?;
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(dir, open)?;
        }
        let program = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if let Some(uid) = uid {
                command.uid(uid);
            }
            command.current_dir(&data).arg("-D").arg(&data);
            command
        };
        let mut init = program("initdb");
        init.args(["--auth=trust", "--username=stele", "--locale=C", "--encoding=UTF8"]);
        if !init.status()?.success() {
            return Err(
                "initdb of PostgreSQL failed; --postgres-uid names a user that is not root".into(),
            );
        }
        let mut server = program("postgres");
        server.args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k"]).arg(&data);
        server.args(["-c", "shared_buffers=256MB", "-c", "max_connections=200"]);
        let postmaster = Postmaster(server.spawn()?);
        let mut peer = Self::at("postgres", port, Process::Postgres(postmaster));
        peer.config.dbname("postgres");
        let begun = Instant::now();
        while let Err(error) = peer.connect().await {
            if begun.elapsed() > PATIENCE {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(peer)
    }

    fn at(name: &'static str, port: u16, process: Process) -> Self {
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user("stele").dbname("stele");
        Self { name, config, process, peak: AtomicU64::new(0) }
    }

    pub(crate) async fn connect(&self) -> Result<Client, AnyError> {
        let (client, connection) = self.config.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// CPU time of all its processes so far.
    pub(crate) fn cpu(&self) -> Result<Duration, AnyError> {
        match &self.process {
            Process::Stele(server) => server.cpu(),
            Process::Postgres(Postmaster(child)) => {
                let mut sum = cpu_of(child.id())? + cpu_of_ended_children(child.id())?;
                for pid in children(child.id())? {
                    // One that ended just now is counted with its parent next time.
                    sum += cpu_of(pid).unwrap_or_default();
                }
                Ok(sum)
            }
        }
    }

    /// Takes note of the memory that its processes have now; pages that they share count once.
    pub(crate) fn note_memory(&self) -> Result<(), AnyError> {
        let pids = match &self.process {
            Process::Stele(server) => vec![server.pid()],
            Process::Postgres(Postmaster(child)) => {
                [vec![child.id()], children(child.id())?].concat()
            }
        };
        let bytes = pids.into_iter().map(|pid| share_of_memory(pid).unwrap_or(0)).sum();
        self.peak.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Returns the largest resident memory of a server of one process so far, as the system notes it. A server
    /// of several processes has none: its memory must be looked at time and again.
    pub(crate) fn resident_peak(&self) -> Option<u64> {
        match &self.process {
            Process::Stele(server) => {
                let status = format!("/proc/{}/status", server.pid());
                bytes_of_line(&std::fs::read_to_string(status).ok()?, "VmHWM:")
            }
            Process::Postgres(_) => None,
        }
    }
}

fn free_port() -> Result<u16, AnyError> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn children(pid: u32) -> Result<Vec<u32>, AnyError> {
    let list = PathBuf::from(format!("/proc/{pid}/task/{pid}/children"));
    let text = std::fs::read_to_string(list)?;
    text.split_whitespace().map(|pid| Ok(pid.parse()?)).collect()
}

/// CPU time of the children of `pid` that ended and were waited for.
fn cpu_of_ended_children(pid: u32) -> Result<Duration, AnyError> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(')').ok_or("no process statistics")?.1;
    // Fields 16 and 17, in ticks of 1/100 s.
    let ticks = after_name.split_whitespace().skip(13).take(2).map(str::parse::<u64>);
    let sum: u64 = ticks.sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(sum * 10))
}

/// Memory of a process, where a page that several share counts in part for each.
fn share_of_memory(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    bytes_of_line(&text, "Pss:")
}

/// Returns the bytes in the line that begins with `name`, in a text that counts in kB.
fn bytes_of_line(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
