//! Reading the small XML documents of object stores, whole or not at all.

use http::HeaderMap;
use quick_xml::events::Event;
use quick_xml::{Reader, XmlVersion};

use crate::backend::headers::page_for_document;
use crate::transport::DocumentFault;

/// Deeper documents than this are none of a store's.
const MAX_DEPTH: usize = 16;

/// An element: its name without prefix, its attributes, its text exactly as sent, its children in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    /// The first child of that name.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|c| c.name == name)
    }

    /// The text of the first child of that name; empty without one.
    pub(crate) fn child_text(&self, name: &str) -> &str {
        self.child(name).map_or("", |c| &c.text)
    }

    /// All children of that name.
    #[cfg(any(feature = "_bucket", feature = "gs"))]
    pub(crate) fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |c| c.name == name)
    }
}

/// Parses a document to the end of its root. White space in text is kept: a key may end in a blank.
///
/// # Errors
/// Why it is not a whole document.
pub(crate) fn parse(bytes: &[u8]) -> Result<Element, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| format!("not UTF-8 at byte {}", e.valid_up_to()))?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    loop {
        match reader.read_event().map_err(|e| e.to_string())? {
            Event::Start(start) => {
                if root.is_some() || open.len() == MAX_DEPTH {
                    return Err("elements where none belong".to_owned());
                }
                let mut element = Element { name: start.local_name().as_ref().to_owned(), ..Element::default() };
                for attribute in start.attributes() {
                    let attribute = attribute.map_err(|e| e.to_string())?;
                    let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|e| e.to_string())?;
                    element.attributes.push((attribute.key.as_ref().to_owned(), value.into_owned()));
                }
                open.push(element);
            }
            Event::End(_) => {
                let Some(done) = open.pop() else { return Err("an end without a start".to_owned()) };
                match open.last_mut() {
                    Some(parent) => parent.children.push(done),
                    None => root = Some(done),
                }
            }
            Event::Text(piece) => push(&mut open, &piece.xml10_content()),
            Event::CData(piece) => push(&mut open, &piece.xml10_content()),
            Event::GeneralRef(reference) => {
                if let Some(char) = reference.resolve_char_ref().map_err(|e| e.to_string())? {
                    push(&mut open, char.encode_utf8(&mut [0; 4]));
                } else {
                    let name = reference.xml10_content();
                    let resolved = predefined(&name).ok_or_else(|| format!("an unknown entity `{name}`"))?;
                    push(&mut open, resolved);
                }
            }
            Event::Eof => break,
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
            Event::DocType(_) => return Err("a document type".to_owned()),
            _ => return Err("an unknown part".to_owned()),
        }
    }
    match (open.is_empty(), root) {
        (true, Some(root)) => Ok(root),
        _ => Err("it ends before its root element does".to_owned()),
    }
}

/// Parses a document that came with success.
///
/// # Errors
/// What a web page says in its place; else why it is not whole.
pub(crate) fn document(headers: &HeaderMap, body: &[u8]) -> Result<Element, DocumentFault> {
    let parsed = parse(body);
    if parsed.as_ref().map_or(true, |root| root.name.eq_ignore_ascii_case("html"))
        && let Some(page) = page_for_document(headers, body)
    {
        return Err(DocumentFault::Failed(page));
    }
    parsed.map_err(DocumentFault::Damaged)
}

fn predefined(entity: &str) -> Option<&'static str> {
    Some(match entity {
        "amp" => "&",
        "lt" => "<",
        "gt" => ">",
        "quot" => "\"",
        "apos" => "'",
        _ => return None,
    })
}

fn push(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

/// Escapes text for an element, or `None` where XML 1.0 cannot hold it at all (control characters).
#[cfg(any(feature = "_bucket", feature = "gs"))]
pub(crate) fn escape(text: &str) -> Option<String> {
    let representable =
        |c: char| matches!(c, '\t' | '\n' | '\r') || (c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}'));
    if !text.chars().all(representable) {
        return None;
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\t' => escaped.push_str("&#9;"),
            '\n' => escaped.push_str("&#10;"),
            '\r' => escaped.push_str("&#13;"),
            c => escaped.push(c),
        }
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_exactly() {
        let document = "<?xml version='1.0'?>\n<r xmlns='x' kind='a&amp;b'><Key> a &amp; b&#32;&#x41;<![CDATA[<c>]]> </Key><Empty/></r>\n";
        let root = parse(document.as_bytes()).expect("whole");
        assert_eq!(root.name, "r");
        assert_eq!(root.child_text("Key"), " a & b A<c> ");
        assert_eq!(root.child("Empty").map(|e| e.text.as_str()), Some(""));
        assert_eq!(root.children.iter().filter(|c| c.name == "Key").count(), 1);
        assert_eq!(root.attributes.last(), Some(&("kind".to_owned(), "a&b".to_owned())));
    }

    #[test]
    fn anything_less_than_whole_is_refused() {
        for bad in
            ["", " ", "<a>", "<a><b></a>", "<a></a><b></b>", "<a>&nbsp;</a>", "<!DOCTYPE a><a></a>", "<a></a", "</a>"]
        {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let whole = "<a><b>1</b><c>2</c></a>";
        for end in 0..whole.len() {
            assert!(parse(&whole.as_bytes()[..end]).is_err(), "{}", &whole[..end]);
        }
    }

    #[test]
    fn a_web_page_is_no_damaged_document() {
        let html = HeaderMap::from_iter([(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/html"))]);
        let none = HeaderMap::new();
        for (headers, body) in [
            (&none, "<html>Login</html>"),
            (&none, "\n<!DOCTYPE HTML><title>Login<br>"),
            (&none, "<?xml version='1.0'?><HTML></HTML>"),
            (&html, "Log in"),
        ] {
            assert!(matches!(document(headers, body.as_bytes()), Err(DocumentFault::Failed(_))), "{body}");
        }
        for body in ["", "<ListBucketResult><Key>a", "not here"] {
            assert!(matches!(document(&none, body.as_bytes()), Err(DocumentFault::Damaged(_))), "{body}");
        }
        // Some say of XML that it is a page.
        assert!(document(&html, b"<ListBucketResult/>").is_ok());
    }

    #[cfg(any(feature = "_bucket", feature = "gs"))]
    #[test]
    fn escaping_survives_parsing() {
        for text in ["a&<>\"'b", "tab\tnew\nreturn\r", " blanks ", "é \u{1F600} ]]>", "&amp;"] {
            let document = format!("<k>{}</k>", escape(text).expect("representable"));
            assert_eq!(parse(document.as_bytes()).expect("whole").text, text);
        }
        assert_eq!(escape("\u{1}"), None);
    }
}
