//! Nodes on one host whose connections to each other lead through proxies of the suite.

use super::{Disturb, NODES, SOON, disturb_a_process, draws, found, histories, suite};
use crate::server::{Server, stele};
use crate::setup;
use base::env::Rng;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Every row is linearizable in a cluster, whichever node is asked, while nodes are killed, stopped and
/// ended, and their links are cut one way or both, delayed, throttled and broken. `STELE_HISTORY_SECONDS`
/// and `STELE_HISTORY_SEED` as for the histories of one server.
#[test]
fn histories_in_a_cluster_are_linearizable_across_faults_of_nodes_and_links() {
    let Some(go) = setup::go() else { return };
    let (seconds, seed) = draws();
    let dir = tempfile::tempdir().unwrap();
    let places = places();
    let addresses: Vec<_> = places.iter().map(|place| place.bigtable.to_string()).collect();
    let mut suite = suite(Command::new(go), &addresses, seconds, seed);
    let proxies: Vec<_> =
        places.iter().map(|place| format!("{}={}", place.proxy, place.listen)).collect();
    suite.env("CLIENTS_PROXIES", proxies.join(","));
    histories(suite, seed, || start(dir.path(), &places), &mut Processes);
}

struct Processes;

impl Disturb for Processes {
    fn disturb(&mut self, servers: &mut [Server], rng: &mut Rng, away: Duration) -> &'static str {
        disturb_a_process(servers, rng, away)
    }
}

/// The addresses of a node.
struct Place {
    bigtable: SocketAddr,
    http: SocketAddr,
    listen: SocketAddr,
    /// Address at which other nodes reach it.
    proxy: SocketAddr,
}

/// Free ports for all nodes. They are taken at once, so they differ.
fn places() -> Vec<Place> {
    let held: Vec<_> = (0..4 * NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let free: Vec<_> = held.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let place = |four: &[SocketAddr]| Place {
        bigtable: four[0],
        http: four[1],
        listen: four[2],
        proxy: four[3],
    };
    free.chunks(4).map(place).collect()
}

/// Founds the cluster and starts its nodes, as soon as the proxies are there.
fn start(dir: &Path, places: &[Place]) -> Vec<Server> {
    let directory = format!("file:{}", dir.join("directory").display());
    found(stele, &directory);
    let mut servers = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let begun = Instant::now();
        while TcpStream::connect(place.proxy).is_err() {
            assert!(begun.elapsed() < SOON, "no proxy at {}", place.proxy);
            std::thread::sleep(Duration::from_millis(20));
        }
        let flags = [
            format!("--join={directory}"),
            format!("--cluster-listen={}", place.listen),
            format!("--advertise={}", place.proxy),
            format!("--zone={at}"),
            "--log-level=warn".to_owned(),
            "--memory-bytes-max=256MiB".to_owned(),
            "--memtable-bytes-max=64KiB".to_owned(),
        ];
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let dir = dir.join(at.to_string());
        servers.push(Server::start_at(None, [place.bigtable, place.http], &dir, &flags));
    }
    servers
}
