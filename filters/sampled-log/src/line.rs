//! A line: one JSON object, whatever bytes its values hold.

/// Room at the end for what every line has: how it was chosen, what was dropped, that something is not in it. With the
/// longest numbers these take 94 bytes.
const RESERVE: usize = 128;

/// A line under way.
#[derive(Debug)]
pub(crate) struct Line {
    text: String,
    most: usize,
    is_truncated: bool,
}

impl Line {
    /// A line of at most so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { text: String::with_capacity(512), most, is_truncated: false }
    }

    /// A member that is a number.
    pub(crate) fn number(&mut self, name: &str, digits: &str) {
        self.member(name, |text| text.push_str(digits));
    }

    /// A member that is a text.
    pub(crate) fn text(&mut self, name: &str, value: &[u8]) {
        self.member(name, |text| push_string(text, value));
    }

    /// A member that is missing.
    pub(crate) fn null(&mut self, name: &str) {
        self.member(name, |text| text.push_str("null"));
    }

    /// A member that is an object of texts.
    pub(crate) fn texts<'v>(&mut self, name: &str, values: impl Iterator<Item = (&'v str, &'v [u8])>) {
        self.member(name, |text| {
            text.push('{');
            for (place, (name, value)) in values.enumerate() {
                if place > 0 {
                    text.push(',');
                }
                push_string(text, name.as_bytes());
                text.push(':');
                push_string(text, value);
            }
            text.push('}');
        });
    }

    /// What follows has the room at the end: it is in every line, however much a client sends.
    pub(crate) fn begin_end(&mut self) {
        self.most = usize::MAX;
    }

    /// Notes that a value was cut.
    pub(crate) fn note_truncation(&mut self) {
        self.is_truncated = true;
    }

    /// The line, and whether anything is not in it.
    pub(crate) fn finish(mut self) -> (String, bool) {
        self.begin_end();
        if self.is_truncated {
            self.member("truncated", |text| text.push_str("true"));
        }
        if self.text.is_empty() {
            self.text.push('{');
        }
        self.text.push('}');
        (self.text, self.is_truncated)
    }

    /// Writes a member, and takes it back where that makes the line too long.
    fn member(&mut self, name: &str, write: impl FnOnce(&mut String)) {
        let before = self.text.len();
        self.text.push(if before == 0 { '{' } else { ',' });
        push_string(&mut self.text, name.as_bytes());
        self.text.push(':');
        write(&mut self.text);
        if self.text.len().saturating_add(RESERVE) > self.most {
            self.text.truncate(before);
            self.is_truncated = true;
        }
    }
}

/// Writes a string: what is no UTF-8 as `\xff`, and everything that a reader, a terminal or a line of text might take for
/// something else as an escape.
fn push_string(text: &mut String, value: &[u8]) {
    text.push('"');
    for chunk in value.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                other if other.is_control() || is_deceiving(other) => push_escape(text, other),
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            text.push_str("\\\\x");
            for digit in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(u32::from(digit), 16));
            }
        }
    }
    text.push('"');
}

/// Whether a letter ends a line to some, turns the direction of what follows (`Bidi_Control` of the Unicode Standard), or
/// is not seen at all.
fn is_deceiving(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Writes a character as `\u001b`, one beyond the basic plane as two of these (RFC 8259 section 7).
fn push_escape(text: &mut String, letter: char) {
    for unit in letter.encode_utf16(&mut [0; 2]) {
        text.push_str("\\u");
        for shift in [12, 8, 4, 0] {
            text.extend(char::from_digit(u32::from(*unit) >> shift & 15, 16));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_byte_stays_within_its_string() {
        let mut line = Line::new(8192);
        line.text("a\"b", b"\r\n\t\x1b[31m\"\\\x7f\xff\x80 \xc3\xa9 \xe2\x80\xa8\xe2\x80\xae");
        line.number("n", "1.5");
        line.null("z");
        line.texts("h", [("x", &b"1"[..]), ("y", b"\xff")].into_iter());
        let (text, is_truncated) = line.finish();
        assert!(!is_truncated && !text.contains(|letter: char| letter.is_control()));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value,
            json!({
                "a\"b": "\r\n\t\u{1b}[31m\"\\\u{7f}\\xff\\x80 é \u{2028}\u{202e}",
                "n": 1.5,
                "z": null,
                "h": { "x": "1", "y": "\\xff" },
            })
        );
        assert!(text.contains("\\u001b") && text.contains("\\u2028\\u202e") && text.contains("\\u007f"));
    }

    #[test]
    fn what_is_not_seen_or_turns_the_text_is_escaped() {
        let deceiving =
            "\u{ad}\u{61c}\u{180e}\u{200b}\u{200f}\u{202a}\u{2066}\u{feff}\u{fffa}\u{e0001}\u{e007f}";
        let mut line = Line::new(8192);
        line.text("a", deceiving.as_bytes());
        let (text, _) = line.finish();
        let escaped = r"\u00ad\u061c\u180e\u200b\u200f\u202a\u2066\ufeff\ufffa\udb40\udc01\udb40\udc7f";
        assert_eq!(text, format!("{{\"a\":\"{escaped}\"}}"));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({ "a": deceiving }));
    }

    #[test]
    fn the_end_has_its_room_whatever_is_before_it() {
        for length in 0..600 {
            let mut line = Line::new(512);
            line.text("a", &vec![b'x'; length]);
            line.text("b", b"");
            line.begin_end();
            line.number("sample_rate", "0.000000000001");
            line.text("why", b"sampled");
            line.number("dropped", &u64::MAX.to_string());
            let (text, is_truncated) = line.finish();
            assert!(text.len() <= 512, "{text}");
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((&value["why"], &value["dropped"]), (&json!("sampled"), &json!(u64::MAX)));
            assert_eq!(value.get("truncated").is_some(), is_truncated);
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        let mut line = Line::new(256);
        line.text("a", b"1");
        line.text("b", &[b'x'; 200]);
        line.text("c", b"3");
        let (text, is_truncated) = line.finish();
        assert_eq!((text.as_str(), is_truncated), (r#"{"a":"1","c":"3","truncated":true}"#, true));
        assert_eq!(Line::new(256).finish().0, "{}");
    }

    proptest! {
        #[test]
        fn any_bytes_make_one_line_of_json(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..8),
            most in 200..2000_usize,
        ) {
            let mut line = Line::new(most);
            for (place, value) in values.iter().enumerate() {
                line.text(&format!("f{place}"), value);
            }
            let (text, _) = line.finish();
            prop_assert!(text.len() <= most);
            prop_assert!(!text.contains(|letter: char| letter.is_control()));
            let value: Value = serde_json::from_str(&text).unwrap();
            prop_assert!(value.is_object());
        }
    }
}
