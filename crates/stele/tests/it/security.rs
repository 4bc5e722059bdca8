//! Identities, policies and the audit log of the real server.

use crate::server::{Server, run, stderr, stele};
use crate::tls::Certificates;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Upper bound for what a server does on a signal.
const PATIENCE: Duration = Duration::from_secs(60);

/// Files of a server that knows its clients.
struct Files(tempfile::TempDir);

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn flag(&self, option: &str, name: &str) -> String {
        format!("--{option}={}", self.path(name).display())
    }

    /// Makes an identity with a token in a file.
    fn token(&self, name: &str) -> String {
        let output = run(&["identity", "token", name, &self.flag("identities", "identities")]);
        assert!(output.status.success(), "{}", stderr(&output));
        std::fs::write(self.path(name), &output.stdout).unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn policy(&self, bindings: &[(&str, &str)]) {
        let binding = |(role, member): &(&str, &str)| {
            format!("[[bindings]]\nrole = '{role}'\nmembers = ['{member}']\nresource = '*'\n")
        };
        let text: String = bindings.iter().map(binding).collect();
        std::fs::write(self.path("policy"), text).unwrap();
    }

    fn flags(&self) -> Vec<String> {
        let options = [("identities", "identities"), ("policy", "policy"), ("audit-log", "audit")];
        options.map(|(option, name)| self.flag(option, name)).into()
    }

    /// Audit lines so far, once there are as many.
    fn audit(&self, count: usize) -> Vec<serde_json::Value> {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(self.path("audit")).unwrap();
            if text.lines().count() >= count && text.ends_with('\n') {
                return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            }
            assert!(begun.elapsed() < PATIENCE, "{count} lines were not written:\n{text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn start(files: &Files, dir: &Path) -> Server {
    let flags = files.flags();
    Server::start(dir, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

fn bearer(token: &str) -> String {
    format!("Host: localhost\r\nAuthorization: Bearer {token}\r\nx-stele-admin: 1")
}

#[test]
fn http_answers_known_identities_what_the_policy_allows() {
    let files = Files(tempfile::tempdir().unwrap());
    let (monitor, operator) = (files.token("monitor"), files.token("operator"));
    files.policy(&[("stele.monitor", "token:monitor"), ("stele.operator", "token:operator")]);
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(&files, dir.path());
    for (who, what, want) in [
        (&monitor, "GET /metrics", 200),
        (&monitor, "GET /admin/compactions", 200),
        (&monitor, "POST /admin/compactions/pause", 403),
        (&monitor, "GET /admin/checkpoint", 403),
        (&monitor, "GET /debug/pprof/profile?seconds=1", 403),
        (&operator, "GET /debug/pprof/profile?seconds=0", 400),
        (&operator, "POST /admin/compactions/pause", 200),
        (&operator, "GET /admin/checkpoint", 200),
        (&"wrong".to_owned(), "GET /metrics", 401),
        (&String::new(), "GET /admin/compactions", 401),
    ] {
        let (status, said) = server.ask(what, &bearer(who));
        assert_eq!(status, want, "{what}: {said}");
        assert!(who.is_empty() || !said.contains(who.as_str()), "{said}");
    }
    assert_eq!(server.get("/metrics").0, 401, "no credentials");
    for probe in ["/healthz", "/readyz"] {
        assert_eq!(server.get(probe).0, 200, "{probe}");
    }
    let (_, metrics) = server.ask("GET /metrics", &bearer(&monitor));
    for line in [
        "stele_refused_calls_total{reason=\"credentials\"} 3",
        "stele_refused_calls_total{reason=\"permission\"} 3",
        "stele_refused_calls_total{reason=\"uploads_of_identity\"} 0",
    ] {
        assert!(metrics.lines().any(|have| have == line), "{line} not in\n{metrics}");
    }
    let lines = files.audit(7);
    let told = |line: &serde_json::Value| {
        let text = |field: &str| line[field].as_str().unwrap().to_owned();
        format!("{} {} {}", text("identity"), text("method"), text("result"))
    };
    assert_eq!(
        lines.iter().map(told).collect::<Vec<_>>(),
        [
            "token:monitor POST /admin/compactions/pause PERMISSION_DENIED",
            "token:monitor GET /admin/checkpoint PERMISSION_DENIED",
            "token:monitor GET /debug/pprof/profile PERMISSION_DENIED",
            "token:operator POST /admin/compactions/pause OK",
            " GET /metrics UNAUTHENTICATED",
            " GET /admin/compactions UNAUTHENTICATED",
            " GET /metrics UNAUTHENTICATED",
        ]
    );
    assert!(server.terminate().success());
    for text in [server.stderr(), std::fs::read_to_string(files.path("audit")).unwrap()] {
        assert!(!text.contains(&monitor) && !text.contains(&operator), "a token was logged");
    }
}

#[test]
fn a_server_that_stops_has_written_every_line_of_the_audit_log() {
    let files = Files(tempfile::tempdir().unwrap());
    files.token("monitor");
    files.policy(&[("stele.monitor", "token:monitor")]);
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(&files, dir.path());
    for _ in 0..50 {
        assert_eq!(server.get("/metrics").0, 401);
    }
    assert!(server.terminate().success());
    let text = std::fs::read_to_string(files.path("audit")).unwrap();
    assert_eq!((text.lines().count(), text.ends_with('\n')), (50, true));
}

#[test]
fn a_policy_is_read_again_and_a_broken_one_keeps_the_old() {
    let files = Files(tempfile::tempdir().unwrap());
    let token = files.token("monitor");
    files.policy(&[("stele.monitor", "token:monitor")]);
    let dir = tempfile::tempdir().unwrap();
    let server = start(&files, dir.path());
    let metrics = || server.ask("GET /metrics", &bearer(&token));
    let wait_for = |line: &str| {
        let begun = Instant::now();
        while !metrics().1.lines().any(|have| have.starts_with(line)) {
            assert!(begun.elapsed() < PATIENCE, "no {line}: {}", server.stderr());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    std::fs::write(files.path("policy"), "[[bindings]]\nrole = 'nothing'\n").unwrap();
    server.signal(Signal::HUP);
    wait_for("stele_reloads_total{outcome=\"failed\",what=\"policy\"}");
    // The new policy no longer lets the monitor in.
    files.policy(&[("stele.operator", "token:other")]);
    server.signal(Signal::HUP);
    let begun = Instant::now();
    while metrics().0 != 403 {
        assert!(begun.elapsed() < PATIENCE, "{}", server.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn commands_bring_certificates_and_tokens() {
    let files = Files(tempfile::tempdir().unwrap());
    files.token("loader");
    files.policy(&[("bigtable.admin", "token:loader"), ("stele.operator", "cert:client")]);
    let (dir, certificates) = (tempfile::tempdir().unwrap(), Certificates::make());
    let mut flags = files.flags();
    flags.push(certificates.flag("tls-cert", "server.pem"));
    flags.push(certificates.flag("tls-key", "server-key.pem"));
    flags.push(certificates.flag("tls-client-ca", "ca.pem"));
    let server = Server::start(
        &dir.path().join("data"),
        &flags.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let endpoint = format!("https://localhost:{}", server.bigtable().port());
    let http = format!("https://localhost:{}", server.http().port());

    let rows = files.path("rows.csv");
    std::fs::write(&rows, "id,name\n1,ann\n2,bob\n").unwrap();
    let import = |more: &[String]| {
        let mut command = stele();
        command.args(["import", "--table=t", "--create-table"]);
        command.args(["--format=csv", "--key=id", "--family=f", "--restart"]);
        command.arg(format!("--endpoint={endpoint}")).args(more).arg(&rows);
        command.output().unwrap()
    };
    let ca = certificates.flag("server-ca", "ca.pem");
    let token = files.flag("token-file", "loader");
    let done = import(&[ca.clone(), token.clone()]);
    assert!(done.status.success(), "{}", stderr(&done));
    for (more, said) in
        [(vec![ca.clone()], "no valid credentials"), (vec![token], "no server responds")]
    {
        let refused = import(&more);
        assert!(!refused.status.success());
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }

    let cert = [
        certificates.flag("client-cert", "client.pem"),
        certificates.flag("client-key", "client-key.pem"),
    ];
    let with = |words: &[&str]| {
        let output = stele().args(words).arg(&ca).args(&cert).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let told = with(&["admin", "compactions", "--http", &http]);
    assert!(told.starts_with("compactions are not paused"), "{told}");
    let copy = dir.path().join("data/copy");
    with(&["checkpoint", &http, copy.to_str().unwrap()]);
    assert!(copy.join("CURRENT").exists());
    let backups = dir.path().join("backups");
    with(&["backup", &http, "--to", backups.to_str().unwrap()]);
    let outside = dir.path().join("outside");
    let refused = stele()
        .args(["checkpoint", &http, outside.to_str().unwrap()])
        .arg(&ca)
        .args(&cert)
        .output()
        .unwrap();
    assert!(stderr(&refused).contains("checkpoint_dir"), "{}", stderr(&refused));
    assert!(!outside.exists());
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let plain = run(&["admin", "compactions", "--http=127.0.0.1:1", "--server-ca=ca.pem"]);
    assert_eq!(plain.status.code(), Some(2));
    assert!(stderr(&plain).contains("use https://127.0.0.1:1"), "{}", stderr(&plain));
    let half = run(&["admin", "compactions", "--http=https://127.0.0.1:1", "--client-cert=c.pem"]);
    assert!(stderr(&half).contains("client-key"), "{}", stderr(&half));
    let dir = tempfile::tempdir().unwrap();
    let list = stele()
        .args(["backup", "list", "--from", dir.path().to_str().unwrap()])
        .env("STELE_TOKEN_FILE", "token")
        .output()
        .unwrap();
    assert!(list.status.success(), "{}", stderr(&list));
}
