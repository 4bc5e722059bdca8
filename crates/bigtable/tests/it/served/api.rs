//! The API as the sources of Google's generated clients tell it. The compiler lists these sources beside
//! the test's own binary, so no network is needed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The crates, and the file of each that holds its messages and clients.
const SOURCES: &[(&str, &str)] = &[
    ("googleapis_tonic_google_bigtable_v2", "google.bigtable.v2.rs"),
    ("googleapis_tonic_google_bigtable_admin_v2", "google.bigtable.admin.v2.rs"),
    ("googleapis_tonic_google_longrunning", "google.longrunning.rs"),
    ("googleapis_tonic_google_iam_v1", "google.iam.v1.rs"),
];
/// Clients in these files that are no services of Bigtable.
const OTHERS: &[&str] = &["google.iam.v1.IAMPolicy"];

/// A field of a message.
pub(super) struct Field {
    pub(super) name: String,
    /// The message it holds, if it is one of the API's top level.
    message: Option<String>,
}

/// Methods and messages of the API.
pub(super) struct Api {
    /// The request of each method, by the method's path.
    pub(super) methods: BTreeMap<String, String>,
    /// The fields of each message of the top level.
    pub(super) messages: BTreeMap<String, Vec<Field>>,
}

impl Api {
    pub(super) fn read() -> Self {
        let mut api = Self { methods: BTreeMap::new(), messages: BTreeMap::new() };
        for (name, file) in SOURCES {
            let path = source(name, file);
            let text = std::fs::read_to_string(&path).unwrap();
            api.read_methods(&text);
            api.read_messages(&text);
        }
        assert!(api.methods.len() > 60 && api.messages.len() > 100, "the sources were not read");
        api
    }

    /// Returns whether `path`, names with dots between, leads to a field of `message`.
    pub(super) fn has_field(&self, message: &str, path: &str) -> bool {
        let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
        let fields = self.messages.get(message).into_iter().flatten();
        let Some(field) = fields.into_iter().find(|field| field.name == first) else {
            return false;
        };
        match (rest, &field.message) {
            (None, _) => true,
            (Some(rest), Some(inner)) => self.has_field(inner, rest),
            (Some(_), None) => false,
        }
    }

    fn read_methods(&mut self, text: &str) {
        let calls = text.split("request: impl tonic::IntoRequest<").skip(1);
        for call in calls {
            let request = call.split('>').next().unwrap().trim().trim_end_matches(',');
            let request = request.rsplit("::").next().unwrap();
            let path = call.split("PathAndQuery::from_static(").nth(1).unwrap();
            let path = path.split('"').nth(1).unwrap();
            if !OTHERS.iter().any(|other| path.starts_with(&format!("/{other}/"))) {
                self.methods.insert(path.to_owned(), request.to_owned());
            }
        }
    }

    fn read_messages(&mut self, text: &str) {
        let mut message = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("pub struct ") {
                message = Some(name.trim_end_matches(['{', '}', ' ']).to_owned());
                self.messages.entry(message.clone().unwrap()).or_default();
            } else if line.starts_with('}') {
                message = None;
            } else if let (Some(message), Some(field)) = (&message, line.strip_prefix("    pub "))
                && let Some((name, kind)) = field.split_once(": ")
            {
                let name = name.trim_start_matches("r#").to_owned();
                let inner = kind.trim_end_matches([',', '>']).rsplit(['<', ' ']).next();
                let inner = inner.filter(|inner| !inner.contains("::")).map(str::to_owned);
                let field = Field { name, message: inner };
                self.messages.get_mut(message).unwrap().push(field);
            }
        }
    }
}

/// Returns the file of that name among the sources of a crate, the newest if there are several.
fn source(name: &str, file: &str) -> PathBuf {
    let binary = std::env::current_exe().unwrap();
    let lists = std::fs::read_dir(binary.parent().unwrap()).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let stem = path.file_stem()?.to_str()?.rsplit_once('-')?.0 == name;
        (stem && path.extension()? == "d").then_some(path)
    });
    let wanted = format!("bytes_btree_map/{file}");
    let found = lists.flat_map(|list| {
        let text = std::fs::read_to_string(list).unwrap();
        let all = text.split_whitespace().filter(|source| source.ends_with(&wanted));
        all.map(PathBuf::from).collect::<Vec<_>>()
    });
    let modified = |path: &PathBuf| Path::metadata(path).and_then(|data| data.modified()).ok();
    found.max_by_key(modified).unwrap_or_else(|| panic!("the sources of {name} were not found"))
}
