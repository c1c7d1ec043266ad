//! Lists of operations by name.

use filter_api::HeaderName;
use filter_api::config::Node;
use filter_api::template::{Phase, Template};

use crate::condition::When;
use crate::config::{Step, What};
use crate::operation::{How, Operation, Write};
use crate::value::{Reading, Value};

/// The one preset that there is.
const SECURITY_HEADERS: &str = "security_headers";

/// What the OWASP Secure Headers Project proposes, as of July 2026 (<https://owasp.org/www-project-secure-headers/>,
/// `ci/headers_add.json`). Not `cache-control` and `clear-site-data`, which it lists too: these are for single
/// responses, such as that to a logout.
pub const HEADERS: [(&str, &str); 11] = [
    (
        "content-security-policy",
        "default-src 'self'; form-action 'self'; base-uri 'self'; object-src 'none'; frame-ancestors 'none'; \
         upgrade-insecure-requests",
    ),
    ("cross-origin-embedder-policy", "require-corp"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "accelerometer=(), autoplay=(), camera=(), cross-origin-isolated=(), display-capture=(), encrypted-media=(), \
         fullscreen=(), geolocation=(), gyroscope=(), keyboard-map=(), magnetometer=(), microphone=(), midi=(), \
         payment=(), picture-in-picture=(), publickey-credentials-get=(), screen-wake-lock=(), sync-xhr=(self), usb=(), \
         web-share=(), xr-spatial-tracking=(), clipboard-read=(), clipboard-write=(), gamepad=(), hid=(), \
         idle-detection=(), interest-cohort=(), serial=(), unload=()",
    ),
    ("referrer-policy", "no-referrer"),
    ("strict-transport-security", "max-age=63072000; includeSubDomains"),
    ("x-content-type-options", "nosniff"),
    ("x-dns-prefetch-control", "off"),
    ("x-frame-options", "deny"),
    ("x-permitted-cross-domain-policies", "none"),
];

/// Reads `security_headers`, or `{name, overwrite, except, values}`.
pub(crate) fn read(node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Vec<Step>> {
    if reading.phase == Phase::Request {
        node.error("`preset: security_headers` is for `response_mutations`");
        return None;
    }
    if node.value().is_string() {
        is_known(node).then_some(())?;
        return steps(node, How::AddIfAbsent, &[], &[], reading);
    }
    let object = node.object()?;
    let known = object.required("name").is_some_and(|name| is_known(&name));
    let overwrite = object.get("overwrite").map_or(Some(false), |node| node.bool());
    let except: Option<Vec<HeaderName>> = match object.get("except") {
        Some(node) => node.one_or_more().iter().map(read_name).collect(),
        None => Some(Vec::new()),
    };
    let values = match object.get("values") {
        Some(node) => {
            let members = node.object()?.entries();
            let read = members.iter().map(|(name, node)| {
                let known = match HeaderName::new(name) {
                    Ok(name) => listed(&name, node),
                    Err(error) => {
                        node.error(error.to_string());
                        None
                    }
                };
                let value = Value::of_node(node, false, reading);
                Some((known?, value?))
            });
            read.collect::<Vec<Option<(HeaderName, Value)>>>().into_iter().collect::<Option<Vec<_>>>()
        }
        None => Some(Vec::new()),
    };
    object.finish();
    let how = if overwrite? { How::Set } else { How::AddIfAbsent };
    let (except, values) = (except?, values?);
    known.then_some(())?;
    let own: Vec<HeaderName> = values.iter().map(|(name, _)| name.clone()).collect();
    let mut steps = steps(node, how, &except, &own, reading)?;
    for (name, value) in values {
        steps.push(step(how, name, value));
    }
    Some(steps)
}

fn is_known(node: &Node<'_>) -> bool {
    match node.string() {
        Some(SECURITY_HEADERS) => true,
        Some(other) => {
            node.error(format!("{other:?} is no preset; there is {SECURITY_HEADERS}"));
            false
        }
        None => false,
    }
}

fn read_name(node: &Node<'_>) -> Option<HeaderName> {
    listed(&node.header_name()?, node)
}

/// A name that is of the preset.
fn listed(name: &HeaderName, node: &Node<'_>) -> Option<HeaderName> {
    if HEADERS.iter().any(|(own, _)| *own == name.as_str()) {
        return Some(name.clone());
    }
    let own: Vec<&str> = HEADERS.iter().map(|(own, _)| *own).collect();
    node.error(format!("{:?} is not of this preset, which has {}", name.as_str(), own.join(", ")));
    None
}

/// The headers of the preset, but for those left out and those whose values are given.
fn steps(
    node: &Node<'_>,
    how: How,
    except: &[HeaderName],
    own: &[HeaderName],
    reading: &mut Reading<'_>,
) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for (name, text) in HEADERS {
        let name = HeaderName::from_static(name);
        if except.contains(&name) {
            continue;
        }
        if !reading.guard.allows(name.as_str().as_bytes()) {
            node.error(format!("writes {name:?}, which is on the list `protected`; name it under `except`"));
            return None;
        }
        if !own.contains(&name) {
            let template = Template::parse(text, Phase::Response).ok()?;
            steps.push(step(how, name, Value::of_template(template, false, reading)));
        }
    }
    Some(steps)
}

fn step(how: How, name: HeaderName, value: Value) -> Step {
    Step { when: When::default(), what: What::Operation(Operation::Write(Write { how, name, value })) }
}
