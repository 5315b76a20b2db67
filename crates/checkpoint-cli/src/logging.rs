//! Logs on stderr: ours as loud as asked, those of dependencies never above a warning.

use std::fmt;
use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::console::console;

/// The crates whose logs follow `-v`. Others may print requests, with their signatures in them.
const OURS: [&str; 4] = ["checkpoint_fs", "checkpoint_store", "checkpoint_pipeline", "checkpoint_cli"];

/// Starts logging, once for the process.
pub(crate) fn start(verbose: u8, quiet: bool) {
    let lines = tracing_subscriber::fmt::layer()
        .event_format(Plain { targets: verbose >= 2 })
        .with_ansi(false)
        .with_writer(ToConsole)
        .with_filter(filter(verbose, quiet));
    // Somebody else's subscriber, in a test or an embedding program, stays.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

fn filter(verbose: u8, quiet: bool) -> Targets {
    let ours = match (quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, 2) => LevelFilter::DEBUG,
        (false, _) => LevelFilter::TRACE,
    };
    Targets::new().with_default(ours.min(LevelFilter::WARN)).with_targets(OURS.map(|target| (target, ours)))
}

/// `warning: message key=value`, in the voice of errors and hints.
struct Plain {
    targets: bool,
}

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        write!(to, "{level}: ")?;
        if self.targets {
            write!(to, "{}: ", event.metadata().target())?;
        }
        ctx.format_fields(to.by_ref(), event)?;
        writeln!(to)
    }
}

struct ToConsole;

impl Write for ToConsole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        console().write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for ToConsole {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_never_say_more_than_warnings() {
        let loudest = filter(9, false);
        assert!(loudest.would_enable("checkpoint_store::lease", &Level::TRACE));
        for dependency in ["reqwest::connect", "hyper", "h2", "rustls", "opendal::layers", "aws_sigv4"] {
            assert!(loudest.would_enable(dependency, &Level::WARN), "{dependency}");
            assert!(!loudest.would_enable(dependency, &Level::INFO), "{dependency}");
        }
        let usual = filter(0, false);
        assert!(usual.would_enable("checkpoint_store::lease", &Level::WARN));
        assert!(!usual.would_enable("checkpoint_store::lease", &Level::INFO));
        assert!(!filter(0, true).would_enable("checkpoint_store::lease", &Level::WARN));
    }
}
