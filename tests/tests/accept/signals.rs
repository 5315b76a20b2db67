//! Signals: preemption and Ctrl-C end a run well, with the exit code of the signal.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use checkpoint_testkit::handle_hangups;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Job, Ran, ids_of, int_rows, read_dir, write_parquet};

fn two_hundred_rows() -> Job {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..200));
    job
}

/// A program that was started, and that is not left behind when a test fails.
struct Running(Option<Child>);

impl Running {
    fn new(command: &mut Command) -> Self {
        handle_hangups();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self(Some(child.expect("ckpt starts")))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it runs")
    }

    fn signal(&mut self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child().id()).expect("a process ID")).expect("a process ID");
        kill_process(pid, signal).expect("the process takes signals");
    }

    fn end(mut self) -> Ran {
        let output = self.0.take().expect("it runs").wait_with_output().expect("it ends");
        Ran::new("run, until a signal".to_owned(), &output)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a run whose transform takes a moment for each batch, and waits until something is committed.
fn start(job: &Job) -> Running {
    let script = job.dir().join("slow.sh");
    let text = "while IFS= read -r line; do sleep 0.01; printf '%s\\n' \"$line\"; done\n";
    std::fs::write(&script, text).expect("a file is written");
    let exec = format!("exec sh '{}'", script.display());
    let mut command = job.command("run", &["--exec", &exec, "--exec-format", "jsonl", "--json"]);
    command.args(["--workers", "1", "--batch-size", "5", "--rows-per-task", "10"]);
    let running = Running::new(&mut command);
    for _ in 0..1500 {
        if job.checkpoint().exists() && job.records().len() >= 2 {
            return running;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    unreachable!("nothing was committed in 30 seconds");
}

#[test]
fn a_signal_ends_the_run_with_its_code_and_everything_finished_is_committed() {
    for (which, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let job = two_hundred_rows();
        let mut running = start(&job);
        running.signal(which);
        let ran = running.end().exits(code).complains();
        assert_eq!(ran.out, "", "no result of a run that did not end");
        let status = job.status();
        let done = status.number("committed_rows");
        assert!((20..200).contains(&done), "{}", status.show());
        // Nothing is half there: every data file has its record, and no task is pending.
        let found = job.verify().exits(0).numbers(&[("pending_tasks", 0), ("orphan_files", 0)]);
        assert_eq!(found.number("output_rows"), done);
        // The next run starts at once: the attempt is marked as ended.
        let again = job.run(&[]).exits(0).numbers(&[("skipped_rows", done), ("processed_rows", 200 - done)]);
        assert_eq!(again.number("attempt"), 2);
        assert!(!again.err.contains("watch"), "it need not wait: {}", again.show());
        assert_eq!(ids_of(&read_dir(&job.output())), (0..200).collect::<Vec<i64>>());
    }
}

/// A second signal does not wait for anything.
#[test]
fn a_second_signal_stops_at_once_and_the_rerun_completes() {
    let job = two_hundred_rows();
    let mut running = start(&job);
    running.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(5));
    running.signal(Signal::INT);
    let ran = running.end();
    assert!(ran.code == 130 || ran.code == -2, "{}", ran.show());
    job.run(&[]).exits(0);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..200).collect::<Vec<i64>>());
}

/// A reader that goes away ends a listing quietly.
#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..200_000));
    job.run(&["--keep-checkpoint"]).exits(0);
    let mut command = crate::support::program::command();
    let mut running = Running::new(command.arg("ids").arg(job.checkpoint()));
    let mut few = [0; 64];
    running.child().stdout.take().expect("a pipe").read_exact(&mut few).expect("some lines");
    let ran = running.end();
    assert_eq!(ran.err, "", "{}", ran.show());
    assert_eq!(ran.code, 0, "{}", ran.show());
}
