//! Reads of /proc, /sys, /dev, /etc and /run below a root, so that tests collect from a made-up
//! tree. Everything is bounded, and no read opens anything but a regular file.

use crate::bounds::{DIRECTORY_ENTRIES_MAX, SYSTEM_FILE_BYTES_MAX, clean};
use crate::problems::Problems;
use rustix::fs::{FileType, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The root that paths of the host are read below: `/` for the real host.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// `path` of the host (`/sys/block`) below the root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The bytes of a regular file, at most `bytes_max`.
    pub fn bytes(&self, path: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        // NONBLOCK: a fifo in a place where a file belongs must not hold the collector up.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(self.path(path), flags, Mode::empty())?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
        if kind != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        File::from(fd).take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > bytes_max {
            return Err(io::Error::other(format!("longer than {bytes_max} bytes")));
        }
        Ok(bytes)
    }

    /// The whole text of a file; bytes that are not UTF-8 are replaced.
    pub fn text(&self, path: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(path, SYSTEM_FILE_BYTES_MAX)?).into_owned())
    }

    /// One clean line, `None` when the file is not there. Unreadable is a problem.
    pub fn line(&self, path: &str, problems: &mut Problems) -> Option<String> {
        match self.text(path) {
            Ok(text) => Some(clean(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                problems.note(path, reason(&error));
                None
            }
        }
    }

    /// A clean line that should be there: a missing file is a problem too.
    pub fn line_expected(&self, path: &str, problems: &mut Problems) -> Option<String> {
        match self.text(path) {
            Ok(text) => Some(clean(&text)),
            Err(error) => {
                problems.note(path, reason(&error));
                None
            }
        }
    }

    /// A decimal number that should be there.
    pub fn number_expected(&self, path: &str, problems: &mut Problems) -> Option<u64> {
        let line = self.line_expected(path, problems)?;
        let number = line.parse().ok();
        if number.is_none() {
            problems.note(path, format!("{line:?} is not a number"));
        }
        number
    }

    /// A decimal number, `None` for a missing file, a negative number or nonsense. For values that
    /// the kernel may leave unset (`numa_node` reads -1).
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path).ok()?.trim().parse().ok()
    }

    /// Sorted names of a directory, at most `entries_max`; a directory that cannot be read is a problem.
    pub fn names(&self, path: &str, problems: &mut Problems) -> Vec<String> {
        match self.try_names(path) {
            Ok(names) => names,
            Err(error) => {
                problems.note(path, reason(&error));
                Vec::new()
            }
        }
    }

    /// Sorted names of a directory, bounded by `DIRECTORY_ENTRIES_MAX`. Names that are not UTF-8 are left out.
    pub fn try_names(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(path))?.take(DIRECTORY_ENTRIES_MAX) {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    pub fn exists(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    pub fn is_directory(&self, path: &str) -> bool {
        self.path(path).is_dir()
    }

    /// The last component of a symbolic link's target: the driver, the group, the device.
    pub fn link_name(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.path(path)).ok()?;
        Some(clean(&target.file_name()?.to_string_lossy()))
    }

    /// The directory a path leads to with every link followed, as text; empty when it leads nowhere.
    pub fn resolved(&self, path: &str) -> String {
        let root = std::fs::canonicalize(&self.root).unwrap_or_else(|_| self.root.clone());
        match std::fs::canonicalize(self.path(path)) {
            Ok(resolved) => resolved.strip_prefix(&root).unwrap_or(&resolved).to_string_lossy().into_owned(),
            Err(_) => String::new(),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// An error as a problem says it.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "not there".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// A list in the kernel's form (`0-3,8`) as numbers; `None` for anything else or more than 8192 of them.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    const NUMBERS_MAX: usize = 8192;
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (low, high) = match part.split_once('-') {
            Some((low, high)) => (low.parse().ok()?, high.parse().ok()?),
            None => {
                let number: u32 = part.parse().ok()?;
                (number, number)
            }
        };
        if low > high || (high - low) as usize + numbers.len() >= NUMBERS_MAX {
            return None;
        }
        numbers.extend(low..=high);
    }
    Some(numbers)
}

/// A PCI address in the only form the inventory writes, `0000:01:00.0`. Takes nvidia-smi's long
/// domain (`00000000:01:00.0`) and upper case.
pub fn pci_address(text: &str) -> Option<String> {
    let lower = text.trim().to_ascii_lowercase();
    let (domain, rest) = lower.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let digits = |part: &str, least: usize, most: usize| {
        (least..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if !(digits(domain, 4, 8) && digits(bus, 2, 2) && digits(device, 2, 2) && digits(function, 1, 1)) {
        return None;
    }
    let number = u32::from_str_radix(domain, 16).ok()?;
    Some(format!("{number:04x}:{bus}:{device}.{function}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernels_lists_are_read() {
        assert_eq!(parse_list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("3-1"), None);
        assert_eq!(parse_list("0-4294967295"), None);
        assert_eq!(parse_list("a"), None);
    }

    #[test]
    fn pci_addresses_have_one_spelling() {
        assert_eq!(pci_address("00000000:3B:00.0").as_deref(), Some("0000:3b:00.0"));
        assert_eq!(pci_address("0000:01:00.0").as_deref(), Some("0000:01:00.0"));
        assert_eq!(pci_address("00010000:01:00.0").as_deref(), Some("10000:01:00.0"));
        for bad in ["", "N/A", "01:00.0", "0000:01:00", "000000000:01:00.0", "0000:01:00.00", "0000:g1:00.0"] {
            assert_eq!(pci_address(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_fifo_where_a_file_belongs_is_refused_at_once() {
        let directory = tempfile::tempdir().expect("tempdir");
        let path = directory.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("mkfifo");
        let tree = Tree::new(directory.path());
        assert_eq!(tree.text("/fifo").expect_err("refused").to_string(), "not a regular file");
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_small_parsers(text in "\\PC{0,40}") {
            if let Some(address) = pci_address(&text) {
                prop_assert_eq!(pci_address(&address), Some(address.clone()));
            }
            if let Some(list) = parse_list(&text) {
                prop_assert!(list.len() <= 8192);
            }
        }
    }
}
