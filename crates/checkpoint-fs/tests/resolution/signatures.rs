//! `fixtures/signatures`: every parameter that the Python file systems take is honoured, ignored with a log
//! line, or refused with a reason; none is unknown.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use checkpoint_fs::{Registry, StorageOptions};
use serde_json::{Map, Value, json};
use tracing_subscriber::fmt::MakeWriter;

/// What was logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'l> MakeWriter<'l> for Log {
    type Writer = Self;

    fn make_writer(&'l self) -> Self {
        self.clone()
    }
}

/// Puts a value at a dotted path.
fn set(kwargs: &mut Map<String, Value>, path: &str, value: &Value) {
    match path.split_once('.') {
        None => drop(kwargs.insert(path.to_owned(), value.clone())),
        Some((key, rest)) => {
            let inner = kwargs.entry(key).or_insert_with(|| json!({}));
            set(inner.as_object_mut().expect("an object"), rest, value);
        }
    }
}

/// Tries one parameter; gives the error, if there is one, and the log.
fn attempt(protocol: &str, home: &Path, name: &str, row: &Value) -> (Option<String>, String) {
    let mut kwargs = row.get("with").map_or_else(Map::new, |with| with.as_object().expect("an object").clone());
    set(&mut kwargs, name, &row["value"]);
    let environment = [("HOME", home.to_str().expect("text"))].into_iter().collect();
    let options = StorageOptions::new().with(protocol, kwargs);
    let log = Log::default();
    let collector = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    let checked = tracing::subscriber::with_default(collector, || {
        Registry::with_environment(environment).check_options(&options)
    });
    (checked.err().map(|error| error.to_string()), log.text())
}

fn problem(protocol: &str, home: &Path, name: &str, row: &Value) -> Option<String> {
    let (error, log) = attempt(protocol, home, name, row);
    let last = name.rsplit('.').next().unwrap_or(name);
    let ignored = log.contains(&format!("option=\"{last}\"")) || log.contains(&format!("{last} is of Python"));
    let fits = match row["is"].as_str() {
        Some("honoured") => error.is_none() && !ignored,
        Some("ignored") => error.is_none() && ignored,
        Some("refused") => {
            error.as_ref().is_some_and(|error| error.contains(name) && !error.contains("is not an option"))
        }
        _ => false,
    };
    (!fits).then(|| format!("{protocol} {name} is not {}: error={error:?} log={log:?}", row["is"]))
}

#[test]
fn every_parameter_is_honoured_ignored_or_refused() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/signatures");
    let entries = fs::read_dir(&directory).expect("there").map(|entry| entry.expect("readable").path());
    let files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    assert!(files.len() >= 3, "{files:?}");
    let mut problems = Vec::new();
    for file in files {
        let protocol = file.file_stem().and_then(|stem| stem.to_str()).expect("text").to_owned();
        let fixture: Value = serde_json::from_str(&fs::read_to_string(&file).expect("readable")).expect("JSON");
        let home = tempfile::tempdir().expect("a directory");
        for (name, text) in fixture.get("files").and_then(Value::as_object).into_iter().flatten() {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text.as_str().expect("text")).expect("written");
        }
        let table = fixture["table"].as_object().expect("a table");
        for name in fixture["names"].as_array().expect("names") {
            let name = name.as_str().expect("text");
            if !table.contains_key(name) {
                problems.push(format!("{protocol} {name} has no row"));
            }
        }
        problems.extend(table.iter().filter_map(|(name, row)| problem(&protocol, home.path(), name, row)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
