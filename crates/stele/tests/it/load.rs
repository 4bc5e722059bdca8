//! `stele load` against a real server: every workload, several processes, lost data, wrong flags.

use crate::server::{Server, run, stderr, stele};
use crate::tls::Certificates;
use data::bigtable_client::BigtableClient;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use tonic::transport::Endpoint;

/// A server with a directory for reports.
struct Setting {
    root: tempfile::TempDir,
    server: Server,
}

impl Setting {
    fn new(flags: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let server = Server::start(&root.path().join("data"), flags);
        Self { root, server }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Runs `load` with the words of `line`; `json` names its report.
    fn load(&self, line: &str, json: &str) -> Output {
        let mut command = stele();
        command.arg("load").args(line.split_whitespace());
        command.arg("--endpoint").arg(self.server.bigtable().to_string());
        command.arg("--json").arg(self.file(json));
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn report(&self, json: &str) -> Value {
        read(&self.file(json))
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn count(report: &Value, operation: &str) -> u64 {
    report["operations"][operation]["count"].as_u64().unwrap_or(0)
}

#[test]
fn every_workload_runs_and_verifies_what_it_reads() {
    let setting = Setting::new(&["--durability=none"]);
    let few = "--connections 2 --quiet --duration 60s";
    for (line, kinds) in [
        (
            "key-value --num-unique-keys 200 --num-threads-write 2 --num-threads-read 2 \
             --num-writes 300 --num-reads 300 --value-size 64",
            &[("insert", 199), ("update", 101), ("read", 300)][..],
        ),
        ("ycsb a --rows 100 --threads 4 --operations 300", &[("read", 1), ("update", 1)]),
        ("ycsb b --rows 100 --threads 4 --operations 300", &[("read", 1), ("update", 1)]),
        ("ycsb c --rows 100 --threads 4 --operations 300", &[("read", 300)]),
        ("ycsb d --rows 100 --threads 4 --operations 300", &[("read", 1), ("insert", 1)]),
        ("ycsb e --rows 100 --threads 4 --operations 300", &[("scan", 1), ("insert", 1)]),
        (
            "ycsb e --rows 100 --threads 4 --operations 300 --key-order ordered",
            &[("scan", 1), ("insert", 1)],
        ),
        ("ycsb f --rows 100 --threads 4 --operations 300", &[("read-modify-write", 1)]),
        (
            "time-series --series 20 --num-threads-write 4 --num-threads-read 4 --num-writes 200 \
             --num-reads 200",
            &[("insert", 200), ("read-series", 200)],
        ),
        (
            "wide-rows --rows 5 --columns 200 --threads 4 --operations 300 \
             --whole-row-proportion 0.2",
            &[("read", 1), ("update", 1)],
        ),
        ("hot-keys --rows 100 --threads 4 --operations 300", &[("read", 1), ("update", 1)]),
        (
            "missing-keys --rows 100 --missing 0.5 --threads 4 --operations 300",
            &[("read-missing", 1)],
        ),
        (
            "scans --rows 500 --max-scan-length 50 --threads 4 --operations 200 \
             --update-proportion 0.3",
            &[("scan", 1), ("update", 1)],
        ),
    ] {
        let said = succeeded(&setting.load(&format!("{line} {few}"), "report.json"));
        assert!(said.contains("values: all right"), "{line}: {said}");
        let report = setting.report("report.json");
        for (kind, least) in kinds {
            assert!(count(&report, kind) >= *least, "{line}: {kind} in {report}");
        }
        assert_eq!(report["ended"], "count", "{line}");
        assert!(report["verification"]["values"].as_u64().unwrap() > 50, "{line}");
        assert_eq!(report["schema"], 1);
    }
}

#[test]
fn an_open_loop_keeps_its_account_and_a_page_is_written() {
    let setting = Setting::new(&["--durability=none"]);
    let page = setting.file("report.html");
    let line = format!(
        "hot-keys --rows 50 --threads 4 --rate 400 --arrivals constant --duration 1s --warm-up 500ms \
         --title <b>&x --html {}",
        page.display()
    );
    let output = setting.load(&line, "report.json");
    let said = succeeded(&output);
    assert!(said.contains("open loop at 400 a second"), "{said}");
    let report = setting.report("report.json");
    let open = &report["open_loop"];
    let number = |name: &str| open[name].as_u64().unwrap();
    let done: u64 = ["read", "update"].map(|kind| count(&report, kind)).iter().sum();
    // 600 are due in 1.5 seconds, of which a third belongs to the warm-up.
    assert!(number("due") >= 500, "{report}");
    assert!(done <= number("due"), "{report}");
    assert!(stderr(&output).contains("(warm-up)"), "{}", stderr(&output));
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("&lt;b&gt;&amp;x") && !html.contains("<b>&x"), "the title is escaped");
    assert!(html.contains("<svg") && !html.contains("<script") && !html.contains("http://www"));
    let again = setting.file("again.html");
    let json = setting.file("report.json");
    let args = ["load", "report", json.to_str().unwrap(), "--html", again.to_str().unwrap()];
    succeeded(&run(&args));
    assert_eq!(std::fs::read_to_string(again).unwrap(), html);
}

#[test]
fn every_operation_that_was_due_is_in_the_account_of_an_open_loop() {
    let setting = Setting::new(&["--durability=none"]);
    let kinds = ["insert", "update", "read"];
    let account = |report: &Value| {
        let operations = &report["operations"];
        let failed = |kind: &&str| {
            let errors = operations[*kind]["errors"].as_object();
            errors.map_or(0, |errors| errors.values().filter_map(Value::as_u64).sum())
        };
        let failed: u64 = kinds.iter().map(failed).sum();
        let done: u64 = kinds.iter().map(|kind| count(report, kind)).sum();
        let number = |name: &str| report["open_loop"][name].as_u64().unwrap();
        let never = number("left_out") + number("not_begun");
        let unanswered = kinds.map(|kind| operations[kind]["unanswered"].as_u64().unwrap_or(0));
        assert!(unanswered.iter().sum::<u64>() >= never, "{report}");
        (number("due"), done + failed + never)
    };
    // Far more than one worker can do, so that the backlog is full.
    let line = "key-value --num-unique-keys 50 --num-threads-write 0 --num-threads-read 1 --warm-up 0 \
                --rate 200000 --backlog 100 --duration 1s --quiet";
    let said = succeeded(&setting.load(line, "report.json"));
    assert!(said.contains("x read without an answer"), "{said}");
    let (due, told) = account(&setting.report("report.json"));
    assert_eq!(due, told);
    // Nothing is due in a lane that has reached its limit.
    let line = "key-value --num-unique-keys 50 --num-threads-write 2 --num-threads-read 2 --rate 2000 \
                --num-writes 20 --num-reads 400 --duration 60s --quiet";
    succeeded(&setting.load(line, "report.json"));
    let report = setting.report("report.json");
    assert_eq!((account(&report), &report["ended"]), ((420, 420), &Value::from("count")));
}

#[test]
fn processes_of_a_run_are_merged() {
    let setting = Setting::new(&["--durability=none"]);
    let line = "ycsb e --rows 90 --threads 2 --operations 120 --key-order ordered --seed 9 --quiet";
    for part in 0..3 {
        let json = format!("{part}.json");
        succeeded(&setting.load(&format!("{line} --process {part}/3"), &json));
    }
    let paths = [0, 1, 2].map(|part| setting.file(&format!("{part}.json")));
    // The processes worked one after the other. Their reports get one time.
    for path in &paths {
        let mut report = read(path);
        report["started_ms"] = 1_700_000_000_000i64.into();
        report["seconds"] = 2.0.into();
        std::fs::write(path, report.to_string()).unwrap();
    }
    let paths = paths.each_ref().map(|path| path.to_str().unwrap());
    let merged = setting.file("merged.json");
    let to = ["--json", merged.to_str().unwrap()];
    let said = succeeded(&run(&[&["load", "merge"], &paths[..], &to].concat()));
    assert!(said.contains("process 2/3: "), "{said}");
    let report = read(&merged);
    assert_eq!(count(&report, "scan") + count(&report, "insert"), 120);
    assert_eq!(report["fill"]["rows"], 90);
    assert_eq!(report["settings"]["process"], "3 of 3");
    assert_eq!(report["seconds"], 2.0);
    let few = run(&["load", "merge", paths[0], paths[2]]);
    assert!(stderr(&few).contains("process 1/3 is missing"), "{}", stderr(&few));
    let twice = run(&["load", "merge", paths[0], paths[0]]);
    assert!(!twice.status.success());
    assert!(stderr(&twice).contains("process 0/3 and process 0/3"), "{}", stderr(&twice));
}

/// Overwrites one cell of the table `load` behind the loader's back.
fn overwrite(server: &Server, row: &str, value: &'static str) {
    let set = data::mutation::SetCell {
        family_name: "f".to_owned(),
        column_qualifier: "c00000".into(),
        // Newer than all that the loader writes.
        timestamp_micros: 4_000_000_000_000_000,
        value: value.into(),
    };
    let mutation = data::Mutation { mutation: Some(data::mutation::Mutation::SetCell(set)) };
    let request = data::MutateRowRequest {
        table_name: "projects/local/instances/local/tables/load".to_owned(),
        row_key: row.to_owned().into(),
        mutations: vec![mutation],
        ..Default::default()
    };
    let endpoint = Endpoint::from_shared(format!("http://{}", server.bigtable())).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = BigtableClient::new(endpoint.connect().await.unwrap());
        client.mutate_row(request).await.unwrap();
    });
}

#[test]
fn a_planted_wrong_value_is_found_and_the_command_fails() {
    let setting = Setting::new(&["--durability=none"]);
    let write = "key-value --uuid mine --num-unique-keys 20 --num-threads-write 1 \
                 --num-threads-read 0 --num-writes 20 --quiet";
    succeeded(&setting.load(write, "write.json"));
    // Readers without a limit do not keep a run whose writers are done.
    let both = "key-value --num-unique-keys 20 --num-threads-write 1 --num-threads-read 1 \
                --num-writes 30 --quiet";
    succeeded(&setting.load(both, "both.json"));
    assert_eq!(setting.report("both.json")["ended"], "count");
    let read = "key-value --uuid mine --num_unique_keys 20 --read_only --num-threads-read 2 \
                --num-reads 400 --quiet";
    succeeded(&setting.load(read, "read.json"));
    let row = format!("{}:7", setting.report("read.json")["data"].as_str().unwrap());
    assert!(row.starts_with("mine-"), "{row}");
    overwrite(&setting.server, &row, "tampered");
    let output = setting.load(read, "read.json");
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains(&format!("WRONG wrong-value: row {row}: column 0")), "{text}");
    assert!(text.contains("answers were wrong"), "{text}");
    let report = setting.report("read.json");
    let wrong = report["verification"]["wrong"]["wrong-value"].as_u64().unwrap();
    assert!(wrong > 0, "{report}");
    assert_eq!(report["operations"]["read"]["errors"]["wrong-value"], wrong);
    assert_eq!(report["verification"]["examples"][0]["row"], row);
    // The wrong answers of a report are told by its status too.
    let (json, html) = (setting.file("read.json"), setting.file("read.html"));
    let page = ["load", "report", json.to_str().unwrap(), "--html", html.to_str().unwrap()];
    for again in [run(&page), run(&["load", "merge", json.to_str().unwrap()])] {
        assert_eq!(again.status.code(), Some(1));
        assert!(stderr(&again).contains("answers were wrong"), "{}", stderr(&again));
    }
    // A read of more keys than were written finds some missing.
    let more = read.replace("keys 20", "keys 40");
    assert!(stderr(&setting.load(&more, "read.json")).contains("WRONG missing-row"));
}

#[test]
fn a_server_that_is_killed_is_counted_and_the_run_goes_on() {
    let mut setting = Setting::new(&[]);
    let mut command = stele();
    command.args(["load", "hot-keys", "--rows", "20", "--threads", "4", "--warm-up", "0"]);
    command.args(["--duration", "1h", "--json"]).arg(setting.file("report.json"));
    command.arg("--endpoint").arg(setting.server.bigtable().to_string());
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut until = |what: &str| {
        let mut lines = lines.by_ref().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(what)), "the run ended without {what:?}");
    };
    until("read p50");
    setting.server.kill_9();
    until("UNAVAILABLE");
    setting.server.restart();
    until("read p50");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // The rest of the lines ends with the process.
    lines.for_each(drop);
    let status = child.wait().unwrap();
    assert!(status.success(), "acknowledged writes survived, so no answer was wrong: {status}");
    let report = setting.report("report.json");
    assert_eq!(report["ended"], "interrupt");
    assert!(report["operations"].to_string().contains("UNAVAILABLE"), "{report}");
}

#[test]
fn a_server_with_tls_and_a_token_is_tested_too() {
    let (root, certificates) = (tempfile::tempdir().unwrap(), Certificates::make());
    let identities = root.path().join("identities");
    let policy = root.path().join("policy");
    let made = run(&["identity", "token", "me", "--identities", identities.to_str().unwrap()]);
    let key = root.path().join("key.json");
    let mut create = stele();
    create.args(["identity", "create", "app@stele", "--identities"]).arg(&identities);
    succeeded(&create.arg("--key-file").arg(&key).output().unwrap());
    let token = root.path().join("token");
    std::fs::write(&token, succeeded(&made)).unwrap();
    let binding = "[[bindings]]\nrole = \"roles/bigtable.admin\"\n\
                   members = [\"token:me\", \"serviceAccount:app@stele\"]\nresource = \"projects/local\"\n";
    std::fs::write(&policy, binding).unwrap();
    let flags = [
        certificates.flag("tls-cert", "server.pem"),
        certificates.flag("tls-key", "server-key.pem"),
        format!("--identities={}", identities.display()),
        format!("--policy={}", policy.display()),
    ];
    let server = Server::start(&root.path().join("data"), &flags.each_ref().map(String::as_str));
    let load = |credentials: &[String]| {
        let mut command = stele();
        command.args(["load", "missing-keys", "--rows", "10", "--operations", "50", "--quiet"]);
        command.arg("--endpoint").arg(format!("https://localhost:{}", server.bigtable().port()));
        command.arg(certificates.flag("server-ca", "ca.pem"));
        command.args(credentials);
        command.output().unwrap()
    };
    succeeded(&load(&[format!("--token-file={}", token.display())]));
    succeeded(&load(&[format!("--key-file={}", key.display())]));
    let refused = load(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("Unauthenticated"), "{}", stderr(&refused));
}

#[test]
fn the_table_is_made_once_and_other_rows_stay() {
    let setting = Setting::new(&["--durability=none"]);
    let line = "scans --rows 5 --operations 5 --table mine --quiet";
    let said = stderr(&setting.load(&format!("{line} --no-create"), "report.json"));
    assert!(said.contains("NOT_FOUND"), "{said}");
    let said = stderr(&setting.load(line, "report.json"));
    assert!(said.contains("created table projects/local/instances/local/tables/mine"), "{said}");
    let said = stderr(&setting.load(line, "report.json"));
    assert!(said.contains("uses family f of the existing table"), "{said}");
    let mut by_environment = stele();
    by_environment.arg("load").args(line.split(' '));
    by_environment.env("BIGTABLE_EMULATOR_HOST", setting.server.bigtable().to_string());
    succeeded(&by_environment.output().unwrap());
    let said = stderr(&setting.load(&format!("{line} --family g"), "report.json"));
    assert!(said.contains("added family g to table"), "{said}");
    let rows = crate::rows::read_all(setting.server.bigtable(), "mine").0;
    assert_eq!(rows.len(), 20, "four runs of five rows");
}

#[test]
fn wrong_flags_and_files_are_refused_before_the_run() {
    for (line, code, reason) in [
        ("load key-value --read-only", 2, "--read-only needs the --seed or --uuid"),
        ("load key-value --endpoint 127.0.0.1:1 --server-ca x", 2, "use https://127.0.0.1:1"),
        ("load key-value --endpoint 127.0.0.1:1", 1, "no server answers at 127.0.0.1:1"),
        ("load key-value --table a/b", 2, "--table must be"),
        ("load key-value --json /no/such/folder/x.json", 1, "/no/such/folder/x.json"),
        ("load ycsb", 2, "<WORKLOAD>"),
        ("load merge /no/such/report.json", 1, "/no/such/report.json"),
        ("load merge Cargo.toml", 1, "is no report of a load test"),
    ] {
        let output = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{line}: {}", stderr(&output));
    }
}
