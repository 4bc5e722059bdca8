//! The names by which requests to the HTTP address may call this server.
//!
//! A page in a browser can give a name of its own an address of this machine (DNS rebinding), and
//! then counts as being of the same origin. It cannot do that with an address. So numeric addresses
//! and `localhost` pass, and other names only if the option `http_hosts` lists them.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// Names that pass beside addresses and `localhost`, in lower case.
pub(super) type Hosts = Arc<[String]>;

/// Passes a request on if it calls this server by a name that it has; 421 otherwise. A request that
/// names nobody comes from no browser, and passes.
pub(super) async fn check(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let told = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into();
    let header = request.headers().get_all(HOST).iter().map(told);
    let names = header.chain(request.uri().authority().map(ToString::to_string));
    let refused = names.into_iter().find(|name: &String| !is_ours(name, &hosts));
    match refused {
        None => next.run(request).await,
        Some(name) => {
            let text = format!(
                "this server is not known as {name:?}; use its address or localhost, or add the \
                 name to the option http_hosts"
            );
            (StatusCode::MISDIRECTED_REQUEST, text).into_response()
        }
    }
}

/// Returns whether `authority`, `HOST` or `HOST:PORT`, is a numeric address, `localhost`, or a name
/// among `hosts`.
fn is_ours(authority: &str, hosts: &[String]) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host().to_ascii_lowercase();
    let name = host.strip_suffix('.').unwrap_or(&host);
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok() || name == "localhost" || hosts.iter().any(|own| own == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_configured_names_pass() {
        let hosts = ["stele.example".to_owned()];
        for ours in [
            "127.0.0.1",
            "127.0.0.1:8087",
            "10.0.0.7:8087",
            "[::1]",
            "[::1]:8087",
            "localhost:8087",
            "LocalHost",
            "localhost.",
            "Stele.example:8087",
        ] {
            assert!(is_ours(ours, &hosts), "{ours}");
        }
        for other in [
            "",
            "evil.example",
            "evil.example:8087",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "stele.example.evil.example",
            "2130706433.evil.example",
            "a b",
            "127.0.0.1:8087@evil.example",
        ] {
            assert!(!is_ours(other, &hosts), "{other}");
        }
    }
}
