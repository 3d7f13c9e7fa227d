//! `server.runtime_dir`: the pid file, and the socket on which the next process asks for everything.
//!
//! Both are written aside and renamed, so that neither is ever half there, and a process that takes over replaces those of the
//! one before. What a process that was killed left behind is replaced likewise: nobody answers on its socket. A directory
//! that cannot be used costs the upgrade, not the service.

use crate::config::DEFAULT_RUNTIME_DIR;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

const PID_FILE: &str = "sluicegate.pid";
const SOCKET: &str = "upgrade.sock";

/// Everybody may see who serves; nobody else may take over.
const PID_FILE_MODE: u32 = 0o644;
const SOCKET_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o755;

/// Where the process that runs is asked.
pub(super) fn socket_in(directory: &Path) -> PathBuf {
    directory.join(SOCKET)
}

/// The files of this process. They are removed when it is dropped.
pub(super) struct Claim {
    directory: PathBuf,
    passed_on: bool,
}

/// Writes the files of this process; absent, with a word in the log, when that is not possible. `takes_over`: a process that
/// still answers there is the one before.
pub(super) fn claim(directory: &Path, takes_over: bool) -> Option<(Claim, UnixListener)> {
    if !takes_over && UnixStream::connect(socket_in(directory)).is_ok() {
        tracing::warn!(
            runtime_dir = %directory.display(),
            "another gateway has this runtime_dir: serving without a pid file, and without upgrades"
        );
        return None;
    }
    match write(directory) {
        Ok(listener) => Some((Claim { directory: directory.to_owned(), passed_on: false }, listener)),
        // An ordinary user cannot write there and did not ask for it either.
        Err(error) if directory == Path::new(DEFAULT_RUNTIME_DIR) => {
            tracing::info!(runtime_dir = %directory.display(), %error, "no pid file, and no upgrades");
            None
        }
        Err(error) => {
            tracing::warn!(
                runtime_dir = %directory.display(), %error,
                "cannot use runtime_dir: serving without a pid file, and without upgrades"
            );
            None
        }
    }
}

fn write(directory: &Path) -> io::Result<UnixListener> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
    let process = std::process::id();
    let aside = directory.join(format!("{PID_FILE}.{process}"));
    let _nothing_is_there = fs::remove_file(&aside);
    // A link that somebody put there is not followed.
    File::create_new(&aside)?.write_all(format!("{process}\n").as_bytes())?;
    fs::set_permissions(&aside, Permissions::from_mode(PID_FILE_MODE))?;
    fs::rename(&aside, directory.join(PID_FILE))?;
    let aside = directory.join(format!("{SOCKET}.{process}"));
    let _nothing_is_there = fs::remove_file(&aside);
    let listener = UnixListener::bind(&aside)?;
    fs::set_permissions(&aside, Permissions::from_mode(SOCKET_MODE))?;
    fs::rename(&aside, socket_in(directory))?;
    Ok(listener)
}

impl Claim {
    /// The files belong to the process that takes over.
    pub fn pass_on(mut self) {
        self.passed_on = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let pid_file = self.directory.join(PID_FILE);
        let is_ours = || fs::read_to_string(&pid_file).is_ok_and(|text| text.trim() == std::process::id().to_string());
        if !self.passed_on && is_ours() {
            for file in [&pid_file, &socket_in(&self.directory)] {
                if let Err(error) = fs::remove_file(file) {
                    tracing::warn!(file = %file.display(), %error, "cannot remove a file of this process");
                }
            }
        }
    }
}
