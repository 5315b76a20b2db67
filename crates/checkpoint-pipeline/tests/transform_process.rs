//! How children live and die.

mod child_process;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use checkpoint_pipeline::ErrorKind;
use checkpoint_pipeline::transform::{ExecFormat, ProcessPool, Transform};
use child_process::{arrow, fails, json, jsonl, one, python, rows};

/// The process of the only worker, as it says itself.
const WITH_PID: &str = "row[\"pid\"] = os.getpid()";

async fn pid(pool: &ProcessPool, from: i64) -> i64 {
    one(pool, rows(from, 2)).await.column_by_name("pid").expect("is there").as_primitive::<Int64Type>().value(0)
}

fn alive(process: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

async fn until_gone(process: i64) {
    for _ in 0..500 {
        if !alive(process) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!alive(process), "{process}");
}

async fn until_exists(path: &Path) -> String {
    for _ in 0..500 {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    std::fs::read_to_string(path).expect("was written")
}

#[tokio::test]
async fn a_child_lives_from_batch_to_batch_and_ends_with_the_pool() {
    let pool = jsonl(&python(WITH_PID));
    let first = pid(&pool, 0).await;
    assert_eq!(pid(&pool, 10).await, first);
    assert!(alive(first));
    pool.close().await.expect("closes");
    assert!(!alive(first));
    assert!(fails(&pool, rows(0, 1)).await.message().contains("closed"));
}

#[tokio::test]
async fn closing_kills_what_does_not_end_and_dropping_kills_all() {
    let dir = tempfile::tempdir().expect("makes one");
    let file = dir.path().join("pids");
    let with_grandchild = format!("sleep 1000 & echo $$ $! >> {}; cat", file.display());
    let pool = jsonl(&with_grandchild);
    one(&pool, rows(0, 1)).await;
    let pids = until_exists(&file).await;
    drop(pool);
    for pid in pids.split_ascii_whitespace() {
        until_gone(pid.parse().expect("is a number")).await;
    }
}

#[tokio::test]
async fn an_error_carries_the_status_and_the_last_words_and_the_child_is_replaced() {
    let body = format!("{WITH_PID}\nif row[\"id\"] == 5: raise ValueError(\"bad sample 5\")");
    let pool = jsonl(&python(&body));
    let first = pid(&pool, 0).await;
    let error = fails(&pool, rows(4, 3)).await;
    assert!(error.message().contains("exited with status 1 after 1 of 3 answers"), "{error}");
    assert_eq!(error.stderr_tail().last().map(String::as_str), Some("ValueError: bad sample 5"));
    assert!(error.stderr_tail().len() > 1);
    assert!(error.to_string().ends_with("stderr=\"ValueError: bad sample 5\""), "{error}");
    assert!(!error.to_string().contains('\n'));
    assert_eq!(checkpoint_pipeline::Error::from(error).kind(), ErrorKind::Transform);
    let second = pid(&pool, 10).await;
    assert_ne!(first, second);
}

#[tokio::test]
async fn a_long_stderr_does_not_block_and_only_its_end_is_kept() {
    let noisy = python(
        "print(\"x\" * 1000000, file=sys.stderr)\nprint(\"a\\n\" * 100, file=sys.stderr)\nif row[\"id\"] == 3: os._exit(3)",
    );
    let error = fails(&jsonl(&noisy), rows(0, 5)).await;
    assert!(error.message().contains("status 3 after 3 of 5"), "{error}");
    assert_eq!(error.stderr_tail(), vec!["a"; 20]);
}

#[tokio::test]
async fn a_killed_child_fails_its_batch_alone() {
    let pool = jsonl(&python(&format!("{WITH_PID}\nif row[\"id\"] == 5: os.kill(os.getpid(), 9)")));
    let error = fails(&pool, rows(4, 3)).await;
    assert!(error.message().contains("was killed by signal 9 (SIGKILL) after 1 of 3 answers"), "{error}");
    assert!(error.hint().expect("has one").contains("memory"));
    pid(&pool, 10).await;
    let error = fails(&arrow("kill -SEGV $$"), rows(0, 1)).await;
    assert!(error.message().contains("signal 11 (SIGSEGV)"), "{error}");
}

#[tokio::test]
async fn a_command_that_is_not_there_is_said_so() {
    let error = fails(&jsonl("no-such-program --flag"), rows(0, 1)).await;
    assert!(error.message().contains("command not found (status 127)"), "{error}");
    assert!(error.to_string().contains("no-such-program"), "{error}");
    assert!(error.hint().expect("has one").contains("PATH"));
    let error = fails(&jsonl("/etc/passwd"), rows(0, 1)).await;
    assert!(error.message().contains("not executable (status 126)"), "{error}");
    for (command, workers) in [(" ", 1), ("cat", 0)] {
        let error = ProcessPool::new(command, ExecFormat::Arrow, workers).expect_err("is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    }
}

#[tokio::test]
async fn an_idle_child_that_was_killed_is_replaced() {
    let pool = jsonl(&python(WITH_PID));
    let first = pid(&pool, 0).await;
    std::process::Command::new("kill").arg("-9").arg(first.to_string()).status().expect("runs");
    until_gone(first).await;
    assert_ne!(pid(&pool, 10).await, first);
}

#[tokio::test]
async fn a_child_that_ends_after_a_whole_answer_is_replaced() {
    // It ends a moment after its last line, so that the next batch may meet it alive.
    for pause in ["0", "0.05"] {
        let body = format!(
            "{WITH_PID}\nprint(json.dumps(row))\nif row[\"_ckpt\"][\"row\"] == 1: time.sleep({pause}); os._exit(0)\ncontinue"
        );
        let pool = jsonl(&python(&body));
        let mut seen: Vec<i64> = Vec::new();
        for i in 0..5 {
            let process = pid(&pool, i * 10).await;
            assert!(!seen.contains(&process));
            seen.push(process);
        }
    }
}

#[tokio::test]
async fn a_child_that_ends_at_once_every_time_is_no_endless_loop() {
    let error = fails(&jsonl("exit 0"), rows(0, 1)).await;
    assert!(error.message().contains("ended after 0 of 1 answers"), "{error}");
}

#[tokio::test]
async fn output_that_is_closed_early_is_an_error() {
    let error = fails(&jsonl("exec 1>&-; exec sleep 1000"), rows(0, 1)).await;
    assert!(error.message().contains("closed its standard output after 0 of 1 answers"), "{error}");
}

#[tokio::test]
async fn a_last_line_without_an_end_counts_when_the_child_ended_well() {
    let answer = |status: u8| format!("read a; read b; echo '{{\"x\":1}}'; printf '{{\"x\":2}}'; exit {status}");
    assert_eq!(json(&one(&jsonl(&answer(0)), rows(0, 2)).await).len(), 2);
    let error = fails(&jsonl(&answer(3)), rows(0, 2)).await;
    assert!(error.message().contains("exited with status 3"), "{error}");
}

#[tokio::test]
async fn programs_that_buffer_their_output_are_given_the_end_of_their_input() {
    // More rows than fit into a buffer, and fewer; jq, awk and a Python that does not flush.
    let holding = "PYTHONUNBUFFERED= exec python3 -c '\nimport sys\nfor line in sys.stdin: sys.stdout.write(line)\n'";
    for command in ["exec jq -c '{id, double: (.id * 2)}'", "exec awk '{print}'", holding, "cat | jq -c '{id}' | cat"] {
        let pool = jsonl(command);
        for (from, count) in [(0, 3), (3, 1000), (2000, 1)] {
            let answer = one(&pool, rows(from, count)).await;
            let ids = answer.column(0).as_primitive::<Int64Type>();
            assert_eq!((ids.len() as i64, ids.value(0)), (count, from), "{command}");
        }
    }
}

#[tokio::test]
async fn a_program_that_skips_a_row_fails_instead_of_hanging() {
    let pool = jsonl(&python("if row[\"id\"] == 3: continue"));
    let error = fails(&pool, rows(0, 5)).await;
    assert!(error.message().contains("ended after 4 of 5 answers"), "{error}");
    one(&pool, rows(10, 5)).await;
    let error = fails(&jsonl("exec jq -c --unbuffered '.text / 2'"), rows(0, 2)).await;
    assert!(error.message().contains("exited with status 5 after 0 of 2"), "{error}");
    assert!(error.to_string().contains("cannot be divided"), "{error}");
}

#[tokio::test]
async fn a_slow_program_is_waited_for_and_stays() {
    // It computes (does not read) between its rows, and sleeps in a call that is no read.
    let pool = jsonl(&python(&format!("{WITH_PID}\ntime.sleep(0.4)")));
    let first = pid(&pool, 0).await;
    assert_eq!(pid(&pool, 10).await, first);
}

#[tokio::test]
async fn dropping_a_batch_kills_its_child_and_frees_its_place() {
    let dir = tempfile::tempdir().expect("makes one");
    let file = dir.path().join("pid");
    let hangs = format!("if [ -e {0} ]; then exec cat; fi; echo $$ > {0}; exec sleep 1000", file.display());
    let pool = Arc::new(jsonl(&hangs));
    let (running, batch) = (Arc::clone(&pool), rows(0, 1));
    let task = tokio::spawn(async move { running.apply(batch).await.map(|_| ()) });
    let process = until_exists(&file).await.trim().parse().expect("is a number");
    assert!(alive(process));
    task.abort();
    until_gone(process).await;
    assert_eq!(one(&pool, rows(5, 2)).await.num_rows(), 2);
}

#[tokio::test]
async fn a_value_that_cannot_be_sent_fails_the_batch_and_not_the_pool() {
    let floats = arrow::array::Float64Array::from(vec![0.5, f64::NAN]);
    let odd = child_process::batch(vec![("score", Arc::new(floats) as arrow::array::ArrayRef)]);
    let pool = jsonl("exec cat");
    let error = fails(&pool, odd).await;
    assert!(error.message().contains("column=score row=1"), "{error}");
    one(&pool, rows(0, 2)).await;
}

#[tokio::test]
async fn children_see_their_number_and_share_our_group() {
    let group = "row = {\"worker\": os.environ[\"CKPT_WORKER\"], \"group\": os.getpgid(0), \"u\": os.environ[\"PYTHONUNBUFFERED\"]}";
    let answer = json(&one(&jsonl(&python(group)), rows(0, 1)).await).remove(0);
    let own = std::fs::read_to_string("/proc/self/stat").expect("reads");
    let own: i64 = own.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(2)?.parse().ok()).expect("has one");
    assert_eq!(answer, serde_json::json!({"worker": "0", "group": own, "u": "1"}));
}
