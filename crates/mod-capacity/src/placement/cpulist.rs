//! Lists of numbers as the kernel writes them: `0-3,8`.

use std::collections::BTreeSet;

/// Numbers of one list; more are not read.
const NUMBERS_MAX: u32 = 8192;

/// Every number of these lists. What is not in the kernel's form adds nothing.
pub(super) fn union<'a>(lists: impl Iterator<Item = &'a str>) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    for range in lists.flat_map(|list| list.split(',')) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) else { continue };
        if last < NUMBERS_MAX {
            numbers.extend(first..=last);
        }
    }
    numbers
}

/// The shortest list of these numbers.
pub(super) fn format(numbers: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}
