//! How far a replay is, on one line of a terminal that is written over; nothing at all elsewhere.

use crate::time::Stopwatch;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Between two times that the line is written.
const INTERVAL: Duration = Duration::from_millis(200);

/// Cells of the bar.
const BAR_CELLS: u64 = 24;

/// The line.
pub struct Progress {
    shown: bool,
    /// Bytes of all logs on disk; absent where one has no size.
    total_bytes: Option<u64>,
    started: Stopwatch,
    /// When it was written last.
    last: Option<Duration>,
}

impl Progress {
    pub fn new(total_bytes: Option<u64>) -> Self {
        Self { shown: io::stderr().is_terminal(), total_bytes, started: Stopwatch::start(), last: None }
    }

    /// Shows how far it is, if it is time.
    pub fn update(&mut self, lines: u64, bytes: u64) {
        if !self.shown {
            return;
        }
        let elapsed = self.started.elapsed();
        if self.last.is_none_or(|last| elapsed - last >= INTERVAL) {
            self.last = Some(elapsed);
            // A terminal that is gone is no reason to stop.
            let _ = write!(io::stderr(), "\r\x1b[K{}", text(lines, bytes, self.total_bytes, elapsed));
        }
    }

    /// Takes the line away.
    pub fn end(&self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

fn text(lines: u64, bytes: u64, total_bytes: Option<u64>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = format!("{lines} lines, {:.0} a second", lines as f64 / seconds);
    let Some(total) = total_bytes.filter(|total| *total > 0) else { return rate };
    let share = (bytes as f64 / total as f64).clamp(0.0, 1.0);
    let full = ((share * BAR_CELLS as f64) as u64).min(BAR_CELLS);
    let bar: String = (0..BAR_CELLS).map(|cell| if cell < full { '#' } else { '.' }).collect();
    let left = if share > 0.0 { seconds / share - seconds } else { 0.0 };
    format!("[{bar}] {:3.0} %, {rate}, {} left", share * 100.0, span(left))
}

fn span(seconds: f64) -> String {
    let seconds = seconds.clamp(0.0, 1e9).ceil() as u64;
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_share_the_rate_and_the_time_left() {
        let text = text(1000, 250, Some(1000), Duration::from_secs(50));
        assert_eq!(text, "[######..................]  25 %, 1000 lines, 20 a second, 2 min 30 s left");
    }

    #[test]
    fn a_log_without_a_size_has_a_rate_alone() {
        assert_eq!(super::text(10, 5, None, Duration::from_secs(5)), "10 lines, 2 a second");
        assert!(super::text(0, 0, Some(9), Duration::ZERO).ends_with("0 s left"));
    }
}
