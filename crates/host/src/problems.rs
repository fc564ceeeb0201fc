//! What could not be read. Collecting never fails: it goes on and says here what is missing.

use crate::bounds::{PROBLEMS_MAX, clean};
use proto::v1::Problem;

/// A bounded list of problems.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    list: Vec<Problem>,
    left_out: usize,
}

impl Problems {
    /// Notes that `subject` (a path, or a command and what it printed) is unusable because of `reason`.
    pub fn note(&mut self, subject: impl AsRef<str>, reason: impl AsRef<str>) {
        if self.list.len() + 1 >= PROBLEMS_MAX {
            self.left_out += 1;
            return;
        }
        self.list.push(Problem { subject: clean(subject.as_ref()), reason: clean(reason.as_ref()) });
    }

    /// Notes that a list was cut.
    pub fn note_cut(&mut self, subject: impl AsRef<str>, there: usize, kept: usize) {
        self.note(subject, format!("{there} entries, the first {kept} are listed"));
    }

    pub fn extend(&mut self, others: impl IntoIterator<Item = Problem>) {
        for problem in others {
            self.note(problem.subject, problem.reason);
        }
    }

    /// Sorted and without repetitions, so that equal trouble gives equal bytes.
    pub fn into_sorted(mut self) -> Vec<Problem> {
        self.list.sort_by(|a, b| (&a.subject, &a.reason).cmp(&(&b.subject, &b.reason)));
        self.list.dedup();
        if self.left_out > 0 {
            self.list.push(Problem {
                subject: "problems".to_owned(),
                reason: format!("{} more are not listed", self.left_out),
            });
        }
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_sorted_deduplicated_and_bounded() {
        let mut problems = Problems::default();
        problems.note("b", "x");
        problems.note("a", "y");
        problems.note("b", "x");
        let subjects: Vec<String> = problems.clone().into_sorted().into_iter().map(|p| p.subject).collect();
        assert_eq!(subjects, ["a", "b"]);
        for number in 0..1000 {
            problems.note(format!("c{number}"), "z");
        }
        let all = problems.into_sorted();
        assert!(all.len() <= PROBLEMS_MAX);
        assert_eq!(all.last().map(|p| p.reason.as_str()), Some("748 more are not listed"));
    }
}
