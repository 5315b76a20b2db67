//! Checkpoints across the border: those that Ray Data 2.60 made, here, and ours in Ray.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use serde_json::Value;

use crate::support::place::Lent;
use crate::support::tables::read_parquet;
use crate::support::{Job, Ran, Tree, ckpt, copy_dir, fixture, int_rows, program, write_parquet};

/// A copy of one of Ray's cases, with what is known about it.
struct Case {
    dir: PathBuf,
    expect: Value,
    _place: Option<Lent>,
    _temp: tempfile::TempDir,
}

impl Case {
    fn new(name: &str) -> Self {
        let from = fixture("ray-2.60").join(name);
        let expect: Value =
            serde_json::from_slice(&fs::read(from.join("expect.json")).expect("a fixture")).expect("JSON");
        let temp = tempfile::tempdir().expect("a directory is made");
        // Row hashes are made of the path, so that case must lie where Ray had it.
        let place = (name == "row-hash").then(|| Lent::new(Path::new(expect["made_in"].as_str().expect("a path"))));
        let dir = match &place {
            Some(_) => PathBuf::from(expect["made_in"].as_str().expect("a path")),
            None => temp.path().to_owned(),
        };
        for part in ["input", "output", "checkpoint"] {
            copy_dir(&from.join(part), &dir.join(part));
        }
        Self { dir, expect, _place: place, _temp: temp }
    }

    fn id_column(&self) -> &str {
        self.expect["id_column"].as_str().expect("a name")
    }

    fn at(&self, part: &str) -> PathBuf {
        self.dir.join(part)
    }

    fn on_checkpoint(&self, verb: &str, extra: &[&str]) -> Ran {
        program::run(program::command().arg(verb).arg(self.at("checkpoint")).args(extra))
    }

    fn on_both(&self, verb: &str, extra: &[&str]) -> Ran {
        let mut command = program::command();
        command.arg(verb).arg(self.at("checkpoint")).arg("--output").arg(self.at("output")).args(extra);
        program::run(command.arg("--json"))
    }

    fn run(&self, verb: &str, extra: &[&str]) -> Ran {
        let mut command = program::command();
        command.arg(verb).arg("--input").arg(self.at("input")).arg("--output").arg(self.at("output"));
        command.arg("--checkpoint").arg(self.at("checkpoint")).arg("--json").args(extra);
        match self.id_column() {
            "row_hash" => command.arg("--row-hash"),
            column => command.args(["--id-column", column]),
        };
        program::run(&mut command)
    }

    fn list(&self, field: &Value) -> Vec<String> {
        field.as_array().expect("a list").iter().map(id_text).collect()
    }

    fn input_ids(&self) -> Vec<String> {
        let files = self.expect["input"].as_array().expect("files").iter();
        sorted(files.flat_map(|file| self.list(&file["ids"])).collect())
    }

    /// The rows of tasks in one of these lists of names.
    fn rows_of(&self, names: &Value) -> u64 {
        let names = self.list(names);
        let tasks = self.expect["tasks"].as_array().expect("tasks").iter();
        tasks
            .filter(|task| names.contains(&id_text(&task["name"])))
            .map(|task| self.list(&task["ids"]).len() as u64)
            .sum()
    }

    /// Names of files in the output, with their bytes.
    fn data(&self, names: &Value) -> BTreeMap<String, Option<Vec<u8>>> {
        self.list(names).into_iter().map(|name| (name.clone(), fs::read(self.at(&name)).ok())).collect()
    }

    /// The IDs in the output, sorted.
    fn output_ids(&self) -> Vec<String> {
        let mut ids = Vec::new();
        // File by file: Ray's job had a column that a plain copy of the input does not have.
        for file in Tree::of(&self.at("output")).files().into_iter().filter(|f| f.ends_with(".parquet")) {
            let rows = read_parquet(&self.at("output").join(file));
            let column = rows.column_by_name(self.id_column()).expect("an ID column");
            let text = arrow::compute::cast(column, &DataType::Utf8).expect("IDs have a text");
            assert_eq!(text.null_count(), 0);
            ids.extend(text.as_string::<i32>().iter().flatten().map(str::to_owned));
        }
        sorted(ids)
    }
}

/// An ID as `expect.json` has it, as text: numbers exactly, strings as they are.
fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort_unstable();
    ids
}

const CASES: [&str; 6] = ["finished-kept", "crashed", "both", "strings", "row-hash", "prefix"];

#[test]
fn rays_checkpoints_are_counted_and_listed_as_they_are() {
    for name in CASES {
        println!("{name}");
        let case = Case::new(name);
        let before = Tree::of(&case.dir);
        let tasks = ["committed", "both"].map(|list| case.list(&case.expect[list]).len() as u64).iter().sum();
        let committed = case.list(&case.expect["committed_ids"]);
        let pending = case.list(&case.expect["pending"]).len() as u64;
        let status = case.on_checkpoint("status", &["--json"]).exits(0);
        let status = status.numbers(&[
            ("committed_rows", committed.len() as u64),
            ("committed_tasks", tasks),
            ("pending_tasks", pending),
            ("pending_rows", case.rows_of(&case.expect["pending"])),
            ("attempts", 0),
        ]);
        assert_eq!(status.json()["id_column"], case.expect["id_column"]);
        let listed = case.on_checkpoint("ids", &["--format", "jsonl"]).exits(0);
        let ids = listed.out.lines().map(|line| {
            let row: Value = serde_json::from_str(line).expect("a JSON object");
            id_text(&row[case.id_column()])
        });
        assert_eq!(sorted(ids.collect()), sorted(committed.clone()));
        let count = case.on_checkpoint("ids", &["--count", "--json"]).exits(0);
        assert_eq!(count.number("count"), committed.len() as u64);
        for id in committed.iter().filter(|id| !id.contains('\n')) {
            case.on_checkpoint("ids", &["--contains", id]).exits(0);
            if name != "finished-kept" {
                break;
            }
        }
        case.on_checkpoint("ids", &["--contains", "123454321"]).exits(1);
        let verified = case.on_both("verify", &[]);
        assert_eq!(verified.number("committed_ids"), committed.len() as u64, "{}", verified.show());
        verified.numbers(&[("lost_tasks", 0), ("missing_ids", 0), ("duplicate_ids", 0)]);
        before.is(&Tree::of(&case.dir));
    }
}

#[test]
fn rays_checkpoints_are_recovered_and_resumed_without_losing_or_doubling_a_row() {
    for name in CASES {
        for recover_first in [false, true] {
            println!("{name}, recovered first: {recover_first}");
            let case = Case::new(name);
            let recovery = &case.expect["recovery"];
            let keep = case.data(&recovery["keep_data"]);
            let forward = case.list(&recovery["roll_forward_or_redo"]).len() as u64;
            let redo = case.list(&recovery["redo"]).len() as u64;
            let committed = case.list(&case.expect["committed_ids"]).len() as u64;
            let forward_rows = case.rows_of(&recovery["roll_forward_or_redo"]);
            let deleted = case.list(&recovery["delete_data"]);

            let before = Tree::of(&case.dir);
            let planned = case.run("plan", &[]).exits(0);
            planned.numbers(&[
                ("would_roll_forward", forward),
                ("would_void", redo),
                ("done_rows", committed + forward_rows),
            ]);
            case.on_both("recover", &["--dry-run"]).exits(0).numbers(&[
                ("rolled_forward", forward),
                ("voided", redo),
                ("deleted_files", deleted.len() as u64),
            ]);
            before.is(&Tree::of(&case.dir));
            if recover_first {
                case.on_both("recover", &[]).exits(0).numbers(&[
                    ("rolled_forward", forward),
                    ("voided", redo),
                    ("deleted_files", deleted.len() as u64),
                    ("repaired_tasks", 0),
                ]);
                assert!(deleted.iter().all(|file| !case.at(file).exists()), "what does not count goes");
                let status = case.on_checkpoint("status", &["--json"]).exits(0);
                status.numbers(&[
                    ("committed_rows", committed + forward_rows),
                    ("pending_tasks", 0),
                    ("void_tasks", 0),
                ]);
                case.on_both("verify", &[]).exits(0);
            }
            let input = case.input_ids();
            let left = input.len() as u64 - committed - forward_rows;
            let ran = case.run("run", &["--keep-checkpoint"]).exits(0);
            ran.numbers(&[
                ("skipped_rows", committed + forward_rows),
                ("processed_rows", left),
                ("written_rows", left),
            ]);
            assert_eq!(case.output_ids(), input, "each ID of the input exactly once");
            for (file, bytes) in keep {
                assert!(bytes.is_some(), "{file} was there");
                assert_eq!(fs::read(case.at(&file)).ok(), bytes, "{file} survives byte for byte");
            }
            let verified = case.on_both("verify", &[]).exits(0);
            verified.numbers(&[("committed_ids", input.len() as u64), ("output_rows", input.len() as u64)]);
            let again = case.run("run", &[]).exits(0).numbers(&[("processed_rows", 0)]);
            assert!(again.flag("already_complete"));
            assert_eq!(case.output_ids(), input);
        }
    }
}

/// A record of Ray's that is damaged is named as ours are, and repaired.
#[test]
fn a_damaged_record_of_rays_is_named_and_repaired() {
    let case = Case::new("finished-kept");
    let task = case.list(&case.expect["committed"]).remove(1);
    fs::write(case.at(&format!("checkpoint/{task}.parquet")), "").expect("it is cut");
    for ran in [case.run("run", &[]), case.on_both("recover", &[]), case.on_checkpoint("ids", &[])] {
        ran.exits(5).complains().says(&[&task]);
    }
    case.on_both("recover", &["--repair"]).exits(0).numbers(&[("repaired_tasks", 1)]);
    case.run("run", &["--keep-checkpoint"]).exits(0).numbers(&[("processed_rows", 10), ("skipped_rows", 24)]);
    assert_eq!(case.output_ids(), case.input_ids());
}

/// `python3` with Ray in it, when there is one.
fn python_with_ray() -> bool {
    let found = Command::new("python3").args(["-c", "import ray.data.checkpoint"]).output();
    found.is_ok_and(|output| output.status.success())
}

/// What Ray makes of a checkpoint; see `load_with_ray.py`.
fn loaded_by_ray(job: &Job, input: &Path, extra: &[&str]) -> Value {
    let mut command = Command::new("python3");
    command.arg(fixture("ray-2.60/load_with_ray.py")).arg("--checkpoint").arg(job.checkpoint());
    command.arg("--input").arg(input).arg("--output").arg(job.output()).args(extra);
    let output = command.output().expect("python3 starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).expect("JSON")
}

/// Runs only where `python3` has Ray. What it printed is kept in `fixtures/ray-2.60/ours-in-ray.json`.
#[test]
fn ours_load_in_ray() {
    if !python_with_ray() {
        println!("not applicable: python3 has no ray with checkpoints (pip install 'ray[data]==2.60.0')");
        return;
    }
    let with_rows = |job: &Job| {
        for part in 0..4 {
            write_parquet(&job.input().join(format!("part-{part}.parquet")), &int_rows(part * 10..part * 10 + 10));
        }
    };
    let check = |report: &Value, skipped: u64| {
        println!("{report}");
        assert_eq!(report["skipped"], skipped, "{report}");
        assert_eq!(report["written"], 40 - skipped, "{report}");
        assert_eq!(report["output_rows"], 40, "{report}");
        assert_eq!((&report["missing_ids"], &report["doubled_ids"]), (&Value::from(0), &Value::from(0)), "{report}");
        let nothing = Value::Array(Vec::new());
        assert_eq!((&report["records_deleted"], &report["data_files_deleted"]), (&nothing, &nothing), "{report}");
    };
    let finished = Job::new();
    with_rows(&finished);
    finished.run_in_tasks(10, &["--keep-checkpoint"]).exits(0);
    check(&loaded_by_ray(&finished, &finished.input(), &["--id-column", "id"]), 40);

    let half = Job::new();
    with_rows(&half);
    half.run_until(20, 10, &[]);
    check(&loaded_by_ray(&half, &half.input(), &["--id-column", "id"]), 20);
    // And back: what Ray did counts here.
    half.run(&["--keep-checkpoint"]).exits(0).numbers(&[("skipped_rows", 40), ("processed_rows", 0)]);
    half.verify().exits(0);

    let hashed = Job::by_row_hash();
    with_rows(&hashed);
    hashed.run_until(20, 10, &[]);
    check(&loaded_by_ray(&hashed, &hashed.input(), &["--id-column", "row_hash", "--row-hash"]), 20);
}

/// The command line reads Ray's checkpoints without any option about Ray.
#[test]
fn a_directory_that_is_no_checkpoint_is_said_to_be_none() {
    let dir = tempfile::tempdir().expect("a directory is made");
    let at = |name: &str| dir.path().join(name).into_os_string();
    fs::create_dir(dir.path().join("empty")).expect("a directory is made");
    fs::create_dir(dir.path().join("output")).expect("a directory is made");
    for name in ["empty", "missing"] {
        for verb in ["status", "ids", "rm"] {
            ckpt([verb.into(), at(name)]).exits(2).complains().says(&[name]);
        }
        for verb in ["verify", "recover"] {
            ckpt([verb.into(), at(name), "--output".into(), at("output")]).exits(2).complains().says(&[name]);
        }
    }
    assert!(!dir.path().join("missing").exists(), "looking makes nothing");
}
