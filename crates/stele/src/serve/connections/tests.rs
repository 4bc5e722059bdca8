use super::*;
use security::tls::{
    ClientCertificates, ClientFiles, DevNames, ServerFiles, make_dev_certificates, server_name,
};
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

struct Doors {
    dir: tempfile::TempDir,
    address: SocketAddr,
    tls: CurrentTls,
    metrics: SecurityMetrics,
    ready: mpsc::Receiver<Connection>,
}

fn files(dir: &Path) -> ServerFiles {
    ServerFiles {
        certificate: dir.join("server.pem"),
        key: dir.join("server-key.pem"),
        clients: ClientCertificates::Optional(dir.join("ca.pem")),
    }
}

async fn doors(limits: Limits) -> Doors {
    let dir = tempfile::tempdir().unwrap();
    make_dev_certificates(dir.path(), &DevNames::default()).unwrap();
    let tls = Arc::new(ArcSwap::from_pointee(files(dir.path()).load().unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = SecurityMetrics::new();
    let ready = accept(listener, Front::Bigtable, Some(tls.clone()), &metrics, limits);
    Doors { dir, address, tls, metrics, ready }
}

impl Doors {
    /// Connects with these files and protocol; nothing if the handshake fails.
    async fn connect(
        &self,
        files: ClientFiles,
        protocol: &str,
    ) -> Option<tokio_rustls::client::TlsStream<TcpStream>> {
        let connector = TlsConnector::from(files.load(protocol).unwrap());
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = server_name(&self.address.to_string()).unwrap();
        connector.connect(name, stream).await.ok()
    }

    fn trusting(&self) -> ClientFiles {
        ClientFiles { ca: Some(self.dir.path().join("ca.pem")), certificate: None }
    }

    fn known(&self) -> ClientFiles {
        let file = |name: &str| self.dir.path().join(name);
        ClientFiles {
            certificate: Some((file("client.pem"), file("client-key.pem"))),
            ..self.trusting()
        }
    }

    fn counted(&self, line: &str) -> bool {
        self.metrics.render().unwrap().lines().any(|have| have == line)
    }
}

#[tokio::test]
async fn a_secured_connection_carries_bytes_and_the_name_of_its_client() {
    let mut doors = doors(Limits::default()).await;
    for (files, want) in [(doors.known(), Some("cert:client")), (doors.trusting(), None)] {
        let mut client = doors.connect(files, "h2").await.unwrap();
        let mut server = doors.ready.recv().await.unwrap();
        assert_eq!(server.peer().identity.as_deref(), want);
        assert!(doors.counted("stele_connections{listener=\"bigtable\"} 1"));
        client.write_all(b"hello").await.unwrap();
        let mut got = [0; 5];
        server.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"hello");
        drop(server);
        assert!(doors.counted("stele_connections{listener=\"bigtable\"} 0"));
    }
    assert!(doors.counted("stele_tls_handshakes_total{listener=\"bigtable\",outcome=\"done\"} 2"));
}

#[tokio::test]
async fn a_stranger_does_not_get_in() {
    let mut doors = doors(Limits::default()).await;
    let other = tempfile::tempdir().unwrap();
    make_dev_certificates(other.path(), &DevNames::default()).unwrap();
    let file = |name: &str| other.path().join(name);
    let foreign = ClientFiles {
        certificate: Some((file("client.pem"), file("client-key.pem"))),
        ..doors.trusting()
    };
    // With TLS 1.3 a client learns that its certificate was refused when it first reads.
    if let Some(mut client) = doors.connect(foreign, "h2").await {
        assert!(client.read(&mut [0]).await.is_err());
    }
    assert!(doors.connect(doors.trusting(), "http/1.1").await.is_none(), "another protocol");
    let mut plain = TcpStream::connect(doors.address).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // The alert of TLS, or a reset: in any case the end.
    let _ = plain.read_to_end(&mut answer).await;
    let honest = doors.connect(doors.known(), "h2").await;
    assert!(honest.is_some());
    let server = doors.ready.recv().await.unwrap();
    assert_eq!(server.peer().identity.as_deref(), Some("cert:client"), "nobody else came");
    assert!(
        doors.counted("stele_tls_handshakes_total{listener=\"bigtable\",outcome=\"failed\"} 3")
    );
}

#[tokio::test]
async fn a_silent_client_is_closed_in_time() {
    let limits = Limits { handshake: Duration::from_millis(20), ..Limits::default() };
    let doors = doors(limits).await;
    let mut silent = TcpStream::connect(doors.address).await.unwrap();
    assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
    assert!(
        doors.counted("stele_tls_handshakes_total{listener=\"bigtable\",outcome=\"timed_out\"} 1")
    );
}

#[tokio::test]
async fn silent_clients_make_nobody_wait() {
    let limits = Limits { handshake: Duration::from_secs(3_600), handshakes_max: 2 };
    let mut doors = doors(limits).await;
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(TcpStream::connect(doors.address).await.unwrap());
    }
    assert_eq!(silent[0].read(&mut [0]).await.unwrap(), 0, "the oldest gave way");
    assert!(
        doors
            .counted("stele_tls_handshakes_total{listener=\"bigtable\",outcome=\"crowded_out\"} 1")
    );
    assert!(doors.connect(doors.known(), "h2").await.is_some());
    assert!(doors.ready.recv().await.is_some());
}

#[tokio::test]
async fn a_handshake_takes_the_certificates_of_the_moment() {
    let mut doors = doors(Limits::default()).await;
    let old = doors.trusting();
    assert!(doors.connect(old.clone(), "h2").await.is_some());
    assert!(doors.ready.recv().await.is_some());
    let fresh = tempfile::tempdir().unwrap();
    make_dev_certificates(fresh.path(), &DevNames::default()).unwrap();
    doors.tls.store(Arc::new(files(fresh.path()).load().unwrap()));
    assert!(doors.connect(old, "h2").await.is_none());
    let new = ClientFiles { ca: Some(fresh.path().join("ca.pem")), certificate: None };
    assert!(doors.connect(new, "h2").await.is_some());
}

#[tokio::test]
async fn the_listener_closes_with_its_front() {
    let doors = doors(Limits::default()).await;
    let address = doors.address;
    drop(doors.ready);
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
