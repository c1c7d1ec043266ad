//! Why a request is refused: one closed list, which is also the metric's label and stands in the
//! response-code details.

use filter_api::{Counter, CounterSet};

/// A step of looking at a token, in the order in which they are taken: the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// A token is there; not too many, none too long.
    Presence,
    /// Three parts with two dots between them.
    Shape,
    /// The header is base64url of a JSON object without `crit` or `b64`.
    Header,
    /// `alg` is known and allowed.
    Algorithm,
    /// The payload is base64url of a JSON object, its registered claims of the right types.
    Payload,
    /// A key is there for `kid` and `alg`.
    Key,
    /// `exp`, `nbf` and the lifetime.
    Time,
    /// `iss`.
    Issuer,
    /// `aud`.
    Audience,
    /// `sub`.
    Subject,
    /// Other claims that must hold something, and revocation.
    Claims,
    /// The signature.
    Signature,
}

impl Check {
    /// Every check, in order.
    pub const ALL: [Self; 12] = [
        Self::Presence,
        Self::Shape,
        Self::Header,
        Self::Algorithm,
        Self::Payload,
        Self::Key,
        Self::Time,
        Self::Issuer,
        Self::Audience,
        Self::Subject,
        Self::Claims,
        Self::Signature,
    ];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Presence => "presence",
            Self::Shape => "shape",
            Self::Header => "header",
            Self::Algorithm => "algorithm",
            Self::Payload => "payload",
            Self::Key => "key",
            Self::Time => "time",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Subject => "subject",
            Self::Claims => "claims",
            Self::Signature => "signature",
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $label:literal, $check:expr, $status:literal, $body:literal;)*) => {
        /// Why a request is refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in metrics, logs and response-code details.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }

            /// The response-code details.
            pub const fn details(self) -> &'static str {
                match self { $(Self::$name => concat!("jwt_reject{", $label, "}"),)* }
            }

            /// The check that failed; none where no token was looked at.
            pub const fn check(self) -> Option<Check> {
                match self { $(Self::$name => $check,)* }
            }

            /// The HTTP status.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// The body, in the words of Envoy's own filter where it has them.
            pub const fn body(self) -> &'static str {
                match self { $(Self::$name => $body,)* }
            }
        }

        /// The filter's counters: one a reason, one a reason in shadow mode, one a way through, one
        /// a way of checking signatures.
        pub(crate) const COUNTERS: &[&str] = &[
            $(concat!("refused.reason.", $label),)*
            $(concat!("shadow_refused.reason.", $label),)*
            "allowed.reason.verified",
            "allowed.reason.no_requirement",
            "allowed.reason.missing",
            "allowed.reason.failed",
            "allowed.reason.no_rule",
            "allowed.reason.cors_preflight",
            "signature_checks.by.host",
            "signature_checks.by.module",
            "claims_not_forwarded",
            "cache.result.hit",
            "cache.result.forged",
            "cache.result.miss",
            "cache_evictions",
            "requests_waited",
            "jwks_fetches.result.new_keys",
            "jwks_fetches.result.not_modified",
            "jwks_fetches.result.no_response",
            "jwks_fetches.result.bad_status",
            "jwks_fetches.result.too_large",
            "jwks_fetches.result.unusable",
        ];
    };
}

use Check::{
    Algorithm, Audience, Claims, Header, Issuer, Key, Payload, Presence, Shape, Signature, Subject, Time,
};

reasons! {
    /// No token where one must be.
    TokenMissing "token_missing", Some(Presence), 401, "Jwt is missing";
    /// More tokens than `max_tokens`.
    TooManyTokens "too_many_tokens", Some(Presence), 401, "Too many Jwts";
    /// A token longer than `max_token_bytes`.
    TokenTooLong "token_too_long", Some(Presence), 401, "Jwt is too long";
    /// Not three parts: JWE (five), JSON serialisation, and whatever else is no compact JWS.
    TokenMalformed "token_malformed", Some(Shape), 401,
        "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections";
    /// The header is not base64url, or padded, or not minimal.
    HeaderNotBase64url "header_not_base64url", Some(Header), 401, "Jwt header is an invalid Base64url encoded";
    /// The header is not a JSON object, or has a member twice.
    HeaderNotJson "header_not_json", Some(Header), 401, "Jwt header is an invalid JSON";
    /// `kid` is not a string.
    KidNotString "kid_not_string", Some(Header), 401, "Jwt header [kid] field is not a string";
    /// `crit`: an extension that must be understood (RFC 7515 section 4.1.11). None is.
    CritNotSupported "crit_not_supported", Some(Header), 401, "Jwt header [crit] is not supported";
    /// `b64`: an unencoded payload (RFC 7797).
    B64NotSupported "b64_not_supported", Some(Header), 401, "Jwt header [b64] is not supported";
    /// `alg` is absent or no string.
    AlgMissing "alg_missing", Some(Algorithm), 401, "Jwt header [alg] field is required and must be a string";
    /// `alg` is none of ours; `none` above all.
    AlgNotSupported "alg_not_supported", Some(Algorithm), 401, "Jwt header [alg] is not supported";
    /// `alg` is not among the provider's `algorithms`.
    AlgNotAllowed "alg_not_allowed", Some(Algorithm), 401, "Jwt header [alg] is not allowed";
    /// The payload is not base64url, or padded, or not minimal.
    PayloadNotBase64url "payload_not_base64url", Some(Payload), 401, "Jwt payload is an invalid Base64url encoded";
    /// The payload is not a JSON object, or has a member twice.
    PayloadNotJson "payload_not_json", Some(Payload), 401, "Jwt payload is an invalid JSON";
    /// `iss` is not a string.
    IssNotString "iss_not_string", Some(Payload), 401, "Jwt payload [iss] field is not a string";
    /// `sub` is not a string.
    SubNotString "sub_not_string", Some(Payload), 401, "Jwt payload [sub] field is not a string";
    /// `jti` is not a string.
    JtiNotString "jti_not_string", Some(Payload), 401, "Jwt payload [jti] field is not a string";
    /// `aud` is neither a string nor an array of strings.
    AudNotString "aud_not_string", Some(Payload), 401, "Jwt payload [aud] field is not a string or string list";
    /// `exp` is no number, negative, or beyond the year 9999.
    ExpNotNumber "exp_not_number", Some(Payload), 401, "Jwt payload [exp] field is not a positive number of seconds";
    /// `nbf`, likewise.
    NbfNotNumber "nbf_not_number", Some(Payload), 401, "Jwt payload [nbf] field is not a positive number of seconds";
    /// `iat`, likewise.
    IatNotNumber "iat_not_number", Some(Payload), 401, "Jwt payload [iat] field is not a positive number of seconds";
    /// The signature is not base64url.
    SignatureNotBase64url "signature_not_base64url", Some(Signature), 401, "Jwt signature is an invalid Base64url encoded";
    /// No key for `kid` and `alg`.
    KeyNotFound "key_not_found", Some(Key), 401, "Jwks doesn't have key to match kid or alg from Jwt";
    /// `exp` is past.
    TokenExpired "token_expired", Some(Time), 401, "Jwt is expired";
    /// `nbf` is to come.
    TokenNotYetValid "token_not_yet_valid", Some(Time), 401, "Jwt not yet valid";
    /// `exp` is absent where `require_expiration` or `max_lifetime` asks for it.
    ExpMissing "exp_missing", Some(Time), 401, "Jwt payload [exp] field is missing";
    /// `exp` is further off than `max_lifetime`.
    LifetimeTooLong "lifetime_too_long", Some(Time), 401, "Jwt lifetime is too long";
    /// `iss` is none that the provider stands for.
    IssuerNotConfigured "issuer_not_configured", Some(Issuer), 401, "Jwt issuer is not configured";
    /// `aud` names none of the provider's `audiences`.
    AudienceNotAllowed "audience_not_allowed", Some(Audience), 403, "Audiences in Jwt are not allowed";
    /// `sub` is none of the provider's `subjects`.
    SubjectNotAllowed "subject_not_allowed", Some(Subject), 403, "Jwt subject is not allowed";
    /// `typ` is none of the provider's.
    TypNotAllowed "typ_not_allowed", Some(Header), 401, "Jwt header [typ] is not allowed";
    /// A claim does not hold what `required_claims` asks for.
    ClaimNotAllowed "claim_not_allowed", Some(Claims), 403, "Jwt claims are not allowed";
    /// `scope` or `scp` does not hold what `required_claims` asks for.
    ScopeMissing "scope_missing", Some(Claims), 403, "Jwt lacks a required scope";
    /// `deny` lists the token, its subject or its issuer.
    TokenRevoked "token_revoked", Some(Claims), 401, "Jwt is revoked";
    /// The signature is wrong.
    SignatureWrong "signature_wrong", Some(Signature), 401, "Jwt verification fails";
    /// The keys have not been fetched yet, or those that were are too old.
    JwksUnavailable "jwks_unavailable", Some(Key), 503, "Jwks remote fetch is failed";
    /// More signatures to check in the module than `max_vm_verifications_per_second`.
    Overloaded "overloaded", Some(Signature), 503, "Too many Jwts to verify";
    /// No rule is for this request.
    NoRuleMatched "no_rule_matched", None, 401, "No rule allows this request";
    /// Which rule is for this request depends on how its path is read.
    PathAmbiguous "path_ambiguous", None, 401, "No rule allows this path, which can be read in several ways";
}

/// A way through the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Every token was verified.
    Verified,
    /// The rule requires none.
    NoRequirement,
    /// There was no token, and the rule allows that.
    Missing,
    /// A token was not verified, and the rule allows that.
    Failed,
    /// No rule was for the request, and those pass by default.
    NoRule,
    /// It was a CORS preflight.
    CorsPreflight,
}

/// Who checked a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedBy {
    /// The host's own cryptography.
    Host,
    /// The code in the module.
    Module,
}

/// How many ways through there are.
const WAYS: u16 = 6;

const REASONS: u16 = {
    let reasons = Reason::ALL.len();
    assert!(2 * reasons + WAYS as usize + 14 == COUNTERS.len(), "a counter for each");
    assert!(COUNTERS.len() <= CounterSet::MOST_OF_ONE, "no more than a set holds");
    #[allow(clippy::cast_possible_truncation)] // asserted just above
    {
        reasons as u16
    }
};

impl Reason {
    /// The counter of refusals for this reason.
    pub const fn counter(self) -> Counter {
        Counter(self as u16)
    }

    /// The counter of what would be refusals, were the filter not in shadow mode.
    pub const fn shadow_counter(self) -> Counter {
        Counter(REASONS.saturating_add(self as u16))
    }

    /// Whether the refusal is about a token that was there, rather than about its absence or about us.
    pub fn is_about_a_token(self) -> bool {
        self.check().is_some() && self != Self::TokenMissing && !self.is_ours()
    }

    /// Whether the refusal speaks of the gateway's state, not of what the request holds.
    pub const fn is_ours(self) -> bool {
        self.status() >= 500
    }
}

impl Allowed {
    /// The counter of requests that went this way.
    pub const fn counter(self) -> Counter {
        Counter(REASONS.saturating_mul(2).saturating_add(self as u16))
    }
}

impl CheckedBy {
    /// The counter of signatures checked so.
    pub const fn counter(self) -> Counter {
        Counter(REASONS.saturating_mul(2).saturating_add(WAYS).saturating_add(self as u16))
    }
}

/// The counter of requests in which a claim could not be a header's value.
pub(crate) const CLAIMS_NOT_FORWARDED: Counter =
    Counter(REASONS.saturating_mul(2).saturating_add(WAYS).saturating_add(2));

/// What a cache of tokens had to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheResult {
    /// The token is remembered as good.
    Hit,
    /// The token is remembered as forged.
    Forged,
    /// It was not remembered, and is now.
    Miss,
    /// Another had to be forgotten for it.
    Evicted,
}

impl CacheResult {
    /// The counter of requests with this result.
    pub(crate) const fn counter(self) -> Counter {
        Counter(CLAIMS_NOT_FORWARDED.0.saturating_add(1).saturating_add(self as u16))
    }
}

/// The counter of requests that were held for a while.
pub(crate) const WAITED: Counter = Counter(CacheResult::Evicted.counter().0.saturating_add(1));

/// What became of a fetch of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchResult {
    /// It brought other keys than there were.
    NewKeys,
    /// It brought those that there were, or that they are still right.
    NotModified,
    /// It could not be started, or the response broke off.
    NoResponse,
    /// The response had another status than 200. Envoy's own are among them: 503 where it could not connect,
    /// 504 where there was no response in time.
    BadStatus,
    /// It had more bytes than allowed.
    TooLarge,
    /// It was no set of keys, or one without a usable key.
    Unusable,
}

impl FetchResult {
    /// The counter of fetches with this result.
    pub(crate) const fn counter(self) -> Counter {
        Counter(WAITED.0.saturating_add(1).saturating_add(self as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_where_its_name_says() {
        let name = |counter: Counter| COUNTERS[usize::from(counter.0)];
        for reason in Reason::ALL {
            assert_eq!(name(reason.counter()), format!("refused.reason.{}", reason.label()));
            assert_eq!(name(reason.shadow_counter()), format!("shadow_refused.reason.{}", reason.label()));
            assert_eq!(reason.details(), format!("jwt_reject{{{}}}", reason.label()));
            let statuses: &[u16] = if reason.is_ours() { &[503] } else { &[401, 403] };
            assert!(statuses.contains(&reason.status()), "{reason:?}");
        }
        assert_eq!(name(Allowed::Verified.counter()), "allowed.reason.verified");
        assert_eq!(name(Allowed::NoRequirement.counter()), "allowed.reason.no_requirement");
        assert_eq!(name(Allowed::Missing.counter()), "allowed.reason.missing");
        assert_eq!(name(Allowed::Failed.counter()), "allowed.reason.failed");
        assert_eq!(name(Allowed::NoRule.counter()), "allowed.reason.no_rule");
        assert_eq!(name(Allowed::CorsPreflight.counter()), "allowed.reason.cors_preflight");
        assert_eq!(name(CheckedBy::Host.counter()), "signature_checks.by.host");
        assert_eq!(name(CheckedBy::Module.counter()), "signature_checks.by.module");
        assert_eq!(name(CLAIMS_NOT_FORWARDED), "claims_not_forwarded");
        assert_eq!(name(CacheResult::Hit.counter()), "cache.result.hit");
        assert_eq!(name(CacheResult::Forged.counter()), "cache.result.forged");
        assert_eq!(name(CacheResult::Miss.counter()), "cache.result.miss");
        assert_eq!(name(CacheResult::Evicted.counter()), "cache_evictions");
        assert_eq!(name(WAITED), "requests_waited");
        assert_eq!(name(FetchResult::NewKeys.counter()), "jwks_fetches.result.new_keys");
        assert_eq!(name(FetchResult::NotModified.counter()), "jwks_fetches.result.not_modified");
        assert_eq!(name(FetchResult::NoResponse.counter()), "jwks_fetches.result.no_response");
        assert_eq!(name(FetchResult::BadStatus.counter()), "jwks_fetches.result.bad_status");
        assert_eq!(name(FetchResult::TooLarge.counter()), "jwks_fetches.result.too_large");
        assert_eq!(name(FetchResult::Unusable.counter()), "jwks_fetches.result.unusable");
    }
}
