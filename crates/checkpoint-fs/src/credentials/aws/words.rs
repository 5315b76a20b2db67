//! Splitting a text into words as a POSIX shell quotes them: names of profiles, commands of processes.

/// Splits at blanks, tabs and line breaks. Single quotes keep all, double quotes all but `\"` and `\\`.
///
/// # Errors
/// What is missing at the end.
pub(super) fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => return Err("a quote is not closed"),
                        Some('\'') => break,
                        Some(c) => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => return Err("a quote is not closed"),
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            None => return Err("a backslash ends the text"),
                            Some(c @ ('"' | '\\')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                        },
                        Some(c) => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next().ok_or("a backslash ends the text")?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_a_shell_sees_them() {
        for (input, expected) in [
            ("", &[][..]),
            ("  a\tb\nc ", &["a", "b", "c"]),
            (r#"profile "my work""#, &["profile", "my work"]),
            (r#"'a "b\' "c\"d\\e\f" g\ h"#, &[r#"a "b\"#, r#"c"d\e\f"#, "g h"]),
            (r#"a''b "" 'c'd"e""#, &["ab", "", "cde"]),
            ("a # b", &["a", "#", "b"]),
        ] {
            assert_eq!(split(input).expect(input), expected, "{input}");
        }
        for input in ["'a", "\"a", "a\\", "\"a\\"] {
            assert!(split(input).is_err(), "{input}");
        }
    }
}
