//! SIGHUP of the children of a test.

use std::sync::Once;

use tokio::signal::unix::{SignalKind, signal};

/// Handles SIGHUP in this process, so that children begin with its default. Of a parent that was told to ignore it
/// (`nohup`) they would inherit that.
pub fn handle_hangups() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let _context = runtime.enter();
        // The handler stays when the stream of signals is dropped.
        drop(signal(SignalKind::hangup()).expect("handled"));
    });
}
