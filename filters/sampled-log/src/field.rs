//! What is in a line.

use filter_api::config::{Node, Object};
use filter_api::template::{Part, Phase, Piece, Sources, Template, Value, Written};
use filter_api::{Head, HeaderName, Host};

use crate::line::Line;
use crate::redact::Redact;
use crate::rule::Ended;

/// The fields of a line, unless the configuration says otherwise.
const DEFAULT: [(&str, &str); 19] = [
    ("time", "%START_TIME(%Y-%m-%dT%H:%M:%E6SZ)%"),
    ("method", "%METHOD%"),
    ("host", "%REQ(:authority)%"),
    ("path", "%PATH(NQ)%"),
    ("protocol", "%PROTOCOL%"),
    ("status", "%RESPONSE_CODE%"),
    ("flags", "%RESPONSE_FLAGS%"),
    ("details", "%RESPONSE_CODE_DETAILS%"),
    ("duration_ms", "%DURATION%"),
    ("upstream", "%UPSTREAM_HOST%"),
    ("cluster", "%UPSTREAM_CLUSTER%"),
    ("route", "%ROUTE_NAME%"),
    ("bytes_received", "%BYTES_RECEIVED%"),
    ("bytes_sent", "%BYTES_SENT%"),
    ("request_id", "%REQUEST_ID%"),
    ("trace_id", "%TRACE_ID%"),
    ("client", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
    ("grpc_status", "%GRPC_STATUS_NUMBER%"),
    ("subject", "%CLAIM(sub)%"),
];

/// Names that every line has for what is not a field.
const TAKEN: [&str; 8] = [
    "sample_rate",
    "why",
    "dropped",
    "truncated",
    "refused_by",
    "reason",
    "request_headers",
    "response_headers",
];

/// A field: a name and a value.
#[derive(Debug)]
pub(crate) struct Field {
    name: String,
    parts: Vec<FieldPart>,
    /// Whether it is a number alone.
    is_number: bool,
}

#[derive(Debug)]
enum FieldPart {
    Text(Box<[u8]>),
    Value { value: Value, secret: Secret },
}

/// What of a value is nobody's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secret {
    Nothing,
    /// Values of its query.
    Query,
    All,
}

/// All that is in a line beside what every one has.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) fields: Vec<Field>,
    pub(crate) request_headers: Vec<HeaderName>,
    pub(crate) response_headers: Vec<HeaderName>,
    pub(crate) redact: Redact,
    pub(crate) max_field_bytes: usize,
}

impl Field {
    fn of_template(name: &str, template: &Template, redact: &Redact) -> Self {
        let part = |part: &Part| match part {
            Part::Text(text) => FieldPart::Text(text.clone()),
            Part::Value(value) => {
                let secret = if value.headers().any(|name| redact.is_redacted(name.as_str())) {
                    Secret::All
                } else if value.is_path_with_query() {
                    Secret::Query
                } else {
                    Secret::Nothing
                };
                FieldPart::Value { value: value.clone(), secret }
            }
        };
        let is_number = matches!(template.parts(), [Part::Value(value)] if value.is_number());
        Self { name: name.to_owned(), parts: template.parts().iter().map(part).collect(), is_number }
    }

    /// The default ones.
    pub(crate) fn defaults(redact: &Redact) -> Vec<Self> {
        let field = |(name, text): (&str, &str)| {
            Some(Self::of_template(name, &Template::parse(text, Phase::Log).ok()?, redact))
        };
        DEFAULT.into_iter().filter_map(field).collect()
    }

    /// Reads `{name: template}`.
    pub(crate) fn read_all(node: &Node<'_>, redact: &Redact) -> Option<Vec<Self>> {
        let mut fields = Vec::new();
        let mut good = true;
        for (name, node) in node.object()?.entries() {
            if TAKEN.contains(&name) || name.is_empty() {
                node.error(format!(
                    "{name:?} cannot be the name of a field: every line has it for something else"
                ));
                good = false;
            }
            match Template::read(&node, Phase::Log) {
                Some(template) => fields.push(Self::of_template(name, &template, redact)),
                None => good = false,
            }
        }
        good.then_some(fields)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// A list of headers' names, each once.
pub(crate) fn read_names(object: &Object<'_>, name: &'static str) -> Option<Vec<HeaderName>> {
    let Some(node) = object.get(name) else { return Some(Vec::new()) };
    let mut names: Vec<HeaderName> = Vec::new();
    let mut good = true;
    for item in node.one_or_more() {
        match item.header_name() {
            Some(name) if names.contains(&name) => item.warning(format!("{name:?} is listed already")),
            Some(name) => names.push(name),
            None => good = false,
        }
    }
    good.then_some(names)
}

impl Fields {
    /// Writes them.
    pub(crate) fn write<Q: Head, R: Head, T: Host>(&self, ended: &Ended<'_, Q, R, T>, line: &mut Line) {
        let sources = Sources::of_both(ended.request, ended.response, ended.host, ended.facts);
        let mut buffer = Vec::new();
        for field in &self.fields {
            buffer.clear();
            let is_there = self.evaluate(field, &sources, &mut buffer);
            match std::str::from_utf8(&buffer) {
                _ if !is_there => line.null(&field.name),
                Ok(digits) if field.is_number => line.number(&field.name, digits),
                _ => self.text(&field.name, &mut buffer, line),
            }
        }
        let refusal = ended.refusal();
        match refusal {
            Some((filter, reason)) => {
                line.text("refused_by", filter.as_bytes());
                line.text("reason", reason);
            }
            None => {
                line.null("refused_by");
                line.null("reason");
            }
        }
        self.headers("request_headers", &self.request_headers, ended.request, line);
        self.headers("response_headers", &self.response_headers, ended.response, line);
    }

    /// Evaluates a field, and says whether there is anything.
    fn evaluate<Q: Head, R: Head, T: Host>(
        &self,
        field: &Field,
        sources: &Sources<'_, Q, R, T>,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut any = field.parts.is_empty();
        for part in &field.parts {
            match part {
                // Text alone says nothing where every value is missing.
                FieldPart::Text(text) => {
                    out.extend_from_slice(text);
                    any |= field.parts.len() == 1;
                }
                FieldPart::Value { value, secret } => {
                    let mut shown = true;
                    let written = value.give(sources, |piece| {
                        let (Piece::Text(bytes) | Piece::Value { bytes, .. }) = piece;
                        match secret {
                            Secret::Nothing => out.extend_from_slice(bytes),
                            Secret::Query => self.redact.write_path(bytes, out),
                            Secret::All => shown = self.redact.write(bytes, out),
                        }
                    });
                    any |= written == Written::All && shown;
                }
            }
        }
        any
    }

    fn headers(&self, name: &str, names: &[HeaderName], head: &impl Head, line: &mut Line) {
        if names.is_empty() {
            return;
        }
        let mut found: Vec<(&str, Vec<u8>)> = Vec::new();
        for name in names {
            let name = name.as_str();
            let mut value = Vec::new();
            let mut any = false;
            for own in head.get_all(name) {
                if any {
                    value.extend_from_slice(b", ");
                }
                if self.redact.is_redacted(name) {
                    any |= self.redact.write(own, &mut value);
                    continue;
                }
                if is_path(name) {
                    self.redact.write_path(own, &mut value);
                } else {
                    value.extend_from_slice(own);
                }
                any = true;
            }
            if any {
                self.cut(&mut value, line);
                found.push((name, value));
            }
        }
        line.texts(name, found.iter().map(|(name, value)| (*name, value.as_slice())));
    }

    fn text(&self, name: &str, value: &mut Vec<u8>, line: &mut Line) {
        self.cut(value, line);
        line.text(name, value);
    }

    /// Cuts a value that is too long, between two characters where there are any.
    fn cut(&self, value: &mut Vec<u8>, line: &mut Line) {
        if value.len() <= self.max_field_bytes {
            return;
        }
        // A byte that continues a character has its upper bits 10; there are at most 3 of them. More are no text, and
        // must not take what is before them along.
        let begins = |less: &usize| {
            let end = self.max_field_bytes.saturating_sub(*less);
            value.get(end).is_some_and(|byte| byte & 0xc0 != 0x80)
        };
        let less = (0..=3).find(begins).unwrap_or(0);
        value.truncate(self.max_field_bytes.saturating_sub(less));
        value.extend_from_slice(b"...");
        line.note_truncation();
    }
}

/// Whether a header is a path with its query.
fn is_path(name: &str) -> bool {
    matches!(name, ":path" | "x-envoy-original-path")
}
