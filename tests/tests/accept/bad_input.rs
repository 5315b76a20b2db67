//! Bad input: one line that says what is wrong, a hint, the right exit code, and nothing half written.

use std::fs;

use crate::support::{Job, Tree, ckpt, int_rows, program, write_parquet};

fn five_rows() -> Job {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..5));
    job
}

/// A bad flag or value of `run` and `plan`, with what is said about it.
#[test]
fn bad_flags_and_values_are_usage_errors() {
    let job = five_rows();
    let before = Tree::of(job.dir());
    let cases: [(&[&str], &str); 22] = [
        (&["--workers", "0"], "--workers"),
        (&["--workers", "-3"], "-3"),
        (&["--batch-size", "0"], "--batch-size"),
        (&["--batch-size", "many"], "many"),
        (&["--rows-per-task", "0"], "--rows-per-task"),
        (&["--rows-per-task", "1.5"], "1.5"),
        (&["--max-failed-rows", "-1"], "-1"),
        (&["--input-format", "xml"], "xml"),
        (&["--output-format", "xlsx"], "xlsx"),
        (&["--exec-format", "yaml", "--exec", "cat"], "yaml"),
        (&["--exec-format", "jsonl"], "--exec"),
        (&["--exec", ""], "--exec"),
        (&["--exec", "   "], "--exec"),
        (&["--progress", "loud"], "loud"),
        (&["--job-version", ""], "--job-version"),
        (&["--row-hash"], "--row-hash"),
        (&["--id-column", "x"], "--id-column"),
        (&["--job-dir", "x"], "--job-dir"),
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--storage-options", "{not json"], "storage options"),
        (&["--storage-options", "@/no/such/file"], "/no/such/file"),
        (&["--lease-url", "nope://x"], "nope"),
    ];
    for (flags, says) in cases {
        println!("{flags:?}");
        for ran in [job.run(flags), job.plan(flags)] {
            ran.exits(2).complains().says(&[says]);
        }
        before.is(&Tree::of(job.dir()));
    }
}

/// Storage options: every mistake is named, nothing is repeated that may be a secret.
#[test]
fn bad_storage_options_are_usage_errors_and_show_no_secret() {
    let job = five_rows();
    let before = Tree::of(job.dir());
    for (options, says) in [
        (r#"["hunter2"]"#, "protocol"),
        (r#"{"s3": "hunter2"}"#, "s3"),
        (r#"{"s3": {"secrte": "hunter2"}}"#, "secret"),
        (r#"{"s4": {"key": "hunter2"}}"#, "s4"),
        (r#"{"file": {"fsync": "hunter2"}}"#, "fsync"),
        (r#"{"s3": {"use_ssl": "hunter2"}}"#, "use_ssl"),
        (r#"{"s3": {"secret": "hunter2"}"#, "JSON"),
    ] {
        println!("{options}");
        for loud in ["-v", "-vvv"] {
            let ran = job.run(&["--storage-options", options, loud]).exits(2).complains();
            assert!(ran.err.contains(says), "{says}\n{}", ran.show());
            assert!(!ran.err.contains("hunter2"), "a secret is shown:\n{}", ran.err);
        }
        before.is(&Tree::of(job.dir()));
    }
}

/// What cannot be read, by what is wrong with it.
#[test]
fn bad_input_files_are_named() {
    let whole = {
        let job = five_rows();
        fs::read(job.input().join("a.parquet")).expect("a file")
    };
    let cases: [(&str, Vec<u8>, i32, &str); 12] = [
        ("b.parquet", Vec::new(), 5, "b.parquet"),
        ("b.parquet", b"no Parquet at all, and long enough to be one".to_vec(), 5, "b.parquet"),
        ("b.parquet", whole[..whole.len() - 20].to_vec(), 5, "b.parquet"),
        ("b.jsonl", b"{\"id\": 9, \"text\": \"x\"}\n{\"id\": ".to_vec(), 5, "line=2"),
        ("b.jsonl", b"{\"id\": 9, \"text\": \"x\"}\n[1, 2]\n".to_vec(), 5, "line=2"),
        ("b.jsonl", b"{\"text\": \"x\"}\n".to_vec(), 5, "id"),
        ("b.jsonl", b"{\"id\": null, \"text\": \"x\"}\n".to_vec(), 5, "b.jsonl"),
        ("b.csv", b"id,text\n9,x,y\n".to_vec(), 5, "line=2"),
        ("b.csv", b"id,id\n9,10\n".to_vec(), 5, "b.csv"),
        ("b.arrow", b"ARROW1\0\0 and then nothing".to_vec(), 5, "b.arrow"),
        ("b.csv.gz", b"no gzip".to_vec(), 5, "b.csv.gz"),
        ("b.jsonl.zst", b"no zstd".to_vec(), 5, "b.jsonl.zst"),
    ];
    for (name, bytes, code, says) in cases {
        println!("{name}: {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]));
        let job = five_rows();
        fs::write(job.input().join(name), bytes).expect("a file is written");
        job.run(&["--output-format", "parquet"]).exits(code).complains().says(&[name, says]);
        let half: Vec<String> =
            Tree::of(job.dir()).files().iter().filter(|f| f.contains("tmp")).map(|f| (*f).to_owned()).collect();
        assert_eq!(half, Vec::<String>::new(), "no temporary file is left");
        // What was fine before the bad file may be done; taking it away lets the job end.
        fs::remove_file(job.input().join(name)).expect("the bad file goes");
        let ran = job.run(&["--output-format", "parquet", "--allow-changed-read"]).exits(0);
        assert_eq!(ran.number("input_rows"), 5);
        assert_eq!(crate::support::ids_of(&crate::support::read_dir(&job.output())), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn bad_places_are_usage_errors_and_make_nothing() {
    let job = five_rows();
    let at = |name: &str| job.dir().join(name).to_str().expect("a plain path").to_owned();
    fs::write(job.dir().join("input/readme"), "of no format").expect("a file is written");
    let before = Tree::of(job.dir());
    let (input, output, checkpoint) = (at("input"), at("output"), at("checkpoint"));
    let inside = at("output/checkpoint");
    let outside = job.dir().to_str().expect("a plain path");
    let cases: [(&str, &str, &str, &str); 12] = [
        (&at("missing"), &output, &checkpoint, "missing"),
        (&at("missing/*.parquet"), &output, &checkpoint, "missing"),
        (&at("input/*.csv"), &output, &checkpoint, "*.csv"),
        (&at("input/readme"), &output, &checkpoint, "readme"),
        (&input, &output, &inside, "inside"),
        (&input, &output, &output, "inside"),
        (&input, &output, outside, "inside"),
        (&input, &input, &checkpoint, "input"),
        (&input, &output, &at("input/checkpoint"), "input"),
        (&input, &at("input/output"), &checkpoint, "input"),
        (&input, "ftp://host/x", &checkpoint, "ftp"),
        (&input, &output, "s3:///no-bucket", "bucket"),
    ];
    for (input, output, checkpoint, says) in cases {
        println!("{input} {output} {checkpoint}");
        for verb in ["run", "plan"] {
            let args = ["--input", input, "--output", output, "--checkpoint", checkpoint, "--id-column", "id"];
            ckpt([&[verb][..], &args].concat()).exits(2).complains().says(&[says]);
        }
        before.is(&Tree::of(job.dir()));
    }
    // A column that is not there is bad data, and its name and the columns that are there are said.
    let args = ["run", "--input", &input, "--output", &output, "--checkpoint", &checkpoint, "--id-column", "uid"];
    ckpt(args).exits(5).complains().says(&["uid", "id, text"]);
    assert!(!job.checkpoint().exists() && !job.output().exists());
}

/// A row hash column that is there already, and an output format that cannot hold the rows.
#[test]
fn rows_that_cannot_be_named_or_written_are_refused() {
    let job = Job::by_row_hash();
    let rows = crate::support::tables::rows([(
        "row_hash",
        std::sync::Arc::new(arrow::array::Int64Array::from(vec![1, 2])) as arrow::array::ArrayRef,
    )]);
    write_parquet(&job.input().join("a.parquet"), &rows);
    job.run(&[]).exits(5).complains().says(&["row_hash", "--id-column"]);

    let job = Job::new();
    let lists =
        arrow::array::ListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>([Some(vec![Some(1)])]);
    let rows = crate::support::tables::rows([
        ("id", std::sync::Arc::new(arrow::array::Int64Array::from(vec![1])) as arrow::array::ArrayRef),
        ("nested", std::sync::Arc::new(lists)),
    ]);
    write_parquet(&job.input().join("a.parquet"), &rows);
    let ran = job.run(&["--output-format", "csv"]).complains();
    assert!([2, 5].contains(&ran.code), "{}", ran.show());
    ran.says(&["nested"]);
    assert_eq!(job.data_files(), Vec::<String>::new());
}

/// State files of the checkpoint that are not what they should be.
#[test]
fn damaged_state_files_are_named() {
    for (file, text) in [
        ("_meta/job.json", ""),
        ("_meta/job.json", "{\"format\": 1}"),
        ("_meta/job.json", "{\"format\": 999}"),
        ("_meta/closed/0", "nonsense"),
        ("_meta/attempts/1.json", "[]"),
    ] {
        println!("{file}: {text}");
        let job = Job::new();
        write_parquet(&job.input().join("a.parquet"), &int_rows(0..40));
        job.run_until(20, 10, &[]);
        if !job.checkpoint().join(file).exists() {
            println!("not applicable: there is no {file} in this state");
            continue;
        }
        fs::write(job.checkpoint().join(file), text).expect("a file is written");
        let data = Tree::of(&job.output());
        let ran = job.run(&[]).complains();
        assert!([3, 5].contains(&ran.code), "{}", ran.show());
        ran.says(&[file]);
        data.is(&Tree::of(&job.output()));
    }
}

/// Every command explains a wrong command line in one line.
#[test]
fn every_command_explains_itself() {
    for verb in ["run", "plan", "status", "ids", "verify", "recover", "rm", "gc", "fs"] {
        ckpt([verb]).exits(2).without_a_crash();
        ckpt([verb, "--no-such-flag"]).exits(2).without_a_crash();
        let help = ckpt([verb, "--help"]).exits(0);
        assert!(help.out.contains("Usage: ckpt"), "{}", help.show());
    }
    ckpt(["frobnicate"]).exits(2).complains().says(&["frobnicate"]);
    let version = ckpt(["--version"]).exits(0);
    assert!(version.out.starts_with("ckpt "), "{}", version.show());
    let mut command = program::command();
    assert_eq!(program::run(&mut command).code, 2, "without a command the help is an error");
}

/// An output that cannot be written fails as a storage does, and nothing is committed.
#[test]
fn an_output_that_is_a_file_is_refused() {
    let job = five_rows();
    fs::write(job.output(), "a file where a directory should be").expect("a file is written");
    let ran = job.run(&[]).complains();
    assert!([2, 3, 4].contains(&ran.code), "{}", ran.show());
    assert_eq!(fs::read_to_string(job.output()).expect("a file"), "a file where a directory should be");
    assert_eq!(job.records(), Vec::<String>::new());
}
