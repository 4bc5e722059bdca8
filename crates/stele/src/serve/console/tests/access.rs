//! Visitors of a server that knows identities.

use super::super::super::security::Guard;
use super::super::super::security::metrics::SecurityMetrics;
use super::*;
use crate::config::Security;
use security::identity::create_token;
use tokio::sync::watch;

/// A server with identities, each with a token, and mostly a policy.
pub(super) struct Secured {
    pub(super) server: Server,
    pub(super) tokens: Vec<String>,
    _files: tempfile::TempDir,
    _hangups: watch::Sender<u64>,
}

impl Secured {
    /// Starts a server with an identity for each binding: role, resource, families.
    pub(super) async fn start(bindings: &[(&str, &str, &[&str])]) -> Self {
        let mut policy = String::new();
        for (at, (role, resource, families)) in bindings.iter().enumerate() {
            policy += &format!(
                "[[bindings]]\nrole = '{role}'\nmembers = ['token:v{at}']\nresource = '{resource}'\n"
            );
            if !families.is_empty() {
                policy += &format!("families = {families:?}\n");
            }
        }
        Self::start_with(bindings.len(), Some(&policy)).await
    }

    /// Starts a server with some identities, and with this policy if there is one.
    pub(super) async fn start_with(identities: usize, policy: Option<&str>) -> Self {
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name);
        let token = |at: usize| create_token(&path("identities"), &format!("v{at}")).unwrap();
        let tokens = (0..identities).map(token).collect();
        if let Some(policy) = policy {
            std::fs::write(path("policy"), policy).unwrap();
        }
        let options = Security {
            identities: Some(path("identities")),
            policy: policy.map(|_| path("policy")),
            ..Security::default()
        };
        let (hangups, hung_up) = watch::channel(0);
        let guard = Guard::load(&options, None, hung_up, &SecurityMetrics::new()).unwrap();
        let server = Server::start(guard.gate).await;
        server.write(b"a", &[("f", b"q", b"seen".to_vec()), ("g", b"q", b"hidden".to_vec())]).await;
        Self { server, tokens, _files: files, _hangups: hangups }
    }

    pub(super) async fn status(&self, who: usize, path: &str) -> StatusCode {
        self.server.get(path, Some(&self.tokens[who])).await.0
    }
}

#[tokio::test]
async fn strangers_get_the_pages_to_sign_in_and_no_data() {
    let secured = Secured::start(&[("stele.monitor", "*", &[])]).await;
    for from in [HERE, "10.0.0.1"] {
        let page = ask(&secured.server.console, from, "/console/", &[]).await;
        assert_eq!(page.status(), StatusCode::OK, "{from}");
        for path in ["/session", "/overview", "/tables", "/none"] {
            let path = format!("{API}{path}");
            let answer = ask(&secured.server.console, from, &path, &[(guard::HEADER, "1")]).await;
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{from} {path}");
        }
    }
    let (status, told) = secured.server.get("/tables", Some("wrong")).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(!told.to_string().contains("wrong"), "{told}");
    let known = &secured.tokens[0];
    let (status, told) = secured.server.get("/session", Some(known)).await;
    assert_eq!((status, &told["identity"]), (StatusCode::OK, &"token:v0".into()));
    assert!(!told.to_string().contains(known.as_str()), "{told}");
}

#[tokio::test]
async fn a_token_in_the_address_or_a_cookie_is_no_token() {
    let secured = Secured::start(&[("stele.monitor", "*", &[])]).await;
    let token = &secured.tokens[0];
    let path = format!("{API}/session?token={token}&access_token={token}&key={token}");
    let cookie = format!("token={token}; authorization=Bearer {token}");
    let headers = [(guard::HEADER, "1"), ("cookie", cookie.as_str())];
    let answer = ask(&secured.server.console, HERE, &path, &headers).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn each_part_needs_its_own_permission() {
    let secured = Secured::start(&[
        ("stele.monitor", "*", &[]),
        ("bigtable.reader", INSTANCE, &[]),
        ("bigtable.viewer", INSTANCE, &[]),
        ("bigtable.admin", "*", &[]),
    ])
    .await;
    let [monitor, reader, viewer, admin] = [0, 1, 2, 3];
    let (rows, table) = (format!("/rows?table={TABLE}"), format!("/table?name={TABLE}"));
    let (row, tree) = (format!("/row?table={TABLE}&key=YQ"), format!("/tree?name={TABLE}"));
    let heat = format!("/heat?name={TABLE}");
    let backups = format!("/backups?instance={INSTANCE}");
    let (yes, no) = (StatusCode::OK, StatusCode::FORBIDDEN);
    for (who, path, want) in [
        (monitor, "/overview", yes),
        (monitor, rows.as_str(), no),
        (monitor, &table, no),
        (monitor, &tree, no),
        (monitor, &heat, no),
        (monitor, &backups, no),
        (reader, "/overview", no),
        (reader, &rows, yes),
        (reader, &row, yes),
        (reader, &table, yes),
        (reader, &tree, no),
        (reader, &heat, no),
        (viewer, &table, yes),
        (viewer, &rows, no),
        (viewer, &row, no),
        (viewer, &backups, yes),
        (admin, &rows, yes),
        (admin, &tree, no),
    ] {
        assert_eq!(secured.status(who, path).await, want, "v{who} {path}");
    }
    let listed = async |who: usize| {
        let (_, told) = secured.server.get("/tables", Some(&secured.tokens[who])).await;
        told["tables"].as_array().unwrap().len()
    };
    assert_eq!((listed(monitor).await, listed(reader).await), (0, 1));
    for (who, want) in [(reader, yes), (viewer, no), (monitor, no)] {
        for path in ["/query", "/explain"] {
            let token = Some(secured.tokens[who].as_str());
            let (status, told) = secured.server.sql(path, "SELECT _key FROM t", token).await;
            assert_eq!(status, want, "v{who} {path}: {told}");
        }
    }
}

#[tokio::test]
async fn a_reader_of_some_families_sees_no_others() {
    let secured = Secured::start(&[("bigtable.reader", TABLE, &["f"])]).await;
    let token = Some(secured.tokens[0].as_str());
    for path in [format!("/rows?table={TABLE}"), format!("/row?table={TABLE}&key=YQ")] {
        let (status, told) = secured.server.get(&path, token).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        assert!(told.to_string().contains(&encoded(b"seen")), "{told}");
        assert!(!told.to_string().contains(&encoded(b"hidden")), "{told}");
    }
    let path = format!("/cell?table={TABLE}&key=YQ&family=g&qualifier=cQ&timestamp=2000");
    let (_, told) = secured.server.get(&path, token).await;
    assert_eq!(told["row"], Value::Null);
    let (status, _) = secured.server.sql("/query", "SELECT * FROM t", token).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_refusal_does_not_tell_whether_the_table_exists() {
    let secured = Secured::start(&[("stele.operator", "*", &[])]).await;
    let token = Some(secured.tokens[0].as_str());
    for path in ["/table?name=", "/rows?table=", "/tree?name=", "/heat?name="] {
        let there = secured.server.get(&format!("{path}{TABLE}"), token).await;
        let gone = secured.server.get(&format!("{path}{INSTANCE}/tables/u"), token).await;
        assert_eq!((there.0, gone.0), (StatusCode::FORBIDDEN, StatusCode::FORBIDDEN), "{path}");
        let told = there.1.to_string().replace("/tables/t", "/tables/u");
        assert_eq!(told, gone.1.to_string());
    }
}
