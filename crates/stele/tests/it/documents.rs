//! House rules of the documents: every link to a file of the repository leads somewhere, every
//! decision is short and in the index, every drawing and every page of an experiment
//! is what its script makes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest body of a decision. The appendix, which holds its tables, does not count.
const DECISION_WORDS_MAX: usize = 600;

#[test]
fn links_between_documents_lead_somewhere() {
    let root = root();
    let mut documents = Vec::new();
    find(&root, &mut documents);
    let mut broken = Vec::new();
    for document in &documents {
        let text = std::fs::read_to_string(document).unwrap();
        for target in links(&text) {
            let path = document.parent().unwrap().join(target.split('#').next().unwrap());
            if !path.exists() {
                broken.push(format!("{} -> {target}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(documents.len() >= 4, "the documents were not found below {}", root.display());
}

#[test]
fn decisions_are_short_and_in_the_index() {
    let folder = root().join("docs/decisions");
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut wrong = Vec::new();
    let mut decisions = 0;
    for path in markdown_files(&folder) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let Ok(number) = name[..4].parse::<u32>() else { continue };
        decisions += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let heading = text.lines().next().unwrap();
        let Some(title) = heading.strip_prefix(&format!("# {number}. ")) else {
            wrong.push(format!("{name} begins with {heading:?}"));
            continue;
        };
        if !index.contains(&format!("| {number} | [{title}]({name}) |")) {
            wrong.push(format!("{name} is not in the index under its title"));
        }
        let body = text.split("\n## Appendix").next().unwrap();
        let words = count_words(body);
        if words > DECISION_WORDS_MAX {
            wrong.push(format!("{name} has {words} words before its appendix"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(decisions >= 30, "the decisions were not found in {}", folder.display());
}

/// The chart among the drawings is made from the table of results, so they cannot differ.
#[test]
fn drawings_are_what_their_script_makes() {
    is_fresh("scripts/draw");
}

/// The pages of the experiments are made from the results beside them.
#[test]
fn experiments_are_what_their_results_make() {
    is_fresh("scripts/experiment");
}

/// Fails if something committed is not what `script` makes.
fn is_fresh(script: &str) {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: python3 is missing");
        return;
    }
    let script = root().join(script);
    let output = Command::new("python3").arg(script).arg("--check").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the Markdown files of one folder.
fn markdown_files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|ext| ext == "md"))
}

/// Counts the words of a text; punctuation by itself is none.
fn count_words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// Adds the documents at the root and below `docs`.
fn find(root: &Path, found: &mut Vec<PathBuf>) {
    let mut folders = vec![root.to_owned(), root.join("docs")];
    folders.extend(
        ["docs/format", "docs/decisions", "docs/experiments"].map(|folder| root.join(folder)),
    );
    for folder in folders {
        found.extend(markdown_files(&folder));
    }
}

/// Returns the targets of `[text](target)` that are neither addresses nor places in the same document.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        (!target.contains("://") && !target.starts_with('#') && !target.is_empty())
            .then_some(target)
    })
}
