//! Pages, and requests before a store is open.

use super::*;
use axum::body::to_bytes;

#[tokio::test]
async fn pages_need_no_header_and_run_no_foreign_or_inline_script() {
    let console = open();
    for path in ["/console/", "/console/script/main.js", "/console/style/base.css", "/console/none"]
    {
        let answer = ask(&console, HERE, path, &[]).await;
        let header = |name| answer.headers()[name].to_str().unwrap();
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
        let want = if path.ends_with("none") { StatusCode::NOT_FOUND } else { StatusCode::OK };
        assert_eq!(answer.status(), want, "{path}");
    }
    let answer = ask(&console, HERE, "/console", &[]).await;
    assert_eq!(answer.headers()["location"], "/console/");
    let page = ask(&console, HERE, "/console/", &[]).await;
    let text = to_bytes(page.into_body(), 1 << 20).await.unwrap();
    let text = std::str::from_utf8(&text).unwrap();
    for inline in
        ["<script>", "onclick=", "onload=", "style=", "javascript:", "http://", "https://"]
    {
        assert!(!text.contains(inline), "{inline}");
    }
}

#[tokio::test]
async fn a_page_that_did_not_change_is_not_sent_again() {
    let console = open();
    let first = ask(&console, HERE, "/console/", &[]).await;
    let tag = first.headers()["etag"].to_str().unwrap();
    let again = ask(&console, HERE, "/console/", &[("if-none-match", tag)]).await;
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    let other = ask(&console, HERE, "/console/", &[("if-none-match", "\"other\"")]).await;
    assert_eq!(other.status(), StatusCode::OK);
}

#[tokio::test]
async fn without_identities_other_machines_get_nothing() {
    let console = open();
    let headers = [(guard::HEADER, "1")];
    for from in ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1"] {
        for path in ["/console", "/console/", "/console/script/main.js"] {
            let answer = ask(&console, from, path, &headers).await;
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{from} {path}");
            let text = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
            assert!(text.windows(12).any(|part| part == b"--identities"), "{text:?}");
        }
        let answer = ask(&console, from, "/console/api/v1/overview", &headers).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{from}");
        assert_eq!(json(answer).await["error"]["code"], "PERMISSION_DENIED");
    }
    let answer = ask(&console, "::1", "/console/api/v1/overview", &headers).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn without_identities_a_proxy_on_this_machine_gets_nothing() {
    let console = open();
    for (name, value) in [
        ("Forwarded", "for=10.0.0.1"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("x-forwarded-host", "stele.example"),
        ("X-FORWARDED-PROTO", "https"),
        ("x-real-ip", "127.0.0.1"),
        ("via", ""),
    ] {
        let headers = [(guard::HEADER, "1"), (name, value)];
        for path in ["/console/", "/console/api/v1/overview", "/console/api/v1/none"] {
            let answer = ask(&console, HERE, path, &headers).await;
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{name} {path}");
            let text = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
            let text = std::str::from_utf8(&text).unwrap();
            assert!(text.contains("a proxy passes") && text.contains("--identities"), "{text}");
        }
    }
    let answer = ask(&console, HERE, "/console/", &[("x-other", "1")]).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_that_another_origin_could_send_is_refused() {
    let console = open();
    for path in ["/console/api/v1/overview", "/console/api/v1/session", "/console/api/v1/none"] {
        let answer = ask(&console, HERE, path, &[]).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{path}");
        assert!(answer.headers().get("access-control-allow-origin").is_none());
        let message = json(answer).await["error"]["message"].to_string();
        assert!(message.contains(guard::HEADER), "{message}");
    }
}

#[tokio::test]
async fn wrong_requests_of_the_api_get_one_form_of_error() {
    let console = open();
    for (path, status, code) in [
        ("/console/api/v1/none", StatusCode::NOT_FOUND, "NOT_FOUND"),
        ("/console/api/v1/overview?after=x", StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
        ("/console/api/v1/overview?after=-1", StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
    ] {
        let answer = ask(&console, HERE, path, &[(guard::HEADER, "1")]).await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        assert_eq!(json(answer).await["error"]["code"], code, "{path}");
    }
}

#[tokio::test]
async fn a_server_that_opens_its_directory_answers_without_samples() {
    let console = open();
    let headers = [(guard::HEADER, "1")];
    let told = json(ask(&console, HERE, "/console/api/v1/overview", &headers).await).await;
    assert_eq!(told["server"]["phase"], "opening");
    assert_eq!(told["samples"], Value::Array(Vec::new()));
    let session = json(ask(&console, HERE, "/console/api/v1/session", &headers).await).await;
    assert_eq!((&session["identity"], &session["authenticates"]), (&Value::Null, &false.into()));
}
