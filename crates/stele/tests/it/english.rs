//! House rule of comments and documents: plain English. Each rule counts one habit that makes text
//! hard to read. `english.counts` holds the number of times that each habit occurs in the tree.
//!
//! The numbers may only fall. The test fails when a number in the file is not the true one. After
//! the removal of some occurrences, this command writes the lower numbers:
//!
//! ```sh
//! REWRITE=1 cargo test -p stele --test it english
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Words that open a comment without naming its subject.
const OPENERS: [&str; 9] =
    ["What", "Whether", "How", "Where", "Which", "Of", "Those", "Who", "Whose"];

/// Phrases that point at a thing instead of naming it, or are rare in plain English.
const IDIOMS: [&str; 12] = [
    "anew",
    "are none",
    "goes on with",
    "gone on with",
    "is none",
    "nobody",
    "of these",
    "of those",
    "somebody",
    "those of",
    "those that",
    "whoever",
];

/// A doc comment with so few words repeats the name below it.
const DOC_WORDS_MIN: usize = 5;

/// Occurrences by rule.
type Counts = BTreeMap<String, usize>;

#[test]
fn comments_and_documents_get_plainer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut counts = no_counts();
    let mut sources = Vec::new();
    for folder in ["crates", "fuzz"] {
        find(&root.join(folder), "rs", &mut sources);
    }
    for source in &sources {
        count_comments(&std::fs::read_to_string(source).unwrap(), &mut counts);
    }
    let mut documents = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    for folder in ["docs", "docs/format"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap());
        let paths = entries.map(|entry| entry.path());
        documents.extend(paths.filter(|path| path.extension().is_some_and(|ext| ext == "md")));
    }
    for document in &documents {
        count_idioms(&std::fs::read_to_string(document).unwrap(), &mut counts);
    }
    assert!(sources.len() > 300 && documents.len() > 10, "the tree was not found below {root:?}");

    let file = root.join("crates/stele/tests/it/english.counts");
    let written = parse(&std::fs::read_to_string(&file).unwrap());
    let more: Vec<_> =
        counts.iter().filter(|(rule, count)| written.get(*rule) < Some(count)).collect();
    assert!(more.is_empty(), "these became more, with the new numbers: {more:?}");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&file, print(&counts)).unwrap();
    } else {
        assert_eq!(print(&written), print(&counts), "some became fewer: run this with REWRITE=1");
    }
}

/// Returns a zero for each rule, so that the file lists every rule.
fn no_counts() -> Counts {
    let idioms = IDIOMS.iter().map(|idiom| format!("idiom {idiom:?}"));
    let rules = ["opener".to_owned(), "short doc".to_owned()].into_iter().chain(idioms);
    rules.map(|rule| (rule, 0)).collect()
}

/// Collects the files below `folder` with the extension `ext`, except those that cargo built.
fn find(folder: &Path, ext: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            find(&path, ext, found);
        } else if path.extension().is_some_and(|have| have == ext) {
            found.push(path);
        }
    }
}

/// Applies every rule to the comments of a Rust source. Consecutive lines with the same marker are
/// one comment; a comment behind code is not read.
fn count_comments(source: &str, counts: &mut Counts) {
    let mut comment: Option<(&str, Vec<&str>)> = None;
    for line in source.lines().map(str::trim_start).chain([""]) {
        let this = ["///", "//!", "//"]
            .into_iter()
            .find_map(|marker| Some((marker, line.strip_prefix(marker)?)));
        match (&mut comment, this) {
            (Some((marker, lines)), Some((same, text))) if *marker == same => {
                lines.push(text.trim())
            }
            (_, this) => {
                if let Some((marker, lines)) = comment.take() {
                    count_comment(marker, &lines, counts);
                }
                comment = this.map(|(marker, text)| (marker, vec![text.trim()]));
            }
        }
    }
}

fn count_comment(marker: &str, lines: &[&str], counts: &mut Counts) {
    let paragraphs = lines.split(|line| line.is_empty()).filter_map(|lines| lines.first());
    let openers = paragraphs.filter(|line| {
        line.split(|c: char| !c.is_alphabetic()).next().is_some_and(|word| OPENERS.contains(&word))
    });
    *counts.get_mut("opener").unwrap() += openers.count();
    let text = lines.join(" ");
    if marker == "///" && text.split_whitespace().count() < DOC_WORDS_MIN {
        *counts.get_mut("short doc").unwrap() += 1;
    }
    count_idioms(&text, counts);
}

/// Counts the idioms in `text` as whole words, also across line breaks.
fn count_idioms(text: &str, counts: &mut Counts) {
    let words: Vec<_> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let text = format!(" {} ", words.join(" ").to_lowercase());
    for idiom in IDIOMS {
        *counts.get_mut(&format!("idiom {idiom:?}")).unwrap() +=
            text.matches(&format!(" {idiom} ")).count();
    }
}

fn parse(text: &str) -> Counts {
    let lines = text.lines().map(|line| line.rsplit_once(' ').expect("a rule and its count"));
    lines.map(|(rule, count)| (rule.to_owned(), count.parse().expect("a count"))).collect()
}

fn print(counts: &Counts) -> String {
    counts.iter().map(|(rule, count)| format!("{rule} {count}\n")).collect()
}

#[test]
fn the_counter_finds_habits_and_spares_sense() {
    let source = [
        "/// Whether it is open.",
        "fn a() {} // What stands behind code is not read.",
        "/// Returns the row where it is, of whom it may be.",
        "///",
        "/// Those that follow are gone on",
        "/// with by nobody.",
        "fn b() {}",
        "/// The file.",
        "// How it works.",
        "//! Whatsoever, nobodys.",
    ];
    let mut counts = no_counts();
    count_comments(&source.join("\n"), &mut counts);
    counts.retain(|_, count| *count > 0);
    let want = [
        ("idiom \"gone on with\"", 1),
        ("idiom \"nobody\"", 1),
        ("idiom \"those that\"", 1),
        ("opener", 3),
        ("short doc", 2),
    ];
    assert_eq!(counts, want.map(|(rule, count)| (rule.to_owned(), count)).into());
    assert_eq!(parse(&print(&counts)), counts);
}
