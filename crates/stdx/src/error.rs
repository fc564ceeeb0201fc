//! Errors as people read them: an error's `Display` says its own step and never its cause;
//! [`chain`] prints the step and every cause once, in order.

use std::error::Error;

/// `outer: inner: innermost`, each `Display` once. For log fields and for a command's message.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot open {path}")]
    struct Open {
        path: &'static str,
        #[source]
        source: std::io::Error,
    }

    #[test]
    fn a_chain_prints_every_cause_once() {
        let error = Open { path: "/x", source: std::io::Error::other("disk on fire") };
        assert_eq!(super::chain(&error), "cannot open /x: disk on fire");
    }
}
