//! Features that a client announces with each call: the header `bigtable-features`.
//!
//! Its value is a `FeatureFlags` message in the URL-safe alphabet of base64, with padding or without. A
//! client without the header, or with one that cannot be read, has announced nothing.

use crate::api::data::FeatureFlags;
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost::Message;
use tonic::Request;

const HEADER: &str = "bigtable-features";
/// Longest header that is read, many times what all flags take.
const HEADER_BYTES_MAX: usize = 1 << 10;
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Tells what the client of a call understands.
pub(crate) trait Features {
    /// Returns the flags that the client announced.
    fn features(&self) -> FeatureFlags;
}

impl<T> Features for Request<T> {
    fn features(&self) -> FeatureFlags {
        let header = self.metadata().get(HEADER).map(|value| value.as_bytes());
        header.and_then(flags).unwrap_or_default()
    }
}

fn flags(header: &[u8]) -> Option<FeatureFlags> {
    if header.len() > HEADER_BYTES_MAX {
        return None;
    }
    FeatureFlags::decode(&BASE64.decode(header).ok()?[..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{URL_SAFE as PADDED, URL_SAFE_NO_PAD};

    fn request(header: &str) -> Request<()> {
        let mut request = Request::new(());
        request.metadata_mut().insert(HEADER, header.parse().unwrap());
        request
    }

    #[test]
    fn announced_flags_are_read_with_padding_and_without() {
        let flags = FeatureFlags {
            last_scanned_row_responses: true,
            peer_info: true,
            ..Default::default()
        };
        for engine in [PADDED, URL_SAFE_NO_PAD] {
            assert_eq!(request(&engine.encode(flags.encode_to_vec())).features(), flags);
        }
        let clients = request("CAEgATABOAFAAQ==").features();
        assert!(clients.reverse_scans && clients.last_scanned_row_responses && clients.retry_info);
    }

    #[test]
    fn what_cannot_be_read_announces_nothing() {
        let nothing = FeatureFlags::default();
        assert_eq!(Request::new(()).features(), nothing);
        let long = PADDED.encode(vec![0; 2 * HEADER_BYTES_MAX]);
        for header in ["", "!", "IAE=x", "_____w==", &long] {
            assert_eq!(request(header).features(), nothing, "{header}");
        }
    }
}
