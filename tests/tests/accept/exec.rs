//! Programs as transforms: over Arrow and JSON lines, failing, dying, answering nonsense, and set-aside rows.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::tables::read_parquet;
use crate::support::{Job, Tree, ids_of, int_rows, read_dir, worker, write_parquet};

fn forty_rows() -> Job {
    let job = Job::new();
    for part in 0..4 {
        write_parquet(&job.input().join(format!("part-{part}.parquet")), &int_rows(part * 10..part * 10 + 10));
    }
    job
}

/// A Python program that gives each row to `each`, whose lines are given; with the command that runs it.
fn python(job: &Job, each: &str) -> String {
    let indented: String = each.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!(
        "import json, os, sys\n\ndef each(row):\n{indented}\nfor line in sys.stdin:\n    row = json.loads(line)\n    \
         row.pop('_ckpt')\n    print(json.dumps(each(row)), flush=True)\n"
    );
    let path: PathBuf = job.dir().join(format!("transform-{}.py", Tree::of(job.dir()).files().len()));
    fs::write(&path, text).expect("a file is written");
    format!("exec python3 '{}'", path.display())
}

const JSONL: [&str; 2] = ["--exec-format", "jsonl"];

#[test]
fn cat_is_the_identity_in_both_formats() {
    for format in ["arrow", "jsonl"] {
        let job = forty_rows();
        let ran = job.run(&["--exec", "exec cat", "--exec-format", format, "--batch-size", "7", "--keep-checkpoint"]);
        ran.exits(0).numbers(&[("processed_rows", 40), ("written_rows", 40)]);
        let output = read_dir(&job.output());
        assert_eq!(ids_of(&output), (0..40).collect::<Vec<i64>>());
        let input = read_parquet(&job.input().join("part-0.parquet"));
        assert_eq!(output.schema().field(0).data_type(), input.schema().field(0).data_type());
        assert_eq!(output.num_columns(), 2);
        job.verify().exits(0).numbers(&[("committed_ids", 40), ("output_rows", 40)]);
    }
}

/// One program that maps, drops and explodes; killed half way by an error, and resumed.
#[test]
fn rows_are_mapped_dropped_and_exploded_by_a_script_and_resumed() {
    let job = forty_rows();
    let each = "if os.environ['CKPT_WORKER'] == '0' and row['id'] == 25 and not os.path.exists('FIXED'):\n    \
                sys.exit('cannot do row 25')\nif row['id'] % 4 == 0:\n    return None\nif row['id'] % 4 == 1:\n    \
                return [dict(row, part=n) for n in range(3)]\nreturn dict(row, part=-1)";
    let fixed = job.dir().join("fixed");
    let command = python(&job, &each.replace("FIXED", fixed.to_str().expect("a plain path")));
    let exec = [&["--exec", command.as_str()], &JSONL[..]].concat();
    job.run_in_tasks(5, &exec).exits(1).complains().says(&["cannot do row 25", "status 1", "25, 26, 27, 28, 29"]);
    job.status().numbers(&[("committed_rows", 25)]);
    fs::write(&fixed, "").expect("a file is written");
    let ran = job.run_in_tasks(5, &[&exec[..], &["--keep-checkpoint"]].concat()).exits(0);
    ran.numbers(&[("skipped_rows", 25), ("processed_rows", 15)]);
    let wanted: Vec<i64> = (0..40)
        .flat_map(|id| match id % 4 {
            0 => vec![],
            1 => vec![id; 3],
            _ => vec![id],
        })
        .collect();
    assert_eq!(ids_of(&read_dir(&job.output())), wanted);
    job.verify().exits(0).numbers(&[("committed_ids", 40), ("output_rows", wanted.len() as u64)]);
}

#[test]
fn a_failing_batch_names_its_rows_and_what_the_program_said_last() {
    let job = forty_rows();
    let command = "echo first words >&2; echo last words >&2; exit 7";
    let ran = job.run(&["--exec", command, "--workers", "1", "--batch-size", "10"]).exits(1).complains();
    ran.says(&["status 7", "first words", "last words", "part-0.parquet row 0", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"]);
    job.status().numbers(&[("committed_rows", 0), ("pending_tasks", 0)]);

    let ran = job.run(&["--exec", "no-such-program-anywhere"]).exits(1).complains();
    ran.says(&["no-such-program-anywhere", "not found"]);
}

#[test]
fn a_program_that_dies_or_talks_nonsense_fails_its_batch_and_the_job_goes_on_later() {
    let broken: [(&str, &str, &str); 6] = [
        ("arrow", "kill -9 $$", "SIGKILL"),
        ("arrow", "echo this is no Arrow; cat >/dev/null", "this is no Arrow"),
        ("arrow", "head -c 100", "message"),
        ("jsonl", "while read -r row; do echo '{\"id\": 1, '; done", "JSON"),
        ("jsonl", "while read -r row; do echo Traceback; done", "Traceback"),
        ("jsonl", "head -n 3", "3 of 10 answers"),
    ];
    for (format, command, says) in broken {
        println!("{format}: {command}");
        let job = forty_rows();
        let failed = job.run_in_tasks(10, &["--exec", command, "--exec-format", format]);
        failed.exits(1).complains().says(&[says, "part-0.parquet row 0"]);
        assert_eq!(job.data_files(), Vec::<String>::new());
        job.run_in_tasks(10, &["--exec", "exec cat", "--exec-format", format])
            .exits(0)
            .numbers(&[("processed_rows", 40)]);
        assert_eq!(ids_of(&read_dir(&job.output())), (0..40).collect::<Vec<i64>>());
    }
}

/// A program that dies at some rows is replaced, and the rows that it died of are found and set aside.
#[test]
fn failing_rows_are_set_aside_and_everything_else_is_done() {
    for dies in [true, false] {
        let job = forty_rows();
        let each = match dies {
            true => {
                "if row['id'] in (7, 22, 23):\n    print('bad', row['id'], file=sys.stderr, flush=True)\n    \
                     os._exit(9)\nreturn row"
            }
            false => "if row['id'] in (7, 22, 23):\n    return 'no object'\nreturn row",
        };
        let command = python(&job, each);
        let exec = [&["--exec", command.as_str(), "--max-failed-rows", "5"], &JSONL[..]].concat();
        let ran = job.run_in_tasks(10, &exec).exits(1);
        let ran =
            ran.numbers(&[("processed_rows", 40), ("written_rows", 37), ("failed_rows", 3), ("written_files", 4)]);
        assert!(ran.err.contains("22") && !ran.err.contains("panicked"), "{}", ran.show());
        let good: Vec<i64> = (0..40).filter(|id| ![7, 22, 23].contains(id)).collect();
        assert_eq!(ids_of(&read_dir(&job.output())), good);

        let failed: Vec<Value> = failed_rows(&job);
        let ids: Vec<i64> = failed.iter().map(|row| row["id"].as_i64().expect("an ID")).collect();
        assert_eq!(ids, [7, 22, 23]);
        for row in &failed {
            assert!(!row["error"].as_str().unwrap_or_default().is_empty(), "{row}");
            assert_eq!(row["row"]["id"], row["id"]);
            assert!(row["row"]["text"].as_str().is_some_and(|t| t.starts_with("row ")), "{row}");
        }
        for name in Tree::of(&job.output()).files().iter().filter(|f| f.starts_with("_failed/")) {
            let task = name.trim_start_matches("_failed/").trim_end_matches(".jsonl");
            assert!(job.records().contains(&task.to_owned()), "{name} is of a committed task");
        }
        // The checkpoint is kept, the rows stay set aside, and a rerun says so again.
        job.verify().exits(0).numbers(&[("committed_ids", 40), ("output_rows", 37), ("missing_ids", 0)]);
        let before = Tree::of(&job.output());
        let again = job.run(&exec).exits(1);
        again.numbers(&[("processed_rows", 0), ("skipped_rows", 40), ("failed_rows", 3)]);
        before.is(&Tree::of(&job.output()));
    }
}

/// The rows of `_failed`, by ID.
fn failed_rows(job: &Job) -> Vec<Value> {
    let tree = Tree::of(&job.output());
    let files = tree.files().into_iter().filter(|f| f.starts_with("_failed/") && f.ends_with(".jsonl"));
    let texts = files.map(|f| fs::read_to_string(job.output().join(f)).expect("a file reads"));
    let mut rows: Vec<Value> =
        texts.flat_map(|t| t.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect::<Vec<Value>>()).collect();
    rows.sort_by_key(|row| row["id"].as_i64());
    rows
}

#[test]
fn more_failing_rows_than_allowed_fail_the_job_with_the_rest_committed() {
    let job = forty_rows();
    let command = python(&job, "if row['id'] in (3, 14, 15, 26):\n    sys.exit('bad row')\nreturn row");
    let exec = [&["--exec", command.as_str(), "--max-failed-rows", "2"], &JSONL[..]].concat();
    job.run_in_tasks(5, &exec).exits(1).complains().says(&["--max-failed-rows", "15"]);
    let done = job.status().number("committed_rows");
    assert!((10..=15).contains(&done), "{done}");
    let fixed = python(&job, "return row");
    let ran = job.run_in_tasks(5, &[&["--exec", fixed.as_str(), "--max-failed-rows", "2"], &JSONL[..]].concat());
    let set_aside = ran.number("failed_rows");
    assert_eq!(ran.number("processed_rows"), 40 - done, "{}", ran.show());
    let good = ids_of(&read_dir(&job.output()));
    assert_eq!(good.len() as u64 + set_aside, 40);
    assert_eq!(failed_rows(&job).len() as u64, set_aside);
}

/// What a program must give back: the ID column, with the same IDs, on every row.
#[test]
fn an_id_column_that_is_dropped_renamed_or_changed_fails_at_the_first_batch() {
    let broken = [
        (worker("--drop id"), "dropped or renamed"),
        (worker("--rename id uid"), "dropped or renamed"),
        (worker("--as-text id"), "changed the type"),
    ];
    for (exec, says) in &broken {
        let job = forty_rows();
        job.run_in_tasks(10, &["--exec", exec]).exits(5).complains().says(&[says, "column=id"]);
        job.status().numbers(&[("committed_rows", 0)]);
        assert_eq!(job.data_files(), Vec::<String>::new());
    }
    for (each, says) in [
        ("row['uid'] = row.pop('id')\nreturn row", "ID column"),
        ("return {'text': row['text']}", "ID column"),
        ("row['id'] += 1000\nreturn row", "changed an ID"),
        ("row['id'] = None\nreturn row", "ID"),
    ] {
        let job = forty_rows();
        let command = python(&job, each);
        let ran = job.run_in_tasks(10, &[&["--exec", command.as_str()], &JSONL[..]].concat()).exits(5).complains();
        ran.says(&[says]);
        job.status().numbers(&[("committed_rows", 0)]);
    }
}

#[test]
fn output_whose_columns_change_between_tasks_or_attempts_is_an_error_that_names_them() {
    let job = forty_rows();
    let drift = worker("--drift-after 20");
    job.run_in_tasks(10, &["--exec", &drift]).exits(5).complains().says(&["late_column", "new columns"]);
    job.status().numbers(&[("committed_rows", 20)]);
    // Another attempt is held to what the first one wrote.
    let drift = worker("--drift-after 0");
    job.run_in_tasks(10, &["--exec", &drift]).exits(5).complains().says(&["late_column"]);
    let dropped = worker("--drop text");
    job.run_in_tasks(10, &["--exec", &dropped]).exits(5).complains().says(&["missing columns", "`text`"]);
    job.status().numbers(&[("committed_rows", 20)]);
    job.run_in_tasks(10, &[]).exits(0).numbers(&[("skipped_rows", 20), ("processed_rows", 20)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..40).collect::<Vec<i64>>());
}

/// The same IDs have the same key, whoever asks and in whichever attempt.
#[test]
fn idempotency_keys_are_the_same_in_every_attempt() {
    let job = forty_rows();
    let log = job.dir().join("keys");
    let script = job.dir().join("keys.py");
    let text = format!(
        "import json, sys\nfor line in sys.stdin:\n    row = json.loads(line)\n    k = row.pop('_ckpt')\n    \
         open('{}', 'a').write('%d %s\\n' % (row['id'], k['idempotency_key']))\n    if row['id'] == 29 and \
         len(sys.argv) > 1:\n        sys.exit(1)\n    print(json.dumps(row), flush=True)\n",
        log.display()
    );
    fs::write(&script, text).expect("a file is written");
    let (failing, fixed) = (format!("python3 '{}' fail", script.display()), format!("python3 '{}'", script.display()));
    let with = |command: &str| job.run_in_tasks(10, &[&["--exec", command], &JSONL[..]].concat());
    with(&failing).exits(1);
    with(&fixed).exits(0).numbers(&[("skipped_rows", 20), ("processed_rows", 20)]);
    let keys = fs::read_to_string(&log).expect("a log");
    let of = |id: &str| -> Vec<&str> {
        keys.lines().filter_map(|line| line.split_once(' ')).filter(|(i, _)| *i == id).map(|(_, key)| key).collect()
    };
    let twice = of("25");
    assert_eq!(twice.len(), 2, "row 25 was tried in both attempts: {keys}");
    assert_eq!(twice[0], twice[1]);
    assert_eq!(of("5").len(), 1);
    assert_ne!(of("5"), of("15"), "another batch has another key");
}

/// A program that holds its output back until its input ends works all the same.
#[test]
fn a_program_that_buffers_its_output_is_no_trouble() {
    let job = forty_rows();
    let script = job.dir().join("buffer.py");
    fs::write(&script, "import sys\nsys.stdout.write(''.join(sys.stdin.readlines()))\n").expect("a file is written");
    let command = format!("python3 '{}'", script.display());
    let ran = job.run(&[&["--exec", command.as_str(), "--batch-size", "20"], &JSONL[..]].concat()).exits(0);
    ran.numbers(&[("processed_rows", 40)]);
}
