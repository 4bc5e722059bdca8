//! The columns of the table `hits`: names and types as the public schema of ClickBench gives them for
//! PostgreSQL. All columns are NOT NULL.

use ColumnType::{BigInt, Char, Date, Integer, SmallInt, Text, Timestamp, VarChar};

/// The type of a column, by its name in PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// A signed integer of 16 bits.
    SmallInt,
    /// A signed integer of 32 bits.
    Integer,
    /// A signed integer of 64 bits.
    BigInt,
    /// A day without a time.
    Date,
    /// Date and time without a time zone, whole seconds in this table.
    Timestamp,
    /// Text of exactly one character.
    Char,
    /// Text of at most 255 characters.
    VarChar,
    /// Text whose length is not limited.
    Text,
}

impl ColumnType {
    /// Returns the type's name in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            SmallInt => "SMALLINT",
            Integer => "INTEGER",
            BigInt => "BIGINT",
            Date => "DATE",
            Timestamp => "TIMESTAMP",
            Char => "CHAR",
            VarChar => "VARCHAR(255)",
            Text => "TEXT",
        }
    }
}

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name, in the spelling of the schema. SQL folds it to lower case.
    pub name: &'static str,
    /// The type of its values.
    pub column_type: ColumnType,
}

/// The columns that give the order of the table in systems that keep one.
pub const SORT_KEY: [&str; 5] = ["CounterID", "EventDate", "UserID", "EventTime", "WatchID"];

/// Returns the statement that creates the table under the name `table`, in PostgreSQL's dialect. The
/// name is written as it is. The table has no primary key. The last sign is a semicolon.
pub fn create_table(table: &str) -> String {
    let columns = COLUMNS.map(|column| {
        let Column { name, column_type } = column;
        format!("    {name} {} NOT NULL", column_type.sql())
    });
    format!("CREATE TABLE {table} (\n{}\n);", columns.join(",\n"))
}

const fn column(name: &'static str, column_type: ColumnType) -> Column {
    Column { name, column_type }
}

/// All columns, in the order in which rows have their values.
pub const COLUMNS: [Column; 105] = [
    column("WatchID", BigInt),
    column("JavaEnable", SmallInt),
    column("Title", Text),
    column("GoodEvent", SmallInt),
    column("EventTime", Timestamp),
    column("EventDate", Date),
    column("CounterID", Integer),
    column("ClientIP", Integer),
    column("RegionID", Integer),
    column("UserID", BigInt),
    column("CounterClass", SmallInt),
    column("OS", SmallInt),
    column("UserAgent", SmallInt),
    column("URL", Text),
    column("Referer", Text),
    column("IsRefresh", SmallInt),
    column("RefererCategoryID", SmallInt),
    column("RefererRegionID", Integer),
    column("URLCategoryID", SmallInt),
    column("URLRegionID", Integer),
    column("ResolutionWidth", SmallInt),
    column("ResolutionHeight", SmallInt),
    column("ResolutionDepth", SmallInt),
    column("FlashMajor", SmallInt),
    column("FlashMinor", SmallInt),
    column("FlashMinor2", Text),
    column("NetMajor", SmallInt),
    column("NetMinor", SmallInt),
    column("UserAgentMajor", SmallInt),
    column("UserAgentMinor", VarChar),
    column("CookieEnable", SmallInt),
    column("JavascriptEnable", SmallInt),
    column("IsMobile", SmallInt),
    column("MobilePhone", SmallInt),
    column("MobilePhoneModel", Text),
    column("Params", Text),
    column("IPNetworkID", Integer),
    column("TraficSourceID", SmallInt),
    column("SearchEngineID", SmallInt),
    column("SearchPhrase", Text),
    column("AdvEngineID", SmallInt),
    column("IsArtifical", SmallInt),
    column("WindowClientWidth", SmallInt),
    column("WindowClientHeight", SmallInt),
    column("ClientTimeZone", SmallInt),
    column("ClientEventTime", Timestamp),
    column("SilverlightVersion1", SmallInt),
    column("SilverlightVersion2", SmallInt),
    column("SilverlightVersion3", Integer),
    column("SilverlightVersion4", SmallInt),
    column("PageCharset", Text),
    column("CodeVersion", Integer),
    column("IsLink", SmallInt),
    column("IsDownload", SmallInt),
    column("IsNotBounce", SmallInt),
    column("FUniqID", BigInt),
    column("OriginalURL", Text),
    column("HID", Integer),
    column("IsOldCounter", SmallInt),
    column("IsEvent", SmallInt),
    column("IsParameter", SmallInt),
    column("DontCountHits", SmallInt),
    column("WithHash", SmallInt),
    column("HitColor", Char),
    column("LocalEventTime", Timestamp),
    column("Age", SmallInt),
    column("Sex", SmallInt),
    column("Income", SmallInt),
    column("Interests", SmallInt),
    column("Robotness", SmallInt),
    column("RemoteIP", Integer),
    column("WindowName", Integer),
    column("OpenerName", Integer),
    column("HistoryLength", SmallInt),
    column("BrowserLanguage", Text),
    column("BrowserCountry", Text),
    column("SocialNetwork", Text),
    column("SocialAction", Text),
    column("HTTPError", SmallInt),
    column("SendTiming", Integer),
    column("DNSTiming", Integer),
    column("ConnectTiming", Integer),
    column("ResponseStartTiming", Integer),
    column("ResponseEndTiming", Integer),
    column("FetchTiming", Integer),
    column("SocialSourceNetworkID", SmallInt),
    column("SocialSourcePage", Text),
    column("ParamPrice", BigInt),
    column("ParamOrderID", Text),
    column("ParamCurrency", Text),
    column("ParamCurrencyID", SmallInt),
    column("OpenstatServiceName", Text),
    column("OpenstatCampaignID", Text),
    column("OpenstatAdID", Text),
    column("OpenstatSourceID", Text),
    column("UTMSource", Text),
    column("UTMMedium", Text),
    column("UTMCampaign", Text),
    column("UTMContent", Text),
    column("UTMTerm", Text),
    column("FromTag", Text),
    column("HasGCLID", SmallInt),
    column("RefererHash", BigInt),
    column("URLHash", BigInt),
    column("CLID", Integer),
];
