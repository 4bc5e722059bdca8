//! The header `traceparent` of W3C's trace context, which names the trace that a request is part of.

use tonic::codegen::http::{HeaderMap, HeaderName};

const HEADER: HeaderName = HeaderName::from_static("traceparent");
/// The flag of a trace whose caller records it.
const SAMPLED: u8 = 1;

/// The trace that a caller names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace: u128,
    /// The span of the caller.
    pub(crate) parent: u64,
    /// The caller records the trace.
    pub(crate) sampled: bool,
}

impl TraceParent {
    /// Returns what the headers of a request say. A header that breaks its form is passed over.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get(HEADER)?.as_bytes())
    }

    /// Parses `VERSION-TRACE-PARENT-FLAGS`, of 2, 32, 16 and 2 digits; a later version may have more behind them.
    fn parse(value: &[u8]) -> Option<Self> {
        let text = str::from_utf8(value).ok()?;
        let mut fields = text.splitn(5, '-');
        let mut digits = |len: usize| {
            let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            fields.next().filter(|field| field.len() == len && field.bytes().all(hex))
        };
        let version = digits(2)?;
        let trace = u128::from_str_radix(digits(32)?, 16).ok()?;
        let parent = u64::from_str_radix(digits(16)?, 16).ok()?;
        let flags = u8::from_str_radix(digits(2)?, 16).ok()?;
        // Later versions may add fields, and keep the first four.
        let known = version == "00" && fields.next().is_none();
        let later = version != "00" && version != "ff";
        let is_valid = (known || later) && trace != 0 && parent != 0;
        is_valid.then_some(Self { trace, parent, sampled: flags & SAMPLED != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_trace_parent_and_whether_it_is_recorded() {
        let known = |flags: &str| {
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}").into_bytes()
        };
        let trace = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
        for (flags, sampled) in [("00", false), ("01", true), ("02", false), ("ff", true)] {
            let want = TraceParent { trace, parent: 0x00f0_67aa_0ba9_02b7, sampled };
            assert_eq!(TraceParent::parse(&known(flags)), Some(want));
        }
    }

    #[test]
    fn a_header_of_a_later_version_is_read_as_far_as_it_is_known() {
        for end in ["", "-what-came-later"] {
            let later = format!("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01{end}");
            let read = TraceParent::parse(later.as_bytes()).map(|parent| parent.parent);
            assert_eq!(read, Some(0x00f0_67aa_0ba9_02b7), "{later}");
        }
    }

    #[test]
    fn a_header_that_breaks_its_form_is_passed_over() {
        for wrong in [
            &b""[..],
            b"00",
            b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            b"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            b"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            b"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            b"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            b"00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            b"00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            b"\xff-",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }
}
