//! The page of what is served, `docs/bigtable-api.md`, comes from `crates/bigtable/served.txt`.
//!
//! 1. The table lists every method that Google's generated clients know, and no other.
//! 2. A method is in the table as served if and only if the server serves it.
//! 3. The table lists every field of the request of a method that is served.
//! 4. A method that is served names a test that exists. A row of it that differs says in which way.
//! 5. The server answers the others with `UNIMPLEMENTED` and their names.
//! 6. The page is the table, printed. `REWRITE=1` writes it.

mod api;
mod rows;

use api::Api;
use rows::{Answer, Entry, MethodEntry};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tonic::Code;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn entries() -> Vec<MethodEntry> {
    rows::parse(include_str!("../../../served.txt"))
}

#[test]
fn the_table_lists_all_methods_and_says_truly_which_are_served() {
    let entries = entries();
    let listed: BTreeSet<String> = entries.iter().map(MethodEntry::path).collect();
    assert_eq!(listed.len(), entries.len(), "a method stands twice in served.txt");
    let api = Api::read();
    let known: BTreeSet<String> = api.methods.keys().cloned().collect();
    let missing: Vec<_> = known.difference(&listed).collect();
    let unknown: Vec<_> = listed.difference(&known).collect();
    assert!(missing.is_empty(), "served.txt lacks {missing:?}");
    assert!(unknown.is_empty(), "no client knows {unknown:?} of served.txt");

    let served: BTreeSet<String> = bigtable::METHODS.iter().map(|path| path.to_string()).collect();
    let said = entries.iter().filter(|entry| entry.this.answer != Answer::Refused);
    let said: BTreeSet<String> = said.map(MethodEntry::path).collect();
    assert_eq!(said, served, "served.txt (left) and the server (right) differ");
}

#[tokio::test]
async fn refused_methods_say_so() {
    let (store, _dir) = crate::harness::store();
    let address = crate::harness::serve(store).await;
    for method in entries().iter().filter(|entry| entry.this.answer == Answer::Refused) {
        let status = crate::harness::raw_call(address, &method.path(), b"", None).await;
        assert_eq!(status.code(), Code::Unimplemented, "{}", method.path());
        let name = method.path()[1..].to_owned();
        assert_eq!(status.message(), format!("{name} is not supported by this server"));
    }
}

#[test]
fn the_table_lists_all_fields_of_what_is_served() {
    let api = Api::read();
    for entry in entries() {
        if entry.this.answer == Answer::Refused {
            assert!(entry.fields.is_empty(), "{} is refused whole", entry.path());
            continue;
        }
        let request = &api.methods[&entry.path()];
        let listed: BTreeSet<&str> = entry.fields.iter().map(|field| field.name.as_str()).collect();
        for field in &api.messages[request] {
            assert!(listed.contains(field.name.as_str()), "{} lacks {}", entry.path(), field.name);
        }
        for name in listed {
            assert!(api.has_field(request, name), "{request} has no field {name}");
        }
    }
}

#[test]
fn each_difference_has_its_reason_and_its_test() {
    for method in entries() {
        let refused = method.this.answer == Answer::Refused;
        assert!(refused || !method.this.test.is_empty(), "{} names no test", method.path());
        for entry in std::iter::once(&method.this).chain(&method.fields) {
            let plain = entry.answer == Answer::Served || refused;
            let place = format!("{}, {}", method.path(), entry.name);
            assert!(plain || !entry.note.is_empty(), "{place}: says nothing of the difference");
            if !entry.test.is_empty() {
                assert!(test_exists(&entry.test), "{place}: there is no test {}", entry.test);
            }
        }
    }
}

/// Returns whether `FILE:NAME` names a test function of Rust, Go or Python below `crates`.
fn test_exists(test: &str) -> bool {
    let Some((file, name)) = test.split_once(':') else { return false };
    let Ok(text) = std::fs::read_to_string(root().join("crates").join(file)) else { return false };
    ["fn", "func", "def"].iter().any(|word| text.contains(&format!("{word} {name}(")))
}

#[test]
fn the_page_is_the_table() {
    let page = page(&entries());
    let file = root().join("docs/bigtable-api.md");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page, "docs/bigtable-api.md is older than served.txt: run with REWRITE=1");
}

const HEAD: &str = "\
# Every RPC and field of the Bigtable API

This page is generated from [served.txt](../crates/bigtable/served.txt), and tests compare it with the
server and with Google's clients. [The Bigtable API](bigtable.md) describes the same in words.

- **served**: as by Google's service.
- **different**: served, with the difference that the row tells.
- **refused**: the server answers `UNIMPLEMENTED` for a method, and names a field that it refuses.
- **ignored**: the server accepts any value, and nothing depends on it.
";

fn page(methods: &[MethodEntry]) -> String {
    let mut page = String::from(HEAD);
    let mut service = "";
    for method in methods {
        if method.service != service {
            service = &method.service;
            write!(page, "\n## {service}\n").unwrap();
            page.push_str("| method, field | answer | difference | test |\n|---|---|---|---|\n");
        }
        print(&mut page, "**", &method.this);
        method.fields.iter().for_each(|field| print(&mut page, "", field));
    }
    page
}

fn print(page: &mut String, mark: &str, entry: &Entry) {
    let Entry { name, answer, note, test } = entry;
    let name = if mark.is_empty() { format!("`{name}`") } else { format!("{mark}{name}{mark}") };
    let test = match test.split_once(':') {
        Some((file, function)) => format!("[{function}](../crates/{file})"),
        None => String::new(),
    };
    writeln!(page, "| {name} | {} | {note} | {test} |", answer.word()).unwrap();
}
