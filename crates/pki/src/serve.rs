//! Which key files a server of given roles loads: all that they need and no other, so that a stolen
//! gateway holds no key that signs commands (`completion.md`, "PKI, joining, attestation").

use crate::envelope::FileKind;

/// A role of `better-compute serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServeRole {
    Api,
    Gateway,
    Controllers,
    Console,
}

impl ServeRole {
    /// The key files this role loads. JoinService runs in the controllers.
    pub const fn files(self) -> &'static [FileKind] {
        match self {
            ServeRole::Api => &[FileKind::Api],
            ServeRole::Gateway => &[FileKind::Gateway],
            ServeRole::Controllers => &[FileKind::Controllers, FileKind::Join],
            ServeRole::Console => &[],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFilesError {
    #[error("the `{0}` key file is never loaded by a server; keep it offline")]
    Never(FileKind),
    #[error("none of these roles needs the `{0}` key file; take it away from this server")]
    NotNeeded(FileKind),
    #[error("these roles need the `{0}` key file")]
    Missing(FileKind),
    #[error("the `{0}` key file is given twice")]
    Twice(FileKind),
}

/// Whether a server of `roles` may start with `files`: exactly those its roles need.
pub fn check_key_files(roles: &[ServeRole], files: &[FileKind]) -> Result<(), KeyFilesError> {
    let needed = |file: FileKind| roles.iter().any(|role| role.files().contains(&file));
    for (at, file) in files.iter().enumerate() {
        if matches!(file, FileKind::Bundle | FileKind::Offline) {
            return Err(KeyFilesError::Never(*file));
        }
        if !needed(*file) {
            return Err(KeyFilesError::NotNeeded(*file));
        }
        if files[..at].contains(file) {
            return Err(KeyFilesError::Twice(*file));
        }
    }
    let missing = FileKind::ALL.iter().find(|file| needed(**file) && !files.contains(file));
    missing.map_or(Ok(()), |file| Err(KeyFilesError::Missing(*file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use FileKind::{Api, Bundle, Controllers, Gateway, Join, Offline};

    #[track_caller]
    fn check(roles: &[ServeRole], files: &[FileKind], expected: Result<(), KeyFilesError>) {
        assert_eq!(check_key_files(roles, files), expected);
    }

    #[test]
    fn a_server_loads_exactly_its_roles_keys() {
        check(&[ServeRole::Gateway], &[Gateway], Ok(()));
        check(&[ServeRole::Controllers], &[Join, Controllers], Ok(()));
        check(&[ServeRole::Api, ServeRole::Gateway], &[Api, Gateway], Ok(()));
        check(&[ServeRole::Console], &[], Ok(()));
        check(&[ServeRole::Gateway], &[Gateway, Join], Err(KeyFilesError::NotNeeded(Join)));
        check(&[ServeRole::Gateway], &[Gateway, Api], Err(KeyFilesError::NotNeeded(Api)));
        check(&[ServeRole::Api], &[Api, Controllers], Err(KeyFilesError::NotNeeded(Controllers)));
        check(&[ServeRole::Controllers], &[Controllers], Err(KeyFilesError::Missing(Join)));
        check(&[ServeRole::Gateway], &[Gateway, Gateway], Err(KeyFilesError::Twice(Gateway)));
    }

    #[test]
    fn no_server_loads_the_offline_keys_or_the_whole_bundle() {
        let all = [ServeRole::Api, ServeRole::Gateway, ServeRole::Controllers, ServeRole::Console];
        check(&all, &[Api, Gateway, Controllers, Join], Ok(()));
        for never in [Bundle, Offline] {
            check(&all, &[Api, Gateway, Controllers, Join, never], Err(KeyFilesError::Never(never)));
        }
    }
}
