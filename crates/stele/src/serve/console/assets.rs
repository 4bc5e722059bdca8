//! The files of the pages, embedded in the binary.
//!
//! Invariant: a page runs scripts of this server only, none of them inline, and asks this server
//! only. No other page may frame it.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base::checksum::crc32c;

/// The policy of every page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Headers of every answer of the console, an error too.
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (X_FRAME_OPTIONS, "DENY"),
];

/// A file: its path below `/console/`, its type, its content.
struct Asset(&'static str, &'static str, &'static [u8]);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Declares the files below `assets/`, each with its type.
macro_rules! assets {
    ($($path:literal: $kind:expr,)*) => {
        const ASSETS: &[Asset] =
            &[$(Asset($path, $kind, include_bytes!(concat!("assets/", $path)))),*];
    };
}

assets! {
    "index.html": HTML,
    "icon.svg": SVG,
    "style/base.css": CSS,
    "style/layout.css": CSS,
    "style/parts.css": CSS,
    "script/theme.js": SCRIPT,
    "script/main.js": SCRIPT,
    "script/api.js": SCRIPT,
    "script/dom.js": SCRIPT,
    "script/format.js": SCRIPT,
    "script/chart.js": SCRIPT,
    "script/session.js": SCRIPT,
    "script/bytes.js": SCRIPT,
    "script/choice.js": SCRIPT,
    "pages/overview.js": SCRIPT,
    "pages/tables.js": SCRIPT,
    "pages/relations.js": SCRIPT,
    "pages/cell.js": SCRIPT,
    "pages/tree.js": SCRIPT,
    "pages/heat.js": SCRIPT,
    "pages/query.js": SCRIPT,
    "pages/backups.js": SCRIPT,
    "pages/cluster.js": SCRIPT,
}

/// Answers with the file that a path names.
pub(super) async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().strip_prefix(super::PATH).unwrap_or_default();
    let path = if path.is_empty() { "index.html" } else { path };
    let Some(Asset(_, kind, content)) = ASSETS.iter().find(|asset| asset.0 == path) else {
        return secured((StatusCode::NOT_FOUND, "the console has no such page\n").into_response());
    };
    let tag = format!("\"{:08x}-{}\"", crc32c(&[content]), content.len());
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut answer = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(CONTENT_TYPE, *kind)], *content).into_response(),
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(ETAG, tag);
    }
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    secured(answer)
}

/// Returns `answer` with the headers that every answer has.
pub(super) fn secured(mut answer: Response) -> Response {
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
