//! Named indicator sets (`set:NAME`): predefined selections.

/// A named selection.
#[derive(Debug, Clone, Copy)]
pub struct IndicatorSet {
    /// Its name, as in `set:NAME`.
    pub name: &'static str,
    /// Description.
    pub doc: &'static str,
    /// The selection text.
    pub selection: &'static str,
}

/// Every set.
pub const SETS: &[IndicatorSet] = &[
    IndicatorSet {
        name: "averages",
        doc: "Moving averages (SMA, EMA) at the usual chart periods",
        selection: "sma(10|20|50|200), ema(5|10|20|50|100|150|200|300|1000)",
    },
    IndicatorSet {
        name: "classic111",
        doc: "111 columns: moving averages, RSI, MACD lines, ATR, Bollinger Band widths, OBV, VWAP and ten anchored VWAPs with \
              bands, distance to support and resistance. TA-Lib conventions; daily extremes are running ones, so that no \
              column looks ahead",
        selection: "sma(10|20|50|200), ema(5|10|20|50|100|150|200|300|1000), rsi(7|9|14|21|25), macd(5,13,5).macd, \
                    macd(12,26,9).macd, macd(19,39,9).macd, macd(3,10,16).macd, atr(7|10|14|20|30), bbw(10|15|20|30|50), obv, \
                    avwap_bands(0|1|2|3|4|5|6|7|8|9|10), support_resistance(50)",
    },
];
