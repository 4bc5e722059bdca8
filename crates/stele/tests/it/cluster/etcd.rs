//! A real etcd of one member.

use super::SOON;
use std::ffi::OsString;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An etcd, which is killed when it is dropped. It runs, or was stopped and can be started again.
pub(super) struct Etcd {
    command: Command,
    process: Option<Child>,
    pub(super) address: String,
    _dir: tempfile::TempDir,
}

impl Etcd {
    /// Starts an etcd and waits until it listens. `None` if there is no program, which fails where
    /// clients are required.
    pub(super) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// [`Self::start`] with more flags, of TLS if there are any.
    pub(super) fn start_with(flags: &[String]) -> Option<Self> {
        let program = program()?;
        let clients = if flags.is_empty() { "http" } else { "https" };
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let (address, peers) = (free(), free());
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(dir.path().join("data"));
        command.args(["--name", "one", "--initial-cluster", &format!("one=http://{peers}")]);
        for (name, scheme, value) in [
            ("--listen-client-urls", clients, &address),
            ("--advertise-client-urls", clients, &address),
            ("--listen-peer-urls", "http", &peers),
            ("--initial-advertise-peer-urls", "http", &peers),
        ] {
            command.arg(name).arg(format!("{scheme}://{value}"));
        }
        command.args(flags).stdout(Stdio::null()).stderr(Stdio::null());
        let mut etcd = Self { command, process: None, address, _dir: dir };
        etcd.run();
        Some(etcd)
    }

    /// Starts it, with the data that it has, and waits until it listens.
    pub(super) fn run(&mut self) {
        assert!(self.process.is_none(), "etcd still runs");
        self.process = Some(self.command.spawn().unwrap());
        let begun = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            assert!(begun.elapsed() < SOON, "etcd does not listen on {}", self.address);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as a crash would.
    pub(super) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn program() -> Option<OsString> {
    let program = std::env::var_os("STELE_ETCD").unwrap_or_else(|| "etcd".into());
    let runs = Command::new(&program).arg("--version").stdout(Stdio::null()).status();
    if runs.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    let required =
        std::env::var("STELE_REQUIRE_CLIENTS").is_ok_and(|required| !required.is_empty());
    assert!(!required, "etcd is missing; name it in STELE_ETCD");
    eprintln!("skipped: etcd is missing; name it in STELE_ETCD");
    None
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop();
    }
}
