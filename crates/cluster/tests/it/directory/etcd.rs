//! A real etcd of one member, if there is one, and its failures.

use super::{SOON, at, options};
use cluster::directory::{Change, Directory, Error, EtcdDirectory, Key, Outcome, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running etcd, which is killed when it is dropped.
pub(super) struct Etcd {
    process: Child,
    pub(super) address: String,
    peers: String,
    dir: TempDir,
    arguments: Vec<String>,
}

/// Returns the program; `None` if it is missing, which fails where clients are required.
fn program() -> Option<std::ffi::OsString> {
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

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

impl Etcd {
    /// Starts an etcd, and waits until it answers.
    pub(super) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Option<Self> {
        let program = program()?;
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        for _ in 0..10 {
            let (address, peers) = (free_address(), free_address());
            let dir = tempfile::tempdir().unwrap();
            let process = run(&program, &address, &peers, &dir, &arguments);
            let mut etcd = Self { process, address, peers, dir, arguments: arguments.clone() };
            // Another process may have taken a port since it was found to be free: then etcd ends.
            if etcd.listens() {
                return Some(etcd);
            }
        }
        panic!("etcd ends again and again");
    }

    /// Waits until the port takes connections. Returns false if the process ends before.
    fn listens(&mut self) -> bool {
        let begun = Instant::now();
        while std::net::TcpStream::connect(&self.address).is_err() {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(begun.elapsed() < SOON, "etcd does not listen on {}", self.address);
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    pub(super) fn directory(&self, prefix: &str) -> Arc<dyn Directory> {
        Arc::new(EtcdDirectory::new(options(&self.address, prefix)).unwrap())
    }

    /// Ends the process as a crash does.
    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts the process again with its data.
    pub(super) fn restart(&mut self) {
        let program = program().unwrap();
        self.process = run(&program, &self.address, &self.peers, &self.dir, &self.arguments);
        assert!(self.listens(), "etcd ended");
    }
}

fn run(
    program: &std::ffi::OsStr,
    address: &str,
    peers: &str,
    dir: &TempDir,
    arguments: &Vec<String>,
) -> Child {
    let mut command = Command::new(program);
    command.arg("--data-dir").arg(dir.path().join("data"));
    command.args(["--name", "one", "--initial-cluster", &format!("one=http://{peers}")]);
    for (name, value) in [
        ("--listen-client-urls", address),
        ("--advertise-client-urls", address),
        ("--listen-peer-urls", peers),
        ("--initial-advertise-peer-urls", peers),
    ] {
        command.arg(name).arg(format!("http://{value}"));
    }
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_is_gone_is_told_in_time_and_used_again_when_it_is_back() {
    let Some(mut etcd) = Etcd::start() else { return };
    let directory = etcd.directory("stele/");
    let put = || Change::default().write(Write::put(&Key::NextTree, "1"));
    assert!(matches!(soon(directory.change(put())).await, Ok(Outcome::Done(_))));
    etcd.kill();
    let begun = Instant::now();
    for error in [
        directory.change(put()).await.unwrap_err(),
        directory.read("").await.unwrap_err(),
        directory.grant(Duration::from_secs(5)).await.unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::Unavailable(text) if text.contains(&etcd.address)),
            "{error}"
        );
    }
    assert!(begun.elapsed() < SOON);
    etcd.restart();
    assert_eq!(soon(directory.read("")).await.unwrap().items.len(), 1);
}

/// Repeats a call until the directory answers it.
async fn soon<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(SOON, call).await.expect("a call has a bound")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_endpoint_answers_for_one_that_is_gone() {
    let Some(etcd) = Etcd::start() else { return };
    let mut options = options(&etcd.address, "stele/");
    options.endpoints.insert(0, free_address());
    let directory = EtcdDirectory::new(options).unwrap();
    let put = Change::default().write(Write::put(&Key::NextTree, "1"));
    assert!(matches!(directory.change(put).await, Ok(Outcome::Done(_))));
    assert_eq!(directory.read("next/").await.unwrap().items.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_connections_and_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = at(&listener.local_addr().unwrap().to_string());
    let begun = Instant::now();
    let error = directory.read("").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert!(begun.elapsed() < SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_etcd_takes_no_changes_and_says_so() {
    let Some(etcd) = Etcd::start_with(&["--quota-backend-bytes", "1048576"]) else { return };
    let directory = etcd.directory("stele/");
    let value = vec![7; 50_000];
    for _ in 0..200 {
        let put = Change::default().write(Write::put(&Key::NextTree, value.clone()));
        match directory.change(put).await {
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error, Error::Full(_)), "{error}");
                assert!(error.to_string().contains("disarm the alarm"), "{error}");
                // The content can be read.
                assert_eq!(directory.read("").await.unwrap().items.len(), 1);
                return;
            }
        }
    }
    panic!("etcd took more than its quota");
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_share_an_etcd_by_their_prefixes() {
    let Some(etcd) = Etcd::start() else { return };
    let (one, other) = (etcd.directory("one/"), etcd.directory("other/"));
    one.change(Change::default().write(Write::put(&Key::NextTree, "1"))).await.unwrap();
    assert_eq!(other.read("").await.unwrap().items, []);
    for wrong in ["", "one"] {
        let error = EtcdDirectory::new(options(&etcd.address, wrong)).err().unwrap();
        assert!(error.to_string().contains("prefix"), "{error}");
    }
    let error = EtcdDirectory::new(options("nowhere", "one/")).err().unwrap();
    assert!(error.to_string().contains("HOST:PORT"), "{error}");
}
