//! Public keys that tokens are verified with: RSA (RS256) and P-256 (ES256), checked by `ring`.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result as JwtResult};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey, signature};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use std::sync::Once;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Most keys of one issuer.
const KEYS_MAX: usize = 100;
/// Bytes of a modulus, from 2048 to 8192 bits.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;

/// A public key, and the id by which tokens name it.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) id: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

/// Reads an RSA key in PEM.
pub(super) fn rsa_key_of_pem(id: &str, pem: &str) -> Result<Key, String> {
    let der = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| format!("not a public key in PEM: {error}"))?;
    let (_, info) = SubjectPublicKeyInfo::from_der(&der).map_err(|error| error.to_string())?;
    match info.parsed() {
        Ok(PublicKey::RSA(rsa)) => {
            let unsigned = |number: &[u8]| {
                let zeros = number.iter().take_while(|byte| **byte == 0).count();
                number[zeros..].to_vec()
            };
            let (modulus, exponent) = (unsigned(rsa.modulus), unsigned(rsa.exponent));
            rsa_key(Some(id.to_owned()), &modulus, &exponent)
        }
        _ => Err("not an RSA key".to_owned()),
    }
}

fn rsa_key(id: Option<String>, modulus: &[u8], exponent: &[u8]) -> Result<Key, String> {
    if !MODULUS_BYTES.contains(&modulus.len()) {
        return Err("an RSA key must have 2048 to 8192 bits".to_owned());
    }
    let key = DecodingKey::from_rsa_raw_components(modulus, exponent);
    Ok(Key { id, algorithm: Algorithm::RS256, key })
}

/// Reads the keys of a JWKS that are for signatures of a known kind; the others are left out.
pub(super) fn keys_of_jwks(json: &[u8]) -> Result<Vec<Key>, String> {
    let set: JwkSet = serde_json::from_slice(json).map_err(|error| format!("no JWKS: {error}"))?;
    if set.keys.len() > KEYS_MAX {
        return Err(format!("has more than {KEYS_MAX} keys"));
    }
    let mut keys = Vec::new();
    for jwk in &set.keys {
        if let Some(key) = key_of_jwk(jwk)? {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return Err("has no key for RS256 or ES256".to_owned());
    }
    Ok(keys)
}

fn key_of_jwk(jwk: &Jwk) -> Result<Option<Key>, String> {
    let id = jwk.common.key_id.clone();
    let key = DecodingKey::from_jwk(jwk);
    match (&jwk.algorithm, key) {
        (AlgorithmParameters::RSA(_), Ok(key)) => match key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => rsa_key(id, n, e).map(Some),
            DecodingKeyKind::SecretOrDer(_) => Ok(None),
        },
        (AlgorithmParameters::EllipticCurve(curve), Ok(key)) => {
            let is_known = curve.curve == EllipticCurve::P256;
            Ok(is_known.then_some(Key { id, algorithm: Algorithm::ES256, key }))
        }
        (AlgorithmParameters::RSA(_) | AlgorithmParameters::EllipticCurve(_), Err(error)) => {
            Err(format!("the key {:?} is malformed: {error}", id.unwrap_or_default()))
        }
        _ => Ok(None),
    }
}

/// Makes `ring` verify the tokens of this process. Later calls do nothing.
pub(super) fn install_verifier() {
    static INSTALLED: Once = Once::new();
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: no_signer,
        verifier_factory: verifier,
        key_utils: KeyUtils::new_unimplemented(),
    };
    INSTALLED.call_once(|| {
        // Fails if a program that embeds this crate has its own, which is then used.
        let _ = PROVIDER.install_default();
    });
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> JwtResult<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> JwtResult<Box<dyn JwtVerifier>> {
    match (algorithm, key.kind()) {
        (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
            Ok(Box::new(Rsa { modulus: n.clone(), exponent: e.clone() }))
        }
        (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => {
            Ok(Box::new(P256 { point: point.clone() }))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

struct Rsa {
    modulus: Vec<u8>,
    exponent: Vec<u8>,
}

impl signature::Verifier<Vec<u8>> for Rsa {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let key = RsaPublicKeyComponents { n: &self.modulus, e: &self.exponent };
        let verified = key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature);
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Rsa {
    fn algorithm(&self) -> Algorithm {
        Algorithm::RS256
    }
}

struct P256 {
    point: Vec<u8>,
}

impl signature::Verifier<Vec<u8>> for P256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.point);
        key.verify(message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for P256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::ES256
    }
}
