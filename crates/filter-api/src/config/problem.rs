//! Problems found in a configuration, and the place where they are collected.

use std::cell::RefCell;
use std::fmt;

/// One problem: where it is, what it is, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The path, as `providers.main.issuer` or `rules[2].match`; empty for the whole.
    pub path: String,
    /// The problem and its remedy, without a full stop. Never holds a secret.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// Every problem of a configuration that cannot be used; at least one. Displayed one on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Problem>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, problem) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Collects the problems found while a configuration is read.
#[derive(Debug, Default)]
pub struct Report {
    errors: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

impl Report {
    /// Notes something that makes the configuration unusable.
    pub fn error(&self, path: &str, message: impl Into<String>) {
        self.errors.borrow_mut().push(Problem { path: path.to_owned(), message: message.into() });
    }

    /// Notes something that looks wrong but need not be.
    pub fn warning(&self, path: &str, message: impl Into<String>) {
        self.warnings.borrow_mut().push(Problem { path: path.to_owned(), message: message.into() });
    }

    /// How many errors there are so far.
    pub fn errors(&self) -> usize {
        self.errors.borrow().len()
    }

    /// The result and the warnings, if there is a result and there were no errors.
    pub(super) fn close<T>(self, result: Option<T>) -> Result<(T, Vec<Problem>), ConfigErrors> {
        match (result, self.errors.into_inner()) {
            (Some(result), errors) if errors.is_empty() => Ok((result, self.warnings.into_inner())),
            (_, errors) => Err(ConfigErrors(errors)),
        }
    }
}
