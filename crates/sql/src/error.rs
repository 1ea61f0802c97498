//! `SqlError`: the reason why a statement failed, in terms that a PostgreSQL client understands.
//!
//! Not for bugs: those are assertions. Every failure that a statement can meet becomes an `SqlError`, with the SQLSTATE
//! that PostgreSQL would give and, where it is known, the position in the statement's text.

use std::fmt;

use collie_base::Remedy;
use thiserror::Error;

/// The result of any part of a statement.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// A five-character SQLSTATE code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub [u8; 5]);

impl SqlState {
    /// Returns the code as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl SqlState {
            $($(#[$doc])* pub const $name: Self = Self(*$code);)*
        }
    };
}

states! {
    /// 25P03: a client was idle in a transaction for too long; ends the session.
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = b"25P03";
    /// 25P04: a transaction took too long; ends the session.
    TRANSACTION_TIMEOUT = b"25P04";
    /// 57P05: a client was idle for too long; ends the session.
    IDLE_SESSION_TIMEOUT = b"57P05";
    /// 01000: a warning without a more specific code.
    WARNING = b"01000";
    /// 08P01: the client broke the protocol.
    PROTOCOL_VIOLATION = b"08P01";
    /// 08007: the outcome of a commit is not known.
    TRANSACTION_RESOLUTION_UNKNOWN = b"08007";
    /// 0A000: not built.
    FEATURE_NOT_SUPPORTED = b"0A000";
    /// 21000: a subquery or command found more than one row where only one is allowed.
    CARDINALITY_VIOLATION = b"21000";
    /// 22000: bad data without a more specific code.
    DATA_EXCEPTION = b"22000";
    /// 22001: too long for its type.
    STRING_DATA_RIGHT_TRUNCATION = b"22001";
    /// 22003: out of range for its type.
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003";
    /// 22004: NULL where it is not allowed.
    NULL_VALUE_NOT_ALLOWED = b"22004";
    /// 22007: not a date or time.
    INVALID_DATETIME_FORMAT = b"22007";
    /// 22008: a date or time field out of range.
    DATETIME_FIELD_OVERFLOW = b"22008";
    /// 22011: substring of negative length.
    SUBSTRING_ERROR = b"22011";
    /// 22012: division by zero.
    DIVISION_BY_ZERO = b"22012";
    /// 22021: not valid text in the server's encoding.
    CHARACTER_NOT_IN_REPERTOIRE = b"22021";
    /// 22023: a parameter (of a setting or function) with an invalid value.
    INVALID_PARAMETER_VALUE = b"22023";
    /// 22025: a pattern that ends in its escape character.
    INVALID_ESCAPE_SEQUENCE = b"22025";
    /// 2200C: more separators in a pattern of SIMILAR TO than it may have.
    INVALID_USE_OF_ESCAPE_CHARACTER = b"2200C";
    /// 22P02: text that is not of the type.
    INVALID_TEXT_REPRESENTATION = b"22P02";
    /// 22P03: bytes that are not of the type.
    INVALID_BINARY_REPRESENTATION = b"22P03";
    /// 22P04: COPY input that cannot be read.
    BAD_COPY_FILE_FORMAT = b"22P04";
    /// 2201B: not a regular expression.
    INVALID_REGULAR_EXPRESSION = b"2201B";
    /// 2201E: a logarithm that does not exist.
    INVALID_ARGUMENT_FOR_LOGARITHM = b"2201E";
    /// 2201F: a power that does not exist.
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = b"2201F";
    /// 2201W: negative LIMIT.
    INVALID_ROW_COUNT_IN_LIMIT = b"2201W";
    /// 2201X: negative OFFSET.
    INVALID_ROW_COUNT_IN_OFFSET = b"2201X";
    /// 2202E: a bad array subscript.
    ARRAY_SUBSCRIPT_ERROR = b"2202E";
    /// 23502: NULL in a NOT NULL column.
    NOT_NULL_VIOLATION = b"23502";
    /// 23503: a foreign key without the row that it refers to.
    FOREIGN_KEY_VIOLATION = b"23503";
    /// 23505: a key that exists.
    UNIQUE_VIOLATION = b"23505";
    /// 23514: a row that its CHECK refuses.
    CHECK_VIOLATION = b"23514";
    /// 25001: not allowed inside a transaction.
    ACTIVE_SQL_TRANSACTION = b"25001";
    /// 25006: a write in a read-only transaction.
    READ_ONLY_SQL_TRANSACTION = b"25006";
    /// 25P01: not allowed outside a transaction.
    NO_ACTIVE_SQL_TRANSACTION = b"25P01";
    /// 25P02: the transaction has failed already.
    IN_FAILED_SQL_TRANSACTION = b"25P02";
    /// 26000: no such prepared statement.
    INVALID_SQL_STATEMENT_NAME = b"26000";
    /// 28000: this user may not connect.
    INVALID_AUTHORIZATION_SPECIFICATION = b"28000";
    /// 2BP01: other objects depend on it.
    DEPENDENT_OBJECTS_STILL_EXIST = b"2BP01";
    /// 34000: no such cursor or portal.
    INVALID_CURSOR_NAME = b"34000";
    /// 3B001: no such savepoint.
    INVALID_SAVEPOINT_SPECIFICATION = b"3B001";
    /// 3D000: no such database.
    INVALID_CATALOG_NAME = b"3D000";
    /// 3F000: no such schema.
    INVALID_SCHEMA_NAME = b"3F000";
    /// 40001: run the transaction again.
    SERIALIZATION_FAILURE = b"40001";
    /// 40P01: run the transaction again; it was in a deadlock.
    DEADLOCK_DETECTED = b"40P01";
    /// 42501: not allowed.
    INSUFFICIENT_PRIVILEGE = b"42501";
    /// 42601: syntax.
    SYNTAX_ERROR = b"42601";
    /// 42602: not a name.
    INVALID_NAME = b"42602";
    /// 42611: a column definition that contradicts itself.
    INVALID_COLUMN_DEFINITION = b"42611";
    /// 42701: a column that is named twice.
    DUPLICATE_COLUMN = b"42701";
    /// 42702: a column name with two meanings.
    AMBIGUOUS_COLUMN = b"42702";
    /// 42703: no such column.
    UNDEFINED_COLUMN = b"42703";
    /// 42704: no such object (type, setting, index, ...).
    UNDEFINED_OBJECT = b"42704";
    /// 42710: an object that exists.
    DUPLICATE_OBJECT = b"42710";
    /// 42712: a table alias that is used twice.
    DUPLICATE_ALIAS = b"42712";
    /// 42725: a function or operator with two meanings.
    AMBIGUOUS_FUNCTION = b"42725";
    /// 42803: wrong use of aggregates or GROUP BY.
    GROUPING_ERROR = b"42803";
    /// 42804: types that do not fit.
    DATATYPE_MISMATCH = b"42804";
    /// 42809: an object of the wrong kind.
    WRONG_OBJECT_TYPE = b"42809";
    /// 42830: a foreign key that cannot be defined.
    INVALID_FOREIGN_KEY = b"42830";
    /// 42846: no such cast.
    CANNOT_COERCE = b"42846";
    /// 42883: no such function or operator.
    UNDEFINED_FUNCTION = b"42883";
    /// 42P01: no such table.
    UNDEFINED_TABLE = b"42P01";
    /// 42P02: no such parameter.
    UNDEFINED_PARAMETER = b"42P02";
    /// 42P03: a cursor that exists.
    DUPLICATE_CURSOR = b"42P03";
    /// 42P05: a prepared statement that exists.
    DUPLICATE_PREPARED_STATEMENT = b"42P05";
    /// 42P06: a schema that exists.
    DUPLICATE_SCHEMA = b"42P06";
    /// 42P07: a table that exists.
    DUPLICATE_TABLE = b"42P07";
    /// 42P08: a parameter with two types.
    AMBIGUOUS_PARAMETER = b"42P08";
    /// 42P10: a column reference that is not allowed there.
    INVALID_COLUMN_REFERENCE = b"42P10";
    /// 42P16: a table definition that contradicts itself.
    INVALID_TABLE_DEFINITION = b"42P16";
    /// 42P17: an object definition that contradicts itself.
    INVALID_OBJECT_DEFINITION = b"42P17";
    /// 42P18: a type that cannot be determined.
    INDETERMINATE_DATATYPE = b"42P18";
    /// 42P20: window functions where they are not allowed.
    WINDOWING_ERROR = b"42P20";
    /// 42P22: a collation that cannot be determined.
    INDETERMINATE_COLLATION = b"42P22";
    /// 53100: the disk is full.
    DISK_FULL = b"53100";
    /// 53200: no memory is left within the limit.
    OUT_OF_MEMORY = b"53200";
    /// 53300: too many connections.
    TOO_MANY_CONNECTIONS = b"53300";
    /// 53400: beyond a limit that the configuration sets.
    CONFIGURATION_LIMIT_EXCEEDED = b"53400";
    /// 54000: beyond a limit of the program.
    PROGRAM_LIMIT_EXCEEDED = b"54000";
    /// 54001: nested too deeply.
    STATEMENT_TOO_COMPLEX = b"54001";
    /// 54011: too many columns.
    TOO_MANY_COLUMNS = b"54011";
    /// 54023: too many arguments.
    TOO_MANY_ARGUMENTS = b"54023";
    /// 55000: an object that is not in the state that the statement needs.
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000";
    /// 55006: in use.
    OBJECT_IN_USE = b"55006";
    /// 55P02: a setting that cannot be changed now.
    CANT_CHANGE_RUNTIME_PARAM = b"55P02";
    /// 55P03: a lock that is not free.
    LOCK_NOT_AVAILABLE = b"55P03";
    /// 57014: cancelled.
    QUERY_CANCELED = b"57014";
    /// 57P01: the server is shutting down.
    ADMIN_SHUTDOWN = b"57P01";
    /// 57P03: not ready to take connections.
    CANNOT_CONNECT_NOW = b"57P03";
    /// 58030: the operating system failed a read or write.
    IO_ERROR = b"58030";
    /// 72000: the snapshot is too old.
    SNAPSHOT_TOO_OLD = b"72000";
    /// XX000: a broken invariant.
    INTERNAL_ERROR = b"XX000";
    /// XX001: damaged data.
    DATA_CORRUPTED = b"XX001";
}

/// The reason why a statement failed. It is one allocation, so that results stay small.
#[derive(Clone, Error)]
#[error("{}", .0.message)]
pub struct SqlError(Box<Report>);

/// The content of an error or notice. A PostgreSQL client may show every text of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// The code that programs match on.
    pub state: SqlState,
    /// What happened, in one line.
    pub message: String,
    /// More facts.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// The place in the statement's text, as a byte offset from its start.
    pub position: Option<u32>,
    /// The place in the work, such as a line of COPY input.
    pub context: Option<String>,
    /// The schema of the object concerned.
    pub schema: Option<String>,
    /// The table concerned.
    pub table: Option<String>,
    /// The column concerned.
    pub column: Option<String>,
    /// The constraint concerned.
    pub constraint: Option<String>,
}

impl SqlError {
    /// Makes an error with a code and a message.
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self(Box::new(Report {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            schema: None,
            table: None,
            column: None,
            constraint: None,
        }))
    }

    /// Makes the error for a feature that PostgreSQL has and Collie lacks: 0A000.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Returns the whole content.
    pub fn report(&self) -> &Report {
        &self.0
    }

    /// Returns whether the error ends the session: the client gets it as FATAL, and then the connection closes.
    pub fn ends_session(&self) -> bool {
        matches!(
            self.0.state,
            SqlState::TRANSACTION_TIMEOUT
                | SqlState::ADMIN_SHUTDOWN
                | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                | SqlState::IDLE_SESSION_TIMEOUT
        )
    }

    /// Returns the code.
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// Adds the place in the text, as a byte offset, unless the error has one already.
    #[must_use]
    pub fn at(mut self, position: u32) -> Self {
        self.0.position.get_or_insert(position);
        self
    }

    /// Adds the place in the text, if `position` is known and the error has none yet.
    #[must_use]
    pub fn at_opt(self, position: Option<u32>) -> Self {
        match position {
            Some(position) => self.at(position),
            None => self,
        }
    }

    /// Removes the place in the text, for errors that PostgreSQL does not place, or that lie in another text.
    #[must_use]
    pub(crate) fn without_position(mut self) -> Self {
        self.0.position = None;
        self
    }

    /// Adds more facts.
    #[must_use]
    pub fn detail(mut self, text: impl Into<String>) -> Self {
        self.0.detail = Some(text.into());
        self
    }

    /// Adds a hint: what to do.
    #[must_use]
    pub fn hint(mut self, text: impl Into<String>) -> Self {
        self.0.hint = Some(text.into());
        self
    }

    /// Adds the place in the work where it happened.
    #[must_use]
    pub fn context(mut self, text: impl Into<String>) -> Self {
        self.0.context = Some(text.into());
        self
    }

    /// Names the table concerned.
    #[must_use]
    pub fn table(mut self, schema: impl Into<String>, table: impl Into<String>) -> Self {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }

    /// Names the column concerned.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>) -> Self {
        self.0.column = Some(name.into());
        self
    }

    /// Names the constraint concerned.
    #[must_use]
    pub fn constraint(mut self, name: impl Into<String>) -> Self {
        self.0.constraint = Some(name.into());
        self
    }

    /// Returns what the caller can do: run the transaction again, change the statement, free something, reopen, or
    /// restore data.
    pub fn remedy(&self) -> Remedy {
        match &self.0.state.0[..2] {
            b"40" | b"55" | b"57" => Remedy::Retry,
            b"53" => Remedy::FreeResources,
            b"58" | b"08" => Remedy::Reopen,
            b"XX" => Remedy::RestoreData,
            _ => Remedy::FixCall,
        }
    }
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.state.as_str(), self.0.message)
    }
}
