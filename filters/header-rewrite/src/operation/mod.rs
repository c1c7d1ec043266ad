//! The operations: what each is, how it is written in a configuration, and what it does to a message.

mod cookie;
mod header;
mod path;
mod query;
mod set_cookie;

use filter_api::config::{Node, Object};
use filter_api::template::Phase;

pub(crate) use self::cookie::CookieEdit;
pub(crate) use self::header::{Copy, Dedupe, How, Remove, Replace, Write};
pub(crate) use self::path::{HostRewrite, PathRewrite};
pub(crate) use self::query::QueryEdit;
pub(crate) use self::set_cookie::SetCookieEdit;
use crate::stage::Stage;
use crate::value::{Left, Reading, Value};

/// An operation.
#[derive(Debug)]
pub(crate) enum Operation {
    /// Writes a header.
    Write(Write),
    /// Removes headers.
    Remove(Remove),
    /// Makes lines of one name those of another.
    Copy(Copy),
    /// Replaces parts of a header's values.
    Replace(Replace),
    /// Removes all but some lines of a name.
    Dedupe(Dedupe),
    /// Rewrites the path.
    Path(PathRewrite),
    /// Rewrites the host.
    Host(HostRewrite),
    /// Edits the query.
    Query(QueryEdit),
    /// Edits the cookies that a client sends.
    Cookie(CookieEdit),
    /// Edits the cookies that a response sets.
    SetCookie(SetCookieEdit),
}

/// The names of operations, for requests and for responses alike.
pub(crate) const NAMES: [&str; 10] = [
    "set",
    "append",
    "add_if_absent",
    "overwrite_if_exists",
    "remove",
    "remove_on_match",
    "rename",
    "copy",
    "replace",
    "dedupe",
];

/// Those for requests alone.
pub(crate) const FOR_REQUESTS: [&str; 3] = ["path", "host", "query"];

impl Operation {
    /// Reads the operation of this name.
    pub(crate) fn read(name: &str, node: &Node<'_>, reading: &mut Reading<'_>) -> Option<Self> {
        if FOR_REQUESTS.contains(&name) && reading.phase == Phase::Response {
            node.error(format!("`{name}` is for `request_mutations`: a response has none"));
            return None;
        }
        match name {
            "set" => Write::read(How::Set, node, reading).map(Self::Write),
            "append" => Write::read(How::Append, node, reading).map(Self::Write),
            "add_if_absent" => Write::read(How::AddIfAbsent, node, reading).map(Self::Write),
            "overwrite_if_exists" => Write::read(How::OverwriteIfExists, node, reading).map(Self::Write),
            "remove" => Remove::read(node, reading).map(Self::Remove),
            "remove_on_match" => Remove::read_on_match(node, reading).map(Self::Remove),
            "rename" => Copy::read(node, true, reading).map(Self::Copy),
            "copy" => Copy::read(node, false, reading).map(Self::Copy),
            "replace" => Replace::read(node, reading).map(Self::Replace),
            "dedupe" => Dedupe::read(node, reading).map(Self::Dedupe),
            "path" => PathRewrite::read(node, reading).map(Self::Path),
            "host" => HostRewrite::read(node, reading).map(Self::Host),
            "query" => QueryEdit::read(node, reading).map(Self::Query),
            _ if reading.phase == Phase::Request => CookieEdit::read(node, reading).map(Self::Cookie),
            _ => SetCookieEdit::read(node, reading).map(Self::SetCookie),
        }
    }

    /// Whether it takes something away, which is done also where a condition on the path may hold or not.
    pub(crate) fn removes(&self) -> bool {
        match self {
            Self::Remove(_) => true,
            Self::Query(edit) => edit.removes(),
            Self::Cookie(edit) => edit.removes(),
            Self::SetCookie(edit) => edit.removes(),
            _ => false,
        }
    }

    /// The values that it writes.
    pub(crate) fn each_value<'v>(&'v self, take: &mut impl FnMut(&'v Value)) {
        match self {
            Self::Write(write) => take(&write.value),
            Self::Replace(replace) => replace.substitution.each_value(take),
            Self::SetCookie(edit) => edit.each_value(take),
            // These are for requests, whose values are not kept.
            Self::Path(_) | Self::Host(_) | Self::Query(_) | Self::Cookie(_) => {}
            Self::Remove(_) | Self::Copy(_) | Self::Dedupe(_) => {}
        }
    }

    /// Does it.
    pub(crate) fn run<'h>(&self, stage: &mut impl Stage<'h>) {
        let done = match self {
            Self::Write(write) => write.run(stage),
            Self::Remove(remove) => {
                remove.run(stage);
                Ok(())
            }
            Self::Copy(copy) => {
                copy.run(stage);
                Ok(())
            }
            Self::Replace(replace) => replace.run(stage),
            Self::Dedupe(dedupe) => {
                dedupe.run(stage);
                Ok(())
            }
            Self::Path(path) => path.run(stage),
            Self::Host(host) => host.run(stage),
            Self::Query(query) => query.run(stage),
            Self::Cookie(cookie) => cookie.run(stage),
            Self::SetCookie(cookie) => cookie.run(stage),
        };
        if let Err(Left::Skipped(why)) = done {
            stage.skip(why);
        }
    }
}

/// Name and value of something to be written, `{name, value}`; the name may be called `key`, as Envoy does.
pub(crate) fn name_node<'n>(object: &Object<'n>) -> Option<Node<'n>> {
    let (_, node) = object.one_of(&["name", "key"])?;
    Some(node)
}
