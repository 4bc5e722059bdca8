//! Tells whether a request comes from this machine itself: a server that knows no identities answers no other.

use super::Peer;
use axum::http::HeaderMap;

/// Headers by which a proxy tells of itself or of its client.
const OF_PROXIES: [&str; 6] =
    ["forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"];
const OF_PROXIES_BEGIN: &str = "x-forwarded";

/// The origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    ThisMachine,
    /// Another machine, or an unknown one.
    Beyond,
    /// A proxy of this machine passes it on: its client may be anywhere.
    Proxy,
}

impl Origin {
    /// Returns where a request with these headers comes from.
    pub(crate) fn of(peer: &Peer, headers: &HeaderMap) -> Self {
        let of_proxy =
            |name: &str| OF_PROXIES.contains(&name) || name.starts_with(OF_PROXIES_BEGIN);
        if !peer.is_of_this_machine() {
            Self::Beyond
        } else if headers.keys().any(|name| of_proxy(name.as_str())) {
            Self::Proxy
        } else {
            Self::ThisMachine
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Peer {
        Peer { address: Some(address.parse().unwrap()), ..Peer::default() }
    }

    #[test]
    fn only_loopback_is_this_machine() {
        for (address, want) in [
            ("127.0.0.1", Origin::ThisMachine),
            ("127.9.9.9", Origin::ThisMachine),
            ("::1", Origin::ThisMachine),
            ("::ffff:127.0.0.1", Origin::ThisMachine),
            ("10.0.0.1", Origin::Beyond),
            ("::ffff:10.0.0.1", Origin::Beyond),
            ("0.0.0.0", Origin::Beyond),
            ("::", Origin::Beyond),
            ("fe80::1", Origin::Beyond),
        ] {
            assert_eq!(Origin::of(&at(address), &HeaderMap::new()), want, "{address}");
        }
        assert_eq!(Origin::of(&Peer::default(), &HeaderMap::new()), Origin::Beyond);
    }

    #[test]
    fn what_a_proxy_passes_on_may_come_from_anywhere() {
        for name in ["forwarded", "via", "x-forwarded-for", "x-real-ip"] {
            let headers: HeaderMap =
                [(name.parse().unwrap(), "192.0.2.7".parse().unwrap())].into_iter().collect();
            assert_eq!(Origin::of(&at("127.0.0.1"), &headers), Origin::Proxy, "{name}");
        }
    }
}
