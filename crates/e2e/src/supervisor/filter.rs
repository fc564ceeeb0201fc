//! The durable calls, and the seccomp program that stops a process at them and nowhere else.

use nix::libc;
use std::fmt;
use std::io;

/// A system call after which something is durable, or has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableCall {
    Fsync,
    Fdatasync,
    Rename,
    Renameat,
    Renameat2,
}

/// Each with its number on this architecture; aarch64 has no rename(2).
const CALLS: &[(DurableCall, libc::c_long)] = &[
    (DurableCall::Fsync, libc::SYS_fsync),
    (DurableCall::Fdatasync, libc::SYS_fdatasync),
    #[cfg(target_arch = "x86_64")]
    (DurableCall::Rename, libc::SYS_rename),
    (DurableCall::Renameat, libc::SYS_renameat),
    (DurableCall::Renameat2, libc::SYS_renameat2),
];

impl DurableCall {
    /// From what the filter reports with a stop.
    pub(super) fn from_message(message: libc::c_long) -> Option<Self> {
        usize::try_from(message).ok().and_then(|index| CALLS.get(index)).map(|(call, _)| *call)
    }
}

impl fmt::Display for DurableCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::Rename => "rename",
            Self::Renameat => "renameat",
            Self::Renameat2 => "renameat2",
        })
    }
}

/// BPF: load the call's number; where it is one of ours return TRACE with its index, else ALLOW. The programs
/// under test make calls of one architecture only, so its check is left out.
pub(super) fn program() -> Vec<libc::sock_filter> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // `nr` is the first field of struct seccomp_data (linux/seccomp.h).
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (index, (_, number)) in (0u32..).zip(CALLS) {
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        program.push(libc::sock_filter { code, jt: 0, jf: 1, k: *number as u32 });
        program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRACE | index));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    program
}

/// Called between fork and exec: allocates nothing.
pub(super) fn install(program: &[libc::sock_filter]) -> io::Result<()> {
    let fprog = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: prctl(2) with integers; then with a pointer to a filter that outlives the call, which copies it.
    let failed = unsafe {
        // Needed to install a filter without CAP_SYS_ADMIN.
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const fprog) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}
