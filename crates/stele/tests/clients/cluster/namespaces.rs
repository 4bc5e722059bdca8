//! Nodes in namespaces of the network: each has an address and a small file system of its own.
//!
//! 1. The namespaces are joined by a bridge in another one, where clients and etcd run. Nothing of the
//!    host's network is touched.
//! 2. A way is cut in one direction by a route that leads nowhere: what the other sends still comes.
//! 3. All that was made is removed when its value is dropped, processes first.
//!
//! It needs root, Linux and `ip` of iproute2, and is skipped without.

use super::etcd::{self, Etcd};
use super::{Disturb, NODES, disturb_a_process, draws, found, histories, suite};
use crate::server::{Server, stele_in};
use crate::setup;
use base::env::Rng;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Size of a node's file system.
const DISK: &str = "size=160m";
/// The namespace of clients and etcd.
const HUB: usize = NODES;

/// Every row is linearizable while nodes are killed, stopped, ended and cut off, ways between two of
/// them are cut in one direction, the disk of one is full, and etcd is killed.
#[test]
fn histories_in_a_cluster_are_linearizable_across_cut_networks_and_full_disks() {
    let Some(go) = setup::go() else { return };
    let Some(etcd) = etcd::program() else { return skipped("etcd is missing") };
    let Some(network) = Network::new() else { return skipped("no namespaces of the network here") };
    let dir = tempfile::tempdir().unwrap();
    let Some(disks) = Disks::new(dir.path()) else {
        return skipped("no file systems in memory here");
    };
    let (seconds, seed) = draws();
    let etcd = Etcd::start(network.inside(HUB, etcd), dir.path(), &ip(HUB));
    let addresses: Vec<_> = (0..NODES).map(|node| format!("{}:8086", ip(node))).collect();
    let suite = suite(network.inside(HUB, go), &addresses, seconds, seed);
    let mut faults = Faults { network: &network, disks: &disks, etcd };
    histories(suite, seed, || start(&network, &disks), &mut faults);
}

fn skipped(reason: &str) {
    // The test harness hides what a passing test prints by macro.
    std::io::stderr().write_all(format!("SKIPPED: {reason}\n").as_bytes()).unwrap();
}

/// Founds the cluster and starts its nodes.
fn start(network: &Network, disks: &Disks) -> Vec<Server> {
    let directory = format!("{}:2379", ip(HUB));
    found(|| stele_in(Some(&network.name(HUB))), &directory);
    let start = |node: usize| {
        let flags = [
            format!("--join={directory}"),
            format!("--cluster-listen={}:8088", ip(node)),
            format!("--advertise={}:8088", ip(node)),
            format!("--zone={node}"),
            "--insecure-listen".to_owned(),
            "--log-level=warn".to_owned(),
            "--memory-bytes-max=256MiB".to_owned(),
            "--memtable-bytes-max=64KiB".to_owned(),
        ];
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let at = |port| SocketAddr::new(ip(node).parse().unwrap(), port);
        let dir = disks.of(node).join("data");
        Server::start_at(Some(network.name(node)), [at(8086), at(8080)], &dir, &flags)
    };
    (0..NODES).map(start).collect()
}

struct Faults<'a> {
    network: &'a Network,
    disks: &'a Disks,
    etcd: Etcd,
}

impl Disturb for Faults<'_> {
    fn disturb(&mut self, servers: &mut [Server], rng: &mut Rng, away: Duration) -> &'static str {
        let node = rng.below(NODES as u64) as usize;
        let other = (node + 1 + rng.below(NODES as u64 - 1) as usize) % NODES;
        match rng.below(10) {
            0..4 => disturb_a_process(servers, rng, away),
            4 | 5 => {
                self.network.route(node, "add", other);
                std::thread::sleep(away);
                self.network.route(node, "del", other);
                "cut one way"
            }
            6 | 7 => {
                self.network.link(node, "down");
                std::thread::sleep(away);
                self.network.link(node, "up");
                "cut off"
            }
            8 => {
                self.disks.fill(node);
                std::thread::sleep(away);
                self.disks.free(node);
                "with a full disk"
            }
            _ => {
                self.etcd.kill_9();
                std::thread::sleep(away);
                self.etcd.restart();
                "without etcd"
            }
        }
    }
}

fn ip(place: usize) -> String {
    format!("10.99.0.{}", place + 1)
}

/// A bridge with a namespace for each node, and one for all else.
struct Network {
    prefix: String,
}

impl Network {
    /// `None` if this machine, or this user, cannot make one.
    fn new() -> Option<Self> {
        let network = Self { prefix: format!("stele-{}", std::process::id()) };
        for place in 0..=HUB {
            ip_command(&["netns", "add", &network.name(place)])?;
        }
        let hub = network.name(HUB);
        ip_command(&["-n", &hub, "link", "add", "bridge", "type", "bridge"])?;
        ip_command(&["-n", &hub, "addr", "add", &format!("{}/24", ip(HUB)), "dev", "bridge"])?;
        for device in ["lo", "bridge"] {
            ip_command(&["-n", &hub, "link", "set", device, "up"])?;
        }
        (0..NODES).try_for_each(|node| network.join(node))?;
        Some(network)
    }

    /// Joins a node to the bridge by a pair of devices.
    fn join(&self, node: usize) -> Option<()> {
        let (name, hub, way) = (self.name(node), self.name(HUB), way(node));
        let pair = ["type", "veth", "peer", "name", "eth0", "netns", &name];
        ip_command(&[&["-n", &hub, "link", "add", &way][..], &pair].concat())?;
        ip_command(&["-n", &hub, "link", "set", &way, "master", "bridge", "up"])?;
        ip_command(&["-n", &name, "addr", "add", &format!("{}/24", ip(node)), "dev", "eth0"])?;
        ["lo", "eth0"]
            .iter()
            .try_for_each(|device| ip_command(&["-n", &name, "link", "set", device, "up"]))
    }

    fn name(&self, place: usize) -> String {
        format!("{}-{place}", self.prefix)
    }

    /// A program that runs in a namespace, in place of `ip`: its id and its end are the same.
    fn inside(&self, place: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(place)]).arg(program);
        command
    }

    /// Adds or removes a route by which nothing that `node` sends reaches `other`.
    fn route(&self, node: usize, verb: &str, other: usize) {
        let to = format!("{}/32", ip(other));
        ip_command(&["-n", &self.name(node), "route", verb, "blackhole", &to]).unwrap();
    }

    /// Takes a node off the bridge, or brings it back.
    fn link(&self, node: usize, state: &str) {
        ip_command(&["-n", &self.name(HUB), "link", "set", &way(node), state]).unwrap();
    }
}

/// The device of the bridge that leads to a node.
fn way(node: usize) -> String {
    format!("node{node}")
}

impl Drop for Network {
    fn drop(&mut self) {
        for place in 0..=HUB {
            ip_command(&["netns", "del", &self.name(place)]);
        }
    }
}

/// Runs `ip` with `args`; `None` if it fails.
fn ip_command(args: &[&str]) -> Option<()> {
    let mut command = Command::new("ip");
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success()).then_some(())
}

/// A file system of its own for each node.
struct Disks {
    dirs: Vec<PathBuf>,
}

impl Disks {
    /// `None` if this user cannot mount one.
    fn new(dir: &Path) -> Option<Self> {
        let mut disks = Self { dirs: Vec::new() };
        for node in 0..NODES {
            let dir = dir.join(format!("disk-{node}"));
            std::fs::create_dir(&dir).unwrap();
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(&dir);
            mount.stderr(Stdio::null()).status().ok().filter(|status| status.success())?;
            disks.dirs.push(dir);
        }
        Some(disks)
    }

    fn of(&self, node: usize) -> &Path {
        &self.dirs[node]
    }

    /// Fills the disk of a node to the last byte.
    fn fill(&self, node: usize) {
        let mut ballast = File::create(self.dirs[node].join("ballast")).unwrap();
        for size in [1 << 20, 4096, 1] {
            while ballast.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn free(&self, node: usize) {
        std::fs::remove_file(self.dirs[node].join("ballast")).unwrap();
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for dir in &self.dirs {
            let _ = Command::new("umount").arg("-l").arg(dir).status();
        }
    }
}
