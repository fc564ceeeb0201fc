//! The kernel's ring buffer from /dev/kmsg: one record a read, none of them waited for (Linux,
//! Documentation/ABI/testing/dev-kmsg).

use crate::bounds::LOG_ITEM_BYTES_MAX;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// A record is at most this long (PRINTK_MESSAGE_MAX with its prefix); a shorter buffer fails with EINVAL.
const RECORD_BYTES_MAX: usize = 8 << 10;
/// Reads of one collection; new messages keep coming while it goes on.
const RECORDS_MAX: usize = 200_000;

/// Every record as the kernel writes it, `level,sequence,microseconds,flags;text`. The second value
/// tells whether the beginning was dropped.
pub fn read(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) != FileType::CharacterDevice {
        return Err(io::Error::other("not a character device"));
    }
    let mut bytes = Vec::new();
    let mut cut = false;
    let mut record = vec![0; RECORD_BYTES_MAX];
    for _ in 0..RECORDS_MAX {
        match rustix::io::read(&fd, &mut record) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(count) => bytes.extend_from_slice(&record[..count]),
            // EPIPE: the record was overwritten meanwhile; the next read goes on behind the gap.
            Err(Errno::PIPE | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if bytes.len() > 2 * LOG_ITEM_BYTES_MAX {
            bytes.drain(..bytes.len() - LOG_ITEM_BYTES_MAX);
            cut = true;
        }
    }
    if bytes.len() > LOG_ITEM_BYTES_MAX {
        bytes.drain(..bytes.len() - LOG_ITEM_BYTES_MAX);
        cut = true;
    }
    Ok((bytes, cut))
}
