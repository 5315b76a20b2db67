//! Running `ckpt` and looking at how it ended.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    /// What was run, for messages.
    line: String,
}

/// `ckpt` with an environment that names no store, ready for arguments.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt-as-shipped"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["AWS_", "FSSPEC_", "CKPT_", "COS_", "OSS_", "TENCENTCLOUD_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.env("AWS_EC2_METADATA_DISABLED", "true").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs `ckpt` with these arguments to its end.
pub(crate) fn ckpt<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    let mut command = command();
    command.args(args);
    run(&mut command)
}

/// Runs a command that was prepared elsewhere to its end.
pub(crate) fn run(command: &mut Command) -> Ran {
    let args: Vec<String> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
    let output = command.output().expect("ckpt starts");
    Ran::new(args.join(" "), &output)
}

/// An `--exec` command of the Arrow worker with these arguments.
pub(crate) fn worker(args: &str) -> String {
    format!("exec '{}' {args}", env!("CARGO_BIN_EXE_accept-worker"))
}

impl Ran {
    pub(crate) fn new(line: String, output: &Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = output.status.code().unwrap_or_else(|| -output.status.signal().unwrap_or(0));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code, out: text(&output.stdout), err: text(&output.stderr), line }
    }

    /// Fails the test unless the exit code is this one.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}", self.show());
        self
    }

    /// Fails the test unless standard error has each of these texts.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.err.contains(text), "stderr lacks {text:?}\n{}", self.show());
        }
        self
    }

    /// Fails the test unless it ended as a failure should: one line of `error:`, a `hint:`, nothing on
    /// standard output.
    #[track_caller]
    pub(crate) fn complains(self) -> Self {
        let errors = self.err.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(errors, 1, "one line says what is wrong\n{}", self.show());
        assert!(self.err.lines().any(|line| line.starts_with("hint: ")), "no hint\n{}", self.show());
        self.without_a_crash()
    }

    /// Fails the test when it shows a panic or a backtrace.
    #[track_caller]
    pub(crate) fn without_a_crash(self) -> Self {
        let crash = ["panicked", "RUST_BACKTRACE", "stack backtrace"];
        assert!(!crash.iter().any(|word| self.err.contains(word)), "it crashed\n{}", self.show());
        self
    }

    /// The one JSON object of standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_str(&self.out) {
            Ok(value) => value,
            Err(error) => unreachable!("no JSON: {error}\n{}", self.show()),
        }
    }

    /// A number of the JSON object.
    #[track_caller]
    pub(crate) fn number(&self, field: &str) -> u64 {
        let found = self.json()[field].as_u64();
        assert!(found.is_some(), "no number {field}\n{}", self.show());
        found.unwrap_or_default()
    }

    /// Fails the test unless these numbers of the JSON object are as given.
    #[track_caller]
    pub(crate) fn numbers(self, expected: &[(&str, u64)]) -> Self {
        for (field, number) in expected {
            assert_eq!(self.number(field), *number, "{field}\n{}", self.show());
        }
        self
    }

    /// A truth value of the JSON object.
    #[track_caller]
    pub(crate) fn flag(&self, field: &str) -> bool {
        let found = self.json()[field].as_bool();
        assert!(found.is_some(), "no truth value {field}\n{}", self.show());
        found.unwrap_or_default()
    }

    /// Everything, for a failed test.
    pub(crate) fn show(&self) -> String {
        format!("ckpt {}\nexit {}\n--- stdout\n{}\n--- stderr\n{}", self.line, self.code, self.out, self.err)
    }
}
