//! Texts that are known when the program is compiled or the configuration read, and that every request that
//! needs them shares.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Known when the program is compiled, or shared. Cloning one allocates nothing.
pub enum Text<T: ?Sized + 'static = str> {
    /// Known when the program is compiled.
    Static(&'static T),
    /// Made at run time.
    Shared(Arc<T>),
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::Static(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl<T: ?Sized> Deref for Text<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl<T: ?Sized> Clone for Text<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Static(text) => Self::Static(text),
            Self::Shared(text) => Self::Shared(Arc::clone(text)),
        }
    }
}

impl<T: ?Sized + PartialEq> PartialEq for Text<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: ?Sized + Eq> Eq for Text<T> {}

impl<T: ?Sized + Ord> PartialOrd for Text<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: ?Sized + Ord> Ord for Text<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}
