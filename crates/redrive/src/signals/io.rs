//! `std::io::Error`: its kind as the errno name that every system's logs and documentation use.

use std::error::Error;
use std::io::{self, ErrorKind};

use redrive_policy::Report;

use super::note_code;

pub(super) fn note<'a>(link: &'a (dyn Error + 'static), report: &mut Report<'a>) {
    if let Some(error) = link.downcast_ref::<io::Error>() {
        if let Some(name) = errno_name(error) {
            note_code(report, name);
        }
    } else if link.is::<tokio::time::error::Elapsed>() {
        note_code(report, "ETIMEDOUT");
    }
}

pub(super) fn never_sent(link: &(dyn Error + 'static)) -> bool {
    // Other kinds (unreachable, timed out) also befall a connection that has carried the request already.
    link.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// The errno name of an error; none for kinds that only words explain.
fn errno_name(error: &io::Error) -> Option<&'static str> {
    kind_name(error.kind()).or_else(|| error.raw_os_error().and_then(os_name))
}

pub(super) fn kind_name(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::NotFound => "ENOENT",
        ErrorKind::PermissionDenied => "EACCES",
        ErrorKind::ConnectionRefused => "ECONNREFUSED",
        ErrorKind::ConnectionReset => "ECONNRESET",
        ErrorKind::HostUnreachable => "EHOSTUNREACH",
        ErrorKind::NetworkUnreachable => "ENETUNREACH",
        ErrorKind::ConnectionAborted => "ECONNABORTED",
        ErrorKind::NotConnected => "ENOTCONN",
        ErrorKind::AddrInUse => "EADDRINUSE",
        ErrorKind::AddrNotAvailable => "EADDRNOTAVAIL",
        ErrorKind::NetworkDown => "ENETDOWN",
        ErrorKind::BrokenPipe => "EPIPE",
        ErrorKind::AlreadyExists => "EEXIST",
        ErrorKind::WouldBlock => "EAGAIN",
        ErrorKind::NotADirectory => "ENOTDIR",
        ErrorKind::IsADirectory => "EISDIR",
        ErrorKind::DirectoryNotEmpty => "ENOTEMPTY",
        ErrorKind::ReadOnlyFilesystem => "EROFS",
        ErrorKind::StaleNetworkFileHandle => "ESTALE",
        ErrorKind::InvalidInput => "EINVAL",
        ErrorKind::TimedOut => "ETIMEDOUT",
        ErrorKind::StorageFull => "ENOSPC",
        ErrorKind::NotSeekable => "ESPIPE",
        ErrorKind::QuotaExceeded => "EDQUOT",
        ErrorKind::FileTooLarge => "EFBIG",
        ErrorKind::ResourceBusy => "EBUSY",
        ErrorKind::ExecutableFileBusy => "ETXTBSY",
        ErrorKind::Deadlock => "EDEADLK",
        ErrorKind::CrossesDevices => "EXDEV",
        ErrorKind::TooManyLinks => "EMLINK",
        ErrorKind::InvalidFilename => "ENAMETOOLONG",
        ErrorKind::ArgumentListTooLong => "E2BIG",
        ErrorKind::Interrupted => "EINTR",
        ErrorKind::Unsupported => "ENOTSUP",
        ErrorKind::OutOfMemory => "ENOMEM",
        // InvalidData, UnexpectedEof, WriteZero, Other: the same kind for a broken file and a broken line.
        _ => return None,
    })
}

/// Errors of the system that have a number and a name but no kind.
#[cfg(target_os = "linux")]
fn os_name(number: i32) -> Option<&'static str> {
    Some(match number {
        5 => "EIO",
        23 => "ENFILE",
        24 => "EMFILE",
        71 => "EPROTO",
        105 => "ENOBUFS",
        112 => "EHOSTDOWN",
        _ => return None,
    })
}

#[cfg(not(target_os = "linux"))]
fn os_name(_: i32) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_numbers_have_names() {
        for (error, name) in [
            (io::Error::from(ErrorKind::ConnectionRefused), Some("ECONNREFUSED")),
            (io::Error::from(ErrorKind::TimedOut), Some("ETIMEDOUT")),
            (io::Error::from(ErrorKind::UnexpectedEof), None),
            #[cfg(target_os = "linux")]
            (io::Error::from_raw_os_error(24), Some("EMFILE")),
            #[cfg(target_os = "linux")]
            (io::Error::from_raw_os_error(28), Some("ENOSPC")),
        ] {
            assert_eq!(errno_name(&error), name, "{error}");
        }
    }
}
