//! The grammar of `config.toml`: the part of TOML 1.0 that a person can read without a manual. Bare
//! keys, basic and literal strings, decimal integers and booleans, at the top level or below a bare
//! `[section]`. What TOML allows and this grammar does not is refused by its own name, with the line.
//!
//! One liberty: TOML lets a name be a key or a table, never both, but here `site = "..."` and `[site]`
//! stand side by side, as keys of the top level and sections are looked up apart.
//!
//! Not here: which keys there are and what their values mean.

use std::collections::BTreeMap;

/// What is wrong, and on which line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct LineError {
    pub line: usize,
    pub message: String,
}

impl LineError {
    pub fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
}

impl Value {
    pub const fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Boolean(_) => "a boolean",
        }
    }
}

/// A file that follows the grammar. The top level is the section with the empty name.
#[derive(Debug, Default)]
pub struct Document {
    /// Section and key to the line and the value.
    pub entries: BTreeMap<(String, String), (usize, Value)>,
    /// Section name to the line of its header.
    pub sections: BTreeMap<String, usize>,
    /// The last line on which a top-level key could stand: where a missing one is reported.
    pub top_level_end: usize,
}

/// Reads a document. Never panics, whatever the bytes.
pub fn parse(bytes: &[u8]) -> Result<Document, LineError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        LineError::new(line, "the file is not UTF-8")
    })?;
    let mut document = Document::default();
    let mut section = String::new();
    let mut last_line = 1;
    for (index, raw) in text.split('\n').enumerate() {
        let mut line = Line { rest: raw.strip_suffix('\r').unwrap_or(raw), number: index + 1 };
        last_line = line.number;
        line.skip_blanks();
        match line.rest.chars().next() {
            None => {}
            Some('#') => line.end()?,
            Some('[') => {
                section = line.header()?;
                if document.sections.is_empty() {
                    document.top_level_end = line.number;
                }
                if let Some(first) = document.sections.insert(section.clone(), line.number) {
                    return Err(line.error(format!("section [{section}] is already on line {first}")));
                }
            }
            Some(_) => {
                let (key, value) = line.entry()?;
                let shown = shown(&section, &key);
                let entry = (section.clone(), key);
                if let Some((first, _)) = document.entries.insert(entry, (line.number, value)) {
                    return Err(line.error(format!("{shown} is already set on line {first}")));
                }
            }
        }
    }
    if document.sections.is_empty() {
        document.top_level_end = last_line;
    }
    Ok(document)
}

/// `key` or `section.key`, as messages name it.
pub fn shown(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

struct Line<'a> {
    rest: &'a str,
    number: usize,
}

impl Line<'_> {
    fn error(&self, message: impl Into<String>) -> LineError {
        LineError::new(self.number, message)
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Nothing may follow but blanks and a comment.
    fn end(&mut self) -> Result<(), LineError> {
        self.skip_blanks();
        match self.rest.strip_prefix('#') {
            Some(comment) if comment.chars().any(is_refused_control) => {
                Err(self.error("a comment holds a control character"))
            }
            Some(_) => Ok(()),
            None if self.rest.is_empty() => Ok(()),
            None => Err(self.error("only a comment may follow here")),
        }
    }

    fn bare_key(&mut self, what: &str) -> Result<String, LineError> {
        let length = self.rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
        let (name, rest) = self.rest.split_at(length);
        if name.is_empty() {
            return Err(self.error(match rest.chars().next() {
                Some('"' | '\'') => format!("{what} may not be quoted"),
                _ => format!("{what} must be letters, digits, _ and -"),
            }));
        }
        self.rest = rest;
        self.skip_blanks();
        if self.rest.starts_with('.') {
            return Err(self.error(format!("{what} may not be dotted")));
        }
        Ok(name.to_owned())
    }

    fn header(&mut self) -> Result<String, LineError> {
        self.rest = &self.rest[1..];
        if self.rest.starts_with('[') {
            return Err(self.error("arrays of tables are not supported"));
        }
        self.skip_blanks();
        let name = self.bare_key("a section name")?;
        let Some(rest) = self.rest.strip_prefix(']') else {
            return Err(self.error("a section header ends with ]"));
        };
        self.rest = rest;
        self.end()?;
        Ok(name)
    }

    fn entry(&mut self) -> Result<(String, Value), LineError> {
        let key = self.bare_key("a key")?;
        let Some(rest) = self.rest.strip_prefix('=') else {
            return Err(self.error(format!("expected = after {key}")));
        };
        self.rest = rest;
        self.skip_blanks();
        let value = self.value()?;
        self.end()?;
        Ok((key, value))
    }

    fn value(&mut self) -> Result<Value, LineError> {
        match self.rest.chars().next() {
            None | Some('#') => Err(self.error("a value is missing")),
            Some('[') => Err(self.error("arrays are not supported")),
            Some('{') => Err(self.error("inline tables are not supported")),
            Some('"') if self.rest.starts_with("\"\"\"") => Err(self.error("multi-line strings are not supported")),
            Some('\'') if self.rest.starts_with("'''") => Err(self.error("multi-line strings are not supported")),
            Some('"') => self.basic_string().map(Value::Text),
            Some('\'') => self.literal_string().map(Value::Text),
            Some(_) => self.scalar(),
        }
    }

    fn literal_string(&mut self) -> Result<String, LineError> {
        let Some((text, rest)) = self.rest[1..].split_once('\'') else {
            return Err(self.error("a string is not closed"));
        };
        if text.chars().any(is_refused_control) {
            return Err(self.error("a string holds a control character"));
        }
        let text = text.to_owned();
        self.rest = rest;
        Ok(text)
    }

    fn basic_string(&mut self) -> Result<String, LineError> {
        let mut out = String::new();
        let mut characters = self.rest[1..].chars();
        loop {
            match characters.next() {
                None => return Err(self.error("a string is not closed")),
                Some('"') => break,
                Some('\\') => out.push(match characters.next() {
                    Some('b') => '\u{8}',
                    Some('t') => '\t',
                    Some('n') => '\n',
                    Some('f') => '\u{c}',
                    Some('r') => '\r',
                    Some('"') => '"',
                    Some('\\') => '\\',
                    Some('u') => self.unicode(&mut characters, 4)?,
                    Some('U') => self.unicode(&mut characters, 8)?,
                    _ => return Err(self.error("a string holds an unknown escape")),
                }),
                Some(control) if is_refused_control(control) => {
                    return Err(self.error("a string holds a control character"));
                }
                Some(other) => out.push(other),
            }
        }
        self.rest = characters.as_str();
        Ok(out)
    }

    fn unicode(&self, characters: &mut std::str::Chars<'_>, digits: usize) -> Result<char, LineError> {
        let mut code = 0u32;
        for _ in 0..digits {
            let digit = characters.next().and_then(|character| character.to_digit(16));
            code = match digit {
                Some(digit) => code.wrapping_mul(16).wrapping_add(digit),
                None => return Err(self.error(format!("a \\u escape has {digits} hex digits"))),
            };
        }
        char::from_u32(code).ok_or_else(|| self.error("a \\u escape names no character"))
    }

    fn scalar(&mut self) -> Result<Value, LineError> {
        let length = self.rest.find([' ', '\t', '#']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        let value = match word {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            _ => Value::Integer(integer(word).map_err(|message| self.error(message))?),
        };
        self.rest = rest;
        Ok(value)
    }
}

/// A decimal integer of TOML: an optional sign, no leading zero, `_` only between digits.
fn integer(word: &str) -> Result<i64, &'static str> {
    let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
    if matches!(unsigned, "inf" | "nan") {
        return Err("floats are not supported");
    }
    if !unsigned.starts_with(|first: char| first.is_ascii_digit()) {
        return Err("a value must be a quoted string, a decimal integer, true or false");
    }
    if unsigned.len() > 1 && unsigned.starts_with('0') && matches!(unsigned.as_bytes()[1], b'x' | b'o' | b'b') {
        return Err("only decimal integers are supported");
    }
    if !unsigned.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        let date = unsigned.len() > 2 && unsigned.contains(['-', ':']);
        let float =
            unsigned.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'e' | b'E' | b'+' | b'-'));
        return Err(match (date && !unsigned.contains(['e', 'E']), float) {
            (true, _) => "dates and times are not supported",
            (false, true) => "floats are not supported",
            (false, false) => "a value must be a quoted string, a decimal integer, true or false",
        });
    }
    if unsigned.ends_with('_') || unsigned.contains("__") {
        return Err("_ may stand only between two digits");
    }
    if unsigned.len() > 1 && unsigned.starts_with('0') {
        return Err("an integer has no leading zero");
    }
    word.replace('_', "").parse().map_err(|_| "an integer does not fit 64 bits")
}

/// TOML refuses every control character but the tab, in strings and in comments.
fn is_refused_control(character: char) -> bool {
    character != '\t' && (character < ' ' || character == '\u{7f}')
}
