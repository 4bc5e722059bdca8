//! House rule of the documents: every link to a file of the repository leads somewhere.

use std::path::{Path, PathBuf};

#[test]
fn links_between_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
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

/// The documents at the root and below `docs`.
fn find(root: &Path, found: &mut Vec<PathBuf>) {
    let mut folders = vec![root.to_owned(), root.join("docs")];
    folders.extend(["docs/format", "docs/decisions"].map(|folder| root.join(folder)));
    for folder in folders {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|ext| ext == "md")));
    }
}

/// Targets of `[text](target)` that are neither addresses nor places in the same document.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        (!target.contains("://") && !target.starts_with('#') && !target.is_empty())
            .then_some(target)
    })
}
