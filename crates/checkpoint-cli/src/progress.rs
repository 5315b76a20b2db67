//! What a run shows while it goes on: a line that changes on a terminal, plain lines elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use checkpoint_pipeline::{Counters, Phase};
use checkpoint_store::RuntimeRef;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::AbortHandle;

use crate::amount;
use crate::args::ProgressMode;
use crate::console::console;
use crate::rate::Rate;

/// Shows a run's counters until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress(Option<AbortHandle>);

impl Progress {
    /// Begins to show.
    pub(crate) fn start(mode: ProgressMode, counters: Arc<Counters>, runtime: RuntimeRef) -> Self {
        let task = match mode {
            ProgressMode::None => return Self(None),
            ProgressMode::Auto if console().is_terminal() => tokio::spawn(draw(counters, runtime)),
            ProgressMode::Auto | ProgressMode::Plain => tokio::spawn(say(counters, runtime)),
        };
        Self(Some(task.abort_handle()))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
        console().clear();
    }
}

async fn draw(counters: Arc<Counters>, runtime: RuntimeRef) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(style("{spinner} {wide_msg}"));
    console().show(bar.clone());
    let mut rate = Rate::default();
    let mut drawn = false;
    loop {
        let now = Seen::of(&counters);
        rate.note(runtime.elapsed(), now.processed);
        if now.total > 0 && now.phase == Phase::Running {
            if !drawn {
                bar.set_style(style("[{bar:16}] {wide_msg}"));
                drawn = true;
            }
            bar.set_length(now.total);
            bar.set_position(now.done().min(now.total));
        }
        bar.set_message(now.text(&rate));
        bar.tick();
        runtime.sleep(Duration::from_millis(250)).await;
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ").tick_chars("|/-\\ ")
}

async fn say(counters: Arc<Counters>, runtime: RuntimeRef) {
    let mut rate = Rate::default();
    loop {
        rate.note(runtime.elapsed(), Seen::of(&counters).processed);
        runtime.sleep(Duration::from_secs(10)).await;
        let now = Seen::of(&counters);
        rate.note(runtime.elapsed(), now.processed);
        console().line(&format!("progress: {}", now.text(&rate)));
    }
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy)]
struct Seen {
    phase: Phase,
    total: u64,
    skipped: u64,
    processed: u64,
    failed: u64,
}

impl Seen {
    fn of(counters: &Counters) -> Self {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            phase: counters.phase(),
            total: get(&counters.total_rows),
            skipped: get(&counters.skipped_rows),
            processed: get(&counters.processed_rows),
            failed: get(&counters.failed_rows),
        }
    }

    fn done(&self) -> u64 {
        self.skipped + self.processed
    }

    fn text(&self, rate: &Rate) -> String {
        match self.phase {
            Phase::Discovering => return "looking at the input".to_owned(),
            Phase::Resuming => return "taking the checkpoint and reading what is done".to_owned(),
            Phase::Finishing => return format!("{}, finishing", amount::counted(self.done(), "row")),
            _ => {}
        }
        let mut parts = Vec::new();
        if self.total > 0 {
            let percent = self.done().min(self.total) as f64 * 100.0 / self.total as f64;
            parts.push(format!("{}/{} rows {percent:.0}%", amount::count(self.done()), amount::count(self.total)));
        } else {
            parts.push(amount::counted(self.done(), "row"));
        }
        if let Some(speed) = rate.per_second() {
            let shown = if speed < 10.0 { format!("{speed:.1}") } else { amount::count(speed.round() as u64) };
            parts.push(format!("{shown} rows/s"));
        }
        if self.total > 0
            && let Some(left) = rate.time_for(self.total.saturating_sub(self.done()))
        {
            parts.push(format!("{} left", amount::rough_span(left)));
        }
        if self.skipped > 0 {
            parts.push(format!("{} skipped", amount::count(self.skipped)));
        }
        if self.failed > 0 {
            parts.push(format!("{} failed", amount::count(self.failed)));
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_what_is_known() {
        let mut rate = Rate::default();
        let mut seen = Seen { phase: Phase::Running, total: 0, skipped: 0, processed: 0, failed: 0 };
        assert_eq!(seen.text(&rate), "0 rows");
        rate.note(Duration::ZERO, 0);
        rate.note(Duration::from_secs(10), 1_000);
        seen = Seen { total: 4_000, skipped: 500, processed: 1_000, failed: 3, ..seen };
        assert_eq!(seen.text(&rate), "1,500/4,000 rows 38%, 100 rows/s, 25 s left, 500 skipped, 3 failed");
        seen.phase = Phase::Resuming;
        assert!(seen.text(&rate).starts_with("taking the checkpoint"));
    }
}
