//! The 43 queries of ClickBench over `hits`, in PostgreSQL's dialect. Their meaning is that of the
//! public list, <https://github.com/ClickHouse/ClickBench>, file `postgresql/queries.sql`; parts that
//! several of them share are written once here.

/// Returns the queries in the order of the public list, so that query 0 comes first. They end without
/// a semicolon. Queries 27 and 28 ask for groups of more than 100,000 rows, and queries 38 to 42
/// skip up to 10,000 groups, so smaller tables answer them with nothing.
pub fn queries() -> Vec<String> {
    let mut all = totals();
    all.extend(groups());
    all.extend(texts());
    all.push(many_sums());
    all.extend(wide_groups());
    all.extend(dashboard());
    all
}

/// Queries 0 to 6: one row of totals.
fn totals() -> Vec<String> {
    [
        "COUNT(*) FROM hits",
        "COUNT(*) FROM hits WHERE AdvEngineID <> 0",
        "SUM(AdvEngineID), COUNT(*), AVG(ResolutionWidth) FROM hits",
        "AVG(UserID) FROM hits",
        "COUNT(DISTINCT UserID) FROM hits",
        "COUNT(DISTINCT SearchPhrase) FROM hits",
        "MIN(EventDate), MAX(EventDate) FROM hits",
    ]
    .map(|rest| format!("SELECT {rest}"))
    .into()
}

/// Queries 7 to 19: groups of one to three columns, and the rows of one user.
fn groups() -> Vec<String> {
    let users = "COUNT(DISTINCT UserID)";
    let phone = "FROM hits WHERE MobilePhoneModel <> ''";
    let phrase = "FROM hits WHERE SearchPhrase <> ''";
    let counted = "ORDER BY COUNT(*) DESC";
    vec![
        format!(
            "SELECT AdvEngineID, COUNT(*) FROM hits WHERE AdvEngineID <> 0 \
             GROUP BY AdvEngineID {counted}"
        ),
        format!("SELECT RegionID, {users} AS u FROM hits {}", top("RegionID", "u")),
        format!(
            "SELECT RegionID, SUM(AdvEngineID), COUNT(*) AS c, AVG(ResolutionWidth), {users} \
             FROM hits {}",
            top("RegionID", "c")
        ),
        format!("SELECT MobilePhoneModel, {users} AS u {phone} {}", top("MobilePhoneModel", "u")),
        grouped("MobilePhone, MobilePhoneModel", &format!("{users} AS u"), phone, "u"),
        grouped("SearchPhrase", "COUNT(*) AS c", phrase, "c"),
        grouped("SearchPhrase", &format!("{users} AS u"), phrase, "u"),
        grouped("SearchEngineID, SearchPhrase", "COUNT(*) AS c", phrase, "c"),
        grouped("UserID", "COUNT(*)", "FROM hits", "COUNT(*)"),
        grouped("UserID, SearchPhrase", "COUNT(*)", "FROM hits", "COUNT(*)"),
        "SELECT UserID, SearchPhrase, COUNT(*) FROM hits GROUP BY UserID, SearchPhrase LIMIT 10"
            .to_owned(),
        format!(
            "SELECT UserID, extract(minute FROM EventTime) AS m, SearchPhrase, COUNT(*) FROM hits {}",
            top("UserID, m, SearchPhrase", "COUNT(*)")
        ),
        "SELECT UserID FROM hits WHERE UserID = 435090932899640449".to_owned(),
    ]
}

/// Queries 20 to 28: patterns, order by time and text, lengths.
fn texts() -> Vec<String> {
    let google = "FROM hits WHERE URL LIKE '%google%'";
    let phrase = "FROM hits WHERE SearchPhrase <> ''";
    let long = "HAVING COUNT(*) > 100000 ORDER BY l DESC LIMIT 25";
    vec![
        format!("SELECT COUNT(*) {google}"),
        grouped(
            "SearchPhrase",
            "MIN(URL), COUNT(*) AS c",
            &format!("{google} AND SearchPhrase <> ''"),
            "c",
        ),
        grouped(
            "SearchPhrase",
            "MIN(URL), MIN(Title), COUNT(*) AS c, COUNT(DISTINCT UserID)",
            "FROM hits WHERE Title LIKE '%Google%' AND URL NOT LIKE '%.google.%' \
             AND SearchPhrase <> ''",
            "c",
        ),
        format!("SELECT * {google} ORDER BY EventTime LIMIT 10"),
        format!("SELECT SearchPhrase {phrase} ORDER BY EventTime LIMIT 10"),
        format!("SELECT SearchPhrase {phrase} ORDER BY SearchPhrase LIMIT 10"),
        format!("SELECT SearchPhrase {phrase} ORDER BY EventTime, SearchPhrase LIMIT 10"),
        format!(
            "SELECT CounterID, AVG(length(URL)) AS l, COUNT(*) AS c FROM hits WHERE URL <> '' \
             GROUP BY CounterID {long}"
        ),
        format!(
            r"SELECT REGEXP_REPLACE(Referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS k, AVG(length(Referer)) AS l, COUNT(*) AS c, MIN(Referer) FROM hits WHERE Referer <> '' GROUP BY k {long}"
        ),
    ]
}

/// Query 29: 90 sums over one column.
fn many_sums() -> String {
    let sums = (1..90).map(|more| format!(", SUM(ResolutionWidth + {more})"));
    format!("SELECT SUM(ResolutionWidth){} FROM hits", sums.collect::<String>())
}

/// Queries 30 to 35: groups of which most have one row.
fn wide_groups() -> Vec<String> {
    let refreshes = "COUNT(*) AS c, SUM(IsRefresh), AVG(ResolutionWidth)";
    let phrase = "FROM hits WHERE SearchPhrase <> ''";
    let ips = "ClientIP, ClientIP - 1, ClientIP - 2, ClientIP - 3";
    vec![
        grouped("SearchEngineID, ClientIP", refreshes, phrase, "c"),
        grouped("WatchID, ClientIP", refreshes, phrase, "c"),
        grouped("WatchID, ClientIP", refreshes, "FROM hits", "c"),
        grouped("URL", "COUNT(*) AS c", "FROM hits", "c"),
        format!("SELECT 1, URL, COUNT(*) AS c FROM hits {}", top("1, URL", "c")),
        grouped(ips, "COUNT(*) AS c", "FROM hits", "c"),
    ]
}

/// Queries 36 to 42: pages of a dashboard of one counter.
fn dashboard() -> Vec<String> {
    let july = ("2013-07-01", "2013-07-31");
    let counted = "DontCountHits = 0 AND IsRefresh = 0";
    let views = "COUNT(*) AS PageViews";
    let source = "TraficSourceID, SearchEngineID, AdvEngineID";
    let window = "WindowClientWidth, WindowClientHeight";
    vec![
        grouped("URL", views, &of_counter(july, &format!("{counted} AND URL <> ''")), "PageViews"),
        grouped(
            "Title",
            views,
            &of_counter(july, &format!("{counted} AND Title <> ''")),
            "PageViews",
        ),
        grouped(
            "URL",
            views,
            &of_counter(july, "IsRefresh = 0 AND IsLink <> 0 AND IsDownload = 0"),
            "PageViews",
        ) + " OFFSET 1000",
        format!(
            "SELECT {source}, \
             CASE WHEN (SearchEngineID = 0 AND AdvEngineID = 0) THEN Referer ELSE '' END AS Src, \
             URL AS Dst, {views} {} {} OFFSET 1000",
            of_counter(july, "IsRefresh = 0"),
            top(&format!("{source}, Src, Dst"), "PageViews")
        ),
        grouped(
            "URLHash, EventDate",
            views,
            &of_counter(
                july,
                "IsRefresh = 0 AND TraficSourceID IN (-1, 6) \
                 AND RefererHash = 3594120000172545465",
            ),
            "PageViews",
        ) + " OFFSET 100",
        grouped(
            window,
            views,
            &of_counter(july, &format!("{counted} AND URLHash = 2868770270353813622")),
            "PageViews",
        ) + " OFFSET 10000",
        format!(
            "SELECT DATE_TRUNC('minute', EventTime) AS M, {views} {} \
             GROUP BY DATE_TRUNC('minute', EventTime) \
             ORDER BY DATE_TRUNC('minute', EventTime) LIMIT 10 OFFSET 1000",
            of_counter(("2013-07-14", "2013-07-15"), counted)
        ),
    ]
}

/// Returns a query for the ten groups of `columns` with most of `order`.
fn grouped(columns: &str, values: &str, from: &str, order: &str) -> String {
    format!("SELECT {columns}, {values} {from} {}", top(columns, order))
}

fn top(columns: &str, order: &str) -> String {
    format!("GROUP BY {columns} ORDER BY {order} DESC LIMIT 10")
}

/// Returns FROM and WHERE for the rows of counter 62 on the days from `first` to `last`.
fn of_counter((first, last): (&str, &str), condition: &str) -> String {
    format!(
        "FROM hits WHERE CounterID = 62 AND EventDate >= '{first}' AND EventDate <= '{last}' \
         AND {condition}"
    )
}
