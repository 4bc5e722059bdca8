use super::*;
use crate::serve::connections::Peer;
use crate::serve::security::audit::Audit;
use crate::serve::security::metrics::SecurityMetrics;
use arc_swap::{ArcSwap, ArcSwapOption};
use axum::body::Body;
use base::env::{Clock, SystemClock};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use security::identity::{Identities, KeyFile, create_service_account};
use serde_json::Value;
use std::path::PathBuf;
use tower::ServiceExt;

const TOKEN_URI: &str = "https://localhost:8087/token";

fn form(body: impl Into<Body>) -> Request {
    Request::post(PATH).header(CONTENT_TYPE, FORM).body(body.into()).unwrap()
}

#[tokio::test]
async fn a_form_is_read_within_its_bounds() {
    let good = format!("grant_type={}&assertion=a.b.c&scope=x", JWT_BEARER.replace(':', "%3A"));
    assert_eq!(assertion_of(form(good.clone()), BODY_TIME_MAX).await.unwrap(), "a.b.c");
    for (body, error, said) in [
        ("", "invalid_request", "grant_type is missing"),
        ("assertion=a", "invalid_request", "grant_type is missing"),
        ("grant_type=password&assertion=a", "unsupported_grant_type", "must be urn:"),
        ("grant_type=x&grant_type=x", "invalid_request", "twice"),
        (&format!("{good}&assertion=d"), "invalid_request", "twice"),
        (&format!("grant_type={JWT_BEARER}"), "invalid_request", "assertion is missing"),
        ("%ff=%", "invalid_request", "grant_type is missing"),
    ] {
        let refused = assertion_of(form(body.to_owned()), BODY_TIME_MAX).await.unwrap_err();
        assert_eq!((refused.status, refused.error), (StatusCode::BAD_REQUEST, error), "{body}");
        assert!(refused.description.contains(said), "{body}: {refused:?}");
    }
    let filled = |bytes: usize| format!("{good}&x={}", "y".repeat(bytes - good.len() - 3));
    assert!(assertion_of(form(filled(BODY_BYTES_MAX)), BODY_TIME_MAX).await.is_ok());
    let refused = assertion_of(form(filled(BODY_BYTES_MAX + 1)), BODY_TIME_MAX).await.unwrap_err();
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    let mut other = form(good);
    other.headers_mut().insert(CONTENT_TYPE, "application/json".parse().unwrap());
    assert!(assertion_of(other, BODY_TIME_MAX).await.unwrap_err().description.contains(FORM));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let never = Body::from_stream(tokio_stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let refused = assertion_of(form(never), Duration::ZERO).await.unwrap_err();
    assert_eq!(refused.status, StatusCode::REQUEST_TIMEOUT);
}

struct Served {
    gate: Arc<Gate>,
    key: KeyFile,
    identities: PathBuf,
    _dir: tempfile::TempDir,
}

fn served() -> Served {
    let dir = tempfile::tempdir().unwrap();
    let (identities, file) = (dir.path().join("identities"), dir.path().join("key.json"));
    create_service_account(&identities, "app@stele", "p", &file, TOKEN_URI).unwrap();
    let key = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let gate = Gate {
        identities: Some(ArcSwap::from_pointee(Identities::load(&identities).unwrap())),
        policy: ArcSwapOption::empty(),
        audit: Audit::to_log(&SecurityMetrics::new()),
    };
    Served { gate: Arc::new(gate), key, identities, _dir: dir }
}

impl Served {
    /// Signs an assertion as Go's library does, but for one claim or field of the header.
    fn assertion(&self, field: &str, value: Value) -> String {
        let now = SystemClock.now_micros() / 1_000_000;
        let mut header = json!({"alg": "RS256", "typ": "JWT", "kid": self.key.private_key_id});
        let mut claims = json!({"iss": self.key.client_email, "aud": self.key.token_uri,
            "scope": "https://www.googleapis.com/auth/bigtable.data", "iat": now, "exp": now + 3_600});
        let changed = if header.get(field).is_some() { &mut header } else { &mut claims };
        changed[field] = value;
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(&claims));
        let der = PrivateKeyDer::from_pem_slice(self.key.private_key.as_bytes()).unwrap();
        let key = any_supported_type(&der).unwrap();
        let signer = key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]).unwrap();
        let signature = signer.sign(message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    async fn ask(&self, assertion: &str) -> (StatusCode, Value) {
        let request = form(format!("grant_type={JWT_BEARER}&assertion={assertion}"));
        let answer = routes::<()>(Arc::clone(&self.gate)).oneshot(request).await.unwrap();
        assert_eq!(answer.headers()[CACHE_CONTROL], "no-store");
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    fn caller(&self, token: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        let admitted = self.gate.admit(&Peer::default(), &headers);
        admitted.map(|admitted| admitted.name().to_owned())
    }
}

#[tokio::test]
async fn an_assertion_gets_a_token_that_the_gate_takes_until_the_key_is_gone() {
    let served = served();
    let assertion = served.assertion("typ", json!("JWT"));
    let mut tokens = Vec::new();
    // Once more with the same one: RFC 7523 allows it.
    for _ in 0..2 {
        let (status, answer) = served.ask(&assertion).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(answer["token_type"], "Bearer");
        let seconds = answer["expires_in"].as_i64().unwrap();
        assert!((3_000..=3_600).contains(&seconds), "{seconds}");
        tokens.push(answer["access_token"].as_str().unwrap().to_owned());
    }
    assert_eq!(served.caller(&assertion), None, "an assertion is no token");
    let identities = served.gate.identities.as_ref().unwrap();
    for (text, known) in [
        (std::fs::read_to_string(&served.identities).unwrap(), Some("serviceAccount:app@stele")),
        (String::new(), None),
    ] {
        std::fs::write(&served.identities, text).unwrap();
        let fresh = identities.load().load_again(&served.identities).unwrap();
        identities.store(Arc::new(fresh));
        for token in &tokens {
            assert_eq!(served.caller(token).as_deref(), known);
        }
    }
}

#[tokio::test]
async fn a_refusal_has_the_code_of_oauth_and_no_more_than_its_reason() {
    let served = served();
    let now = SystemClock.now_micros() / 1_000_000;
    let unknown = "no registered key has signed";
    for (field, value, error, said) in [
        ("exp", json!(now - 120), "invalid_grant", "has expired"),
        ("exp", json!(now + 86_400), "invalid_grant", "more than an hour"),
        ("aud", json!("https://localhost:8086/"), "invalid_grant", "audience"),
        ("scope", json!("openid"), "invalid_scope", "Bigtable"),
        ("iss", json!("root@stele"), "invalid_grant", unknown),
        ("kid", json!("another"), "invalid_grant", unknown),
        ("alg", json!("HS256"), "invalid_grant", unknown),
        ("alg", json!("none"), "invalid_grant", "malformed"),
    ] {
        let assertion = served.assertion(field, value.clone());
        let (status, answer) = served.ask(&assertion).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{field} {value}: {answer}");
        assert_eq!(answer["error"], error, "{field} {value}: {answer}");
        let text = answer["error_description"].as_str().unwrap();
        assert!(text.contains(said), "{field} {value}: {text}");
        assert!(!text.contains("stele"), "{field} {value}: {text}");
    }
}
