//! A head with edits over it: each edit sees those before it, and what comes of all of them is as few operations as
//! will do.

use std::cell::OnceCell;

use smallvec::SmallVec;

use crate::{Head, HeaderName, HeaderOp, HeaderValue};

/// A head, as edits have made it so far.
///
/// Edits by themselves do not look at the head. One that nothing has looked at need not be read by its host at all;
/// what its lines are is then not known, and operations are given that may change nothing.
#[derive(Debug)]
pub struct Edited<'h, H> {
    head: &'h H,
    own: OnceCell<OwnLines<'h>>,
    names: SmallVec<[Name<'h>; 2]>,
}

/// The lines of a head as it was, in a list that is looked through faster than what a host hands over.
#[derive(Debug)]
pub struct OwnLines<'h>(SmallVec<[(&'h [u8], &'h [u8]); 24]>);

impl<'h> OwnLines<'h> {
    /// The values of every line of this name.
    pub fn of(&self, name: &str) -> impl Iterator<Item = &'h [u8]> {
        let own = self.0.iter().filter(move |(line, _)| line.eq_ignore_ascii_case(name.as_bytes()));
        own.map(|(_, value)| *value)
    }
}

impl Head for OwnLines<'_> {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().copied()
    }
}

/// What has become of a name.
#[derive(Debug)]
struct Name<'h> {
    name: HeaderName,
    /// Whether the head's own lines of it are gone.
    dropped: bool,
    /// The lines that are there instead, or in addition.
    lines: Lines<'h>,
}

/// The values of the lines of one name.
pub type Lines<'h> = SmallVec<[Line<'h>; 1]>;

/// A line's value.
#[derive(Debug, Clone)]
pub enum Line<'h> {
    /// As the head has it.
    Own(&'h [u8]),
    /// Another one.
    New(HeaderValue),
}

impl Line<'_> {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::New(value) => value.as_bytes(),
        }
    }

    /// Its value; none where the head's own is not fit to be written.
    fn into_value(self) -> Option<HeaderValue> {
        match self {
            Self::Own(bytes) => HeaderValue::new(bytes).ok(),
            Self::New(value) => Some(value),
        }
    }
}

impl<'h, H: Head> Edited<'h, H> {
    /// A head that nothing was done to.
    pub fn new(head: &'h H) -> Self {
        Self { head, own: OnceCell::new(), names: SmallVec::new() }
    }

    /// The head as it was.
    pub fn original(&self) -> &OwnLines<'h> {
        self.own.get_or_init(|| OwnLines(self.head.lines().collect()))
    }

    /// Whether the head has been looked at, so that looking at it again costs no call of the host.
    pub fn is_at_hand(&self) -> bool {
        self.own.get().is_some()
    }

    /// The lines of this name.
    pub fn lines_of(&self, name: &str) -> Lines<'h> {
        match self.find(name) {
            Some(edited) if edited.dropped => edited.lines.clone(),
            Some(edited) => self.own_lines(name).chain(edited.lines.iter().cloned()).collect(),
            None => self.own_lines(name).collect(),
        }
    }

    /// Whether there is a line of this name.
    pub fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// Makes one line of all of this name.
    pub fn set(&mut self, name: &HeaderName, value: HeaderValue) {
        let mut lines = Lines::new();
        lines.push(Line::New(value));
        self.replace(name, lines);
    }

    /// Adds a line.
    pub fn add(&mut self, name: &HeaderName, value: HeaderValue) {
        self.entry(name).lines.push(Line::New(value));
    }

    /// Removes all lines of this name.
    pub fn remove(&mut self, name: &HeaderName) {
        self.replace(name, Lines::new());
    }

    /// Puts these lines in the place of all of this name.
    pub fn replace(&mut self, name: &HeaderName, lines: Lines<'h>) {
        let entry = self.entry(name);
        entry.dropped = true;
        entry.lines = lines;
    }

    /// Does what an operation does.
    pub fn apply(&mut self, operation: HeaderOp) {
        match operation {
            HeaderOp::Set(name, value) => self.set(&name, value),
            HeaderOp::Add(name, value) => self.add(&name, value),
            HeaderOp::Remove(name) => self.remove(&name),
        }
    }

    /// The operations that make of the head what it is now. What is as it was takes none, and what was written over
    /// is not in them.
    pub fn finish(self) -> Vec<HeaderOp> {
        // Most names take one.
        let mut operations = Vec::with_capacity(self.names.len());
        let own = self.own.into_inner();
        for Name { name, dropped, lines } in self.names {
            let mut lines = lines.into_iter();
            if dropped {
                match own_and_more(own.as_ref(), name.as_str(), lines.clone()) {
                    // What it began with is there already.
                    Some(more) => lines = more,
                    None => match lines.find_map(Line::into_value) {
                        Some(first) => operations.push(HeaderOp::Set(name.clone(), first)),
                        None => operations.push(HeaderOp::Remove(name.clone())),
                    },
                }
            }
            let values = lines.filter_map(Line::into_value);
            operations.extend(values.map(|value| HeaderOp::Add(name.clone(), value)));
        }
        operations
    }

    fn find(&self, name: &str) -> Option<&Name<'h>> {
        self.names.iter().find(|edited| edited.name.as_str().eq_ignore_ascii_case(name))
    }

    fn entry(&mut self, name: &HeaderName) -> &mut Name<'h> {
        let place = self.names.iter().position(|edited| edited.name == *name);
        let place = place.unwrap_or_else(|| {
            self.names.push(Name { name: name.clone(), dropped: false, lines: Lines::new() });
            self.names.len().saturating_sub(1)
        });
        #[allow(clippy::indexing_slicing)] // found or made just before
        &mut self.names[place]
    }

    fn own_lines(&self, name: &str) -> impl Iterator<Item = Line<'h>> {
        self.original().of(name).map(Line::Own)
    }
}

/// Of lines that begin with all that the head has of this name, those after it. None where they do not, or nobody has
/// looked at the head: it is not read for this.
fn own_and_more<'h>(
    own: Option<&OwnLines<'h>>,
    name: &str,
    mut lines: smallvec::IntoIter<[Line<'h>; 1]>,
) -> Option<smallvec::IntoIter<[Line<'h>; 1]>> {
    let mut own = own?.of(name).peekable();
    // One line is written over those that are there, whether there are any or not.
    if own.peek().is_none() && lines.len() > 0 {
        return None;
    }
    own.all(|own| lines.next().is_some_and(|line| line.as_bytes() == own)).then_some(lines)
}

impl<H: Head> Head for Edited<'_, H> {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let dropped = |line: &[u8]| {
            self.names
                .iter()
                .any(|edited| edited.dropped && edited.name.as_str().as_bytes().eq_ignore_ascii_case(line))
        };
        let own = self.original().lines().filter(move |(line, _)| !dropped(line));
        let edited = self.names.iter().flat_map(|edited| {
            edited.lines.iter().map(|line| (edited.name.as_str().as_bytes(), line.as_bytes()))
        });
        own.chain(edited)
    }

    fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let edited = self.find(name);
        let own = (!edited.is_some_and(|edited| edited.dropped)).then(|| self.original().get_all(name));
        let lines = edited.into_iter().flat_map(|edited| edited.lines.iter().map(Line::as_bytes));
        own.into_iter().flatten().chain(lines)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::HeadMap;

    fn name(name: &str) -> HeaderName {
        HeaderName::new(name).unwrap()
    }

    fn value(value: &str) -> HeaderValue {
        HeaderValue::new(value).unwrap()
    }

    /// What a host makes of a head by these operations.
    fn performed(head: &HeadMap, operations: &[HeaderOp]) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut lines: Vec<(String, String)> =
            head.lines().map(|(name, value)| (text(name), text(value))).collect();
        for operation in operations {
            match operation {
                HeaderOp::Add(name, value) => {
                    lines.push((name.as_str().to_owned(), text(value.as_bytes())));
                }
                HeaderOp::Set(name, value) => {
                    lines.retain(|(line, _)| line != name.as_str());
                    lines.push((name.as_str().to_owned(), text(value.as_bytes())));
                }
                HeaderOp::Remove(name) => lines.retain(|(line, _)| line != name.as_str()),
            }
        }
        lines.sort_by(|(one, _), (other, _)| one.cmp(other));
        lines
    }

    #[test]
    fn each_edit_sees_those_before_it() {
        let head = HeadMap::get("/").with("a", "1").with("A", "2").with("b", "3");
        let mut edited = Edited::new(&head);
        edited.add(&name("a"), value("4"));
        assert!(edited.get_all("A").eq([b"1", b"2", b"4"]));
        edited.remove(&name("a"));
        assert!(!edited.has("a"));
        edited.add(&name("a"), value("5"));
        assert!(edited.get_all("a").eq([b"5"]));
        assert!(edited.lines().filter(|(name, _)| *name == b"a").map(|(_, value)| value).eq([b"5"]));
        let lines = edited.lines_of("b");
        edited.replace(&name("c"), lines);
        assert_eq!(edited.first("c"), Some(&b"3"[..]));
        assert_eq!(
            edited.finish(),
            [HeaderOp::Set(name("a"), value("5")), HeaderOp::Set(name("c"), value("3"))]
        );
    }

    #[test]
    fn what_changes_nothing_takes_no_operation() {
        let head = HeadMap::get("/").with("a", "1").with("a", "2").with("b", "3");
        let mut edited = Edited::new(&head);
        edited.lines().for_each(|_| ());
        edited.set(&name("b"), value("3"));
        edited.remove(&name("c"));
        let mut lines = edited.lines_of("a");
        edited.replace(&name("a"), lines.clone());
        edited.set(&name("d"), value("4"));
        edited.remove(&name("d"));
        lines.push(Line::New(value("5")));
        edited.replace(&name("a"), lines);
        assert_eq!(edited.finish(), [HeaderOp::Add(name("a"), value("5"))]);
    }

    #[test]
    fn a_head_that_nothing_looked_at_is_not_read() {
        struct Unread;
        impl Head for Unread {
            fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
                panic!("was read");
                #[allow(unreachable_code)]
                std::iter::empty()
            }
        }
        let mut edited = Edited::new(&Unread);
        edited.set(&name("a"), value("1"));
        edited.set(&name("a"), value("2"));
        edited.add(&name("a"), value("3"));
        edited.add(&name("b"), value("4"));
        edited.remove(&name("c"));
        let expected = [
            HeaderOp::Set(name("a"), value("2")),
            HeaderOp::Add(name("a"), value("3")),
            HeaderOp::Add(name("b"), value("4")),
            HeaderOp::Remove(name("c")),
        ];
        assert_eq!(edited.finish(), expected);
    }

    #[derive(Debug, Clone)]
    enum Edit {
        Set(u8, u8),
        Add(u8, u8),
        Remove(u8),
        Copy(u8, u8),
        Look,
    }

    fn edit() -> impl Strategy<Value = Edit> {
        let of = || 0..3_u8;
        prop_oneof![
            (of(), of()).prop_map(|(name, value)| Edit::Set(name, value)),
            (of(), of()).prop_map(|(name, value)| Edit::Add(name, value)),
            of().prop_map(Edit::Remove),
            (of(), of()).prop_map(|(from, to)| Edit::Copy(from, to)),
            Just(Edit::Look),
        ]
    }

    proptest! {
        #[test]
        fn the_operations_give_what_the_edits_show(
            own in proptest::collection::vec((0..3_u8, 0..3_u8), 0..5),
            edits in proptest::collection::vec(edit(), 0..8),
        ) {
            let text = |number: u8| number.to_string();
            let names = |number: u8| name(&format!("n{number}"));
            let mut head = HeadMap::default();
            for (name, value) in own {
                head = head.with(format!("n{name}"), text(value));
            }
            let mut edited = Edited::new(&head);
            for edit in edits {
                match edit {
                    Edit::Set(name, to) => edited.set(&names(name), value(&text(to))),
                    Edit::Add(name, to) => edited.add(&names(name), value(&text(to))),
                    Edit::Remove(name) => edited.remove(&names(name)),
                    Edit::Copy(from, to) => {
                        let lines = edited.lines_of(names(from).as_str());
                        edited.replace(&names(to), lines);
                    }
                    Edit::Look => edited.lines().for_each(|_| ()),
                }
            }
            let mut shown: Vec<(String, String)> = edited
                .lines()
                .map(|(name, value)| {
                    (String::from_utf8(name.to_vec()).unwrap(), String::from_utf8(value.to_vec()).unwrap())
                })
                .collect();
            shown.sort_by(|(one, _), (other, _)| one.cmp(other));
            let operations = edited.finish();
            prop_assert_eq!(performed(&head, &operations), shown);
        }
    }
}
