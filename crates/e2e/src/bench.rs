//! Measurements. Figures are printed and never asserted: they belong to the machine and the minute.
//!
//! What is compared is measured in the same run on the same disk in interleaved rounds, so that a slow minute
//! slows both; a ratio is the median of the rounds' ratios.

pub mod delivery;
pub mod journal;
pub mod samples;
