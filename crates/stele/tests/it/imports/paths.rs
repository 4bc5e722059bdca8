//! Reads from Rust sources which file names which.
//!
//! A file is known by its module path: `cache/frames/mod.rs` is `cache::frames`, the root is empty.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The path of a module, or of something in it.
pub(crate) type Module = Vec<String>;

/// The sources of a crate, without tests and comments.
#[derive(Default)]
pub(crate) struct Sources {
    /// The code of each file.
    files: BTreeMap<Module, String>,
    /// What `pub use` lines give another place: the new path, and the path that they name.
    exports: BTreeMap<Module, Module>,
}

impl Sources {
    /// Reads all files at or below `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut files = Vec::new();
        collect(root, &mut Vec::new(), &mut files);
        assert!(files.len() > 1, "no sources in {}", root.display());
        Self::of(files)
    }

    /// The sources in `files`, each with its module path.
    fn of(files: impl IntoIterator<Item = (Module, String)>) -> Self {
        let code = |(module, text): (Module, String)| (module, without_tests(&text));
        let mut sources = Self { files: files.into_iter().map(code).collect(), ..Self::default() };
        let modules: Vec<Module> = sources.files.keys().cloned().collect();
        for module in modules {
            for used in uses(&sources.files[&module]).iter().filter(|used| used.public) {
                if let Some(path) = sources.absolute(&module, &used.path) {
                    let exported = [module.as_slice(), std::slice::from_ref(&used.name)].concat();
                    sources.exports.insert(exported, path);
                }
            }
        }
        sources
    }

    /// The names of the rooms: folders and files at the root.
    pub(crate) fn rooms(&self) -> BTreeSet<String> {
        self.files.keys().filter_map(|module| module.first().cloned()).collect()
    }

    /// Which files name which: pairs of different files, without those in which the second is a
    /// `mod.rs` around the first.
    pub(crate) fn names(&self) -> BTreeSet<(Module, Module)> {
        let mut names = BTreeSet::new();
        for (module, code) in &self.files {
            let inner = uses(code).into_iter().filter(|used| !used.public).map(|used| used.path);
            for path in inner.chain(paths(code)) {
                let Some(path) = self.absolute(module, &path) else { continue };
                let target = self.definer(path);
                if !module.starts_with(&target) {
                    names.insert((module.clone(), target));
                }
            }
        }
        names
    }

    /// `path`, as `module` writes it, from the root of the crate; `None` if it leads elsewhere.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Module> {
        let mut base = module.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => rest = &path[1..],
            "super" => {}
            child => {
                base.push(child.to_owned());
                return self.files.contains_key(&base).then(|| [module, path].concat());
            }
        }
        while rest.first().is_some_and(|name| name == "super") {
            base.pop();
            rest = &rest[1..];
        }
        Some([base.as_slice(), rest].concat())
    }

    /// The file that defines what `path` leads to, re-exports followed.
    fn definer(&self, mut path: Module) -> Module {
        // Each re-export leads on; a circle of them would not compile.
        loop {
            let known = |len: &usize| self.files.contains_key(&path[..*len]);
            let len = (0..=path.len()).rev().find(known).expect("the root is a file");
            let exported = path.get(..=len).and_then(|exported| self.exports.get(exported));
            match exported {
                Some(named) => path = [named.as_slice(), &path[len + 1..]].concat(),
                None => return path[..len].to_vec(),
            }
        }
    }
}

/// Collects the `.rs` files below `folder`, tests and what fuzz targets call left out.
fn collect(folder: &Path, module: &mut Module, files: &mut Vec<(Module, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if ["tests", "testing", "fuzz"].contains(&name.as_str()) {
            continue;
        }
        module.push(name.clone());
        if path.is_dir() {
            collect(&path, module, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let around = ["mod", "lib"].contains(&name.as_str());
            let of = &module[..module.len() - usize::from(around)];
            files.push((of.to_vec(), std::fs::read_to_string(&path).unwrap()));
        }
        module.pop();
    }
}

/// The source without comment lines, without who may see an item (`pub(in …)`), and without the
/// modules that are compiled for tests only.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let (mut skipped, mut for_tests) = (false, false);
    for line in text.lines() {
        if skipped {
            skipped = line != "}";
        } else if for_tests && line.contains("mod ") && line.ends_with('{') {
            (skipped, for_tests) = (true, false);
        } else if !line.trim_start().starts_with("//") {
            for_tests = line.starts_with("#[cfg(") && line.contains("test");
            let (before, rest) = line.split_once("pub(in ").unwrap_or((line, ""));
            let after = rest.split_once(')').map_or("", |(_, after)| after);
            let public = if rest.is_empty() { "" } else { "pub" };
            code.extend([before, public, after, "\n"]);
        }
    }
    code
}

/// One name of a `use` line.
#[derive(Debug, PartialEq, Eq)]
struct Used {
    public: bool,
    path: Module,
    /// What it is called from there on.
    name: String,
}

/// The names of all `use` lines, at whatever depth.
fn uses(code: &str) -> Vec<Used> {
    let mut found = Vec::new();
    for (public, tree) in use_trees(code) {
        for (path, name) in flat(&[], tree) {
            found.push(Used { public, path, name });
        }
    }
    found
}

/// What stands between `use` and `;`, and whether it is public in any way.
fn use_trees(code: &str) -> Vec<(bool, &str)> {
    let mut trees = Vec::new();
    for (at, start) in code.match_indices("use ") {
        let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = code[line..at].trim();
        let public = before.starts_with("pub");
        if (before.is_empty() || public && !before.contains(' '))
            && let Some(end) = code[at..].find(';')
        {
            trees.push((public, &code[at + start.len()..at + end]));
        }
    }
    trees
}

/// The paths of a `use` tree that follows `prefix`, each with the name that it gets.
fn flat(prefix: &[String], tree: &str) -> Vec<(Module, String)> {
    let tree = tree.trim();
    let Some((head, group)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let names = path.split("::").map(|name| name.trim().to_owned());
        let mut path: Module = prefix.iter().cloned().chain(names).collect();
        let glob_or_self =
            path.len() > 1 && path.last().is_some_and(|last| last == "*" || last == "self");
        path.truncate(path.len() - usize::from(glob_or_self));
        let name = if alias.is_empty() { path.last().unwrap() } else { alias.trim() };
        let name = name.to_owned();
        return vec![(path, name)];
    };
    let head = head.trim().trim_end_matches("::");
    let names = head.split("::").filter(|name| !name.is_empty()).map(str::to_owned);
    let prefix: Module = prefix.iter().cloned().chain(names).collect();
    let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
    members(group).into_iter().flat_map(|member| flat(&prefix, member)).collect()
}

/// The members of a braced list, at depth zero.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut members) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members.push(&group[start..]);
    members.retain(|member| !member.trim().is_empty());
    members
}

/// The paths that code outside of `use` lines has: at least two names, joined by `::`.
fn paths(code: &str) -> Vec<Module> {
    let mut found = Vec::new();
    let mut add = |text: &str| {
        let text = text.replace("$crate", "crate");
        for word in text.split(|c: char| !c.is_alphanumeric() && !"_:.".contains(c)) {
            let parts = word.split("..").filter(|part| !part.contains('.'));
            found.extend(parts.filter_map(path));
        }
    };
    let mut at = 0;
    for (_, tree) in use_trees(code) {
        let start = tree.as_ptr() as usize - code.as_ptr() as usize;
        add(&code[at..start]);
        at = start + tree.len();
    }
    add(&code[at..]);
    found
}

/// The path that `word` is.
fn path(word: &str) -> Option<Module> {
    let names: Module = word.trim_end_matches(':').split("::").map(str::to_owned).collect();
    let whole = names.iter().all(|name| !name.is_empty() && !name.contains(':'));
    (names.len() > 1 && whole).then_some(names)
}

/// The circles: sets of more than one file each of which leads to all the others.
pub(crate) fn circles(names: &BTreeSet<(Module, Module)>) -> Vec<BTreeSet<String>> {
    let mut edges: BTreeMap<&Module, Vec<&Module>> = BTreeMap::new();
    for (from, to) in names {
        edges.entry(from).or_default().push(to);
    }
    let reach = |start: &Module| {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&Module> = edges.get(start).cloned().unwrap_or_default();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(edges.get(next).into_iter().flatten());
            }
        }
        reached
    };
    let all: BTreeMap<&Module, BTreeSet<&Module>> =
        edges.keys().map(|module| (*module, reach(module))).collect();
    let mut circles = BTreeSet::new();
    for (module, reached) in all.iter().filter(|(module, reached)| reached.contains(*module)) {
        let back = |other: &&Module| all.get(*other).is_some_and(|back| back.contains(module));
        let circle = reached.iter().copied().filter(back);
        circles.insert(circle.map(|file| file.join("::")).collect::<BTreeSet<_>>());
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Module {
        path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    fn sources(files: &[(&str, &str)]) -> Sources {
        Sources::of(files.iter().map(|(path, text)| (module(path), (*text).to_owned())))
    }

    fn names_of(files: &[(&str, &str)]) -> Vec<String> {
        let names = sources(files).names();
        names.iter().map(|(from, to)| format!("{} {}", from.join("::"), to.join("::"))).collect()
    }

    #[test]
    fn every_form_of_a_path_is_read() {
        let files = [
            ("", "mod a; mod b; mod c; mod d;"),
            ("a", "use crate::b::{self, X, y::{Y, Z}};\nuse std::sync::Arc;"),
            ("b", "mod y;\nuse super::c::{\n    One,\n    Two as Three,\n};\nfn f() { y::g() }"),
            ("b::y", "use super::super::d;\nuse super::Around;"),
            ("c", "pub(crate) fn f() -> crate::d::Out {\n    self.b::<u8>()\n}"),
            ("d", "// use crate::a::Comment;\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"),
        ];
        assert_eq!(names_of(&files), ["a b", "a b::y", "b b::y", "b c", "b::y d", "c d"]);
    }

    #[test]
    fn a_path_leads_through_re_exports_to_the_file_that_defines() {
        let files = [
            ("", "mod a; mod b;\npub use b::Deep;"),
            ("a", "use crate::b::Deep;\nfn f() { crate::Deep::new() }"),
            ("b", "mod inner;\npub use inner::Deepest as Deep;"),
            ("b::inner", "pub struct Deepest;"),
        ];
        assert_eq!(names_of(&files), ["a b::inner"]);
    }

    #[test]
    fn circles_are_found_and_what_only_leads_to_one_is_not_in_it() {
        let files = [
            ("", ""),
            ("a", "use crate::b::B;"),
            ("b", "use crate::c::C;"),
            ("c", "fn f() { super::b::g() }"),
            ("d", "mod e;\nuse e::E;\nuse crate::a::A;"),
            ("d::e", "use super::D;"),
        ];
        let found = circles(&sources(&files).names());
        let want = BTreeSet::from(["b".to_owned(), "c".to_owned()]);
        assert_eq!(found, [want]);
    }

    #[test]
    fn who_may_see_an_item_is_no_name() {
        let files = [("", ""), ("a", "pub(in crate::b) fn f() {}"), ("b", "")];
        assert_eq!(names_of(&files), Vec::<String>::new());
    }
}
