//! Profiles of the server, in the form of pprof or as a flame graph: of its CPU time at
//! `/debug/pprof/profile`, and of its memory at `/debug/pprof/heap`.
//!
//! Invariants:
//! 1. One profile of a kind is recorded at a time; of CPU time for [`SECONDS_MAX`] at most. It ends when its
//!    client is gone.
//! 2. A server that knows no identities gives profiles to its own machine only.
//! 3. A page of another site cannot have a profile recorded.
//! 4. No thread of the runtime records, names functions or encodes.

use super::connections::{Origin, Peer};
use super::security::gate::Gate;
use super::state::State;
use axum::Router;
use axum::extract::{ConnectInfo, RawQuery};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use profile::heap::HeapProfile;
use profile::{Error, Profile};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Paths at which profiles are.
const CPU_PATH: &str = "/debug/pprof/profile";
const HEAP_PATH: &str = "/debug/pprof/heap";
/// Seconds of a profile that names none.
const SECONDS: u64 = 30;
/// Seconds of the longest profile.
const SECONDS_MAX: u64 = 60;
/// Header in which browsers tell where a request comes from.
const SITE: &str = "sec-fetch-site";
const BEYOND: &str = "a server without identities gives profiles to its own machine only; set --tls-cert, \
     --tls-key and --identities or --tls-client-ca (docs/security.md), or tunnel to 127.0.0.1 of the \
     server\n";

/// Forms in which a profile comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Pprof,
    Svg,
}

/// Kinds of profiles that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cpu,
    Heap,
}

/// A profile that is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    kind: Kind,
    /// Length of a CPU profile.
    seconds: u64,
    form: Form,
}

/// Returns the route of profiles, for callers that have passed `gate`.
pub(super) fn routes(gate: Option<&Arc<Gate>>) -> Router<Arc<State>> {
    let known = gate.is_some();
    let of = |kind| {
        get(
            move |peer, headers, query| async move { answer(kind, known, peer, headers, query).await },
        )
    };
    Router::new().route(CPU_PATH, of(Kind::Cpu)).route(HEAP_PATH, of(Kind::Heap))
}

async fn answer(
    kind: Kind,
    known: bool,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    // A proxy of this machine may have clients anywhere.
    if !known && Origin::of(&peer, &headers) != Origin::ThisMachine {
        return (StatusCode::FORBIDDEN, BEYOND).into_response();
    }
    if !is_of_this_site(&headers) {
        let text = "profiles are not for pages of other sites\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    match wanted(kind, &query.unwrap_or_default()) {
        Ok(wanted) => record(wanted).await,
        Err(text) => (StatusCode::BAD_REQUEST, format!("{text}\n")).into_response(),
    }
}

/// Returns whether a request comes from no page, or from one of this server.
fn is_of_this_site(headers: &HeaderMap) -> bool {
    let site = headers.get(SITE).map(|site| site.as_bytes());
    site.is_none_or(|site| site == b"none" || site == b"same-origin")
}

/// Reads the parameters of a request. An unknown one and one that comes twice are refused, so that a
/// misspelt length is not a profile of another length.
fn wanted(kind: Kind, query: &str) -> Result<Wanted, String> {
    let known = match kind {
        Kind::Cpu => "seconds and format",
        Kind::Heap => "format",
    };
    let (mut seconds, mut form) = (None, None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let again = match &*name {
            "seconds" if kind == Kind::Cpu => seconds.replace(length(&value)?).is_some(),
            "format" => form.replace(form_of(&value)?).is_some(),
            _ => return Err(format!("{name:?} is no parameter; use {known}")),
        };
        if again {
            return Err(format!("{name} comes twice"));
        }
    }
    let (seconds, form) = (seconds.unwrap_or(SECONDS), form.unwrap_or(Form::Pprof));
    Ok(Wanted { kind, seconds, form })
}

fn length(value: &str) -> Result<u64, String> {
    let seconds = value.parse().ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
    seconds.ok_or_else(|| format!("seconds must be a number from 1 to {SECONDS_MAX}"))
}

fn form_of(value: &str) -> Result<Form, String> {
    match value {
        "pprof" => Ok(Form::Pprof),
        "svg" => Ok(Form::Svg),
        _ => Err("format must be pprof or svg".to_owned()),
    }
}

/// Tells the thread that records when its client is gone.
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn record(Wanted { kind, seconds, form }: Wanted) -> Response {
    let given_up = GivenUp(Arc::default());
    let told = Arc::clone(&given_up.0);
    let recording = tokio::task::spawn_blocking(move || {
        let cancelled = || told.load(Ordering::Relaxed);
        let seconds = Duration::from_secs(seconds);
        Ok(match (kind, form) {
            (Kind::Cpu, Form::Pprof) => Profile::record(seconds, &cancelled)?.to_pprof(),
            (Kind::Cpu, Form::Svg) => Profile::record(seconds, &cancelled)?.to_svg().into_bytes(),
            (Kind::Heap, Form::Pprof) => HeapProfile::take(&cancelled)?.to_pprof(),
            (Kind::Heap, Form::Svg) => HeapProfile::take(&cancelled)?.to_svg().into_bytes(),
        })
    });
    match recording.await {
        Ok(Ok(bytes)) => file(kind, form, bytes),
        Ok(Err(error)) => {
            let status = match error {
                Error::Running => StatusCode::CONFLICT,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            (status, format!("{error}\n")).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "the thread that recorded a profile failed");
            let text = "the profile failed; the log of the server tells more\n";
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

fn file(kind: Kind, form: Form, bytes: Vec<u8>) -> Response {
    let name = match kind {
        Kind::Cpu => "profile",
        Kind::Heap => "heap",
    };
    let (content, disposition) = match form {
        Form::Pprof => {
            ("application/octet-stream", format!("attachment; filename=\"{name}.pb.gz\""))
        }
        Form::Svg => ("image/svg+xml", format!("inline; filename=\"{name}.svg\"")),
    };
    let headers = [
        (CONTENT_TYPE.as_str(), content),
        (CONTENT_DISPOSITION.as_str(), &*disposition),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'"),
        ("x-content-type-options", "nosniff"),
    ];
    (headers, bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_or_refused_in_words() {
        for (query, seconds, form) in [
            ("", 30, Form::Pprof),
            ("seconds=1", 1, Form::Pprof),
            ("format=svg&seconds=60", 60, Form::Svg),
            ("format=pprof", 30, Form::Pprof),
        ] {
            let want = Ok(Wanted { kind: Kind::Cpu, seconds, form });
            assert_eq!(wanted(Kind::Cpu, query), want, "{query}");
        }
        let of_heap = wanted(Kind::Heap, "format=svg").unwrap();
        assert_eq!((of_heap.kind, of_heap.form), (Kind::Heap, Form::Svg));
        let refused = wanted(Kind::Heap, "seconds=5").unwrap_err();
        assert_eq!(refused, "\"seconds\" is no parameter; use format");
        for (query, text) in [
            ("seconds=0", "from 1 to 60"),
            ("seconds=61", "from 1 to 60"),
            ("seconds=-1", "from 1 to 60"),
            ("seconds=", "from 1 to 60"),
            ("seconds=99999999999999999999999", "from 1 to 60"),
            ("seconds=1&seconds=2", "seconds comes twice"),
            ("format=png", "pprof or svg"),
            ("second=5", "\"second\" is no parameter"),
            ("%1b%0a=5", "\"\\u{1b}\\n\" is no parameter"),
        ] {
            let refused = wanted(Kind::Cpu, query).unwrap_err();
            assert!(refused.contains(text), "{query}: {refused}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_told_from_tools_and_own_pages() {
        for (site, want) in [
            (None, true),
            (Some("none"), true),
            (Some("same-origin"), true),
            (Some("same-site"), false),
            (Some("cross-site"), false),
            (Some(""), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(site) = site {
                headers.insert(SITE, site.parse().unwrap());
            }
            assert_eq!(is_of_this_site(&headers), want, "{site:?}");
        }
    }

    #[tokio::test]
    async fn a_server_without_identities_refuses_other_machines() {
        for (address, known, want) in [
            (Some("10.0.0.1"), false, StatusCode::FORBIDDEN),
            (None, false, StatusCode::FORBIDDEN),
            // A wrong length is looked at later, so nothing is recorded here.
            (Some("127.0.0.1"), false, StatusCode::BAD_REQUEST),
            (Some("10.0.0.1"), true, StatusCode::BAD_REQUEST),
        ] {
            let address = address.map(|address| address.parse().unwrap());
            let peer = ConnectInfo(Peer { address, ..Peer::default() });
            let query = Some("seconds=0".to_owned());
            for kind in [Kind::Cpu, Kind::Heap] {
                let (peer, query) = (peer.clone(), RawQuery(query.clone()));
                let answer = answer(kind, known, peer, HeaderMap::new(), query).await;
                assert_eq!(answer.status(), want, "{address:?} {known}");
            }
        }
    }
}
