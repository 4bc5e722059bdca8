//! The rows of `served.txt`: `[service]`, then a line for each method, and below it an indented line
//! for each field: `name | answer | test | note`. Empty parts at the end may be left out; a line that
//! begins with `#` is a comment.

/// The way in which a method or field is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Served,
    Different,
    Refused,
    Ignored,
}

impl Answer {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Different => "different",
            Self::Refused => "refused",
            Self::Ignored => "ignored",
        }
    }
}

/// A method, or a field of its request (`a.b` is the field `b` of the message in `a`).
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) answer: Answer,
    /// The test as `FILE:NAME`, below `crates`.
    pub(super) test: String,
    pub(super) note: String,
}

/// A method with the fields of its request.
#[derive(Debug)]
pub(super) struct MethodEntry {
    pub(super) service: String,
    pub(super) this: Entry,
    pub(super) fields: Vec<Entry>,
}

impl MethodEntry {
    /// Returns the method's path in HTTP.
    pub(super) fn path(&self) -> String {
        format!("/{}/{}", self.service, self.this.name)
    }
}

/// Reads the table; panics with the line that it cannot read.
pub(super) fn parse(text: &str) -> Vec<MethodEntry> {
    let mut service = String::new();
    let mut methods: Vec<MethodEntry> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            service = name.to_owned();
        } else if line.starts_with(' ') {
            let method = methods.last_mut();
            method.unwrap_or_else(|| panic!("no method above: {line}")).fields.push(entry(line));
        } else {
            let (service, fields) = (service.clone(), Vec::new());
            methods.push(MethodEntry { service, this: entry(line), fields });
        }
    }
    methods
}

fn entry(line: &str) -> Entry {
    let mut parts = line.splitn(4, '|').map(|part| part.trim().to_owned());
    let mut next = || parts.next().unwrap_or_default();
    let (name, answer, test, note) = (next(), next(), next(), next());
    let all = [Answer::Served, Answer::Different, Answer::Refused, Answer::Ignored];
    let answer = all.into_iter().find(|known| known.word() == answer);
    let answer = answer.unwrap_or_else(|| panic!("no answer of that name: {line}"));
    Entry { name, answer, test, note }
}
