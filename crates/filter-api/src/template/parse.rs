//! Reading a template.

use super::operator::{AtEnd, Cut, Message, Operator, Which};
use super::{Part, Phase, TimeFormat, Value};
use crate::{ClaimPath, ClaimText, HeaderName, HeaderValue, Property};

/// The names of all operators.
const OPERATORS: &str = "REQ, RESP, PATH, METHOD, PROTOCOL, DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT, RESPONSE_CODE, \
                         DYNAMIC_METADATA, ROUTE_NAME, REQUEST_ID, START_TIME and CLAIM";

/// Those for logs alone.
const FOR_LOGS: &str = "RESPONSE_CODE_DETAILS, RESPONSE_FLAGS, DURATION, BYTES_RECEIVED, BYTES_SENT, UPSTREAM_HOST, \
                        UPSTREAM_CLUSTER, GRPC_STATUS_NUMBER, TRACE_ID";

/// The parts of a template; neighbouring texts are one.
pub(super) fn parts(text: &str, phase: Phase) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        literal.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            literal.push('%');
            rest = after;
            continue;
        }
        let (command, after) = Command::split(after).ok_or_else(|| {
            let place = text.len().saturating_sub(rest.len()).saturating_add(before.len());
            format!(
                "the % at byte {place} begins no operator; write one such as %REQ(x-name)%, or %% for a percent sign"
            )
        })?;
        push_text(&mut parts, &mut literal)?;
        parts.push(Part::Value(command.read(phase)?));
        rest = after;
    }
    literal.push_str(rest);
    push_text(&mut parts, &mut literal)?;
    Ok(parts)
}

fn push_text(parts: &mut Vec<Part>, literal: &mut String) -> Result<(), String> {
    if literal.is_empty() {
        return Ok(());
    }
    if HeaderValue::new(&*literal).is_err() {
        return Err("holds a control character, such as a line end, which no header may".to_owned());
    }
    parts.push(Part::Text(std::mem::take(literal).into_bytes().into()));
    Ok(())
}

/// An operator as it is written.
struct Command<'t> {
    name: &'t str,
    argument: Option<&'t str>,
    length: Option<&'t str>,
}

impl<'t> Command<'t> {
    /// What follows a `%`, and what follows the operator.
    fn split(text: &'t str) -> Option<(Self, &'t str)> {
        let is_name = |byte: char| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == '_';
        let (name, mut rest) = text.split_at_checked(text.find(|byte| !is_name(byte))?)?;
        let mut argument = None;
        if let Some(after) = rest.strip_prefix('(') {
            let (inner, after) = after.split_once(')')?;
            argument = Some(inner);
            rest = after;
        }
        let mut length = None;
        if let Some(after) = rest.strip_prefix(':') {
            let (digits, after) = after.split_at_checked(after.find(|byte: char| !byte.is_ascii_digit())?)?;
            length = Some(digits);
            rest = after;
        }
        let rest = rest.strip_prefix('%')?;
        (!name.is_empty()).then_some((Self { name, argument, length }, rest))
    }

    fn read(&self, phase: Phase) -> Result<Value, String> {
        let most = match self.length {
            None => None,
            Some(digits) => match digits.parse::<usize>() {
                Ok(most) if most > 0 => Some(most),
                _ => return Err(format!("%{}% has the length {digits:?}; give 1 or more bytes", self.name)),
            },
        };
        Ok(Value { operator: self.operator(phase)?, most })
    }

    fn operator(&self, phase: Phase) -> Result<Operator, String> {
        let request = |name| header(Message::Request, HeaderName::from_static(name));
        Ok(match self.name {
            "REQ" => self.header(Message::Request)?,
            "RESP" | "RESPONSE_CODE" if phase == Phase::Request => {
                return Err(format!("%{}% has no value before the response has come", self.name));
            }
            "RESP" => self.header(Message::Response)?,
            name if phase == Phase::Log
                && let Some(what) = at_end(name) =>
            {
                self.takes_nothing().map(|()| what)?
            }
            "RESPONSE_CODE" => {
                self.takes_nothing()?;
                header(Message::Response, HeaderName::from_static(":status"))
            }
            "PATH" => self.path()?,
            "METHOD" => self.takes_nothing().map(|()| request(":method"))?,
            "REQUEST_ID" => self.takes_nothing().map(|()| request("x-request-id"))?,
            "PROTOCOL" => self.takes_nothing().map(|()| Operator::Protocol)?,
            "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT" => {
                self.takes_nothing().map(|()| Operator::ClientAddress)?
            }
            "ROUTE_NAME" => self.takes_nothing().map(|()| Operator::RouteName)?,
            "START_TIME" => Operator::StartTime(TimeFormat::parse(self.argument.unwrap_or_default())?),
            "DYNAMIC_METADATA" => self.metadata()?,
            "CLAIM" => {
                let name = self.required("the name of a claim, such as %CLAIM(sub)%")?;
                let claim = ClaimText { path: ClaimPath::new(name), arrays_as_json: false };
                Operator::Claim(claim, format!("{}{name}", Property::CLAIM).into())
            }
            other if phase == Phase::Log => {
                return Err(format!("%{other}% is not known; there are {FOR_LOGS}, {OPERATORS}"));
            }
            other if at_end(other).is_some() => {
                return Err(format!("%{other}% has no value before the request is over"));
            }
            other => return Err(format!("%{other}% is not known; there are {OPERATORS}")),
        })
    }

    fn takes_nothing(&self) -> Result<(), String> {
        match self.argument {
            None | Some("") => Ok(()),
            Some(_) => Err(format!("%{0}% takes nothing in brackets; write %{0}%", self.name)),
        }
    }

    fn required(&self, what: &str) -> Result<&str, String> {
        self.argument.filter(|text| !text.is_empty()).ok_or_else(|| format!("%{}% lacks {what}", self.name))
    }

    fn header(&self, message: Message) -> Result<Operator, String> {
        let names = self.required("the name of a header in brackets, such as (x-name)")?;
        let mut names = names.split('?');
        let name = |text: &str| HeaderName::new(text).map_err(|error| format!("%{}%: {error}", self.name));
        // Envoy takes the host for `:authority`, by either name.
        let name = |text: &str| match text {
            "host" | "Host" if message == Message::Request => Ok(HeaderName::from_static(":authority")),
            _ => name(text),
        };
        let first = name(names.next().unwrap_or_default())?;
        let or = names.next().filter(|text| !text.is_empty()).map(name).transpose()?;
        if names.next().is_some() {
            return Err(format!("%{}% names more than one alternative; there can be one", self.name));
        }
        Ok(Operator::Header { message, name: first, or })
    }

    fn path(&self) -> Result<Operator, String> {
        let (query, which) = self
            .argument
            .unwrap_or_default()
            .split_once(':')
            .unwrap_or((self.argument.unwrap_or_default(), ""));
        let cut = match query {
            "" | "WQ" => Cut::Nothing,
            "NQ" => Cut::Query,
            other => {
                let other = other.escape_debug();
                return Err(format!("%PATH({other})% must be WQ (with the query) or NQ (without)"));
            }
        };
        let which = match which {
            "" | "ORIG_OR_PATH" => Which::OriginalOrPath,
            "ORIG" => Which::Original,
            "PATH" => Which::Path,
            other => {
                let other = other.escape_debug();
                return Err(format!("%PATH(...:{other})% must be ORIG_OR_PATH, ORIG or PATH"));
            }
        };
        Ok(Operator::Path { which, cut })
    }

    fn metadata(&self) -> Result<Operator, String> {
        let path = self.required("a namespace and names in brackets, such as (envoy.lb:version)")?;
        if path.split(':').any(str::is_empty) {
            return Err(format!("%DYNAMIC_METADATA({})% has an empty name in it", path.escape_debug()));
        }
        Ok(Operator::DynamicMetadata(path.split(':').map(Box::from).collect()))
    }
}

/// The operator of this name, of those for logs alone.
fn at_end(name: &str) -> Option<Operator> {
    let what = match name {
        "RESPONSE_CODE" => AtEnd::ResponseCode,
        "RESPONSE_CODE_DETAILS" => AtEnd::Details,
        "RESPONSE_FLAGS" => AtEnd::Flags,
        "DURATION" => AtEnd::Duration,
        "BYTES_RECEIVED" => AtEnd::BytesReceived,
        "BYTES_SENT" => AtEnd::BytesSent,
        "UPSTREAM_HOST" => AtEnd::UpstreamHost,
        "UPSTREAM_CLUSTER" => AtEnd::UpstreamCluster,
        "GRPC_STATUS_NUMBER" => AtEnd::GrpcStatus,
        "TRACE_ID" => return Some(Operator::TraceId),
        _ => return None,
    };
    Some(Operator::AtEnd(what))
}

fn header(message: Message, name: HeaderName) -> Operator {
    Operator::Header { message, name, or: None }
}
