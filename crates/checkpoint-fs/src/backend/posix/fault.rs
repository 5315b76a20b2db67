//! What can go wrong in a directory tree, and what the caller is told about it.

use std::io;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Retry};

/// A failure inside the backend, before it is given an operation and a path.
#[derive(Debug)]
pub(super) enum Fault {
    /// The kernel refused.
    Os(Errno),
    /// A symbolic link on the way leads out of the root.
    Leaves,
    /// A symbolic link leads nowhere.
    Dangling,
    /// The temporary file of a write was removed by somebody else.
    Vanished,
    /// A directory is where the object should go.
    IsDirectory,
    /// A file is where a directory is needed.
    ParentIsFile,
    /// Something is there, and it is no regular file.
    NotAnObject(&'static str),
    /// The file ended before the size it had when it was opened.
    Shrunk { expected: u64, got: u64 },
    /// Neither way of creating without replacing works here.
    NoCreateOnly,
    /// The name has the form of this backend's own temporary files.
    Reserved,
    /// A name that cannot be a path of this crate, shown lossily.
    Unreachable(String),
    /// The root was named where an object is needed.
    RootIsNoObject,
    /// More bytes than memory can hold.
    TooLarge(u64),
    /// An error that is complete already: the guard's.
    Ready(Error),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Fault::Os(errno)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Os(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Ready(error)
    }
}

impl Fault {
    /// Whether nothing is there: the path, or a directory on the way to it.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Fault::Os(Errno::NOENT | Errno::NOTDIR))
    }

    /// The public error, named.
    pub(super) fn into_error(self, operation: &'static str, url: String) -> Error {
        let error = match self {
            Fault::Ready(error) => return error,
            Fault::Os(errno) => from_errno(errno),
            Fault::Leaves => {
                Error::new(ErrorKind::PermissionDenied, "a symbolic link on this path leaves the root of the storage")
                    .with_hint(r#"storage option {"file": {"follow_symlinks": true}} allows it"#)
            }
            Fault::Dangling => Error::new(ErrorKind::Corrupt, "a symbolic link leads nowhere")
                .with_hint("repair the link or remove it; links are never skipped, since an input could be lost that way"),
            Fault::Vanished => Error::new(ErrorKind::Io, "the temporary file of this write was removed")
                .with_retry(Retry::Maybe)
                .with_hint("something cleans up files that begin with .ckpt-tmp- while they are written"),
            Fault::IsDirectory => Error::new(ErrorKind::AlreadyExists, "a directory is where the object should go"),
            Fault::ParentIsFile => Error::new(ErrorKind::AlreadyExists, "a file is where a directory is needed"),
            Fault::NotAnObject(what) => Error::new(ErrorKind::NotFound, format!("not an object but {what}")),
            Fault::Shrunk { expected, got } => Error::new(
                ErrorKind::Corrupt,
                format!("the file shrank while it was read: expected={expected} got={got}"),
            )
            .with_hint("something else writes this file in place; wait until it is done"),
            Fault::NoCreateOnly => {
                Error::unsupported("writing without replacing does not work here: the directory was not writable when it was opened, or its file system has neither the no-replace rename nor hard links")
                    .with_hint("choose a writable directory, or another file system or object store")
            }
            Fault::Reserved => Error::invalid_config("the name has the form of a temporary file of this storage")
                .with_hint("names that begin with .ckpt-tmp- are hidden from listings; choose another"),
            Fault::Unreachable(name) => Error::invalid_config(format!(
                "a file name is not UTF-8, or holds a line break, and cannot be a path here: name={name:?}"
            ))
            .with_hint("rename the file; it is not skipped, since an input could be lost that way"),
            Fault::RootIsNoObject => Error::invalid_config("the root of a storage is not an object"),
            Fault::TooLarge(size) => {
                Error::new(ErrorKind::Io, format!("no memory for so many bytes: size={size}"))
                    .with_hint("read it in ranges")
            }
        };
        error.with_operation(operation).with_url(url)
    }
}

/// Kind, retry, message and hint of an error number.
fn from_errno(errno: Errno) -> Error {
    use ErrorKind::{Conflict, InvalidConfig, Io, NotFound, PermissionDenied, Timeout, Unsupported};
    let (kind, retry, code, message, hint) = match errno {
        Errno::NOENT => (NotFound, Retry::Never, "ENOENT", "no such object", ""),
        Errno::NOTDIR => (NotFound, Retry::Never, "ENOTDIR", "no such object: a file is on the way to it", ""),
        Errno::ACCESS => (PermissionDenied, Retry::Never, "EACCES", "permission denied", OWNER),
        Errno::PERM => (PermissionDenied, Retry::Never, "EPERM", "operation not permitted", OWNER),
        Errno::ROFS => (PermissionDenied, Retry::Never, "EROFS", "the file system is read-only", REMOUNT),
        Errno::NOSPC => (Io, Retry::Maybe, "ENOSPC", "no space left on the device", "free space, then run again"),
        Errno::DQUOT => (Io, Retry::Maybe, "EDQUOT", "the disk quota is used up", "free space or raise the quota"),
        Errno::FBIG => (Io, Retry::Never, "EFBIG", "the file would be too large", "raise `ulimit -f`"),
        Errno::MFILE => (Io, Retry::Maybe, "EMFILE", "too many open files in this process", "raise `ulimit -n`"),
        Errno::NFILE => (Io, Retry::Maybe, "ENFILE", "too many open files on this machine", ""),
        Errno::NAMETOOLONG => (InvalidConfig, Retry::Never, "ENAMETOOLONG", "the name or path is too long", SHORTER),
        Errno::LOOP => (InvalidConfig, Retry::Never, "ELOOP", "symbolic links form a loop", "repair the links"),
        Errno::IO => (Io, Retry::Maybe, "EIO", "the device failed", "look at the kernel log (dmesg)"),
        Errno::STALE => (Io, Retry::Maybe, "ESTALE", "the file handle is stale", "somebody replaced the mount"),
        Errno::TIMEDOUT => (Timeout, Retry::Maybe, "ETIMEDOUT", "the file server did not answer", ""),
        Errno::BUSY => (Conflict, Retry::Maybe, "EBUSY", "the file or directory is busy", ""),
        Errno::NOSYS => (Unsupported, Retry::Never, "ENOSYS", "the system lacks this call", ""),
        Errno::OPNOTSUPP => (Unsupported, Retry::Never, "EOPNOTSUPP", "the file system lacks this call", ""),
        other => {
            return Error::new(Io, "the system refused").with_retry(Retry::Maybe).with_source(io::Error::from(other));
        }
    };
    let error = Error::new(kind, message).with_retry(retry).with_service_code(code).with_source(io::Error::from(errno));
    if hint.is_empty() { error } else { error.with_hint(hint) }
}

const OWNER: &str = "check the owner and mode of the directory, and whom this process runs as";
const REMOUNT: &str = "choose a writable directory, or remount the file system";
const SHORTER: &str = "a name holds 255 bytes at most, and a whole path 4,095";
