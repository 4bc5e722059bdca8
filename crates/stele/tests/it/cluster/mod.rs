//! Three real servers as a cluster, one of which is killed again and again while clients write to all.
//!
//! Acknowledged writes must be there on every node, and writes must go on while a node is down. The
//! directory is a file, and an etcd if there is one (`STELE_ETCD` names it).

mod endurance;
mod etcd;
mod load;

use crate::kill9::wire::Client;
use crate::server::{Server, run, stderr};
use crate::tls::Certificates;
use etcd::Etcd;
use load::Load;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(120);

#[test]
fn nothing_acknowledged_is_lost_with_a_node_and_writes_go_on() {
    let dir = tempfile::tempdir().unwrap();
    survives(dir.path(), &format!("file:{}", dir.path().join("directory").display()));
}

#[test]
fn a_cluster_in_etcd_survives_its_nodes() {
    let Some(etcd) = Etcd::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    survives(dir.path(), &etcd.address);
}

#[test]
fn a_cluster_is_founded_once_and_joined_only_then() {
    let dir = tempfile::tempdir().unwrap();
    let at = format!("file:{}", dir.path().join("directory").display());
    let data = dir.path().join("1");
    let args = ["serve", "--data-dir", data.to_str().unwrap(), "--join", &at];
    let ports = ["--bigtable-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0"];
    let more = ["--cluster-listen=127.0.0.1:0"];
    let early = run(&[&args[..], &ports, &more].concat());
    assert!(!early.status.success());
    assert!(stderr(&early).contains("stele cluster init"), "{}", stderr(&early));
    let found = || run(&["cluster", "init", "--etcd", &at, "--replicas", "3"]);
    let founded = found();
    assert!(founded.status.success(), "{}", stderr(&founded));
    let again = found();
    assert!(stderr(&again).contains("already has cluster"), "{}", stderr(&again));
    let alone = run(&["serve", "--zone=a"]);
    assert_eq!(alone.status.code(), Some(2), "{}", stderr(&alone));
}

#[test]
fn an_etcd_by_tls_knows_its_clients_and_is_known_by_them() {
    let certificates = Certificates::make();
    let file = |name: &str| certificates.file(name).display().to_string();
    let flags = [
        format!("--cert-file={}", file("server.pem")),
        format!("--key-file={}", file("server-key.pem")),
        format!("--trusted-ca-file={}", file("ca.pem")),
        "--client-cert-auth".to_owned(),
    ];
    let Some(etcd) = Etcd::start_with(&flags) else { return };
    let at = format!("https://{}", etcd.address);
    let found = |flags: &[&str]| run(&[&["cluster", "init", "--etcd", &at][..], flags].concat());
    let ca = certificates.flag("etcd-ca", "ca.pem");
    let known = [
        ca.as_str(),
        &certificates.flag("etcd-cert", "client.pem"),
        &certificates.flag("etcd-key", "client-key.pem"),
    ];
    for (flags, why) in [(&[][..], "certificate"), (&known[..1], "certificate")] {
        let refused = found(flags);
        assert!(!refused.status.success());
        assert!(stderr(&refused).to_lowercase().contains(why), "{}", stderr(&refused));
    }
    let founded = found(&[&known[..], &["--replicas=1"]].concat());
    assert!(founded.status.success(), "{}", stderr(&founded));
    let dir = tempfile::tempdir().unwrap();
    let join = format!("--join={at}");
    let node = [&known[..], &[&join, "--cluster-listen=127.0.0.1:0"]].concat();
    let mut server = Server::start(dir.path(), &node);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(create_table(server.bigtable()));
    assert!(server.terminate().success());
}

fn survives(dir: &Path, directory: &str) {
    found(directory);
    let mut servers: Vec<_> = (1..=3).map(|node| start(dir, directory, node)).collect();
    let addresses: Vec<_> = servers.iter().map(Server::bigtable).collect();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(create_table(addresses[0]));
    let load = Arc::new(Load::new(addresses.clone()));
    let writers = Load::start(&load, &runtime);
    load.wait_for_more("before any failure");
    for server in &mut servers {
        server.kill_9();
        load.wait_for_more("while a node is down");
        server.restart();
        load.wait_for_more("after the node came back");
    }
    runtime.block_on(load.stop(writers));
    for address in &addresses {
        runtime.block_on(load.check(*address));
    }
    // Stopped one after the other, and started again: nothing was in memory only.
    for server in &mut servers {
        assert!(server.terminate().success());
        server.restart();
    }
    runtime.block_on(load.check(addresses[1]));
    for server in &mut servers {
        assert!(server.terminate().success());
    }
}

/// Founds a cluster with three replicas of each tablet.
fn found(directory: &str) {
    let founded = run(&["cluster", "init", "--etcd", directory, "--replicas", "3"]);
    assert!(founded.status.success(), "{}", stderr(&founded));
}

/// Starts a node; it has its ports again when it is restarted.
fn start(dir: &Path, directory: &str, node: usize) -> Server {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (join, listen) = (format!("--join={directory}"), format!("--cluster-listen={free}"));
    let zone = format!("--zone={node}");
    let flags = [&join, &listen, &zone, "--log-level=warn", "--memory-bytes-max=256MiB"];
    Server::start(&dir.join(node.to_string()), &flags)
}

/// Creates the table of the load, as soon as all nodes are known to be alive.
async fn create_table(address: SocketAddr) {
    let mut client = Client::connect(address).await;
    let begun = Instant::now();
    while let Err(error) = client.try_create_table().await {
        assert!(begun.elapsed() < SOON, "no table: {error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
