//! A command that failed: one line, its causes for those who ask, and what to do next.

use std::error::Error as StdError;
use std::fmt;

use crate::exit::Exit;

/// The result of a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// What a failed command says on stderr, and the code it exits with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
}

impl Failure {
    /// A failure with a message in lower case and no final dot.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), causes: Vec::new(), hints: Vec::new() }
    }

    /// Shorthand for [`Exit::Usage`].
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds what to do next.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds an error and what caused it, leaving out what the lines before already say.
    #[must_use]
    pub(crate) fn with_causes(mut self, error: &(dyn StdError + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = one_line(&error.to_string());
            let said = self.causes.last().unwrap_or(&self.message);
            if !said.contains(&text) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Exits with another code.
    #[must_use]
    pub(crate) fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// The code that it exits with.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// What stderr shows, line by line; the causes only when asked for.
    pub(crate) fn lines(&self, with_causes: bool) -> Vec<String> {
        let mut lines = vec![format!("error: {}", one_line(&self.message))];
        if with_causes {
            lines.extend(self.causes.iter().map(|cause| format!("cause: {cause}")));
        }
        let hints = self.hints.iter().flat_map(|hint| hint.lines());
        lines.extend(hints.map(|hint| format!("hint: {}", one_line(hint))));
        lines
    }

    fn from_error(exit: Exit, error: &(dyn StdError + 'static), hint: Option<&str>) -> Self {
        let mut failure = Self::new(exit, error.to_string());
        failure.hints.extend(hint.or(general_hint(exit)).map(str::to_owned));
        failure.with_causes(error)
    }
}

/// What to do about an error that does not say it itself.
fn general_hint(exit: Exit) -> Option<&'static str> {
    match exit {
        Exit::Usage => Some("the --help of each command says what can be written"),
        Exit::Storage => Some("run it again; if it fails again, -v shows the causes"),
        Exit::BadData => Some("-v shows the causes, as far as they are known"),
        Exit::OutcomeUnknown => Some("run the same command again; nothing was deleted"),
        _ => None,
    }
}

/// Line breaks in names and messages of others become spaces, other control characters are spelled out.
pub(crate) fn one_line(text: &str) -> String {
    let text =
        text.split(['\n', '\r']).map(str::trim_end).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    visible(&text)
}

/// Control characters spelled out, so that a name cannot move the cursor.
pub(crate) fn visible(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() && c != '\t') {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| {
            let spelled = c.is_control() && c != '\t';
            let escaped = spelled.then(|| c.escape_default());
            escaped.into_iter().flatten().chain((!spelled).then_some(c))
        })
        .collect()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<checkpoint_fs::Error> for Failure {
    fn from(error: checkpoint_fs::Error) -> Self {
        Self::from_error(Exit::of_fs(error.kind()), &error, error.hint())
    }
}

impl From<checkpoint_store::Error> for Failure {
    fn from(error: checkpoint_store::Error) -> Self {
        Self::from_error(Exit::of_store(error.kind()), &error, error.hint())
    }
}

impl From<checkpoint_pipeline::Error> for Failure {
    fn from(error: checkpoint_pipeline::Error) -> Self {
        Self::from_error(Exit::of_pipeline(error.kind(), None), &error, error.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_shown_once_and_only_when_asked_for() {
        let disk = std::io::Error::other("disk\nfull");
        let inner = checkpoint_fs::Error::new(checkpoint_fs::ErrorKind::Io, "the disk is full")
            .with_operation("write")
            .with_hint("free some space")
            .with_source(disk);
        let failure = Failure::from(checkpoint_store::Error::from(inner));
        assert_eq!(failure.exit(), Exit::Storage);
        assert_eq!(failure.lines(false), ["error: write failed: the disk is full", "hint: free some space"]);
        let causes = failure.lines(true);
        assert_eq!(causes, ["error: write failed: the disk is full", "cause: disk full", "hint: free some space"]);
    }

    #[test]
    fn an_error_without_a_hint_gets_a_general_one() {
        let error = checkpoint_fs::Error::invalid_config("the option is wrong");
        let lines = Failure::from(error).lines(true);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[1].starts_with("hint: "), "{lines:?}");
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(one_line("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb c");
        assert_eq!(visible("plain é\t"), "plain é\t");
    }
}
