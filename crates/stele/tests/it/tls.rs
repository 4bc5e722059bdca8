//! TLS of the real server: who gets in, and certificates that change while it runs.

use crate::server::{Server, run, stderr};
use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use security::tls::ClientFiles;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Upper bound for what a server does on a signal.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory of `stele cert dev`.
pub(crate) struct Certificates(tempfile::TempDir);

impl Certificates {
    pub(crate) fn make() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let output = run(&["cert", "dev", dir.path().join("certs").to_str().unwrap()]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 6);
        Self(dir)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join("certs").join(name)
    }

    /// An option of the command line that names a file.
    pub(crate) fn flag(&self, option: &str, name: &str) -> String {
        format!("--{option}={}", self.file(name).display())
    }

    fn trusting(&self) -> ClientFiles {
        ClientFiles { ca: Some(self.file("ca.pem")), certificate: None }
    }

    fn known(&self) -> ClientFiles {
        let pair = (self.file("client.pem"), self.file("client-key.pem"));
        ClientFiles { certificate: Some(pair), ..self.trusting() }
    }

    /// Copies the certificate and the key of the server into `dir`.
    fn copy_server(&self, dir: &Path) {
        for name in ["server.pem", "server-key.pem"] {
            std::fs::copy(self.file(name), dir.join(name)).unwrap();
        }
    }
}

/// `GET path` by TLS: the whole answer.
fn get(server: &Server, files: &ClientFiles, path: &str) -> std::io::Result<String> {
    let config = files.load("http/1.1").unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(config, name).map_err(std::io::Error::other)?;
    let stream = TcpStream::connect(server.http())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(client, stream);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_server_with_certificates_speaks_tls_only_and_knows_its_clients() {
    let (dir, certificates) = (tempfile::tempdir().unwrap(), Certificates::make());
    let flags = [
        certificates.flag("tls-cert", "server.pem"),
        certificates.flag("tls-key", "server-key.pem"),
        certificates.flag("tls-client-ca", "ca.pem"),
    ];
    let mut server = Server::start(dir.path(), &flags.each_ref().map(String::as_str));
    let metrics = get(&server, &certificates.known(), "/metrics").unwrap();
    let done = "stele_tls_handshakes_total{listener=\"http\",outcome=\"done\"} 1";
    assert!(metrics.contains(done), "{metrics}");
    assert!(metrics.contains("\nstele_connections{listener=\"http\"} 1\n"), "{metrics}");
    assert!(get(&server, &certificates.trusting(), "/healthz").is_err(), "no certificate");
    assert!(get(&server, &Certificates::make().known(), "/healthz").is_err(), "another CA");
    let mut plain = TcpStream::connect(server.http()).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    assert!(server.terminate().success(), "{}", server.stderr());
}

#[test]
fn certificates_are_read_again_on_a_hangup_and_broken_ones_keep_the_old() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (Certificates::make(), Certificates::make());
    first.copy_server(dir.path());
    let flag = |option: &str, name: &str| format!("--{option}={}", dir.path().join(name).display());
    let flags = [flag("tls-cert", "server.pem"), flag("tls-key", "server-key.pem")];
    let data = dir.path().join("data");
    let server = Server::start(&data, &flags.each_ref().map(String::as_str));
    assert!(get(&server, &first.trusting(), "/healthz").is_ok());

    // A new certificate with the old key, as in the middle of a careless change.
    std::fs::copy(second.file("server.pem"), dir.path().join("server.pem")).unwrap();
    server.signal(Signal::HUP);
    wait_for(&server, &first.trusting(), "stele_reloads_total{outcome=\"failed\",what=\"tls\"}");
    assert!(server.stderr().contains("does not go with the key"), "{}", server.stderr());
    second.copy_server(dir.path());
    server.signal(Signal::HUP);
    wait_for(&server, &second.trusting(), "stele_reloads_total{outcome=\"done\",what=\"tls\"}");
    assert!(get(&server, &first.trusting(), "/healthz").is_err(), "the old one is gone");
}

#[test]
fn a_node_reads_the_certificates_for_other_nodes_again() {
    let (dir, certificates) = (tempfile::tempdir().unwrap(), Certificates::make());
    let directory = format!("file:{}", dir.path().join("directory").display());
    let founded = run(&["cluster", "init", "--etcd", &directory, "--replicas", "1"]);
    assert!(founded.status.success(), "{}", stderr(&founded));
    let flags = [
        certificates.flag("tls-cert", "server.pem"),
        certificates.flag("tls-key", "server-key.pem"),
        certificates.flag("tls-client-ca", "ca.pem"),
        format!("--join={directory}"),
        "--cluster-listen=127.0.0.1:0".to_owned(),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let mut server = Server::start(&dir.path().join("data"), &flags);
    server.signal(Signal::HUP);
    wait_for(
        &server,
        &certificates.known(),
        "stele_reloads_total{outcome=\"done\",what=\"links\"}",
    );
    std::fs::write(certificates.file("ca.pem"), "none").unwrap();
    server.signal(Signal::HUP);
    let begun = Instant::now();
    while !server.stderr().contains("ca.pem") {
        assert!(begun.elapsed() < PATIENCE, "{}", server.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.terminate().success(), "{}", server.stderr());
}

/// Waits until the metrics have a line that starts so.
fn wait_for(server: &Server, files: &ClientFiles, line: &str) {
    let begun = Instant::now();
    loop {
        let metrics = get(server, files, "/metrics").unwrap_or_default();
        if metrics.lines().any(|have| have.starts_with(line)) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "no {line} in\n{metrics}\n{}", server.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn certificates_that_cannot_be_used_are_refused_before_anything_is_touched() {
    let (dir, certificates) = (tempfile::tempdir().unwrap(), Certificates::make());
    let data = dir.path().join("data");
    let output = run(&[
        "serve",
        &format!("--data-dir={}", data.display()),
        "--bigtable-listen=0.0.0.0:0",
        &certificates.flag("tls-cert", "client.pem"),
        &certificates.flag("tls-key", "server-key.pem"),
        &certificates.flag("tls-client-ca", "ca.pem"),
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("does not go with the key"), "{}", stderr(&output));
    assert!(!data.exists());
    let again = run(&["cert", "dev", certificates.file("").to_str().unwrap()]);
    assert!(stderr(&again).contains("ca.pem: exists"), "{}", stderr(&again));
}
