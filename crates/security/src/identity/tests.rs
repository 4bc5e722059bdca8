use super::*;
use crate::identity::create::KeyFile;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

const NOW: i64 = 1_800_000_000;
const AUDIENCE: &str = "https://bigtable.googleapis.com/";
const TOKEN_URI: &str = "https://stele.example:8087/token";

fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let bits = part.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - part.len()));
        for at in 0..=part.len() {
            out.push(char::from(LETTERS[(bits >> (18 - 6 * at)) as usize & 63]));
        }
    }
    out
}

/// Signs `claims` as the holder of a key file does.
fn signed(key: &KeyFile, header: &Value, claims: &Value) -> String {
    let der = PrivatePkcs8KeyDer::from_pem_slice(key.private_key.as_bytes()).unwrap();
    let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
    let message = message(header, claims);
    let mut signature = vec![0; pair.public().modulus_len()];
    let random = SystemRandom::new();
    pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).unwrap();
    format!("{message}.{}", base64url(&signature))
}

fn message(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| base64url(value.to_string().as_bytes());
    format!("{}.{}", part(header), part(claims))
}

struct Registered {
    _dir: tempfile::TempDir,
    file: PathBuf,
    key: KeyFile,
    identities: Identities,
}

impl Registered {
    fn token(&self, claims: Value) -> String {
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.key.private_key_id});
        signed(&self.key, &header, &claims)
    }

    fn refused(&self, token: &str) -> Refusal {
        self.identities.identify(token, NOW).expect_err("the token should be refused")
    }
}

fn claims() -> Value {
    let name = "app@stele";
    json!({"iss": name, "sub": name, "aud": AUDIENCE, "iat": NOW, "exp": NOW + 3_600})
}

fn with(field: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[field] = value;
    claims
}

fn registered() -> Registered {
    let dir = tempfile::tempdir().unwrap();
    let (file, key_file) = (dir.path().join("identities.toml"), dir.path().join("app.json"));
    create_service_account(&file, "app@stele", "p", &key_file, TOKEN_URI).unwrap();
    let key = serde_json::from_slice(&std::fs::read(key_file).unwrap()).unwrap();
    let identities = Identities::load(&file).unwrap();
    Registered { _dir: dir, file, key, identities }
}

#[test]
fn a_static_token_is_known_by_its_hash_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("identities.toml");
    let (first, second) =
        (create_token(&file, "ci").unwrap(), create_token(&file, "backup").unwrap());
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&first) && !text.contains(&second), "{text}");
    let identities = Identities::load(&file).unwrap();
    assert_eq!(&*identities.identify(&first, NOW).unwrap(), "token:ci");
    assert_eq!(&*identities.identify(&second, NOW).unwrap(), "token:backup");
    for wrong in ["", "x", &first[1..], &first.to_uppercase(), &format!("{first} ")] {
        assert_eq!(identities.identify(wrong, NOW), Err(Refusal::Unknown), "{wrong}");
    }
    let twice = create_token(&file, "ci").unwrap_err().to_string();
    assert!(twice.contains("the token ci is there twice"), "{twice}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "a refused entry leaves no trace");
    assert!(create_token(&file, "two words").is_err());
}

#[test]
fn the_holder_of_a_key_file_signs_in_for_an_hour() {
    let app = registered();
    let token = app.token(claims());
    let name = || app.identities.identify(&token, NOW);
    assert_eq!(&*name().unwrap(), "serviceAccount:app@stele");
    assert_eq!(name(), name(), "remembered");
    for (seconds, good) in [(3_600, true), (3_659, true), (3_660, false), (9_999, false)] {
        let at = app.identities.identify(&token, NOW + seconds);
        assert_eq!(at.is_ok(), good, "{seconds}");
    }
    let scoped = |scope: &str| {
        let mut claims = with("scope", json!(scope));
        let audiences = [None, Some(json!("")), Some(json!([]))];
        let known = audiences.map(|audience| {
            match audience {
                None => drop(claims.as_object_mut().unwrap().remove("aud")),
                Some(audience) => claims["aud"] = audience,
            }
            app.identities.identify(&app.token(claims.clone()), NOW).is_ok()
        });
        assert!(known.iter().all(|good| *good == known[0]), "{scope}: {known:?}");
        known[0]
    };
    assert!(scoped("https://www.googleapis.com/auth/cloud-platform"));
    assert!(scoped("openid https://www.googleapis.com/auth/bigtable.data"));
    assert!(!scoped("https://www.googleapis.com/auth/devstorage.read_only"));
    assert!(!scoped(""));
}

#[test]
fn claims_that_are_not_for_us_are_refused() {
    let app = registered();
    for (claims, why) in [
        (with("exp", json!(NOW - 60)), Refusal::Expired),
        (with("exp", json!(NOW as f64 - 60.5)), Refusal::Expired),
        (with("exp", json!(NOW + 7_200)), Refusal::Time),
        (with("exp", json!(1e300)), Refusal::Time),
        (with("exp", json!("tomorrow")), Refusal::Malformed),
        (with("exp", Value::Null), Refusal::Malformed),
        (with("iat", json!(NOW + 120)), Refusal::Time),
        (with("nbf", json!(NOW + 61)), Refusal::Time),
        (with("aud", json!("https://storage.googleapis.com/")), Refusal::Audience),
        (with("aud", json!([])), Refusal::Audience),
        (with("sub", json!("root@stele")), Refusal::Malformed),
        (with("iss", json!("root@stele")), Refusal::UnknownKey),
        (with("iss", json!(7)), Refusal::Malformed),
    ] {
        assert_eq!(app.refused(&app.token(claims.clone())), why, "{claims}");
    }
    let both = with("aud", json!(["https://other", AUDIENCE]));
    assert!(app.identities.identify(&app.token(both), NOW).is_ok());
}

#[test]
fn forged_tokens_are_refused() {
    let (app, other) = (registered(), registered());
    let kid = &app.key.private_key_id;
    let header = |alg: &str| json!({"alg": alg, "typ": "JWT", "kid": kid});
    let good = app.token(claims());
    let (message, signature) = good.rsplit_once('.').unwrap();
    assert_eq!(app.refused(&signed(&other.key, &header("RS256"), &claims())), Refusal::Signature);
    assert_eq!(app.refused(&signed(&app.key, &header("HS256"), &claims())), Refusal::UnknownKey);
    assert_eq!(app.refused(&signed(&app.key, &header("RS512"), &claims())), Refusal::UnknownKey);
    let (_, payload) = message.split_once('.').unwrap();
    let none = base64url(json!({"alg": "none"}).to_string().as_bytes());
    for token in [format!("{none}.{payload}."), format!("{message}."), good.replace('.', "..")] {
        assert!(matches!(app.refused(&token), Refusal::Malformed | Refusal::Signature), "{token}");
    }
    let changed = with("exp", json!(NOW + 3_599));
    let swapped = format!("{}.{signature}", super::tests::message(&header("RS256"), &changed));
    assert_eq!(app.refused(&swapped), Refusal::Signature);
    assert_eq!(app.refused(&"x.".repeat(TOKEN_BYTES_MAX)), Refusal::Malformed);
    let unknown = json!({"alg": "RS256", "kid": "another"});
    assert_eq!(app.refused(&signed(&app.key, &unknown, &claims())), Refusal::UnknownKey);
}

#[test]
fn a_file_without_a_key_forgets_who_had_it() {
    let app = registered();
    let token = app.token(claims());
    assert!(app.identities.identify(&token, NOW).is_ok());
    std::fs::write(&app.file, "").unwrap();
    let fresh = Identities::load(&app.file).unwrap();
    assert_eq!(fresh.identify(&token, NOW), Err(Refusal::UnknownKey));
}

#[test]
fn an_assertion_gets_a_token_that_ends_with_it() {
    let app = registered();
    let grant = |life: i64, now: i64| {
        let claims = json!({"iss": "app@stele", "aud": TOKEN_URI, "iat": NOW, "exp": NOW + life});
        app.identities.grant(&app.token(claims), now).unwrap()
    };
    for (life, now, seconds) in [
        (3_600, NOW, 3_600),
        (3_660, NOW, 3_600),
        (600, NOW, 600),
        // Shown again, later: the time that is left.
        (600, NOW + 400, 200),
        // The clocks differ by a minute.
        (600, NOW + 659, 60),
    ] {
        let given = grant(life, now);
        assert_eq!((&*given.name, given.expires_in), ("serviceAccount:app@stele", seconds));
        let name = |at| app.identities.identify(&given.token, at);
        assert_eq!(&*name(now + seconds - 1).unwrap(), "serviceAccount:app@stele");
        assert_eq!(name(now + seconds), Err(Refusal::Expired));
        assert!(given.token.len() < 200 && given.token.is_ascii());
    }
}

#[test]
fn an_access_token_cannot_be_changed_and_ends_with_its_key() {
    let app = registered();
    let assertion = app.token(with("aud", json!(TOKEN_URI)));
    let token = app.identities.grant(&assertion, NOW).unwrap().token;
    let again = app.identities.load_again(&app.file).unwrap();
    assert!(again.identify(&token, NOW).is_ok(), "the key is still there");
    for at in access::PREFIX.len()..token.len() {
        let mut forged = token.clone().into_bytes();
        forged[at] ^= 1;
        let forged = String::from_utf8(forged).unwrap();
        let refused = app.identities.identify(&forged, NOW);
        assert!(matches!(refused, Err(Refusal::Signature | Refusal::Malformed)), "{at}");
    }
    for cut in 0..token.len() {
        assert!(app.identities.identify(&token[..cut], NOW).is_err(), "{cut}");
    }
    let restarted = Identities::load(&app.file).unwrap();
    assert_eq!(restarted.identify(&token, NOW), Err(Refusal::Signature), "another process");
    // Another key for the same account, under the id of the first one.
    let other = registered();
    let text = std::fs::read_to_string(&other.file).unwrap();
    std::fs::write(&app.file, text.replace(&other.key.private_key_id, &app.key.private_key_id))
        .unwrap();
    for text in [std::fs::read_to_string(&app.file).unwrap(), String::new()] {
        std::fs::write(&app.file, text).unwrap();
        let fresh = app.identities.load_again(&app.file).unwrap();
        assert_eq!(fresh.identify(&token, NOW), Err(Refusal::UnknownKey));
    }
}

#[test]
fn what_is_no_assertion_gets_no_token() {
    let app = registered();
    let assertion = |field: &str, value: Value| {
        let mut claims = with("aud", json!(TOKEN_URI));
        claims[field] = value;
        app.token(claims)
    };
    let good = assertion("iat", json!(NOW));
    assert!(app.identities.grant(&good, NOW).is_ok());
    assert_eq!(app.refused(&good), Refusal::Audience, "an assertion is no token");
    let bigtable = "https://www.googleapis.com/auth/bigtable.admin";
    assert!(app.identities.grant(&assertion("scope", json!(bigtable)), NOW).is_ok());
    let google = assertion("aud", json!("https://oauth2.googleapis.com/token"));
    assert!(app.identities.grant(&google, NOW).is_ok());
    let other = registered();
    let header = |alg: &str, kid: &str| json!({"alg": alg, "typ": "JWT", "kid": kid});
    let (kid, claims) = (&app.key.private_key_id, with("aud", json!(TOKEN_URI)));
    let none = format!("{}.", message(&header("none", kid), &claims));
    let static_token = create_token(&app.file, "ci").unwrap();
    for (assertion, why) in [
        (assertion("exp", json!(NOW - 60)), Refusal::Expired),
        (assertion("exp", json!(NOW + 7_200)), Refusal::Time),
        (assertion("iat", json!(NOW + 120)), Refusal::Time),
        (assertion("aud", json!("https://stele.example:8087/")), Refusal::Audience),
        (assertion("aud", Value::Null), Refusal::Audience),
        (app.token(super::tests::claims()), Refusal::Audience),
        (assertion("scope", json!("openid")), Refusal::Scope),
        (assertion("sub", json!("root@stele")), Refusal::Malformed),
        (assertion("iss", json!("root@stele")), Refusal::UnknownKey),
        (signed(&app.key, &header("RS256", "another"), &claims), Refusal::UnknownKey),
        (signed(&app.key, &header("HS256", kid), &claims), Refusal::UnknownKey),
        (signed(&other.key, &header("RS256", kid), &claims), Refusal::Signature),
        (none, Refusal::Malformed),
        (static_token, Refusal::Malformed),
        (app.identities.grant(&good, NOW).unwrap().token, Refusal::Malformed),
        ("x.".repeat(TOKEN_BYTES_MAX), Refusal::Malformed),
        (String::new(), Refusal::Malformed),
    ] {
        let refused = app.identities.grant(&assertion, NOW).map(|given| given.expires_in);
        assert_eq!(refused, Err(why), "{assertion}");
    }
}

#[test]
fn an_issuer_vouches_for_its_subjects() {
    let dir = tempfile::tempdir().unwrap();
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random)
        .unwrap();
    let point = pair.public_key().as_ref();
    let ec = json!({"kty": "EC", "crv": "P-256", "kid": "1",
        "x": base64url(&point[1..33]), "y": base64url(&point[33..])});
    let other = json!({"kty": "OKP", "crv": "Ed25519", "kid": "2", "x": base64url(&[7; 32])});
    let jwks = json!({"keys": [ec, other]});
    std::fs::write(dir.path().join("keys.json"), jwks.to_string()).unwrap();
    let file = dir.path().join("identities.toml");
    let text = "[[issuer]]\nname = 'corp'\nissuer = 'https://accounts'\naudiences = ['stele']\n\
        jwks = 'keys.json'\n";
    std::fs::write(&file, text).unwrap();
    let identities = Identities::load(&file).unwrap();
    let stamped = |path: PathBuf| (path.clone(), Stamp::of(&path));
    assert_eq!(identities.files(), [file, dir.path().join("keys.json")].map(stamped));
    let identify = |claims: Value| {
        let message = message(&json!({"alg": "ES256", "kid": "1"}), &claims);
        let signature = pair.sign(&random, message.as_bytes()).unwrap();
        identities.identify(&format!("{message}.{}", base64url(signature.as_ref())), NOW)
    };
    // An issuer may let its tokens live for longer than an hour.
    let claims =
        json!({"iss": "https://accounts", "sub": "ann", "aud": "stele", "exp": NOW + 86_400});
    assert_eq!(&*identify(claims.clone()).unwrap(), "jwt:corp/ann");
    for (field, value, why) in [
        ("aud", json!(AUDIENCE), Refusal::Audience),
        ("aud", Value::Null, Refusal::Audience),
        ("sub", Value::Null, Refusal::Malformed),
        ("sub", json!("two words"), Refusal::Malformed),
        ("exp", json!(NOW - 61), Refusal::Expired),
    ] {
        let mut claims = claims.clone();
        claims[field] = value;
        assert_eq!(identify(claims.clone()), Err(why), "{claims}");
    }
}

#[test]
fn files_that_cannot_be_used_are_refused_with_their_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("identities.toml");
    let entry = std::fs::read_to_string(registered().file.clone()).unwrap();
    for (text, said) in [
        ("[[tokens]]\nname = 'a'\n", "unknown field"),
        ("[[token]]\nname = 'a'\nsha256 = 'secret'\n", "64 hexadecimal digits"),
        ("[[token]]\nname = 'a b'\nsha256 = ''\n", "printable letters"),
        ("[[service_account]]\nemail = 'a'\nkey_id = '1'\npublic_key = 'x'\n", "public_key of a"),
        (
            "[[issuer]]\nname = 'c'\nissuer = 'i'\naudiences = ['a']\njwks = 'gone'\n",
            "gone: No such",
        ),
        ("x = ", ""),
        (
            &entry.replace(TOKEN_URI, "ftp://stele.example/token"),
            "token_uri \"ftp://stele.example/token\" must be like",
        ),
        (&entry.replace(TOKEN_URI, "https:///token"), "must be like"),
        (&entry.replace(TOKEN_URI, "https://two words/"), "printable letters"),
    ] {
        std::fs::write(&file, text).unwrap();
        let error = Identities::load(&file).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn remembered_tokens_are_bounded() {
    let app = registered();
    let name: Arc<str> = "token:x".into();
    for number in 0..REMEMBERED_MAX + 5 {
        let ends_at = if number % 2 == 0 { NOW } else { NOW + 1 };
        let token = Remembered { name: Arc::clone(&name), ends_at };
        app.identities.remember(hash(&number.to_le_bytes()), token, NOW);
    }
    let held = app.identities.remembered.lock().len();
    assert!((1..=REMEMBERED_MAX).contains(&held), "{held}");
}
