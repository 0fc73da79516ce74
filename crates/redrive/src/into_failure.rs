//! [`IntoFailure`]: how other people's errors become evidence that can be classified.
//!
//! An impl hands out a [`Report`]: typed signals first (a status, an errno name, an SQLSTATE), words last.
//! It borrows from the error, so that reading evidence costs nothing until somebody needs the words.

use std::error::Error;
use std::fmt;

use redrive_policy::{Report, Words};

use crate::attempt::RetryError;
use crate::chain::{chain_was_never_sent, report_chain};
use crate::fail::Fail;

/// An error that can say what is known about it.
///
/// An enum of one's own needs two lines; [`report_chain`] finds every typed signal in its sources:
///
/// ```
/// use redrive::{IntoFailure, Report, report_chain};
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("the ledger could not be read")]
/// struct LedgerError(#[from] std::io::Error);
///
/// impl IntoFailure for LedgerError {
///     fn report(&self) -> Report<'_> { report_chain(self) }
/// }
///
/// let error = LedgerError(std::io::ErrorKind::ConnectionReset.into());
/// assert_eq!(error.report().code.as_deref(), Some("ECONNRESET"));
/// ```
///
/// An error that knows more says it with the builders of [`Report`], and one that cannot be taught is wrapped
/// in [`AnyError`] or read by a closure in `classify_with`.
#[diagnostic::on_unimplemented(
    message = "redrive does not know how to read a failure out of `{Self}`",
    label = "no `IntoFailure` for this error",
    note = "for an error of your own: `impl IntoFailure for MyError {{ fn report(&self) -> Report<'_> {{ report_chain(self) }} }}`",
    note = "for somebody else's: `.classify_with(|error| redrive::report_chain(error))`, or `map_err(redrive::AnyError)`",
    note = "for reqwest, hyper, rusqlite, tokio-postgres, serde_json, toml, http and anyhow there is a feature of that name"
)]
pub trait IntoFailure {
    /// What is known.
    fn report(&self) -> Report<'_>;

    /// Whether it is certain that the other side never saw the request: no connection came about. Then even a
    /// request that must not be made twice may be made again.
    ///
    /// ```
    /// use redrive::IntoFailure;
    /// use std::io::{Error, ErrorKind};
    ///
    /// assert!(Error::from(ErrorKind::ConnectionRefused).never_sent());
    /// assert!(!Error::from(ErrorKind::ConnectionReset).never_sent());
    /// ```
    fn never_sent(&self) -> bool {
        false
    }
}

impl IntoFailure for Fail {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }
}

impl IntoFailure for std::io::Error {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(self)
    }
}

impl IntoFailure for tokio::time::error::Elapsed {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }
}

impl IntoFailure for String {
    fn report(&self) -> Report<'_> {
        Report::text(self.as_str())
    }
}

impl IntoFailure for str {
    fn report(&self) -> Report<'_> {
        Report::text(self)
    }
}

impl IntoFailure for std::borrow::Cow<'_, str> {
    fn report(&self) -> Report<'_> {
        Report::text(self.as_ref())
    }
}

impl IntoFailure for dyn Error + Send + Sync {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(self)
    }
}

impl IntoFailure for dyn Error + Send {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(self)
    }
}

impl IntoFailure for dyn Error {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(self)
    }
}

/// A pointer to an error knows what the error knows.
macro_rules! by_pointer {
    ($($pointer:ty),+) => {$(
        impl<E: IntoFailure + ?Sized> IntoFailure for $pointer {
            fn report(&self) -> Report<'_> {
                (**self).report()
            }

            fn never_sent(&self) -> bool {
                (**self).never_sent()
            }
        }
    )+};
}

by_pointer!(&E, Box<E>, std::sync::Arc<E>, std::rc::Rc<E>);

/// A retry inside a retry: what the last attempt of the inner one was found to be, without judging it again.
impl<E: fmt::Display + fmt::Debug> IntoFailure for RetryError<E> {
    fn report(&self) -> Report<'_> {
        let mut report = Report::chain(self);
        self.record().enter(&mut report);
        report
    }

    fn never_sent(&self) -> bool {
        self.record().never_sent()
    }
}

/// An attempt that cannot fail has nothing to say.
impl IntoFailure for std::convert::Infallible {
    fn report(&self) -> Report<'_> {
        match *self {}
    }
}

/// Any standard error, read by walking its sources.
///
/// ```
/// use redrive::{AnyError, IntoFailure};
///
/// let error = AnyError("12a".parse::<u32>().unwrap_err());
/// assert_eq!(error.report().words.render(), "invalid digit found in string");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnyError<E>(pub E);

impl<E: Error + 'static> IntoFailure for AnyError<E> {
    fn report(&self) -> Report<'_> {
        report_chain(&self.0)
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(&self.0)
    }
}

impl<E: fmt::Display> fmt::Display for AnyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: Error> Error for AnyError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Reads evidence out of an error: by its own [`IntoFailure`] or by a closure.
///
/// ```
/// use redrive::{Reporter, Typed};
/// assert_eq!(Typed.report(&"no route to host").words.render(), "no route to host");
/// ```
pub trait Reporter<E> {
    /// What is known about this error.
    fn report<'a>(&self, error: &'a E) -> Report<'a>;

    /// What is behind this error, as far as that is known.
    fn behind(error: &E) -> Option<&(dyn Error + 'static)>
    where
        Self: Sized,
    {
        let _ = error;
        None
    }

    /// Whether this error proves that the other side never saw the request.
    fn never_sent(error: &E) -> bool
    where
        Self: Sized,
    {
        let _ = error;
        false
    }
}

/// The reporter that asks the error itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Typed;

impl<E: IntoFailure> Reporter<E> for Typed {
    fn report<'a>(&self, error: &'a E) -> Report<'a> {
        error.report()
    }

    fn behind(error: &E) -> Option<&(dyn Error + 'static)> {
        match error.report().words {
            Words::Chain(error) => error.source(),
            Words::None | Words::Text(_) | Words::Display(_) => None,
        }
    }

    fn never_sent(error: &E) -> bool {
        error.never_sent()
    }
}

/// The reporter that asks a closure.
#[derive(Debug, Clone, Copy)]
pub struct By<R>(pub(crate) R);

impl<E, R: Fn(&E) -> Report<'_>> Reporter<E> for By<R> {
    fn report<'a>(&self, error: &'a E) -> Report<'a> {
        (self.0)(error)
    }
}
