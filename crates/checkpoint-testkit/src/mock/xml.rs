//! Writing the services' XML documents, and reading those of their clients.

use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::refusal::Refusal;

/// A document under construction.
#[derive(Debug)]
pub(crate) struct Document {
    text: String,
    open: Vec<&'static str>,
}

impl Document {
    /// Begins with a root element.
    pub(crate) fn new(root: &'static str) -> Self {
        let mut document =
            Self { text: String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"), open: Vec::new() };
        document.open(root);
        document
    }

    pub(crate) fn open(&mut self, name: &'static str) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "<{name}>");
        self.open.push(name);
        self
    }

    pub(crate) fn close(&mut self) -> &mut Self {
        if let Some(name) = self.open.pop() {
            let _ = write!(self.text, "</{name}>");
        }
        self
    }

    pub(crate) fn leaf(&mut self, name: &str, text: impl AsRef<str>) -> &mut Self {
        let _ = write!(self.text, "<{name}>");
        for c in text.as_ref().chars() {
            match c {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\r' => self.text.push_str("&#13;"),
                c => self.text.push(c),
            }
        }
        let _ = write!(self.text, "</{name}>");
        self
    }

    /// Closes all that is open.
    pub(crate) fn end(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }
}

/// An element of a client's document.
#[derive(Debug, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    pub(crate) fn child(&self, name: &str) -> Option<&str> {
        self.children.iter().find(|c| c.name == name).map(|c| c.text.as_str())
    }
}

/// Reads a client's document.
///
/// # Errors
/// `MalformedXML` for what is none, or has another root.
pub(crate) fn parse(body: &[u8], root: &str) -> Result<Element, Refusal> {
    match read(body) {
        Some(element) if element.name == root => Ok(element),
        _ => Err(Refusal::malformed_xml()),
    }
}

fn read(body: &[u8]) -> Option<Element> {
    let mut reader = Reader::from_str(std::str::from_utf8(body).ok()?);
    reader.config_mut().expand_empty_elements = true;
    let mut stack = vec![Element::default()];
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                stack.push(Element { name: start.local_name().as_ref().to_owned(), ..Element::default() });
            }
            Event::End(_) => {
                let done = stack.pop()?;
                stack.last_mut()?.children.push(done);
            }
            Event::Text(text) => stack.last_mut()?.text.push_str(&text.xml10_content()),
            Event::CData(text) => stack.last_mut()?.text.push_str(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let resolved = match reference.resolve_char_ref().ok()? {
                    Some(c) => c,
                    None => match reference.xml10_content().as_ref() {
                        "amp" => '&',
                        "lt" => '<',
                        "gt" => '>',
                        "quot" => '"',
                        "apos" => '\'',
                        _ => return None,
                    },
                };
                stack.last_mut()?.text.push(resolved);
            }
            Event::Eof => break,
            _ => {}
        }
    }
    let mut top = stack.pop()?;
    (stack.is_empty() && top.children.len() == 1).then(|| top.children.pop()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut document = Document::new("Delete");
        document.open("Object").leaf("Key", " a&b<c>\"d\"\r\n ").close().leaf("Quiet", "true");
        let text = document.end();
        let root = parse(text.as_bytes(), "Delete").expect("well-formed");
        assert_eq!(root.children[0].child("Key"), Some(" a&b<c>\"d\"\r\n "));
        assert_eq!(root.child("Quiet"), Some("true"));
        for bad in ["", "<Delete>", "<Delete></Object>", "<Other/>", "<Delete/><Delete/>", "<Delete>&nbsp;</Delete>"] {
            assert!(parse(bad.as_bytes(), "Delete").is_err(), "{bad}");
        }
    }
}
