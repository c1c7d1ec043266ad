//! A document as a tree of values that know the line they are on.

use serde_json::{Map, Number, Value};

/// A value, and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The line, from 1.
    pub line: usize,
    /// What it is.
    pub content: Content,
}

/// What a value is: the kinds that `google.protobuf.Value` has.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Members, in the order given; no name is there twice.
    Map(Vec<Member>),
}

/// A member of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The line of the name, from 1.
    pub line: usize,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// A member, by its name as a `.proto` file has it (`vm_config`); found under its JSON name (`vmConfig`) too, as
    /// protobuf does. `null` is the same as absent.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.member(name).map(|member| &member.value)
    }

    /// As [`Self::get`], with the line of the name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        let is_it = |given: &str| given == name || is_json_name(given, name);
        let found = self.members().iter().find(|member| is_it(&member.name))?;
        (found.value.content != Content::Null).then_some(found)
    }

    /// The member of a member, and so on.
    pub fn at(&self, names: &[&str]) -> Option<&Node> {
        names.iter().try_fold(self, |node, name| node.get(name))
    }

    /// Its text, if it is text.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its members; none if it is no map.
    pub fn members(&self) -> &[Member] {
        match &self.content {
            Content::Map(members) => members,
            _ => &[],
        }
    }

    /// Its items; none if it is no list.
    pub fn items(&self) -> &[Node] {
        match &self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }

    /// What Envoy's filter host makes of it: all numbers are floating-point ones, as in a `google.protobuf.Struct`.
    pub fn to_json(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(flag) => Value::Bool(*flag),
            // Only finite ones are read.
            Content::Number(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
            Content::Text(text) => Value::String(text.clone()),
            Content::List(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Content::Map(members) => {
                let member = |member: &Member| (member.name.clone(), member.value.to_json());
                Value::Object(members.iter().map(member).collect::<Map<_, _>>())
            }
        }
    }

    /// The line of what a filter's path (`rules[2].match`) leads to, or of the last of its parts that is there.
    pub fn line_of(&self, path: &str) -> usize {
        let (mut line, mut node, mut rest) = (self.line, self, path);
        while let Some((found, value, after)) = node.step(rest) {
            (line, node, rest) = (found, value, after);
        }
        line
    }

    /// Takes the first part of a path: the line that it leads to, the value there, the rest of the path.
    fn step<'a, 'p>(&'a self, path: &'p str) -> Option<(usize, &'a Node, &'p str)> {
        let path = path.strip_prefix('.').unwrap_or(path);
        if let Some(inner) = path.strip_prefix('[')
            && let Some((place, after)) = inner.split_once(']')
            && let Ok(place) = place.parse::<usize>()
        {
            let item = self.items().get(place)?;
            return Some((item.line, item, after));
        }
        let found = self.members().iter().find_map(|member| {
            let name = &member.name;
            // A name with other characters than those of a word is quoted in brackets.
            let after =
                path.strip_prefix(&format!("[{name:?}]")).or_else(|| path.strip_prefix(name.as_str()))?;
            (!name.is_empty() && (after.is_empty() || after.starts_with(['.', '['])))
                .then_some((member, after))
        });
        found.map(|(member, after)| (member.line, &member.value, after))
    }
}

/// Whether this is the JSON name of a field: `vmConfig` of `vm_config`.
fn is_json_name(given: &str, field: &str) -> bool {
    let mut upper = false;
    let expected = field.chars().filter_map(|character| {
        let follows = std::mem::replace(&mut upper, character == '_');
        match character {
            '_' => None,
            _ if follows => Some(character.to_ascii_uppercase()),
            _ => Some(character),
        }
    });
    expected.eq(given.chars())
}

#[cfg(test)]
mod tests {
    use super::super::document::{Format, read};
    use super::*;

    fn node(text: &str) -> Node {
        read(text, Format::Yaml).unwrap().remove(0)
    }

    #[test]
    fn members_have_two_names() {
        let node = node("vmConfig: { vmId: a }\nroot_id: b\nnothing:");
        let found = |path: &[&str]| node.at(path).and_then(Node::text).map(str::to_owned);
        assert_eq!(found(&["vm_config", "vm_id"]).as_deref(), Some("a"));
        assert_eq!(found(&["root_id"]).as_deref(), Some("b"));
        assert_eq!([found(&["rootId"]), found(&["vmconfig"])], [None, None]);
        assert!(node.get("nothing").is_none());
    }

    #[test]
    fn paths_of_filters_lead_to_lines() {
        let node = node(
            "providers:\n  main:\n    issuer: a\n  my.own:\n    x: 1\nrules:\n- match:\n    path: a\n- {}\n",
        );
        let rows = [
            ("", 1),
            ("providers", 1),
            ("providers.main", 2),
            ("providers.main.issuer", 3),
            ("providers.main.audiences", 2),
            ("providers.other", 1),
            ("providers[\"my.own\"].x", 5),
            ("rules", 6),
            ("rules[0]", 7),
            ("rules[0].match.path", 8),
            ("rules[1].match", 9),
            ("rules[9]", 6),
            ("rule", 1),
        ];
        for (path, line) in rows {
            assert_eq!(node.line_of(path), line, "{path}");
        }
    }
}
