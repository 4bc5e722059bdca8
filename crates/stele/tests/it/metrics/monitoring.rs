//! The dashboard and the alerts speak of metrics that there are, and of places in the documents that there
//! are.

use super::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

fn folder() -> PathBuf {
    root().join("packaging/monitoring")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(folder().join(file)).unwrap()
}

/// Returns the metrics that docs/metrics.md lists, which is what a server tells: their kind and labels.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let page = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<_> = line.strip_prefix("| `")?.split(" | ").collect();
        let labels = cells.get(2)?.split(", ").map(|label| label.trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        Some((cells[0].trim_matches('`').to_owned(), (cells[1].to_owned(), labels)))
    };
    page.lines().filter_map(row).collect()
}

/// Returns the names of metrics in a text, each with what stands between braces after it.
fn named(text: &str) -> Vec<(&str, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    for prefix in ["stele_", "process_"] {
        for (at, _) in text.match_indices(prefix) {
            if text[..at].ends_with(is_part) {
                continue;
            }
            let name = text[at..].split(|c| !is_part(c)).next().unwrap_or_default();
            let after = &text[at + name.len()..];
            let selector = after.strip_prefix('{').and_then(|inside| inside.split('}').next());
            found.push((name, selector.unwrap_or_default()));
        }
    }
    found
}

/// Returns the labels that a selector names: `a` and `b` of `a="1", b=~"2"`.
fn labels_of(selector: &str) -> impl Iterator<Item = &str> {
    let before_value = selector.split("\",").filter_map(|part| part.split(['=', '!']).next());
    before_value.map(str::trim).filter(|label| !label.is_empty())
}

#[test]
fn dashboards_and_alerts_name_metrics_and_labels_that_there_are() {
    let known = documented();
    assert!(known.len() > 80, "{} metrics", known.len());
    let dashboard = read("dashboard.json").replace("\\\"", "\"");
    let mut checked = 0;
    for (file, text) in [
        ("dashboard.json", dashboard),
        ("alerts.yml", read("alerts.yml")),
        ("rules.yml", read("rules.yml")),
    ] {
        for (name, selector) in named(&text) {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let base =
                base.filter(|base| known.get(*base).is_some_and(|(kind, _)| kind == "histogram"));
            let metric = known.get(base.unwrap_or(name));
            let (kind, labels) = metric.unwrap_or_else(|| panic!("{file}: no metric {name}"));
            assert!(base.is_some() || kind != "histogram", "{file}: {name} is no series");
            // Prometheus adds these to every sample.
            let of_target = ["instance", "job"];
            for label in labels_of(selector) {
                let there = labels.contains(label) || of_target.contains(&label) || label == "le";
                assert!(there, "{file}: {name} has no label {label}");
            }
            checked += 1;
        }
    }
    assert!(checked > 80, "{checked} names of metrics");
    for record in
        read("rules.yml").lines().filter_map(|line| line.trim().strip_prefix("- record: "))
    {
        assert!(read("dashboard.json").contains(record), "the dashboard does not use {record}");
    }
}

#[test]
fn each_alert_has_its_paragraph_its_severity_and_its_unit_tests() {
    let (alerts, tests) = (read("alerts.yml"), read("rules_test.yml"));
    let operations = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let of_alert: Vec<_> = alerts.split("- alert: ").skip(1).collect();
    for alert in &of_alert {
        let name = alert.lines().next().unwrap();
        let severity = ["critical", "warning"].map(|one| format!("labels: {{severity: {one}}}"));
        assert!(severity.iter().any(|severity| alert.contains(severity)), "{name}");
        assert!(alert.contains("summary: "), "{name}");
        let runbook = format!("runbook: docs/operations.md#{}\n", name.to_lowercase());
        assert!(alert.contains(&runbook), "{name} lacks {runbook}");
        assert!(operations.contains(&format!("\n### {name}\n")), "docs/operations.md lacks {name}");
        for what in ["fires", "is quiet"] {
            assert!(
                tests.contains(&format!("- name: {name} {what}\n")),
                "{name} {what} has no test"
            );
        }
    }
    let paragraphs = operations.matches("\n### Stele").count();
    assert_eq!((of_alert.len(), of_alert.len() > 10), (paragraphs, true));
}

#[test]
fn the_dashboard_is_what_its_script_makes() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: python3 is missing");
        return;
    }
    let script = root().join("scripts/dashboard");
    let output = Command::new("python3").arg(script).arg("--check").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn each_panel_has_a_unit_and_a_description() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    let mut ids = BTreeSet::new();
    let mut rows = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title} has the number of another");
        if panel["type"] == "row" {
            rows += 1;
            continue;
        }
        assert!(panel["description"].as_str().unwrap().ends_with('.'), "{title}");
        assert!(!panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap().is_empty(), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{title}");
    }
    assert!(rows > 5 && ids.len() > 30);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert_eq!(variables[0]["type"], "datasource");
}

/// Lets Prometheus's own tool read the rules and run their unit tests.
#[test]
fn rules_pass_their_unit_tests() {
    for arguments in [["check", "rules"].as_slice(), &["test", "rules"]] {
        let files: &[&str] = match arguments[0] {
            "check" => &["alerts.yml", "rules.yml"],
            _ => &["rules_test.yml"],
        };
        let mut command = super::promtool();
        let Ok(output) = command.args(arguments).args(files).current_dir(folder()).output() else {
            return super::promtool_is_missing();
        };
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}
