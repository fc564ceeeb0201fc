//! The grammar against a parser of all of TOML: what this one accepts, that one reads to the same values.

use crate::config::syntax::{Document, Value, parse};
use crate::config::table::{KEYS, Type};
use proptest::prelude::*;
use toml_span::value::ValueInner;

/// One value and a spelling of it.
#[derive(Clone, Debug)]
struct Spelled {
    value: Value,
    text: String,
}

fn basic(text: &str, escape_all: bool) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if escape_all && (c as u32) > 0xffff => out.push_str(&format!("\\U{:08X}", c as u32)),
            c if escape_all || (c != '\t' && c.is_control()) => match u16::try_from(c as u32) {
                Ok(code) => out.push_str(&format!("\\u{code:04x}")),
                Err(_) => out.push(c),
            },
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn spelled(kind: Type) -> BoxedStrategy<Spelled> {
    match kind {
        Type::Boolean => {
            any::<bool>().prop_map(|value| Spelled { value: Value::Boolean(value), text: value.to_string() }).boxed()
        }
        Type::Integer => (any::<i64>(), any::<bool>())
            .prop_map(|(value, grouped)| {
                let mut text = value.to_string();
                if grouped && text.len() > 5 {
                    text.insert(text.len() - 3, '_');
                }
                Spelled { value: Value::Integer(value), text }
            })
            .boxed(),
        Type::Text => ("\\PC{0,12}|[a-z\\t\\n\"\\\\'#=\\[\\]]{0,12}", 0..3)
            .prop_map(|(value, style): (String, _)| {
                let literal =
                    style == 0 && !value.contains('\'') && !value.chars().any(|c| c.is_control() && c != '\t');
                let text = if literal { format!("'{value}'") } else { basic(&value, style == 1) };
                Spelled { value: Value::Text(value), text }
            })
            .boxed(),
    }
}

/// Any subset of the known keys, each with a value of its type and odd spacing.
fn documents() -> impl Strategy<Value = (String, Vec<(String, String, Value)>)> {
    let keys: Vec<_> = KEYS
        .iter()
        .map(|(section, key, kind)| (Just((*section, *key)), any::<bool>(), spelled(*kind), 0..4usize))
        .collect();
    (keys, any::<bool>()).prop_map(|(keys, windows)| {
        let mut text = String::new();
        let mut expected = Vec::new();
        let mut section = "";
        for ((wanted, key), present, spelled, blanks) in keys {
            if !present {
                continue;
            }
            if wanted != section {
                section = wanted;
                // `[site]` beside `site = ...` is the one liberty of the grammar, so TOML sees another name.
                text.push_str(&format!("{}[ {section}\t]# section\n", " ".repeat(blanks)));
            }
            let pad = ["", " ", "\t", "  "][blanks];
            text.push_str(&format!("{pad}{key}{pad}={pad}{}{pad}# é\n\n", spelled.text));
            expected.push((section.to_owned(), key.to_owned(), spelled.value));
        }
        (if windows { text.replace('\n', "\r\n") } else { text }, expected)
    })
}

fn as_seen(document: &Document) -> Vec<(String, String, Value)> {
    let entries = document.entries.iter();
    entries.map(|((section, key), (_, value))| (section.clone(), key.clone(), value.clone())).collect()
}

fn by_reference(text: &str) -> Vec<(String, String, Value)> {
    let mut root = toml_span::parse(text).expect("TOML");
    let mut out = Vec::new();
    let ValueInner::Table(table) = root.take() else { panic!("a document is a table") };
    for (name, mut value) in table {
        match value.take() {
            ValueInner::Table(section) => {
                let shown = if name.name == "site_section" { "site" } else { &name.name };
                for (key, mut value) in section {
                    out.push((shown.to_owned(), key.name.to_string(), leaf(value.take())));
                }
            }
            other => out.push((String::new(), name.name.to_string(), leaf(other))),
        }
    }
    out.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    out
}

fn leaf(value: ValueInner<'_>) -> Value {
    match value {
        ValueInner::String(text) => Value::Text(text.into_owned()),
        ValueInner::Integer(integer) => Value::Integer(integer),
        ValueInner::Boolean(boolean) => Value::Boolean(boolean),
        _ => panic!("the grammar has no such value"),
    }
}

proptest! {
    #[test]
    fn every_accepted_document_reads_back_as_it_was_meant_and_as_toml_reads_it((text, mut expected) in documents()) {
        let document = parse(text.as_bytes()).expect("accepted");
        expected.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        prop_assert_eq!(as_seen(&document), expected.clone());
        let toml = with_site_section_renamed(&text);
        prop_assert_eq!(by_reference(&toml), expected);
    }

    #[test]
    fn whatever_this_grammar_accepts_is_toml(text in "([a-c]{1,2} ?= ?(-?[0-9_]{1,4}|true|\"[a\\\\n\"]{0,3}\"|'[a\"]{0,2}')( #x)?\n|\\[[d-f]\\]\n){0,5}") {
        if let Ok(document) = parse(text.as_bytes()) {
            prop_assert_eq!(as_seen(&document), by_reference(&text));
        }
    }
}

fn with_site_section_renamed(text: &str) -> String {
    text.lines()
        .map(|line| if line.trim_start().starts_with("[ site\t]") { "[site_section]" } else { line })
        .map(|line| format!("{line}\n"))
        .collect()
}
