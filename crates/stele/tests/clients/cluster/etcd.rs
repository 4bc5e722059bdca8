//! A real etcd of one member.

use crate::setup::on_path;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program, if there is one.
pub(super) fn program() -> Option<PathBuf> {
    std::env::var_os("STELE_ETCD").map(PathBuf::from).or_else(|| on_path("etcd"))
}

/// An etcd, which is killed when it is dropped.
pub(super) struct Etcd {
    command: Command,
    process: Child,
}

impl Etcd {
    /// Starts `etcd` on `ip`, with its data in `dir`. It may take a while until it answers.
    pub(super) fn start(mut etcd: Command, dir: &Path, ip: &str) -> Self {
        etcd.arg("--data-dir").arg(dir.join("etcd"));
        etcd.args(["--name", "one", "--initial-cluster", &format!("one=http://{ip}:2380")]);
        for (name, port) in [
            ("--listen-client-urls", 2379),
            ("--advertise-client-urls", 2379),
            ("--listen-peer-urls", 2380),
            ("--initial-advertise-peer-urls", 2380),
        ] {
            etcd.arg(name).arg(format!("http://{ip}:{port}"));
        }
        etcd.stdout(Stdio::null()).stderr(Stdio::null());
        let process = etcd.spawn().unwrap();
        Self { command: etcd, process }
    }

    pub(super) fn kill_9(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(super) fn restart(&mut self) {
        self.process = self.command.spawn().unwrap();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
