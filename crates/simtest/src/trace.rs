//! What happened, line by line: a digest of all of it, and the newest lines to look at. Lines hold ids,
//! states and sizes, never a signature or a key, which differ from run to run.

use std::collections::VecDeque;
use std::fmt::Write;

/// Lines kept for a failure's report.
pub const LINES_KEPT: usize = 200;
/// Lines kept of a replay.
const LINES_OF_A_REPLAY: usize = 200_000;

#[derive(Debug)]
pub struct Trace {
    digest: u64,
    count: u64,
    kept: VecDeque<String>,
    kept_max: usize,
    line: String,
}

impl Trace {
    pub fn new() -> Self {
        // The offset basis of FNV-1a.
        Self {
            digest: 0xcbf2_9ce4_8422_2325,
            count: 0,
            kept: VecDeque::new(),
            kept_max: LINES_KEPT,
            line: String::new(),
        }
    }

    /// Keeps as good as everything.
    pub fn keep_all(&mut self) {
        self.kept_max = LINES_OF_A_REPLAY;
    }

    /// Adds a line: when, and what.
    pub fn add(&mut self, at_ms: u64, what: std::fmt::Arguments<'_>) {
        self.line.clear();
        let written = write!(self.line, "{at_ms:>9} {what}");
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        for byte in self.line.bytes().chain([b'\n']) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.count += 1;
        let mut slot =
            if self.kept.len() == self.kept_max { self.kept.pop_front().unwrap_or_default() } else { String::new() };
        slot.clear();
        slot.push_str(&self.line);
        self.kept.push_back(slot);
    }

    pub fn digest(&self) -> String {
        format!("{:016x}-{}", self.digest, self.count)
    }

    pub fn last_lines(&self) -> Vec<String> {
        self.kept.iter().cloned().collect()
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}
