//! Text on its way to a terminal: what came from a token or a file must not control it.

use std::fmt::Write as _;
use std::io::{self, Write as _};

/// The text with every character that steers a terminal, or hides or reorders what is beside it,
/// written as JSON does (`\u001b`). Line breaks stay. JSON text means the same afterwards, since such
/// characters stand in its strings alone.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\n' || !steers(character) {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a String does not fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// Prints the text, made harmless. A reader that has gone away (`| head`) is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(harmless(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // direction
            | '\u{2028}' | '\u{2029}'                                                 // line breaks
            | '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' // invisible
            | '\u{206a}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_escaped_and_the_rest_stays() {
        let rows = [
            ("plain, h\u{e9}, \u{1f600}, \u{5d0}\n", "plain, h\u{e9}, \u{1f600}, \u{5d0}\n"),
            ("\u{1b}[2J\r\t\0", "\\u001b[2J\\u000d\\u0009\\u0000"),
            ("\u{7f}\u{9b}31m", "\\u007f\\u009b31m"),
            ("\u{202e}\u{2066}\u{2069}\u{200f}", "\\u202e\\u2066\\u2069\\u200f"),
            ("ad\u{200b}min\u{2028}", "ad\\u200bmin\\u2028"),
            ("\u{e0041}", "\\udb40\\udc41"),
        ];
        for (text, expected) in rows {
            assert_eq!(harmless(text), expected);
        }
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"\u{202e}": "\u{9b}\u{e0041}\u{1b}\n\\"});
        let text = harmless(&value.to_string());
        assert!(!text.chars().any(steers), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
