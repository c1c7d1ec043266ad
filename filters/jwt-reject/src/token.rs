//! A token taken apart: three parts, header, claims and signature, each read strictly.

use base64ct::{Base64UrlUnpadded, Encoding};
use filter_api::json;
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::reason::Reason;

/// Levels of arrays and objects in a header or in claims. Real tokens have four or so.
const MAX_DEPTH: u8 = 24;

/// The last second of the year 9999. A NumericDate beyond it is a mistake (milliseconds, mostly),
/// and would make a token valid for ever.
const MAX_SECONDS: f64 = 253_402_300_799.0;

/// The three parts of a compact JWS, still encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The JOSE header.
    pub header: &'a str,
    /// The payload.
    pub payload: &'a str,
    /// The signature.
    pub signature: &'a str,
    /// What was signed: header, dot, payload.
    pub signed: &'a str,
}

/// A decoded header.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// All of it.
    pub json: Map<String, Value>,
    /// `alg`.
    pub algorithm: Algorithm,
}

/// A decoded payload whose registered claims have the right types.
#[derive(Debug, Clone, PartialEq)]
pub struct Claims {
    /// All of it.
    pub json: Map<String, Value>,
    /// `exp` in nanoseconds since 1970.
    pub expires: Option<u64>,
    /// `nbf` in nanoseconds since 1970.
    pub not_before: Option<u64>,
    /// `iat` in nanoseconds since 1970.
    pub issued_at: Option<u64>,
}

impl<'a> Parts<'a> {
    /// Splits at the dots. Exactly two; what else the parts hold is looked at when they are
    /// decoded.
    ///
    /// # Errors
    /// [`Reason::TokenMalformed`].
    pub fn split(token: &'a [u8]) -> Result<Self, Reason> {
        let split = |token: &'a [u8]| {
            let text = std::str::from_utf8(token).ok()?;
            let (signed, signature) = text.rsplit_once('.')?;
            let (header, payload) = signed.split_once('.')?;
            let whole = !payload.contains('.') && text.bytes().all(|byte| byte.is_ascii_graphic());
            whole.then_some(Self { header, payload, signature, signed })
        };
        split(token).ok_or(Reason::TokenMalformed)
    }
}

/// Decodes a header or a payload: base64url of a JSON object. What is in it is another matter.
///
/// # Errors
/// The one reason or the other.
pub fn decode_object(
    part: &str,
    padding: Padding,
    not_base64url: Reason,
    not_json: Reason,
) -> Result<Map<String, Value>, Reason> {
    let text = decode_base64url(part, padding).ok_or(not_base64url)?;
    match json::parse(&text, MAX_DEPTH) {
        Ok(Value::Object(json)) => Ok(json),
        _ => Err(not_json),
    }
}

impl Header {
    /// Looks for what a header must not have.
    ///
    /// # Errors
    /// The reasons of [`crate::reason::Check::Header`].
    pub fn check(json: &Map<String, Value>) -> Result<(), Reason> {
        // Before anything else is believed: whoever set these meant that the token is not to be
        // read in the ordinary way.
        if json.contains_key("crit") {
            return Err(Reason::CritNotSupported);
        }
        if json.contains_key("b64") {
            return Err(Reason::B64NotSupported);
        }
        if json.get("kid").is_some_and(|kid| !kid.is_string()) {
            return Err(Reason::KidNotString);
        }
        Ok(())
    }

    /// Reads the algorithm of a header that was checked.
    ///
    /// # Errors
    /// The reasons of [`crate::reason::Check::Algorithm`].
    pub fn read(json: Map<String, Value>) -> Result<Self, Reason> {
        let name = json.get("alg").and_then(Value::as_str).ok_or(Reason::AlgMissing)?;
        let algorithm = Algorithm::from_name(name).ok_or(Reason::AlgNotSupported)?;
        Ok(Self { json, algorithm })
    }

    /// `typ`, without the prefix `application/` that may be left out (RFC 7515 section 4.1.9).
    pub fn kind(&self) -> Option<&str> {
        let kind = self.json.get("typ").and_then(Value::as_str)?;
        let prefixed = kind.get(..12).is_some_and(|start| start.eq_ignore_ascii_case("application/"));
        if prefixed { kind.get(12..) } else { Some(kind) }
    }

    /// `kid`.
    pub fn key_id(&self) -> Option<&str> {
        self.json.get("kid").and_then(Value::as_str)
    }
}

impl Claims {
    /// Reads a payload's registered claims.
    ///
    /// # Errors
    /// The reasons of [`crate::reason::Check::Payload`], but for its being JSON.
    pub fn read(json: Map<String, Value>) -> Result<Self, Reason> {
        for (name, reason) in
            [("iss", Reason::IssNotString), ("sub", Reason::SubNotString), ("jti", Reason::JtiNotString)]
        {
            if json.get(name).is_some_and(|claim| !claim.is_string()) {
                return Err(reason);
            }
        }
        let audiences_are_strings = match json.get("aud") {
            None | Some(Value::String(_)) => true,
            Some(Value::Array(list)) => list.iter().all(Value::is_string),
            Some(_) => false,
        };
        if !audiences_are_strings {
            return Err(Reason::AudNotString);
        }
        let date =
            |name: &str, reason| json.get(name).map(|claim| numeric_date(claim).ok_or(reason)).transpose();
        let issued_at = date("iat", Reason::IatNotNumber)?;
        let not_before = date("nbf", Reason::NbfNotNumber)?;
        let expires = date("exp", Reason::ExpNotNumber)?;
        Ok(Self { json, expires, not_before, issued_at })
    }

    /// `iss`.
    pub fn issuer(&self) -> Option<&str> {
        self.json.get("iss").and_then(Value::as_str)
    }

    /// `jti`.
    pub fn id(&self) -> Option<&str> {
        self.json.get("jti").and_then(Value::as_str)
    }

    /// `sub`.
    pub fn subject(&self) -> Option<&str> {
        self.json.get("sub").and_then(Value::as_str)
    }

    /// `aud`, be it one or several.
    pub fn audiences(&self) -> impl Iterator<Item = &str> {
        let (one, several) = match self.json.get("aud") {
            Some(Value::String(one)) => (Some(one.as_str()), [].as_slice()),
            Some(Value::Array(several)) => (None, several.as_slice()),
            _ => (None, [].as_slice()),
        };
        one.into_iter().chain(several.iter().filter_map(Value::as_str))
    }
}

/// Whether `=` may end a part. RFC 7515 section 2 says that it may not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Padding {
    /// It may not.
    #[default]
    Refused,
    /// It may, where it makes the length a multiple of four.
    Tolerated,
}

/// Decodes base64url (RFC 4648 section 5): its alphabet alone, no white space, and no bits set
/// that belong to no byte.
pub fn decode_base64url(part: &str, padding: Padding) -> Option<Vec<u8>> {
    let part = match padding {
        Padding::Tolerated if part.len().is_multiple_of(4) => {
            let short = part.strip_suffix('=').unwrap_or(part);
            short.strip_suffix('=').unwrap_or(short)
        }
        _ => part,
    };
    Base64UrlUnpadded::decode_vec(part).ok()
}

/// A NumericDate (RFC 7519 section 2) in nanoseconds: any JSON number from 0 to the end of the
/// year 9999, fractions and exponents included.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // both are within bounds by then
pub(crate) fn numeric_date(claim: &Value) -> Option<u64> {
    let Value::Number(number) = claim else { return None };
    if let Some(whole) = number.as_u64() {
        // u64 nanoseconds end in the year 2554; what lies beyond is as good as that.
        return (whole <= MAX_SECONDS as u64).then(|| whole.saturating_mul(1_000_000_000));
    }
    let seconds = number.as_f64()?;
    let sound = (0.0..=MAX_SECONDS).contains(&seconds) && !(seconds == 0.0 && seconds.is_sign_negative());
    sound.then_some((seconds * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str, not_json: Reason) -> Result<Map<String, Value>, Reason> {
        let part = Base64UrlUnpadded::encode_string(text.as_bytes());
        decode_object(&part, Padding::Refused, Reason::HeaderNotBase64url, not_json)
    }

    fn claims(text: &str) -> Result<Claims, Reason> {
        Claims::read(decode(text, Reason::PayloadNotJson)?)
    }

    fn algorithm(text: &str) -> Result<Algorithm, Reason> {
        let json = decode(text, Reason::HeaderNotJson)?;
        Header::check(&json)?;
        Header::read(json).map(|header| header.algorithm)
    }

    #[test]
    fn shapes() {
        for good in ["a.b.c", "..", "a..c", "a.b."] {
            assert!(Parts::split(good.as_bytes()).is_ok(), "{good}");
        }
        let parts = Parts::split(b"aa.bb.cc").unwrap();
        assert_eq!((parts.header, parts.payload, parts.signature, parts.signed), ("aa", "bb", "cc", "aa.bb"));
        for bad in
            ["", ".", "a", "a.b", "a.b.c.d", "a.b.c.d.e", "a .b.c", "a.b.c ", "a.b\n.c", "{\"payload\":\"\"}"]
        {
            assert_eq!(Parts::split(bad.as_bytes()), Err(Reason::TokenMalformed), "{bad:?}");
        }
        assert!(Parts::split(b"a.\xff.c").is_err());
    }

    #[test]
    fn base64url_is_strict() {
        let rows = [
            ("", Some(vec![])),
            ("AA", Some(vec![0])),
            ("AB", None),   // bits that belong to no byte
            ("AAB", None),  // likewise
            ("A", None),    // no such length
            ("AA==", None), // padding
            ("A+", None),   // the other alphabet
            ("A/", None),
            ("A A", None),
            ("-_", None),
            ("-_8", Some(vec![0xfb, 0xff])),
        ];
        for (text, expected) in rows {
            assert_eq!(decode_base64url(text, Padding::Refused), expected, "{text:?}");
        }
        assert_eq!(decode_base64url("AA==", Padding::Tolerated), Some(vec![0]));
        for bad in ["AA=", "AA===", "=", "==", "A===", "AB=="] {
            assert_eq!(decode_base64url(bad, Padding::Tolerated), None, "{bad:?}");
        }
    }

    #[test]
    fn headers() {
        let rows = [
            (r#"{"alg":"HS256"}"#, Ok(Algorithm::HS256)),
            (
                r#"{"alg":"HS256","jku":"https://evil.example","jwk":{},"x5u":"","x5c":[]}"#,
                Ok(Algorithm::HS256),
            ),
            (r#"{"alg":"none"}"#, Err(Reason::AlgNotSupported)),
            (r#"{"alg":"nOnE"}"#, Err(Reason::AlgNotSupported)),
            (r#"{"alg":["HS256"]}"#, Err(Reason::AlgMissing)),
            (r#"{"alg":null}"#, Err(Reason::AlgMissing)),
            ("{}", Err(Reason::AlgMissing)),
            ("[]", Err(Reason::HeaderNotJson)),
            ("", Err(Reason::HeaderNotJson)),
            (r#"{"alg":"HS256","alg":"HS256"}"#, Err(Reason::HeaderNotJson)),
            (r#"{"alg":"HS256","kid":7}"#, Err(Reason::KidNotString)),
            (r#"{"alg":"HS256","crit":[]}"#, Err(Reason::CritNotSupported)),
            (r#"{"alg":"HS256","b64":true}"#, Err(Reason::B64NotSupported)),
        ];
        for (text, expected) in rows {
            assert_eq!(algorithm(text), expected, "{text}");
        }
    }

    #[test]
    fn claims_of_the_wrong_type_are_refused() {
        let rows = [
            ("{}", None),
            (r#"{"exp":1.5,"nbf":1e3,"iat":0,"aud":["a"],"iss":"","sub":"","jti":""}"#, None),
            (r#"{"aud":[]}"#, None),
            ("[]", Some(Reason::PayloadNotJson)),
            ("\"x\"", Some(Reason::PayloadNotJson)),
            ("", Some(Reason::PayloadNotJson)),
            (r#"{"a":1,"a":1}"#, Some(Reason::PayloadNotJson)),
            (r#"{"iss":1}"#, Some(Reason::IssNotString)),
            (r#"{"iss":null}"#, Some(Reason::IssNotString)),
            (r#"{"sub":{}}"#, Some(Reason::SubNotString)),
            (r#"{"jti":1}"#, Some(Reason::JtiNotString)),
            (r#"{"aud":1}"#, Some(Reason::AudNotString)),
            (r#"{"aud":["a",1]}"#, Some(Reason::AudNotString)),
            (r#"{"aud":null}"#, Some(Reason::AudNotString)),
            (r#"{"exp":"1"}"#, Some(Reason::ExpNotNumber)),
            (r#"{"exp":true}"#, Some(Reason::ExpNotNumber)),
            (r#"{"exp":null}"#, Some(Reason::ExpNotNumber)),
            (r#"{"exp":-1}"#, Some(Reason::ExpNotNumber)),
            (r#"{"exp":-0.5}"#, Some(Reason::ExpNotNumber)),
            (r#"{"exp":1e300}"#, Some(Reason::ExpNotNumber)),
            (r#"{"exp":1796000000000}"#, Some(Reason::ExpNotNumber)),
            (r#"{"exp":18446744073709551616}"#, Some(Reason::ExpNotNumber)),
            (r#"{"exp":1e999}"#, Some(Reason::PayloadNotJson)),
            (r#"{"exp":NaN}"#, Some(Reason::PayloadNotJson)),
            (r#"{"nbf":[1]}"#, Some(Reason::NbfNotNumber)),
            (r#"{"nbf":9223372036854775807}"#, Some(Reason::NbfNotNumber)),
            (r#"{"iat":"x"}"#, Some(Reason::IatNotNumber)),
        ];
        for (text, expected) in rows {
            assert_eq!(claims(text).err(), expected, "{text}");
        }
    }

    #[test]
    fn dates_are_any_number() {
        let rows = [
            ("0", 0),
            ("1", 1_000_000_000),
            ("1.5", 1_500_000_000),
            ("1.79599E9", 1_795_990_000_000_000_000),
        ];
        for (text, nanos) in rows {
            let read = claims(&format!("{{\"exp\":{text}}}")).unwrap();
            assert_eq!(read.expires, Some(nanos), "{text}");
        }
        let far = claims(r#"{"exp":253402300799}"#).unwrap();
        assert_eq!(far.expires, Some(u64::MAX));
    }

    #[test]
    fn depth_is_capped() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(claims(&deep), Err(Reason::PayloadNotJson));
    }
}
