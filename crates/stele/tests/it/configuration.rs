//! Flags, environment and file, and what is refused.

use crate::server::{Server, run, stderr, stele};
use std::process::Stdio;

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("stele.toml");
    let dir = |name: &str| root.path().join(name).display().to_string();
    let text = format!(
        "data_dir = '{}'\nbigtable_listen = '127.0.0.1:1'\nhttp_listen = 'nowhere'\n",
        dir("file")
    );
    std::fs::write(&file, text).unwrap();
    let mut command = stele();
    command.arg("serve").arg("--config").arg(&file).args(["--http-listen", "127.0.0.1:x"]);
    command.env("STELE_DATA_DIR", dir("environment"));
    command.env("STELE_BIGTABLE_LISTEN", "127.0.0.1:0");
    let said = stderr(&command.stdin(Stdio::null()).output().unwrap());
    assert!(said.contains("http_listen \"127.0.0.1:x\""), "the flag wins: {said}");

    command.args(["--data-dir", &dir("flag")]).args(["--bigtable-listen", "256.0.0.1:0"]);
    let said = stderr(&command.output().unwrap());
    assert!(said.contains("bigtable_listen \"256.0.0.1:0\""), "the flag wins: {said}");
    assert!(!root.path().join("file").exists() && !root.path().join("environment").exists());
}

#[test]
fn a_server_runs_from_a_file_alone() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("stele.toml");
    std::fs::write(&file, "durability = 'interval=5'\nlog_format = 'json'\n").unwrap();
    let mut server = Server::start(root.path(), &["--config", file.to_str().unwrap()]);
    assert!(server.terminate().success());
    assert!(server.stderr().lines().all(|line| line.starts_with('{')), "{}", server.stderr());
}

#[test]
fn bad_flags_and_keys_are_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("stele.toml");
    std::fs::write(&file, "durabilty = 'sync'\n").unwrap();
    let file = file.to_str().unwrap();
    for (args, wants) in [
        (vec!["--no-such-flag"], "--no-such-flag"),
        (vec!["--config", file], "durabilty"),
        (vec!["--config", "/no/such/file.toml"], "/no/such/file.toml"),
        (vec!["--durability", "sometimes"], "interval=MS"),
        (vec!["--cache-bytes-max", "64MB"], "64MiB"),
        (vec!["--cache-bytes-max", "1"], "1 MiB to memory_bytes_max"),
        (vec!["--drain-seconds", "999999"], "0 to 3600"),
        (vec!["--log-level", "a=b=c"], "log_level"),
        (vec!["--bigtable-listen", "127.0.0.1"], "HOST:PORT"),
    ] {
        let output = run(&[&["serve"], args.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(wants), "{args:?}: {}", stderr(&output));
    }
    let output = stele().arg("serve").env("STELE_DATADIR", "x").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("STELE_DATADIR"), "{}", stderr(&output));
}

#[test]
fn listening_beyond_loopback_needs_to_be_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let base = ["serve", "--data-dir", path, "--http-listen", "127.0.0.1:0"];
    for address in ["0.0.0.0:0", "[::]:0"] {
        let output = run(&[&base[..], &["--bigtable-listen", address]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("--insecure-listen"), "{}", stderr(&output));
    }
    let base = ["serve", "--data-dir", path, "--bigtable-listen", "127.0.0.1:0"];
    let output = run(&[&base[..], &["--http-listen", "0.0.0.0:0"]].concat());
    assert_eq!(output.status.code(), Some(2), "HTTP is held to the same rule");
}

#[test]
fn help_names_every_subcommand_and_version_is_printed() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    for command in ["serve", "import", "dump", "check", "repair", "version"] {
        assert!(help.contains(command), "{help}");
    }
    let version = String::from_utf8(run(&["version"]).stdout).unwrap();
    assert_eq!(version, format!("stele {}\n", env!("CARGO_PKG_VERSION")));
}
