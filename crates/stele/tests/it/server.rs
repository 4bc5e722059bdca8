//! A real server in a process of its own, for tests.
//!
//! ```ignore
//! let dir = tempfile::tempdir().unwrap();
//! let mut server = Server::start(dir.path(), &[]);
//! client(server.bigtable());       // 127.0.0.1:PORT, free when the server started
//! server.kill_9();
//! server.restart();                // same directory, same ports, same flags
//! assert!(server.terminate().success());
//! ```
//!
//! A server still running when its value is dropped is killed. Its standard error is kept in a
//! file (`stderr`), so that a failing test can show it and no pipe can fill up.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Time that a server may take to open its directory, and to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server process, or one that was stopped and can be restarted.
pub(crate) struct Server {
    child: Option<Child>,
    namespace: Option<String>,
    dir: PathBuf,
    flags: Vec<String>,
    bigtable: SocketAddr,
    http: SocketAddr,
    /// Address for PostgreSQL clients, if the server lets them in.
    sql: Option<SocketAddr>,
    stderr: tempfile::NamedTempFile,
}

impl Server {
    /// Starts a server on `dir` with more `flags` and free ports, and waits until it serves.
    /// Panics with its last words if it does not.
    pub(crate) fn start(dir: &Path, flags: &[&str]) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::start_at(None, [any, any], dir, flags)
    }

    /// [`Self::start`] on these addresses of Bigtable and HTTP, in a namespace of the network.
    pub(crate) fn start_at(
        namespace: Option<String>,
        [bigtable, http]: [SocketAddr; 2],
        dir: &Path,
        flags: &[&str],
    ) -> Self {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let stderr = tempfile::NamedTempFile::new().unwrap();
        let dir = dir.to_owned();
        let sql = None;
        let mut server = Self { child: None, namespace, dir, flags, bigtable, http, sql, stderr };
        server.restart();
        server
    }

    /// Starts the server again, on the ports it had, after `kill_9` or `terminate`.
    pub(crate) fn restart(&mut self) {
        let mut child = self.spawn();
        let out = child.stdout.take().expect("standard output is a pipe");
        self.child = Some(child);
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        let bigtable = lines.by_ref().find_map(|line| after(&line, "  Bigtable  "));
        let http = lines.by_ref().find_map(|line| {
            after(&line, "  HTTP      http://").or_else(|| after(&line, "  HTTP      https://"))
        });
        let (Some(bigtable), Some(http)) = (bigtable, http) else {
            panic!("the server did not start:\n{}", self.stderr());
        };
        (self.bigtable, self.http) = (bigtable, http);
        let last = lines.find(|line| {
            self.sql = after(line, "  SQL       ").or(self.sql);
            line.contains("export BIGTABLE_EMULATOR_HOST=") || line.contains("connect by TLS")
        });
        assert!(last.is_some(), "the server did not say how to connect");
    }

    /// Starts the server and kills it `after` some time, which may be before it serves.
    pub(crate) fn start_and_kill_9(&mut self, after: Duration) {
        let mut child = self.spawn();
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn spawn(&self) -> Child {
        assert!(self.child.is_none(), "the server still runs");
        let mut command = stele_in(self.namespace.as_deref());
        command.arg("serve").arg("--data-dir").arg(&self.dir);
        command.arg("--bigtable-listen").arg(self.bigtable.to_string());
        command.arg("--http-listen").arg(self.http.to_string());
        // Servers of many tests run beside each other.
        command.env("STELE_SQL_LISTEN", "off");
        // The port that the first start chose for SQL is the port of every later one.
        let sql = self.sql.map(|address| format!("--sql-listen={address}"));
        command.args(self.flags.iter().map(|flag| match &sql {
            Some(same) if flag.starts_with("--sql-listen=") && flag.ends_with(":0") => same,
            _ => flag,
        }));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::options().append(true).open(self.stderr.path()).unwrap());
        command.spawn().unwrap()
    }

    /// Where Bigtable clients connect: the value of `BIGTABLE_EMULATOR_HOST`.
    pub(crate) fn bigtable(&self) -> SocketAddr {
        self.bigtable
    }

    /// Returns the address for PostgreSQL clients of a server that was started with `--sql-listen`.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only tests of SQL call it"))]
    pub(crate) fn sql(&self) -> SocketAddr {
        self.sql.expect("the server has a door for PostgreSQL clients")
    }

    /// Where the HTTP side listens.
    pub(crate) fn http(&self) -> SocketAddr {
        self.http
    }

    /// What the server wrote to standard error so far, over all its lives.
    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.stderr.path()).unwrap()
    }

    /// Kills the process as a crash would, and waits for its end.
    pub(crate) fn kill_9(&mut self) {
        let mut child = self.child.take().expect("the server runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Returns the id of its running process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// Sends SIGTERM, or another signal, without waiting.
    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the server runs");
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the server runs");
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("the server did not stop within {PATIENCE:?}:\n{}", self.stderr());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// `GET path` on the HTTP side: status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path}"), &format!("Host: {}", self.http))
    }

    /// A request without a body, of a method and a path, with these headers: status and body.
    pub(crate) fn ask(&self, what: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "{what} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer has a body");
        (status.expect("an answer has a status"), body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                eprintln!("the server's standard error:\n{}", self.stderr());
            }
        }
    }
}

/// The binary, without the settings of whoever runs the tests.
pub(crate) fn stele() -> Command {
    stele_in(None)
}

/// [`stele`] in a namespace of the network, which becomes the binary: its id and its end are the same.
pub(crate) fn stele_in(namespace: Option<&str>) -> Command {
    let binary = env!("CARGO_BIN_EXE_stele");
    let mut command = Command::new(namespace.map_or(binary, |_| "ip"));
    if let Some(namespace) = namespace {
        command.args(["netns", "exec", namespace, binary]);
    }
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STELE_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the binary to its end with `args` and gives what it said.
pub(crate) fn run(args: &[&str]) -> Output {
    stele().args(args).stdin(Stdio::null()).output().unwrap()
}

/// Standard error of `output` as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn after(line: &str, label: &str) -> Option<SocketAddr> {
    line.strip_prefix(label)?.split(' ').next()?.parse().ok()
}
