//! CPU and heap profiles of the real server.

use crate::server::Server;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Upper bound for what a server does soon.
const PATIENCE: Duration = Duration::from_secs(120);

/// Keeps the server busy with scrapes while `work` runs.
fn while_busy<T>(server: &Server, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                server.get("/metrics");
            }
        });
        let made = work();
        done.store(true, Ordering::Relaxed);
        made
    })
}

#[test]
fn a_flame_graph_shows_what_the_server_does() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let begun = Instant::now();
    // A machine with much else to do may give the server nothing for a second.
    while_busy(&server, || {
        loop {
            let (status, svg) = server.get("/debug/pprof/profile?seconds=1&format=svg");
            assert_eq!(status, 200, "{svg}");
            assert!(svg.contains("<svg "), "{svg}");
            if svg.contains("stele::serve::") {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "no function of the server is in\n{svg}");
        }
    });
    for (path, words) in [
        ("/debug/pprof/profile?seconds=61", "from 1 to 60"),
        ("/debug/pprof/profile?second=1", "is no parameter"),
    ] {
        let (status, text) = server.get(path);
        assert_eq!(status, 400, "{path}");
        assert!(text.contains(words), "{path}: {text}");
    }
    let headers = format!("Host: {}\r\nSec-Fetch-Site: cross-site", server.http());
    assert_eq!(server.ask("GET /debug/pprof/profile?seconds=1", &headers).0, 403);
    assert_eq!(server.ask("GET /debug/pprof/profile?seconds=1", "Host: evil.example").0, 421);
    let headers = format!("Host: {}\r\nX-Forwarded-For: 192.0.2.7", server.http());
    for kind in ["profile?seconds=1", "heap"] {
        assert_eq!(server.ask(&format!("GET /debug/pprof/{kind}"), &headers).0, 403, "{kind}");
    }
}

#[test]
fn a_second_profile_is_refused_until_the_client_of_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[]);
    let (host, begun) = (server.http(), Instant::now());
    let ask = || server.get("/debug/pprof/profile?seconds=1&format=svg");
    // The second request may come before the first; then both are made again.
    let (first, refused) = loop {
        let mut first = TcpStream::connect(host).unwrap();
        let request = "GET /debug/pprof/profile?seconds=60 HTTP/1.1";
        write!(first, "{request}\r\nHost: {host}\r\n\r\n").unwrap();
        let (status, text) = ask();
        if status == 409 {
            break (first, text);
        }
        assert!(begun.elapsed() < PATIENCE, "{status}: {text}");
    };
    assert!(refused.contains("another profile is being recorded"), "{refused}");
    drop(first);
    loop {
        let (status, text) = ask();
        if status == 200 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{status}: {text}");
    }
    assert!(server.terminate().success());
}

#[test]
fn a_heap_profile_shows_what_the_server_has_allocated() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(dir.path(), &["--heap-sample-bytes=16KiB"]);
    let (status, svg) = server.get("/debug/pprof/heap?format=svg");
    assert_eq!(status, 200, "{svg}");
    assert!(svg.contains(">Heap profile<") && svg.contains("stele::serve::"), "{svg}");
    let (status, text) = server.get("/debug/pprof/heap?seconds=1");
    assert_eq!((status, text.contains("use format")), (400, true), "{text}");
    let headers = format!("Host: {}\r\nSec-Fetch-Site: cross-site", server.http());
    assert_eq!(server.ask("GET /debug/pprof/heap", &headers).0, 403);
    let without = Server::start(other.path(), &["--heap-sample-bytes=0"]);
    let (status, text) = without.get("/debug/pprof/heap?format=svg");
    assert_eq!((status, text.contains("set heap_sample_bytes")), (503, true), "{text}");
}
