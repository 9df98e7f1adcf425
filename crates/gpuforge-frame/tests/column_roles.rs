//! Column role detection by header names and user mapping.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::path::Path;

use gpuforge_frame::{
    FrameError,
    column_roles::{ColumnMapping, ColumnRoles, NAMES, Role, resolve},
};

const OHLCV: [Role; 5] = [Role::Open, Role::High, Role::Low, Role::Close, Role::Volume];

fn find(names: &[&str], mapping: &[&str], needed: &[Role]) -> Result<ColumnRoles, FrameError> {
    let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
    let mut given = ColumnMapping::default();
    mapping.iter().for_each(|m| given.parse(m).unwrap());
    resolve(Path::new("bars.csv"), &names, &given, needed)
}

fn wrong(names: &[&str], mapping: &[&str], needed: &[Role]) -> String {
    find(names, mapping, needed).unwrap_err().to_string()
}

#[test]
fn headers_of_common_vendors_are_resolved() {
    let headers: [&[&str]; 9] = [
        &["symbol", "time", "open", "high", "low", "close", "volume"],
        &["Ticker", "Date", "Open", "High", "Low", "Close", "Volume"],
        &["SYM", "ts", "o", "h", "l", "c", "v"],
        &["<TICKER>", "<DATE>", "<OPEN>", "<HIGH>", "<LOW>", "<CLOSE>", "<VOL>"],
        &["code", "timestamp", "1. open", "2. high", "3. low", "4. close", "5. volume"],
        &["instrument", "open_time", "open-price", "High Price", "low.price", "ClosePrice", "qty"],
        &["ticker", "window_start", "open", "high", "low", "close", "volume"],
        &["asset", "datetime", "PX_OPEN", "PX_HIGH", "PX_LOW", "PX_LAST", "PX_VOLUME"],
        &["Symbol", "t", "Open", "High", "Low", "Close/Last", "Vol."],
    ];
    let needed: Vec<Role> = OHLCV.into_iter().chain([Role::Symbol, Role::Time]).collect();
    for header in headers {
        let found = find(header, &[], &needed).unwrap();
        let order = [Role::Symbol, Role::Time].into_iter().chain(OHLCV).map(|role| found.get(role).unwrap());
        assert_eq!(order.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6], "{header:?}");
    }
}

#[test]
fn aliases_are_unambiguous() {
    let mut seen = std::collections::HashMap::new();
    for (role, own, others) in NAMES {
        assert_eq!(Role::of(own), Some(role));
        for name in others {
            assert_eq!(Role::of(name), Some(role), "{name}");
            assert_eq!(seen.insert(*name, role), None, "{name} is there twice");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{name}");
        }
    }
    assert_eq!(Role::of("colour"), None);
    assert_eq!(Role::of(""), None);
}

#[test]
fn only_required_columns_must_exist() {
    let found = find(&["close"], &[], &[Role::Close]).unwrap();
    assert_eq!((found.get(Role::Close), found.get(Role::Time), found.positions()), (Some(0), None, vec![0]));
    let found = find(&["date", "open", "close", "ticker"], &[], &[Role::Close]).unwrap();
    assert_eq!(found.positions(), [0, 2, 3], "keys come along, the open does not");
    assert!(wrong(&["close"], &[], &[Role::Close, Role::Time]).contains("the time column is missing"));
}

#[test]
fn adjusted_close_is_not_close() {
    for name in ["Adj Close", "adjclose", "adjusted_close", "Adj. Close", "close_adj"] {
        let found = find(&["Close", name], &[], &[Role::Close, Role::AdjustedClose]).unwrap();
        assert_eq!((found.get(Role::Close), found.get(Role::AdjustedClose)), (Some(0), Some(1)), "{name}");
    }
    assert!(wrong(&["Date", "Adj Close"], &[], &[Role::Close]).contains("the close column is missing"));
}

#[test]
fn missing_column_error_lists_columns_and_hint() {
    let error = wrong(&["time", "open", "cloze", "volume"], &[], &[Role::Close]);
    assert_eq!(
        error,
        "bars.csv: the close column is missing\n  found: time, open, cloze, volume\n  hint: if it is `cloze`: --column close=cloze"
    );
    let error = wrong(&["x", "y"], &[], &[Role::Volume]);
    assert!(error.ends_with("hint: if it goes by another name: --column volume=NAME"), "{error}");
}

#[test]
fn canonical_name_wins_other_ties_are_errors() {
    assert_eq!(find(&["price", "close"], &[], &[Role::Close]).unwrap().get(Role::Close), Some(1));
    assert_eq!(find(&["last", "Close"], &[], &[Role::Close]).unwrap().get(Role::Close), Some(1));
    assert_eq!(find(&["CLOSE", "close"], &[], &[Role::Close]).unwrap().get(Role::Close), Some(1));
    let error = wrong(&["price", "last"], &[], &[Role::Close]);
    assert!(
        error.contains("the close could be `price` or `last`") && error.contains("--column close=NAME"),
        "{error}"
    );
    assert!(wrong(&["close", "close"], &[], &[Role::Close]).contains("`close` or `close`"));
    assert_eq!(find(&["price", "last"], &["close=last"], &[Role::Close]).unwrap().get(Role::Close), Some(1));
}

#[test]
fn user_mapping_wins() {
    let names = ["when", "PX", "close", "Vol Shares"];
    let found = find(&names, &["close=PX", "time=when", "volume=vol_shares"], &[Role::Close]).unwrap();
    let at = [Role::Time, Role::Close, Role::Volume].map(|role| found.get(role));
    assert_eq!(at, [Some(0), Some(1), Some(3)], "spelling of a given name may differ if it is clear");
    let error = wrong(&["close_px1", "open"], &["close=close_px"], &[Role::Close]);
    assert!(error.contains("no column `close_px` for close") && error.contains("did you mean"), "{error}");
    assert!(
        wrong(&["close"], &["volume=nope"], &[Role::Close]).contains("`nope`"),
        "even if it is not needed"
    );
    assert!(wrong(&["close"], &["time=close"], &[Role::Close]).contains("cannot be both time and close"));
    let same = find(&["close"], &["open=close"], &[Role::Open, Role::Close]).unwrap();
    assert_eq!(same.positions(), [0], "a price may serve as two");
}

#[test]
fn invalid_mapping_is_an_error() {
    let mut mapping = ColumnMapping::default();
    for text in ["close", "colour=x", "close=", "=x", ""] {
        let error = mapping.parse(text).unwrap_err().to_string();
        assert!(error.contains("--column ROLE=NAME") && error.contains("adjusted_close"), "{error}");
    }
    assert_eq!(mapping, ColumnMapping::default());
    mapping.parse("Adj Close = x=y ").unwrap();
    mapping.set(Role::Close, "a");
    mapping.set(Role::Close, "b");
    assert_eq!((mapping.get(Role::AdjustedClose), mapping.get(Role::Close)), (Some("x=y"), Some("b")));
}
