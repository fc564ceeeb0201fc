//! Pages: at most `limit` items, and a cursor when more are there.

use crate::refusal::Refusal;
use api_types::{PAGE_DEFAULT, PAGE_MAX};

/// The checked `limit` of a request.
pub(crate) fn limit(given: Option<u32>) -> Result<u32, Refusal> {
    let limit = given.unwrap_or(PAGE_DEFAULT);
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(Refusal::invalid(format!("limit is {limit}; 1 to {PAGE_MAX} are possible")))
}

/// A cursor that is a number.
pub(crate) fn number(cursor: Option<&str>) -> Result<Option<u64>, Refusal> {
    let parse = |text: &str| {
        text.parse().map_err(|_| Refusal::invalid(format!("the cursor {text:?} was not given out by this verb")))
    };
    cursor.map(parse).transpose()
}

/// Cuts rows that were read with one more than `limit`, and says where to go on.
pub(crate) fn cut<T>(mut rows: Vec<T>, limit: u32, cursor_of: impl Fn(&T) -> String) -> (Vec<T>, Option<String>) {
    if rows.len() <= limit as usize {
        return (rows, None);
    }
    rows.truncate(limit as usize);
    let cursor = rows.last().map(cursor_of);
    (rows, cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_with_a_cursor_only_when_more_is_there() {
        assert_eq!(cut(vec![1, 2, 3], 2, i32::to_string), (vec![1, 2], Some("2".to_owned())));
        assert_eq!(cut(vec![1, 2], 2, i32::to_string), (vec![1, 2], None));
        assert!(limit(Some(0)).is_err() && limit(Some(501)).is_err());
        assert!(matches!(limit(None), Ok(100)));
        assert!(number(Some("x")).is_err());
    }
}
