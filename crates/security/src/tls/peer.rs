//! The name and the end of a certificate.

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Longest name that is taken; a longer one counts as none.
const NAME_BYTES_MAX: usize = 256;

/// Returns the name of a client by its certificate, which was verified: the first URI, DNS name or mail
/// address among its alternative names, in this order, else its common name.
pub fn name_of(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    let alternatives = alternatives.map_or(&[][..], |names| &names.value.general_names);
    let first = |pick: fn(&GeneralName<'_>) -> Option<String>| alternatives.iter().find_map(pick);
    let name = first(uri).or_else(|| first(dns)).or_else(|| first(mail)).or_else(|| {
        let common = parsed.subject().iter_common_name().next()?;
        common.as_str().ok().map(str::to_owned)
    })?;
    let plain = |name: &String| {
        !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && !name.chars().any(|c| c.is_control() || c.is_whitespace())
    };
    Some(name).filter(plain)
}

fn uri(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::URI(uri) = name { Some((*uri).to_owned()) } else { None }
}

fn dns(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::DNSName(dns) = name { Some((*dns).to_owned()) } else { None }
}

fn mail(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::RFC822Name(mail) = name { Some((*mail).to_owned()) } else { None }
}

/// Returns the end of a certificate in seconds since 1970.
pub fn expiry(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn certificate(common: &str, alternatives: Vec<SanType>) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common);
        params.subject_alt_names = alternatives;
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_has_one_name() {
        let uri = || SanType::URI("spiffe://stele/reader".try_into().unwrap());
        let dns = || SanType::DnsName("reader.example".try_into().unwrap());
        let mail = || SanType::Rfc822Name("reader@example".try_into().unwrap());
        for (common, alternatives, want) in [
            ("reader", vec![], Some("reader")),
            ("reader", vec![mail()], Some("reader@example")),
            ("reader", vec![mail(), dns()], Some("reader.example")),
            ("reader", vec![mail(), dns(), uri()], Some("spiffe://stele/reader")),
            ("", vec![], None),
            ("two words", vec![], None),
            ("line\nbreak", vec![], None),
        ] {
            let name = name_of(&certificate(common, alternatives));
            assert_eq!(name.as_deref(), want, "{common:?}");
        }
        assert_eq!(name_of(&certificate(&"x".repeat(257), vec![])), None);
        assert_eq!(name_of(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
