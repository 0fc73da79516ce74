//! The exit codes that scripts rely on.

/// How a command line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Failed.
    Failed,
    /// The command line itself is wrong.
    Usage,
    /// Nothing matched.
    Nothing,
    /// Some of it failed.
    Partly,
    /// The disk failed under a write: nothing more was written.
    Disk,
    /// Ctrl-C.
    Interrupted,
    /// `run`: with the code of the command that it ran, or one that says why there is none.
    Command(u8),
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Nothing => 3,
            Exit::Partly => 4,
            Exit::Disk => 74,
            Exit::Interrupted => 130,
            Exit::Command(code) => code,
        }
    }
}
