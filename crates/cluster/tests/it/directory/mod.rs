//! One suite for every implementation of a directory, and what is built on it.

mod conformance;
mod etcd;
mod faulty;
mod meta;
mod mirror;
mod nodes;
mod restored;

use base::env::SystemClock;
use cluster::directory::{Directory, EtcdDirectory, EtcdOptions, LocalDirectory};
use engine::ClusterId;
use etcd::Etcd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(60);

/// The cluster of the tests.
const OURS: ClusterId = ClusterId(5);

/// A directory of a test, with what must live as long.
struct Tried {
    directory: Arc<dyn Directory>,
    _etcd: Option<Etcd>,
    _dir: TempDir,
}

/// Returns an empty directory of each kind.
fn each() -> Vec<Tried> {
    let dir = tempfile::tempdir().unwrap();
    let file = LocalDirectory::new(dir.path().join("directory"), Arc::new(SystemClock));
    let mut all = vec![Tried { directory: Arc::new(file), _etcd: None, _dir: dir }];
    if let Some(etcd) = Etcd::start() {
        let dir = tempfile::tempdir().unwrap();
        all.push(Tried { directory: etcd.directory("stele/"), _etcd: Some(etcd), _dir: dir });
    }
    all
}

fn options(address: &str, prefix: &str) -> EtcdOptions {
    EtcdOptions { endpoints: vec![address.to_owned()], tls: None, prefix: prefix.to_owned() }
}

fn at(address: &str) -> EtcdDirectory {
    EtcdDirectory::new(options(address, "stele/")).unwrap()
}

fn local(path: &Path) -> LocalDirectory {
    LocalDirectory::new(path, Arc::new(SystemClock))
}

/// Runs blocking calls apart from the runtime's tasks.
async fn apart<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(call).await.unwrap()
}

/// Waits until `holds` returns true.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
