//! How far a run is, and how long it will take, on the standard error.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Tells of it.
#[derive(Debug)]
pub struct Progress {
    /// A line that is written over again and again, or one for each workload; nothing at all if neither.
    shown: Shown,
    began: Instant,
    /// What is done of all, from 0 to 1.
    done: f64,
    /// How much of all the present workload is.
    share: f64,
    name: String,
    last: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Over,
    Lines,
    Nothing,
}

/// How often a line is written over.
const OFTEN: Duration = Duration::from_millis(200);
/// Before this share is done, nobody knows how long it takes.
const KNOWN: f64 = 0.01;

impl Progress {
    /// On the standard error, whatever that is.
    pub fn begin() -> Self {
        let shown = if std::io::stderr().is_terminal() { Shown::Over } else { Shown::Lines };
        Self { shown, ..Self::silent() }
    }

    /// Tells nothing.
    pub fn silent() -> Self {
        let began = Instant::now();
        Self { shown: Shown::Nothing, began, done: 0.0, share: 0.0, name: String::new(), last: None }
    }

    /// The next workload, the `number`th of `all`, from 0.
    pub(crate) fn next(&mut self, name: &str, number: usize, all: usize) {
        self.share = 1.0 / all.max(1) as f64;
        self.done = number as f64 * self.share;
        self.name = format!("{}/{all} {name}", number.saturating_add(1));
        if self.shown == Shown::Lines {
            eprintln!("{}", self.line(self.done));
        }
        self.within("", 0.0);
    }

    /// What is done of the present workload, from 0 to 1.
    pub(crate) fn within(&mut self, what: &str, done: f64) {
        if self.shown != Shown::Over || self.last.is_some_and(|last| last.elapsed() < OFTEN) {
            return;
        }
        self.last = Some(Instant::now());
        let line = self.line(self.done + self.share * done);
        eprint!("\r\x1b[K{line} {what}");
        let _ = std::io::stderr().flush();
    }

    /// Makes room for what is printed otherwise.
    pub(crate) fn clear(&mut self) {
        if self.shown == Shown::Over {
            eprint!("\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
        self.last = None;
    }

    fn line(&self, done: f64) -> String {
        let left = left(self.began.elapsed(), done).map(|left| format!(", {left}")).unwrap_or_default();
        format!("{}{left}", self.name)
    }
}

/// How long it will take, in words.
fn left(elapsed: Duration, done: f64) -> Option<String> {
    if !(KNOWN..=1.0).contains(&done) {
        return None;
    }
    let seconds = elapsed.as_secs_f64() * (1.0 - done) / done;
    Some(if seconds < 90.0 {
        format!("about {:.0} s left", seconds.ceil())
    } else {
        format!("about {:.0} min left", (seconds / 60.0).ceil())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_once_it_can_be_known() {
        let rows = [
            (10, 0.0, None),
            (10, 0.005, None),
            (10, 0.5, Some("about 10 s left")),
            (10, 1.0, Some("about 0 s left")),
            (60, 0.1, Some("about 9 min left")),
            (600, 0.9, Some("about 67 s left")),
        ];
        for (seconds, done, expected) in rows {
            assert_eq!(left(Duration::from_secs(seconds), done).as_deref(), expected, "{seconds} {done}");
        }
    }
}
