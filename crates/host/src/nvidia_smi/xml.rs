//! A bounded tree of the XML that `nvidia-smi -q -x` prints. Not a general XML reader: an internal
//! document type (where entities are defined) is refused, no entity but the five of XML is known,
//! and depth, elements and text are bounded.

use crate::bounds::{STRING_BYTES_MAX, XML_DEPTH_MAX, XML_ELEMENTS_MAX, clean_to};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Subtrees that are large and that nobody here reads.
const SKIPPED: [&str; 3] = ["supported_clocks", "processes", "accounted_processes"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Element {
    pub name: String,
    /// The attribute `id`, the only one the schemas have.
    pub id: String,
    /// Text outside child elements, trimmed and clean.
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The element at `a/b/c` below this one.
    pub fn at(&self, path: &str) -> Option<&Element> {
        path.split('/').try_fold(self, |element, name| element.child(name))
    }

    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

/// A parsed report and what stood around it.
#[derive(Clone, Debug)]
pub struct Document {
    pub root: Element,
    /// The `SYSTEM` name of the document type.
    pub doctype: String,
    /// Text after the root element: nvidia-smi appends its warnings there.
    pub trailing: String,
}

#[derive(Debug, thiserror::Error)]
pub enum XmlError {
    #[error("the XML is malformed at byte {at}")]
    Malformed {
        at: u64,
        #[source]
        source: quick_xml::Error,
    },
    #[error("the XML has a document type with definitions of its own, which is refused")]
    InternalDoctype,
    #[error("the XML names the unknown entity {0:?}")]
    UnknownEntity(String),
    #[error("the XML is deeper than {XML_DEPTH_MAX} elements")]
    TooDeep,
    #[error("the XML has more than {XML_ELEMENTS_MAX} elements")]
    TooManyElements,
    #[error("the XML ends inside {0:?}")]
    Truncated(String),
    #[error("there is no XML")]
    Empty,
}

/// Parses one document. Text before it is ignored, text after it is returned.
pub fn parse(bytes: &[u8]) -> Result<Document, XmlError> {
    let text = String::from_utf8_lossy(bytes);
    let start = text.find('<').ok_or(XmlError::Empty)?;
    let text = &text[start..];
    let mut builder = Builder::default();
    let mut reader = Reader::from_str(text);
    loop {
        let event = reader.read_event();
        let at = reader.error_position();
        match event.map_err(|source| XmlError::Malformed { at, source })? {
            Event::Start(start) => builder.open(&start)?,
            Event::Empty(start) => {
                builder.open(&start)?;
                builder.close();
            }
            Event::End(_) => builder.close(),
            Event::Text(piece) => builder.text(&piece),
            Event::CData(piece) => builder.text(&piece),
            Event::GeneralRef(reference) => builder.text(&resolve(&reference)?),
            Event::DocType(doctype) => builder.doctype = system_name(&doctype)?,
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof => return Err(builder.truncated()),
        }
        if let Some(root) = builder.root.take() {
            let trailing = &text[(reader.buffer_position() as usize).min(text.len())..];
            return Ok(Document { root, doctype: builder.doctype, trailing: clean_to(trailing, STRING_BYTES_MAX) });
        }
    }
}

fn resolve(reference: &quick_xml::events::BytesRef<'_>) -> Result<String, XmlError> {
    let unknown = || XmlError::UnknownEntity(clean_to(reference, 64));
    if let Some(character) = reference.resolve_char_ref().map_err(|_| unknown())? {
        return Ok(character.to_string());
    }
    let known = match &**reference {
        "lt" => "<",
        "gt" => ">",
        "amp" => "&",
        "apos" => "'",
        "quot" => "\"",
        _ => return Err(unknown()),
    };
    Ok(known.to_owned())
}

fn system_name(doctype: &str) -> Result<String, XmlError> {
    if doctype.contains('[') {
        return Err(XmlError::InternalDoctype);
    }
    Ok(clean_to(doctype.split('"').nth(1).unwrap_or_default(), STRING_BYTES_MAX))
}

#[derive(Default)]
struct Builder {
    open: Vec<Element>,
    root: Option<Element>,
    doctype: String,
    elements: usize,
    /// Open elements inside a skipped subtree, its own included.
    skipping: usize,
}

impl Builder {
    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), XmlError> {
        if self.open.len() + self.skipping >= XML_DEPTH_MAX {
            return Err(XmlError::TooDeep);
        }
        self.elements += 1;
        if self.elements > XML_ELEMENTS_MAX {
            return Err(XmlError::TooManyElements);
        }
        let local = start.local_name();
        if self.skipping > 0 || SKIPPED.contains(&local.as_ref()) {
            self.skipping += 1;
            return Ok(());
        }
        let id = match start.try_get_attribute("id") {
            Ok(Some(attribute)) => clean_to(&attribute.value, STRING_BYTES_MAX),
            Ok(None) | Err(_) => String::new(),
        };
        let name = clean_to(local.as_ref(), STRING_BYTES_MAX);
        self.open.push(Element { name, id, ..Element::default() });
        Ok(())
    }

    fn close(&mut self) {
        if self.skipping > 0 {
            self.skipping -= 1;
            return;
        }
        let Some(mut element) = self.open.pop() else { return };
        element.text = clean_to(&element.text, STRING_BYTES_MAX);
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
    }

    fn text(&mut self, piece: &str) {
        if self.skipping > 0 {
            return;
        }
        if let Some(element) = self.open.last_mut() {
            // Twice the bound, since leading blanks go when the element closes.
            let piece = if element.text.is_empty() { piece.trim_start() } else { piece };
            let room = (2 * STRING_BYTES_MAX).saturating_sub(element.text.len());
            element.text.extend(piece.chars().take(room));
        }
    }

    fn truncated(&self) -> XmlError {
        match self.open.last() {
            Some(element) => XmlError::Truncated(element.name.clone()),
            None => XmlError::Empty,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_text_entities_and_trailing_warnings_are_read() {
        let xml = "NOTE\n<?xml version=\"1.0\"?><!DOCTYPE log SYSTEM \"nvsmi_device_v12.dtd\">\n<log><gpu id=\"0:1\">\n\
                   <name> A &amp; B &#x43; </name><processes><p><q/></p></processes><none/></gpu></log>\nWARNING: infoROM\n";
        let document = parse(xml.as_bytes()).expect("parses");
        assert_eq!(document.doctype, "nvsmi_device_v12.dtd");
        assert_eq!(document.trailing, "WARNING: infoROM");
        let gpu = document.root.child("gpu").expect("gpu");
        assert_eq!((gpu.id.as_str(), gpu.children.len()), ("0:1", 2));
        assert_eq!(document.root.at("gpu/name").map(|name| name.text.as_str()), Some("A & B C"));
    }

    #[test]
    fn entity_bombs_and_unknown_entities_are_refused() {
        let bomb = "<!DOCTYPE log [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]><log>&b;</log>";
        assert!(matches!(parse(bomb.as_bytes()), Err(XmlError::InternalDoctype)));
        assert!(matches!(parse(b"<log>&file;</log>"), Err(XmlError::UnknownEntity(name)) if name == "file"));
        assert!(matches!(parse(b"<log>&#xFFFFFFFF;</log>"), Err(XmlError::UnknownEntity(_))));
    }

    #[test]
    fn depth_and_elements_are_bounded_and_truncation_is_named() {
        let deep = "<a>".repeat(XML_DEPTH_MAX + 1);
        assert!(matches!(parse(deep.as_bytes()), Err(XmlError::TooDeep)));
        let deep_in_skipped = format!("<a><processes>{}", "<a>".repeat(XML_DEPTH_MAX));
        assert!(matches!(parse(deep_in_skipped.as_bytes()), Err(XmlError::TooDeep)));
        let many = format!("<a>{}", "<b/>".repeat(XML_ELEMENTS_MAX));
        assert!(matches!(parse(many.as_bytes()), Err(XmlError::TooManyElements)));
        assert!(matches!(parse(b"<log><gpu><uuid>GPU"), Err(XmlError::Truncated(name)) if name == "uuid"));
        assert!(matches!(parse(b"<log><gpu></log>"), Err(XmlError::Malformed { .. })));
        assert!(matches!(parse(b"NVIDIA-SMI has failed"), Err(XmlError::Empty)));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            drop(parse(&bytes));
        }

        #[test]
        fn no_soup_of_xml_panics(pieces in proptest::collection::vec(prop_oneof![
            Just("<a>"), Just("</a>"), Just("<b id=\"x\"/>"), Just("&lt;"), Just("&x;"), Just("<![CDATA["), Just("]]>"),
            Just("<!--"), Just("-->"), Just("<!DOCTYPE "), Just("["), Just("]>"), Just("<?"), Just("?>"), Just("é"), Just("\""),
        ], 0..40)) {
            drop(parse(pieces.concat().as_bytes()));
        }
    }
}
