//! Starting, answering, stopping.

use crate::import::{Setting, succeeded};
use crate::server::{Server, run, stderr};
use rustix::process::Signal;
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn a_started_server_is_healthy_and_ready_and_has_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.get("/healthz"), (200, "ok\n".into()));
    assert_eq!(server.get("/readyz"), (200, "ready\n".into()));
    let (status, metrics) = server.get("/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("\nstele_ready 1\n"), "{metrics}");
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').expect("a metric has a value");
        value.parse::<f64>().expect(line);
    }
    assert_eq!(server.get("/nothing").0, 404);
}

/// A page that gives its own name the address of this machine has the header and the origin that it
/// needs, but not the name.
#[test]
fn who_calls_the_server_by_another_name_learns_nothing_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--http-hosts=stele.example,other"]);
    let admin = ["GET /metrics", "GET /admin/checkpoint", "POST /admin/compactions/pause"];
    for host in ["evil.example", "evil.example:8087", "127.0.0.1.evil.example", ""] {
        for what in admin {
            let (status, said) = server.ask(what, &format!("Host: {host}\r\nx-stele-admin: 1"));
            assert_eq!(status, 421, "{what} by {host:?}: {said}");
            assert!(said.contains("http_hosts"), "{said}");
        }
        assert_eq!(server.ask("GET /readyz", &format!("Host: {host}")).0, 200);
    }
    assert!(server.get("/metrics").1.contains("\nstele_compactions_paused 0\n"));
    for host in ["127.0.0.1", "localhost:1", "[::1]:1", "STELE.example:8087", "other"] {
        assert_eq!(server.ask("GET /metrics", &format!("Host: {host}")).0, 200, "{host}");
    }
}

#[test]
fn connections_without_a_place_are_closed_and_counted_by_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--connections-per-address-max=1"]);
    let first = TcpStream::connect(server.bigtable()).unwrap();
    let line = |count| format!("stele_refused_connections_total{{reason=\"for_address\"}} {count}");
    let counted = |line: String| server.get("/metrics").1.lines().any(|have| have == line);
    // The end of a connection, by the server.
    let mut second = TcpStream::connect(server.bigtable()).unwrap();
    assert!(matches!(second.read(&mut [0]), Ok(0) | Err(_)));
    assert!(counted(line(1)), "{}", server.get("/metrics").1);
    assert!(server.get("/metrics").1.contains("\nstele_answer_bytes 0\n"));
    drop(first);
}

#[test]
fn a_server_reports_its_untracked_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let beside = || {
        let (_, metrics) = server.get("/metrics");
        let series = "stele_memory_bytes{owner=\"untracked\"} ";
        let value = |line: &str| line.strip_prefix(series)?.parse().ok();
        metrics.lines().find_map(value).unwrap_or(0u64)
    };
    // Its threads and listeners have some memory, and nobody charges it.
    let begun = Instant::now();
    while beside() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it was never told");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(beside() < 256 << 20, "{}", beside());
}

/// The runtime for scans has one thread that runs none, so a scan makes a second.
#[test]
#[cfg(target_os = "linux")]
fn scans_run_on_threads_of_a_lower_priority() {
    let setting = Setting::new();
    let file = setting.file("rows.csv", "id,name\n1,a\n2,b\n");
    succeeded(&setting.import(&file, &["--key", "id"]));
    assert_eq!(setting.cells().len(), 2);
    let (mut scans, mut others) = (Vec::new(), Vec::new());
    for thread in std::fs::read_dir(format!("/proc/{}/task", setting.server.pid())).unwrap() {
        let Ok(stat) = std::fs::read_to_string(thread.unwrap().path().join("stat")) else {
            continue;
        };
        let (name, fields) = stat.rsplit_once(')').unwrap();
        let nice: i32 = fields.split_whitespace().nth(16).unwrap().parse().unwrap();
        if name.ends_with("(stele-scan") { &mut scans } else { &mut others }.push(nice);
    }
    assert!(scans.len() >= 2, "{scans:?}");
    let usual = *others.iter().max().unwrap();
    assert!(scans.iter().all(|nice| *nice == (usual + 5).min(19)), "{scans:?} beside {others:?}");
}

#[test]
fn compactions_are_shown_paused_and_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let address = server.http().to_string();
    let admin = |what: &str, more: &[&str]| {
        let output = run(&[&["admin", what, "--http", &address], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(admin("compactions", &[]), "compactions are not paused; 0 running\n");
    assert_eq!(admin("pause-compactions", &[]), "compactions are paused; 0 running\n");
    assert_eq!(admin("compactions", &["--json"]), "{\"paused\":true,\"running\":[]}\n");
    assert!(server.get("/metrics").1.contains("\nstele_compactions_paused 1\n"));
    assert_eq!(admin("resume-compactions", &[]), "compactions are not paused; 0 running\n");
    let (status, text) = server.get("/admin/compactions");
    assert_eq!(status, 403, "a browser that was lured here: {text}");
    assert!(text.contains("x-stele-admin"), "{text}");
}

#[test]
fn admin_says_what_to_do_when_there_is_no_server() {
    // Of the ports that nobody is given.
    let free = "127.0.0.1:1";
    let output = run(&["admin", "compactions", "--http", free]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = stderr(&output);
    assert!(stderr.contains(free) && stderr.contains("--http"), "{stderr}");
}

#[test]
fn sigterm_and_sigint_end_with_status_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::start(dir.path(), &[]);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
        server.restart();
        assert!(server.terminate().success());
    }
}

#[test]
fn a_killed_server_starts_again_on_its_ports() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[]);
    let bigtable = server.bigtable();
    server.kill_9();
    server.restart();
    assert_eq!(server.bigtable(), bigtable);
    assert_eq!(server.get("/readyz").0, 200);
}

#[test]
fn the_grpc_health_service_answers() {
    use tonic::transport::Endpoint;
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let status = runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.bigtable())).unwrap();
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        client.check(HealthCheckRequest::default()).await.unwrap().into_inner().status
    });
    assert_eq!(status, ServingStatus::Serving as i32);
    let (_, metrics) = server.get("/metrics");
    let counted = "stele_grpc_request_seconds_count{code=\"OK\",method=\"Check\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
}

#[test]
fn a_port_in_use_is_refused_with_the_option_to_change() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let output = run(&[
        "serve",
        "--data-dir",
        dir,
        "--bigtable-listen",
        &address,
        "--http-listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains(&address) && said.contains("bigtable_listen"), "{said}");
}

#[test]
fn a_client_that_hangs_does_not_keep_the_server_from_stopping() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &["--drain-seconds=1"]);
    let _silent = std::net::TcpStream::connect(server.bigtable()).unwrap();
    assert_eq!(server.terminate().code(), Some(0), "{}", server.stderr());
}
