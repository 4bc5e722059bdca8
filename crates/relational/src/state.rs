//! SQLSTATE codes by the names of their conditions.

use std::fmt;

/// A SQLSTATE: five digits and capital letters that say what went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

macro_rules! states {
    ($($name:ident = $code:literal;)*) => {
        impl SqlState {
            $(
                #[doc = concat!("The code ", $code, " of its condition.")]
                pub const $name: SqlState = SqlState::of($code);
            )*
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION = "00000";
    WARNING = "01000";
    CONNECTION_EXCEPTION = "08000";
    CONNECTION_FAILURE = "08006";
    PROTOCOL_VIOLATION = "08P01";
    FEATURE_NOT_SUPPORTED = "0A000";
    INVALID_GRANTOR = "0L000";
    CARDINALITY_VIOLATION = "21000";
    DATA_EXCEPTION = "22000";
    STRING_DATA_RIGHT_TRUNCATION = "22001";
    NUMERIC_VALUE_OUT_OF_RANGE = "22003";
    NULL_VALUE_NOT_ALLOWED = "22004";
    INVALID_DATETIME_FORMAT = "22007";
    DATETIME_FIELD_OVERFLOW = "22008";
    INVALID_ARGUMENT_FOR_LOGARITHM = "2201E";
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = "2201F";
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = "2201W";
    INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE = "2201X";
    INVALID_REGULAR_EXPRESSION = "2201B";
    INVALID_ESCAPE_SEQUENCE = "22025";
    SUBSTRING_ERROR = "22011";
    DIVISION_BY_ZERO = "22012";
    INTERVAL_FIELD_OVERFLOW = "22015";
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
    INVALID_PARAMETER_VALUE = "22023";
    ARRAY_SUBSCRIPT_ERROR = "2202E";
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H";
    INVALID_TEXT_REPRESENTATION = "22P02";
    INVALID_BINARY_REPRESENTATION = "22P03";
    BAD_COPY_FILE_FORMAT = "22P04";
    UNTRANSLATABLE_CHARACTER = "22P05";
    INTEGRITY_CONSTRAINT_VIOLATION = "23000";
    RESTRICT_VIOLATION = "23001";
    NOT_NULL_VIOLATION = "23502";
    FOREIGN_KEY_VIOLATION = "23503";
    UNIQUE_VIOLATION = "23505";
    CHECK_VIOLATION = "23514";
    INVALID_CURSOR_STATE = "24000";
    INVALID_TRANSACTION_STATE = "25000";
    ACTIVE_SQL_TRANSACTION = "25001";
    READ_ONLY_SQL_TRANSACTION = "25006";
    NO_ACTIVE_SQL_TRANSACTION = "25P01";
    IN_FAILED_SQL_TRANSACTION = "25P02";
    INVALID_SQL_STATEMENT_NAME = "26000";
    INVALID_AUTHORIZATION_SPECIFICATION = "28000";
    INVALID_PASSWORD = "28P01";
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
    INVALID_TRANSACTION_TERMINATION = "2D000";
    INVALID_CURSOR_NAME = "34000";
    SAVEPOINT_EXCEPTION = "3B000";
    INVALID_SAVEPOINT_SPECIFICATION = "3B001";
    INVALID_CATALOG_NAME = "3D000";
    INVALID_SCHEMA_NAME = "3F000";
    TRANSACTION_ROLLBACK = "40000";
    SERIALIZATION_FAILURE = "40001";
    STATEMENT_COMPLETION_UNKNOWN = "40003";
    DEADLOCK_DETECTED = "40P01";
    SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION = "42000";
    SYNTAX_ERROR = "42601";
    INSUFFICIENT_PRIVILEGE = "42501";
    CANNOT_COERCE = "42846";
    GROUPING_ERROR = "42803";
    WINDOWING_ERROR = "42P20";
    INVALID_RECURSION = "42P19";
    INVALID_FOREIGN_KEY = "42830";
    INVALID_NAME = "42602";
    NAME_TOO_LONG = "42622";
    RESERVED_NAME = "42939";
    DATATYPE_MISMATCH = "42804";
    INDETERMINATE_DATATYPE = "42P18";
    COLLATION_MISMATCH = "42P21";
    INDETERMINATE_COLLATION = "42P22";
    WRONG_OBJECT_TYPE = "42809";
    GENERATED_ALWAYS = "428C9";
    UNDEFINED_COLUMN = "42703";
    UNDEFINED_FUNCTION = "42883";
    UNDEFINED_TABLE = "42P01";
    UNDEFINED_PARAMETER = "42P02";
    UNDEFINED_OBJECT = "42704";
    DUPLICATE_COLUMN = "42701";
    DUPLICATE_CURSOR = "42P03";
    DUPLICATE_DATABASE = "42P04";
    DUPLICATE_FUNCTION = "42723";
    DUPLICATE_PREPARED_STATEMENT = "42P05";
    DUPLICATE_SCHEMA = "42P06";
    DUPLICATE_TABLE = "42P07";
    DUPLICATE_ALIAS = "42712";
    DUPLICATE_OBJECT = "42710";
    AMBIGUOUS_COLUMN = "42702";
    AMBIGUOUS_FUNCTION = "42725";
    AMBIGUOUS_PARAMETER = "42P08";
    AMBIGUOUS_ALIAS = "42P09";
    INVALID_COLUMN_REFERENCE = "42P10";
    INVALID_COLUMN_DEFINITION = "42611";
    INVALID_CURSOR_DEFINITION = "42P11";
    INVALID_DATABASE_DEFINITION = "42P12";
    INVALID_SCHEMA_DEFINITION = "42P15";
    INVALID_TABLE_DEFINITION = "42P16";
    INVALID_OBJECT_DEFINITION = "42P17";
    WITH_CHECK_OPTION_VIOLATION = "44000";
    INSUFFICIENT_RESOURCES = "53000";
    DISK_FULL = "53100";
    OUT_OF_MEMORY = "53200";
    TOO_MANY_CONNECTIONS = "53300";
    CONFIGURATION_LIMIT_EXCEEDED = "53400";
    PROGRAM_LIMIT_EXCEEDED = "54000";
    STATEMENT_TOO_COMPLEX = "54001";
    TOO_MANY_COLUMNS = "54011";
    TOO_MANY_ARGUMENTS = "54023";
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
    OBJECT_IN_USE = "55006";
    CANT_CHANGE_RUNTIME_PARAM = "55P02";
    LOCK_NOT_AVAILABLE = "55P03";
    OPERATOR_INTERVENTION = "57000";
    QUERY_CANCELED = "57014";
    ADMIN_SHUTDOWN = "57P01";
    CANNOT_CONNECT_NOW = "57P03";
    IDLE_SESSION_TIMEOUT = "57P05";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
    IO_ERROR = "58030";
    INTERNAL_ERROR = "XX000";
    DATA_CORRUPTED = "XX001";
    INDEX_CORRUPTED = "XX002";
}

impl SqlState {
    const fn of(code: &str) -> Self {
        let code = code.as_bytes();
        assert!(code.len() == 5, "a SQLSTATE has five characters");
        Self([code[0], code[1], code[2], code[3], code[4]])
    }

    /// Returns the state of a code; nothing if it has not five digits or capital letters.
    pub fn from_code(code: &str) -> Option<Self> {
        let bytes: [u8; 5] = code.as_bytes().try_into().ok()?;
        let fits = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        bytes.iter().all(fits).then_some(Self(bytes))
    }

    /// Returns true if the server itself is at fault, and not its client: it has no room (class 53), its
    /// system fails (58), its program or its data is broken (XX), or it cannot tell whether it committed
    /// (40003).
    pub fn is_of_server(&self) -> bool {
        let class = &self.0[..2];
        matches!(class, b"53" | b"58" | b"XX") || *self == Self::STATEMENT_COMPLETION_UNKNOWN
    }

    /// Returns the five characters of the code.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::SqlState;

    #[test]
    fn faults_of_the_server_are_told_from_those_of_its_clients() {
        for (code, want) in [
            ("53200", true),
            ("53300", true),
            ("58030", true),
            ("XX000", true),
            ("XX002", true),
            ("40003", true),
            ("40001", false),
            ("40P01", false),
            ("57014", false),
            ("57P01", false),
            ("23505", false),
            ("42601", false),
        ] {
            let state = SqlState::from_code(code);
            assert_eq!(state.map(|state| state.is_of_server()), Some(want), "{code}");
        }
    }
}
