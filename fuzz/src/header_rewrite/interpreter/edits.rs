//! Edits of paths, hosts, queries and cookies, and regular expressions that replace.

use filter_api::parts::form_decoded;
use serde_json::Value;

use super::template::{Fault, Kind, MOST_BYTES, Part, escaped, header, in_path, parts, plain};
use super::{Run, fit, is_true, matches, name_as_given, one_or_more, present, regex_of};

impl Run<'_> {
    /// A text with all matches replaced; none where there are none.
    pub(super) fn replaced(
        &self,
        line: &[u8],
        replace: &Value,
        write: impl Fn(&[u8], Kind) -> Vec<u8>,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let Ok(text) = std::str::from_utf8(line) else { return Ok(None) };
        let regex = regex_lite::Regex::new(regex_of(&replace["regex"])).unwrap();
        if !regex.is_match(text) {
            return Ok(None);
        }
        // What stands in the place of a match, group by group.
        let mut with: Vec<Result<Vec<u8>, usize>> = Vec::new();
        for part in parts(replace["with"].as_str().unwrap()) {
            if let Part::Text(text) = &part {
                groups(text, &write, &mut with);
            } else {
                with.push(Ok(self.source().part(&part, &write)?));
            }
        }
        let mut out = Vec::new();
        let mut end = 0;
        for captures in regex.captures_iter(text) {
            let whole = captures.get(0).unwrap();
            out.extend(text[end..whole.start()].bytes());
            end = whole.end();
            for part in &with {
                match part {
                    Ok(bytes) => out.extend(bytes),
                    Err(group) => out.extend(captures.get(*group).map_or("", |group| group.as_str()).bytes()),
                }
            }
        }
        out.extend(text[end..].bytes());
        if out.len() > MOST_BYTES { Err(Fault::TooLong) } else { Ok(Some(out)) }
    }

    pub(super) fn path(&mut self, path: &Value) -> Result<(), Fault> {
        let Some(whole) = self.target() else { return Ok(()) };
        let end = whole.iter().position(|byte| *byte == b'?').unwrap_or(whole.len());
        let (old, query) = whole.split_at(end);
        let new = if let Some(set) = present(&path["set"]) {
            self.source().value(set.as_str().unwrap(), false, in_path)?
        } else if let Some(prefix) = present(&path["prefix"]) {
            let Some(rest) = old.strip_prefix(prefix.as_str().unwrap().as_bytes()) else { return Ok(()) };
            [path["with"].as_str().unwrap().as_bytes(), rest].concat()
        } else {
            let Some(new) = self.replaced(old, path, in_path)? else { return Ok(()) };
            new
        };
        if new == old {
            return Ok(());
        }
        let dots = |segment: &[u8]| {
            let text = String::from_utf8_lossy(segment).replace("%2e", ".").replace("%2E", ".");
            text == "." || text == ".."
        };
        let steps_upwards = new.split(|byte| *byte == b'/').any(dots);
        let odd = |byte: &&u8| **byte <= b' ' || **byte >= 0x7f;
        if new.iter().filter(odd).any(|byte| !old.contains(byte)) {
            return Err(Fault::Invalid);
        }
        if !new.starts_with(b"/") || new.contains(&b'?') || new.contains(&b'#') || steps_upwards {
            return Err(Fault::Invalid);
        }
        let new = fit([&new[..], query].concat())?;
        let whole = fit(whole)?;
        if !std::mem::replace(&mut self.rewritten, true) {
            self.put("x-envoy-original-path", vec![whole]);
        }
        self.put(":path", vec![new]);
        Ok(())
    }

    pub(super) fn host(&mut self, host: &Value) -> Result<(), Fault> {
        let old = self.message.get(":authority").map_or_else(Vec::new, |lines| lines[0].clone());
        let new = if let Some(set) = present(&host["set"]) {
            header(&self.source(), set.as_str().unwrap())?
        } else {
            let Some(new) = self.replaced(&old, host, plain)? else { return Ok(()) };
            fit(new)?
        };
        if new == old {
            return Ok(());
        }
        if !is_host(&new) {
            return Err(Fault::Invalid);
        }
        if is_true(&host["append_x_forwarded_host"]) {
            let mut told = self.message.remove("x-forwarded-host").unwrap_or_default();
            told.push(old);
            self.put("x-forwarded-host", told);
        }
        self.put(":authority", vec![new]);
        Ok(())
    }

    /// As an item of `query_parameter_mutations`.
    pub(super) fn query(&mut self, query: &Value) {
        match self.query_edit(query) {
            Ok(()) | Err(Fault::Missing) => {}
            Err(Fault::Invalid) => drop(self.skipped.insert("invalid_value")),
            Err(Fault::TooLong) => drop(self.skipped.insert("too_long")),
        }
    }

    pub(super) fn query_edit(&mut self, edit: &Value) -> Result<(), Fault> {
        let Some(target) = self.target() else { return Ok(()) };
        let text = |bytes: &[u8]| bytes.to_vec();
        let end = target.iter().position(|byte| *byte == b'?');
        let path = text(&target[..end.unwrap_or(target.len())]);
        let query = end.map_or_else(Vec::new, |end| text(&target[end + 1..]));
        let mut own: Vec<Vec<u8>> = query.split(|byte| *byte == b'&').map(text).collect();
        own.retain(|_| !query.is_empty());
        let before = own.clone();
        let name = |parameter: &[u8]| {
            form_decoded(parameter.split(|byte| *byte == b'=').next().unwrap()).into_owned()
        };
        if let Some(patterns) = present(&edit["remove"]) {
            let patterns = one_or_more(patterns);
            own.retain(|parameter| !patterns.iter().any(|pattern| matches(pattern, &name(parameter), false)));
            if own == before {
                return Ok(());
            }
        } else if let Some(pair) = present(&edit["rename"]) {
            let (from, to) = (pair["from"].as_str().unwrap(), pair["to"].as_str().unwrap());
            if !own.iter().any(|parameter| name(parameter) == from.as_bytes()) {
                return Ok(());
            }
            for parameter in own.iter_mut().filter(|parameter| name(parameter) == from.as_bytes()) {
                let value = parameter.iter().position(|byte| *byte == b'=').unwrap_or(parameter.len());
                *parameter = [&escaped(to.as_bytes())[..], &parameter[value..]].concat();
            }
        } else {
            let (how, write) = ["set", "add", "add_if_absent", "overwrite_if_exists"]
                .into_iter()
                .find_map(|how| Some((how, present(&edit[how])?)))
                .unwrap();
            let own_name = name_as_given(write);
            let is = |parameter: &Vec<u8>| name(parameter) == own_name.as_bytes();
            let place = own.iter().position(&is);
            if (how == "add_if_absent" && place.is_some())
                || (how == "overwrite_if_exists" && place.is_none())
            {
                return Ok(());
            }
            let value = write["value"].as_str().unwrap();
            let keep_empty = value.is_empty() || is_true(&write["keep_empty_value"]);
            let value = self.source().value(value, keep_empty, |bytes, _| escaped(bytes))?;
            let new = [&escaped(own_name.as_bytes())[..], b"=", &value].concat();
            match place.filter(|_| how != "add") {
                Some(place) => {
                    own[place] = new;
                    let mut number = 0;
                    own.retain(|parameter| {
                        number += 1;
                        number - 1 <= place || !is(parameter)
                    });
                }
                None => own.push(new),
            }
        }
        let mut new = path;
        if !own.is_empty() {
            new.push(b'?');
            new.extend(own.join(&b'&'));
        }
        if new.len() > MOST_BYTES {
            return Err(Fault::TooLong);
        }
        self.put(":path", vec![fit(new)?]);
        Ok(())
    }

    /// The path with its query, if there is one.
    fn target(&self) -> Option<Vec<u8>> {
        let path = self.message.get(":path")?.first()?;
        path.starts_with(b"/").then(|| path.clone())
    }

    pub(super) fn cookie(&mut self, edit: &Value) -> Result<(), Fault> {
        let set = match present(&edit["set"]) {
            Some(set) => Some((name_as_given(set), self.new_cookie(set)?)),
            None => None,
        };
        let patterns = one_or_more(&edit["remove"]);
        let is_edited = |cookie: &[u8]| {
            let name = cookie.split(|byte| *byte == b'=').next().unwrap().trim_ascii();
            match &set {
                Some((own, _)) => name == own.as_bytes(),
                None => patterns.iter().any(|pattern| matches(pattern, name, false)),
            }
        };
        let mut new = set.as_ref().map(|(_, cookie)| cookie.clone());
        let mut lines = Vec::new();
        for line in self.message.get("cookie").cloned().unwrap_or_default() {
            let cookies: Vec<&[u8]> = line.split(|byte| *byte == b';').collect();
            if !cookies.iter().any(|cookie| is_edited(cookie)) {
                lines.push(line);
                continue;
            }
            let mut kept: Vec<Vec<u8>> = Vec::new();
            for cookie in cookies {
                if is_edited(cookie) {
                    kept.extend(new.take());
                } else {
                    kept.push(cookie.trim_ascii().to_vec());
                }
            }
            kept.retain(|cookie| !cookie.is_empty());
            if !kept.is_empty() {
                lines.push(fit(kept.join(&b"; "[..]))?);
            }
        }
        if let Some(new) = new {
            let line = match lines.pop() {
                Some(line) if !line.is_empty() => [&line[..], b"; ", &new].concat(),
                _ => new,
            };
            lines.push(fit(line)?);
        }
        self.put("cookie", lines);
        Ok(())
    }

    /// `name=value`, if that can be a cookie.
    fn new_cookie(&self, set: &Value) -> Result<Vec<u8>, Fault> {
        let name = name_as_given(set);
        let value =
            self.source().value(set["value"].as_str().unwrap(), is_true(&set["keep_empty_value"]), plain)?;
        // RFC 6265 section 4.1.1.
        let is_octet =
            |byte: &u8| matches!(byte, 0x21 | 0x23..=0x2b | 0x2d..=0x3a | 0x3c..=0x5b | 0x5d..=0x7e);
        if !value.iter().all(is_octet) {
            return Err(Fault::Invalid);
        }
        Ok([name.as_bytes(), b"=", &value].concat())
    }

    pub(super) fn set_cookie(&mut self, edit: &Value) -> Result<(), Fault> {
        let lines = self.message.get("set-cookie").cloned().unwrap_or_default();
        let name = |line: &[u8]| {
            let cookie = line.split(|byte| *byte == b';').next().unwrap();
            cookie.split(|byte| *byte == b'=').next().unwrap().trim_ascii().to_vec()
        };
        let new = if let Some(set) = present(&edit["set"]) {
            let cookie = [self.new_cookie(set)?, attributes(set).into_bytes()].concat();
            let own = name_as_given(set).as_bytes();
            let others = lines.into_iter().filter(|line| name(line) != own);
            others.chain([fit(cookie)?]).collect()
        } else if let Some(patterns) = present(&edit["remove"]) {
            let patterns = one_or_more(patterns);
            let stays = |line: &Vec<u8>| !patterns.iter().any(|pattern| matches(pattern, &name(line), false));
            lines.into_iter().filter(stays).collect()
        } else {
            let change = &edit["attributes"];
            let patterns = one_or_more(&change["names"]);
            let is_meant = |line: &Vec<u8>| {
                patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, &name(line), false))
            };
            let changed = |line: Vec<u8>| {
                if is_meant(&line) { fit(with_attributes(&line, change)) } else { Ok(line) }
            };
            lines.into_iter().map(changed).collect::<Result<_, _>>()?
        };
        self.put("set-cookie", new);
        Ok(())
    }
}

/// Takes `\1` and the like out of a text.
fn groups(text: &str, write: impl Fn(&[u8], Kind) -> Vec<u8>, with: &mut Vec<Result<Vec<u8>, usize>>) {
    let mut literal = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, if character == '\\' { characters.next() } else { None }) {
            ('\\', Some('\\')) => literal.push('\\'),
            ('\\', Some(digit)) => {
                with.push(Ok(write(std::mem::take(&mut literal).as_bytes(), Kind::Text)));
                with.push(Err(digit.to_digit(10).unwrap() as usize));
            }
            (other, _) => literal.push(other),
        }
    }
    with.push(Ok(write(literal.as_bytes(), Kind::Text)));
}

/// Whether it is a name or an address, with a port or without.
fn is_host(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let pattern = r"^(\[[0-9a-fA-F:.]+\]|[0-9A-Za-z._-]+)(:[0-9]*)?$";
    regex_lite::Regex::new(pattern).unwrap().is_match(text)
}

/// What follows name and value of a new cookie.
fn attributes(set: &Value) -> String {
    let mut text = String::new();
    for (member, name) in [("path", "Path"), ("domain", "Domain")] {
        if let Some(value) = set[member].as_str() {
            text += &format!("; {name}={value}");
        }
    }
    if let Some(age) = present(&set["max_age"]) {
        text += &format!("; Max-Age={}", seconds(age));
    }
    if let Some(same_site) = set["same_site"].as_str() {
        text += &format!("; SameSite={}", capital(same_site));
    }
    for (member, name) in [("secure", "Secure"), ("http_only", "HttpOnly"), ("partitioned", "Partitioned")] {
        if is_true(&set[member]) {
            text += &format!("; {name}");
        }
    }
    text
}

/// Whole seconds of `"1.5s"` or `{"seconds": 60}`.
fn seconds(age: &Value) -> u64 {
    match age.as_str() {
        Some(text) => filter_api::config::parse_duration(text).unwrap() / 1_000_000_000,
        None => {
            let seconds = &age["seconds"];
            let of_text = seconds.as_str().and_then(|text| text.parse::<f64>().ok());
            seconds.as_f64().or(of_text).unwrap_or(0.0) as u64
        }
    }
}

fn capital(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    lower[..1].to_ascii_uppercase() + &lower[1..]
}

/// A line of `set-cookie` with attributes changed.
fn with_attributes(line: &[u8], change: &Value) -> Vec<u8> {
    let mut parts: Vec<Vec<u8>> = line.split(|byte| *byte == b';').map(<[u8]>::to_vec).collect();
    let cookie = parts.remove(0);
    let is = |part: &[u8], name: &str| {
        part.split(|byte| *byte == b'=').next().unwrap().trim_ascii().eq_ignore_ascii_case(name.as_bytes())
    };
    let mut added = Vec::new();
    for (member, name) in [("secure", "Secure"), ("http_only", "HttpOnly")] {
        match change[member].as_bool() {
            Some(true) if !parts.iter().any(|part| is(part, name)) => {
                added.push(format!(" {name}").into_bytes())
            }
            Some(false) => parts.retain(|part| !is(part, name)),
            _ => {}
        }
    }
    if let Some(same_site) = change["same_site"].as_str() {
        let value = |part: &[u8]| {
            let equals = part.iter().position(|byte| *byte == b'=').map_or(part.len(), |equals| equals + 1);
            part[equals..].trim_ascii().to_ascii_lowercase()
        };
        let right = same_site.to_ascii_lowercase().into_bytes();
        parts.retain(|part| !is(part, "SameSite") || value(part) == right);
        if !parts.iter().any(|part| is(part, "SameSite")) {
            added.push(format!(" SameSite={}", capital(same_site)).into_bytes());
        }
    }
    std::iter::once(cookie).chain(parts).chain(added).collect::<Vec<_>>().join(&b';')
}
