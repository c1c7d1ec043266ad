//! Reads a file as Envoy reads it.
//!
//! Envoy's YAML is not YAML 1.2: in Envoy 1.40 `yes` and `on` are true, `010` is 8, and whole numbers beyond 32 bits and
//! all fractions are text. What a plugin is told of its configuration depends on it, so the same rules are here; a test
//! holds them against the real Envoy. Merge keys (`<<`) are members of that name, and members whose name is
//! tagged `!ignore` are not there.
//!
//! Stricter than Envoy: of two members of one name Envoy takes one and says nothing, here they are an error.

use std::collections::HashMap;

use anyhow::{Context as _, anyhow, bail, ensure};
use filter_api::json;
use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use super::tree::{Content, Member, Node};

/// Deeper than any configuration, shallow enough for any stack.
const MAX_DEPTH: usize = 200;
/// The most that anchors and what refers to them may add to a file, in bytes of its text and 64 for each value.
const MAX_REPEATED: usize = 64 << 20;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML.
    Yaml,
    /// JSON, and nothing that is YAML alone.
    Json,
    /// JSON where it is JSON, YAML otherwise.
    Either,
}

/// Reads the documents of a file; those that hold nothing are left out.
///
/// # Errors
/// It is not what it should be, is nested too deep, has a member twice, or blows up when its anchors are followed. The
/// error names the line and quotes no values.
pub fn read(text: &str, format: Format) -> anyhow::Result<Vec<Node>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let looks_like_json = text.trim_start().starts_with(['{', '[']);
    let json = match format {
        Format::Json => json::parse(text.as_bytes(), u8::MAX).map(|_| true).context("not valid JSON")?,
        Format::Either => looks_like_json && json::parse(text.as_bytes(), u8::MAX).is_ok(),
        Format::Yaml => false,
    };
    let mut options = granit_parser::options! { emit_comments: false };
    if json {
        // Its rules have been checked; a name may be as long as it likes.
        options.simple_key_max_lookahead = usize::MAX;
    }
    let parser = Parser::new_from_str_with_options(text, options);
    let mut reader = Reader { parser, json, depth: 0, anchors: HashMap::new(), repeated: 0 };
    let mut documents = Vec::new();
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) => reader.anchors.clear(),
            Event::DocumentEnd => {}
            Event::StreamEnd => break,
            event => documents.push(reader.node(event, &span)?),
        }
    }
    documents.retain(|document| document.content != Content::Null);
    Ok(documents)
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    json: bool,
    depth: usize,
    anchors: HashMap<usize, Node>,
    repeated: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> anyhow::Result<Option<(Event<'a>, Span)>> {
        self.parser.next_event().transpose().map_err(|error| {
            anyhow!("line {} column {}: {}", error.marker().line(), error.marker().col() + 1, error.info())
        })
    }

    /// The next event, of which there must be one.
    fn expect(&mut self) -> anyhow::Result<(Event<'a>, Span)> {
        self.next()?.context("it ends too early")
    }

    /// The value that begins with an event.
    fn node(&mut self, event: Event<'a>, span: &Span) -> anyhow::Result<Node> {
        let line = span.start.line();
        let anchor = event.anchor_id();
        let content = match event {
            Event::Alias(id) => {
                let node = self.anchors.get(&id).cloned();
                let node = node.with_context(|| format!("line {line}: what it refers to holds it"))?;
                self.repeat(&node, line)?;
                // Where it is used is what is of interest.
                return Ok(Node { line, ..node });
            }
            Event::Scalar(text, style, _, tag) => self.scalar(&text, style, tag.as_deref(), line)?,
            Event::SequenceStart(..) => self.nested(line, Self::list)?,
            Event::MappingStart(..) => self.nested(line, Self::map)?,
            _ => bail!("line {line}: a value is missing"),
        };
        let node = Node { line, content };
        if let Some(id) = anchor {
            self.repeat(&node, line)?;
            self.anchors.insert(id, node.clone());
        }
        Ok(node)
    }

    fn nested(
        &mut self,
        line: usize,
        read: impl FnOnce(&mut Self) -> anyhow::Result<Content>,
    ) -> anyhow::Result<Content> {
        self.depth += 1;
        ensure!(self.depth <= MAX_DEPTH, "line {line}: nested too deep");
        let content = read(self)?;
        self.depth -= 1;
        Ok(content)
    }

    fn list(&mut self) -> anyhow::Result<Content> {
        let mut items = Vec::new();
        loop {
            match self.expect()? {
                (Event::SequenceEnd, _) => return Ok(Content::List(items)),
                (event, span) => items.push(self.node(event, &span)?),
            }
        }
    }

    fn map(&mut self) -> anyhow::Result<Content> {
        let mut members: Vec<Member> = Vec::new();
        // Where a name was given first.
        let mut lines: HashMap<String, usize> = HashMap::new();
        loop {
            let (event, span) = self.expect()?;
            let line = span.start.line();
            if event == Event::MappingEnd {
                return Ok(Content::Map(members));
            }
            let ignored = event.tag().is_some_and(|tag| tag.original() == "!ignore");
            let name = match event {
                Event::Scalar(text, ..) => text.into_owned(),
                event => {
                    let name = self.node(event, &span)?;
                    name.text()
                        .with_context(|| format!("line {line}: the name of a member must be text"))?
                        .to_owned()
                }
            };
            let (event, span) = self.expect()?;
            let value = self.node(event, &span)?;
            if ignored {
                continue;
            }
            if let Some(first) = lines.insert(name.clone(), line) {
                bail!("line {line}: member {name:?} is given twice, first on line {first}");
            }
            members.push(Member { name, line, value });
        }
    }

    /// What Envoy 1.40 takes a scalar for.
    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        line: usize,
    ) -> anyhow::Result<Content> {
        let plain = style == ScalarStyle::Plain;
        if self.json && plain {
            return match text {
                "null" => Ok(Content::Null),
                "true" | "false" => Ok(Content::Bool(text == "true")),
                _ => {
                    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                    Ok(Content::Number(number.with_context(|| format!("line {line}: not valid JSON"))?))
                }
            };
        }
        let is_text = tag.map_or(!plain, |tag| tag.original() == "!");
        let is_null = plain && tag.is_none() && ["", "~", "null", "Null", "NULL"].contains(&text);
        Ok(match (is_text, is_null, truth(text), whole(text)) {
            (true, ..) => Content::Text(text.to_owned()),
            (_, true, ..) => Content::Null,
            (_, _, Some(flag), _) => Content::Bool(flag),
            (_, _, _, Some(number)) => match i32::try_from(number) {
                Ok(small) => Content::Number(small.into()),
                Err(_) => Content::Text(number.to_string()),
            },
            _ => Content::Text(text.to_owned()),
        })
    }

    /// Counts a value that is there more than once.
    fn repeat(&mut self, node: &Node, line: usize) -> anyhow::Result<()> {
        let (cost, height) = extent(node);
        self.repeated = self.repeated.saturating_add(cost);
        ensure!(self.repeated <= MAX_REPEATED, "line {line}: too large when its anchors are followed");
        ensure!(
            self.depth + height <= MAX_DEPTH,
            "line {line}: nested too deep when its anchors are followed"
        );
        Ok(())
    }
}

/// How large a value is, and how deep.
fn extent(node: &Node) -> (usize, usize) {
    const OF_A_VALUE: usize = 64;
    let (mut cost, mut height) = (OF_A_VALUE, 0);
    let mut add = |name: &str, inner: &Node| {
        let (more, below) = extent(inner);
        cost += more + name.len();
        height = height.max(below + 1);
    };
    match &node.content {
        Content::List(items) => items.iter().for_each(|item| add("", item)),
        Content::Map(members) => members.iter().for_each(|member| add(&member.name, &member.value)),
        Content::Text(text) => cost += text.len(),
        _ => {}
    }
    (cost, height)
}

/// The words that Envoy takes for true and false: in lower case, in upper case, or with a capital.
fn truth(text: &str) -> Option<bool> {
    const WORDS: [(&str, &str); 4] = [("y", "n"), ("yes", "no"), ("true", "false"), ("on", "off")];
    let lower = text.to_ascii_lowercase();
    let tail = text.get(1..)?;
    let upper = tail.chars().all(|character| character.is_ascii_uppercase());
    let as_written = tail.chars().all(|character| character.is_ascii_lowercase())
        || (upper && text.starts_with(|first: char| first.is_ascii_uppercase()));
    let word = WORDS.iter().find(|(yes, no)| lower == *yes || lower == *no)?;
    as_written.then_some(lower == word.0)
}

/// A whole number as C++ streams read one: with `0x` hexadecimal, with `0` octal.
fn whole(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, base) = match hexadecimal {
        Some(rest) => (rest, 16),
        None if digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    let number = i128::from(u64::from_str_radix(digits, base).ok()?);
    i64::try_from(if negative { -number } else { number }).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn value(text: &str, format: Format) -> Value {
        let documents = read(text, format).unwrap_or_else(|error| panic!("{text:?}: {error:#}"));
        json!(documents.iter().map(Node::to_json).collect::<Vec<_>>())
    }

    /// The rows are held against the real Envoy in tests/real_envoy/check.rs.
    #[test]
    fn scalars_are_what_envoy_takes_them_for() {
        let rows = [
            ("yes", json!(true)),
            ("On", json!(true)),
            ("N", json!(false)),
            ("FALSE", json!(false)),
            ("yEs", json!("yEs")),
            ("tRUE", json!("tRUE")),
            ("\"yes\"", json!("yes")),
            ("! 5", json!("5")),
            ("!!str 5", json!(5.0)),
            ("5", json!(5.0)),
            ("-5", json!(-5.0)),
            ("+5", json!(5.0)),
            ("010", json!(8.0)),
            ("08", json!("08")),
            ("0x1F", json!(31.0)),
            ("-0x1F", json!(-31.0)),
            ("0x", json!("0x")),
            ("0o17", json!("0o17")),
            ("1_000", json!("1_000")),
            ("2147483647", json!(2147483647.0)),
            ("2147483648", json!("2147483648")),
            ("0x80000000", json!("2147483648")),
            ("99999999999999999999", json!("99999999999999999999")),
            ("1.50", json!("1.50")),
            ("1e3", json!("1e3")),
            (".inf", json!(".inf")),
            ("~", Value::Null),
            ("null", Value::Null),
            ("Null", Value::Null),
            ("", Value::Null),
            ("nULL", json!("nULL")),
            ("'null'", json!("null")),
            ("|\n  5\n", json!("5\n")),
            ("2024-01-01", json!("2024-01-01")),
            ("1:30", json!("1:30")),
            ("+", json!("+")),
            ("--5", json!("--5")),
        ];
        for (text, expected) in rows {
            assert_eq!(value(&format!("a: {text}"), Format::Yaml), json!([{ "a": expected }]), "{text}");
        }
    }

    #[test]
    fn json_is_read_as_json() {
        let text = "{\"a\": 1.5, \"b\": 3000000000, \"c\": \"yes\",\n\t\"d\": [true, null, 1e3, \"\\ud83d\\ude00\\/\"]}";
        let expected = json!([{"a": 1.5, "b": 3e9, "c": "yes", "d": [true, null, 1000.0, "\u{1f600}/"]}]);
        for format in [Format::Json, Format::Either] {
            assert_eq!(value(text, format), expected);
        }
        let long = format!("{{\"{}\": 1}}", "x".repeat(5000));
        assert_eq!(value(&long, Format::Json)[0].as_object().unwrap().len(), 1);
        // In YAML's own form a fraction is text.
        assert_eq!(value("{a: 1.5}", Format::Either), json!([{ "a": "1.5" }]));
        let lines = read("{\n\"a\": 1,\n\"b\": [\n2]}", Format::Json).unwrap();
        assert_eq!([lines[0].line_of("a"), lines[0].line_of("b[0]")], [2, 4]);
    }

    #[test]
    fn anchors_and_documents_are_followed() {
        let text = "a: &x {b: 1}\nc: *x\n!ignore d: 1\n<<: *x\n---\n---\n- 1\n...\n";
        assert_eq!(
            value(text, Format::Yaml),
            json!([{"a": {"b": 1.0}, "c": {"b": 1.0}, "<<": {"b": 1.0}}, [1.0]])
        );
        assert_eq!(read(text, Format::Yaml).unwrap()[0].line_of("c"), 2);
        assert!(read("", Format::Either).unwrap().is_empty());
        assert!(read("# nothing\n", Format::Either).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_line() {
        let bomb: String = (1..12)
            .map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", ")))
            .collect();
        let chain: String = (1..400).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
        let deep = |open: &str| open.repeat(100_000);
        let rows = [
            ("a: 1\nb:\n  c: 1\n  c: 2\n", "line 4: member \"c\" is given twice, first on line 3"),
            ("a: [1, 2", "line "),
            ("a: 1\n\tb: 2", "found a tab"),
            ("a: *nothing", "line 1"),
            ("a: &a [*a]", "line 1: what it refers to holds it"),
            ("[a]: 1", "line 1: the name of a member must be text"),
            ("\0\0\0\u{1}", "line 1"),
            (&deep("["), "line 1"),
            (&deep("- "), "line 1"),
            (&deep("{a: "), "line 1"),
            (&format!("a0: &a0 {}\n{bomb}", "x".repeat(1000)), "too large when its anchors are followed"),
            (&format!("a0: &a0 x\n{chain}"), "nested too deep when its anchors are followed"),
        ];
        for (text, expected) in rows {
            let error = format!("{:#}", read(text, Format::Either).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        let rows = [
            ("{\"a\": 1,\n \"a\": 2}", "member \"a\" is given twice at line 2"),
            ("a: 1", "not valid JSON"),
            ("{\"a\": 1,}", "not valid JSON"),
        ];
        for (text, expected) in rows {
            let error = format!("{:#}", read(text, Format::Json).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
