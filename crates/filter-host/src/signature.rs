//! The host's `verify_signature`: a protobuf message in, another out.
//!
//! In: 1 hash function (string), 2 public key (SubjectPublicKeyInfo, DER), 3 signature, 4 text.
//! Out: 1 result (bool), 2 error. The call's status is Ok for a wrong signature too: what says
//! that it is good is the result alone.

use filter_api::{Hash, HostVerdict, SignatureCheck};

/// The function's name.
pub const FUNCTION: &str = "verify_signature";

/// Writes the message into `out`, whose room is kept between calls.
pub fn write_request(check: &SignatureCheck<'_>, out: &mut Vec<u8>) {
    let hash = match check.hash {
        Hash::Sha256 => "sha256",
        Hash::Sha384 => "sha384",
        Hash::Sha512 => "sha512",
    };
    out.clear();
    write_field(out, 1, hash.as_bytes());
    write_field(out, 2, check.public_key);
    write_field(out, 3, check.signature);
    write_field(out, 4, check.text);
}

/// Reads the answer: good is exactly `result: true` and nothing else.
pub fn read_answer(answer: &[u8]) -> HostVerdict {
    if answer == [0x08, 0x01] { HostVerdict::Valid } else { HostVerdict::Invalid }
}

/// A length-delimited field.
fn write_field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(0x80 | u8::try_from(length & 0x7f).unwrap_or_default());
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap_or_default());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_protobuf() {
        let mut out = vec![1, 2, 3];
        let text = [b'x'; 300];
        let check = SignatureCheck { hash: Hash::Sha256, public_key: b"k", signature: b"", text: &text };
        write_request(&check, &mut out);
        let mut expected = b"\x0a\x06sha256\x12\x01k\x1a\x00\x22\xac\x02".to_vec();
        expected.extend_from_slice(&text);
        assert_eq!(out, expected);
    }

    #[test]
    fn only_a_plain_true_is_good() {
        assert_eq!(read_answer(&[8, 1]), HostVerdict::Valid);
        for answer in [&[][..], &[8, 0], &[8, 1, 8, 0], &[8, 2], &[8, 1, 0x12, 0], &[0x12, 1, b'e']] {
            assert_eq!(read_answer(answer), HostVerdict::Invalid, "{answer:?}");
        }
    }
}
