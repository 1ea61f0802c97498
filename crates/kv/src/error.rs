//! `Error`: why a call failed.

use std::fmt;

use collie_base::Remedy;
use collie_engine::{EngineError, ErrorKind};

/// Why a call failed. [`Error::kind`] is for programs, the text for people: one line with the facts and what to do.
/// [`std::error::Error::source`] has the error of the system or of the log behind it, if there is one.
///
/// Unless the call says otherwise, nothing was changed.
#[derive(Clone, Debug)]
pub struct Error(Box<EngineError>);

impl Error {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind()
    }

    /// Returns what the caller can do.
    pub fn remedy(&self) -> Remedy {
        self.0.remedy()
    }

    /// Returns whether the transaction only has to run again from its beginning: another one was first.
    pub fn is_retryable(&self) -> bool {
        self.remedy() == Remedy::Retry
    }

    /// Returns the error of the engine below, whose type may change with any version.
    pub fn engine(&self) -> &EngineError {
        &self.0
    }

    pub(crate) fn invalid(what: &'static str) -> Self {
        EngineError::InvalidArgument { what }.into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        Self(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;
    use std::sync::Arc;

    use super::*;

    /// Goal: an error has a kind, a remedy, one line of text, and the system's error behind it. Method: a failed call
    /// of the system, and a conflict.
    #[test]
    fn errors_have_a_kind_a_line_and_a_source() {
        let denied = Arc::new(io::Error::from(io::ErrorKind::PermissionDenied));
        let error = Error::from(EngineError::Io { op: "open", path: "/db/control".into(), source: denied });
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.to_string(), "cannot open /db/control: permission denied");
        assert_eq!(error.source().unwrap().to_string(), "permission denied");
        assert!(!error.is_retryable());
        let conflict = Error::from(EngineError::Conflict);
        assert!(conflict.is_retryable() && conflict.source().is_none());
        assert_eq!((conflict.kind(), conflict.to_string().lines().count()), (ErrorKind::Conflict, 1));
    }
}
