use super::*;
use crate::serve::security::metrics::SecurityMetrics;
use security::identity::create_token;

struct Gated {
    gate: Arc<Gate>,
    token: String,
    _dir: tempfile::TempDir,
}

fn gated() -> Gated {
    let dir = tempfile::tempdir().unwrap();
    let (identities, policy) = (dir.path().join("identities"), dir.path().join("policy"));
    let token = create_token(&identities, "ci").unwrap();
    let text = "[[bindings]]\nrole = 'stele.monitor'\nmembers = ['token:ci']\nresource = '*'\n";
    std::fs::write(&policy, text).unwrap();
    let gate = Gate {
        identities: Some(ArcSwap::from_pointee(Identities::load(&identities).unwrap())),
        policy: ArcSwapOption::from_pointee(Policy::load(&policy).unwrap()),
        audit: Audit::to_log(&SecurityMetrics::new()),
    };
    Gated { gate: Arc::new(gate), token, _dir: dir }
}

fn headers(name: &'static str, value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, value.parse().unwrap());
    headers
}

#[test]
fn a_caller_is_known_by_token_or_certificate_and_a_wrong_token_is_not_made_good() {
    let Gated { gate, token, _dir } = gated();
    let (nobody, known) =
        (Peer::default(), Peer { identity: Some("cert:ann".into()), address: None });
    for (header, value, peer, want) in [
        ("authorization", format!("Bearer {token}"), &nobody, Some("token:ci")),
        ("authorization", format!("bearer {token}"), &known, Some("token:ci")),
        ("x-goog-api-key", token.clone(), &nobody, Some("token:ci")),
        ("x-other", token.clone(), &nobody, None),
        ("x-other", token.clone(), &known, Some("cert:ann")),
        ("authorization", format!("Basic {token}"), &known, None),
        ("authorization", "Bearer".into(), &known, None),
        ("authorization", "Bearer wrong".into(), &known, None),
        ("authorization", "Bearer \u{e9}".into(), &known, None),
    ] {
        let admitted = gate.admit(peer, &headers(header, &value));
        assert_eq!(admitted.as_ref().map(Admitted::name), want, "{header}");
    }
}

#[test]
fn the_policy_of_the_beginning_holds_to_the_end() {
    let Gated { gate, token, _dir } = gated();
    let bearer = headers("authorization", &format!("Bearer {token}"));
    let admit = || gate.admit(&Peer::default(), &bearer).unwrap();
    let before = admit();
    assert!(before.may("stele.metrics.get") && !before.may("stele.checkpoints.create"));
    gate.policy.store(None);
    assert!(!before.may("stele.checkpoints.create"));
    assert!(admit().may("stele.checkpoints.create"));
    #[cfg(feature = "sql")]
    assert!(before.has_policy() && !admit().has_policy());
}
