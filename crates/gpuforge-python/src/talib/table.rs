//! Table of TA-Lib's functions: names, inputs, parameters, outputs and flags of its interface (Python package 0.8), one row each.
//!
//! Defaults of parameters are those of the catalogue, and limits too but for [`LIMITS`]; `tests/python/test_talib_info.py`
//! compares all of it with the package.

/// A function of TA-Lib.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: &'static str,
    /// Group.
    pub(crate) group: &'static str,
    /// Display name.
    pub(crate) display: &'static str,
    /// Input names, in order.
    pub(crate) inputs: &'static str,
    /// Parameter names, in order; `:f` is real, `:t` and `:e` are an integer and a real whose default is in the signature.
    pub(crate) params: &'static str,
    /// Output names, each with its flags (see [`OUTPUT_FLAGS`]); `i` is an integer, `x` a bar index, `>` that of the maximum.
    pub(crate) outputs: &'static str,
    /// Flags; see [`FLAGS`].
    pub(crate) flags: &'static str,
}

/// Flags of functions.
pub(crate) const FLAGS: [(char, &str); 6] = [
    ('s', "Output scale same as input"),
    ('c', "Output is a candlestick"),
    ('u', "Function has an unstable period"),
    ('n', "Output can be NaN or infinite"),
    ('p', "Output is path-dependent"),
    ('1', "A period of 1 performs no smoothing"),
];

/// The flag that every function has.
pub(crate) const STREAMING: &str = "Function has a streaming API";

/// Flags of outputs.
pub(crate) const OUTPUT_FLAGS: [(char, &str); 6] = [
    ('l', "Line"),
    ('d', "Dashed Line"),
    ('h', "Histogram"),
    ('U', "Values represent an upper limit"),
    ('L', "Values represent a lower limit"),
    ('o', "Output is optional (nullable)"),
];

/// Largest real parameter that TA-Lib accepts.
const MAX_REAL: f64 = 3e37;

/// Parameter limits that differ from the catalogue's: by function (empty for all) and parameter name, with `*` as a wildcard.
pub(crate) const LIMITS: &[(&str, &str, f64, f64)] = &[
    ("", "*matype", 0.0, 13.0),
    ("", "nbdev*", -MAX_REAL, MAX_REAL),
    ("", "startvalue", -MAX_REAL, MAX_REAL),
    ("", "offsetonreverse", 0.0, MAX_REAL),
    ("", "acceleration*", 0.0, MAX_REAL),
    ("SAR", "maximum", 0.0, MAX_REAL),
    ("", "multiplier", 0.0, MAX_REAL),
    ("", "penetration", 0.0, MAX_REAL),
    ("MAVP", "minperiod", 1.0, 100_000.0),
    ("MAVP", "maxperiod", 1.0, 100_000.0),
    ("PERCENTILE", "timeperiod", 2.0, 100_000.0),
    ("PERCENTRANK", "timeperiod", 2.0, 100_000.0),
];

/// Parameter pair that must be in ascending order.
pub(crate) const ORDERED: &[(&str, usize, usize)] = &[("MAVP", 0, 1)];

/// Functions that have no value at the last bar where no bar has all its numbers; others take the last for one that has.
pub(crate) const FROM_NOTHING: &[&str] = &["PVT"];

/// Parameters that are a window for which every shorter one is planned, too: beyond this many bars only those that occur are
/// computed, one after the other, and nothing is planned where it is longer than the series.
pub(crate) const WINDOWS: &[(&str, usize, usize)] = &[("MAVP", 1, 1000)];

const CYCLE: &str = "Cycle Indicators";
const OPERATORS: &str = "Math Operators";
const TRANSFORM: &str = "Math Transform";
const MOMENTUM: &str = "Momentum Indicators";
const OVERLAP: &str = "Overlap Studies";
const PATTERN: &str = "Pattern Recognition";
const PRICE: &str = "Price Transform";
const STATISTIC: &str = "Statistic Functions";
const VOLATILITY: &str = "Volatility Indicators";
const VOLUME: &str = "Volume Indicators";

const fn f(
    name: &'static str,
    group: &'static str,
    display: &'static str,
    inputs: &'static str,
    params: &'static str,
    outputs: &'static str,
    flags: &'static str,
) -> Function {
    Function { name, group, display, inputs, params, outputs, flags }
}

/// Every function, by group.
#[rustfmt::skip]
pub(crate) const TABLE: &[Function] = &[
    f("HT_DCPERIOD", CYCLE, "Hilbert Transform - Dominant Cycle Period", "real", "", "real:l", "u"),
    f("HT_DCPHASE", CYCLE, "Hilbert Transform - Dominant Cycle Phase", "real", "", "real:l", "u"),
    f("HT_PHASOR", CYCLE, "Hilbert Transform - Phasor Components", "real", "", "inphase:l quadrature:d", "u"),
    f("HT_SINE", CYCLE, "Hilbert Transform - SineWave", "real", "", "sine:l leadsine:d", "u"),
    f("HT_TRENDMODE", CYCLE, "Hilbert Transform - Trend vs Cycle Mode", "real", "", "integer:li", "u"),
    f("ADD", OPERATORS, "Vector Arithmetic Add", "real0 real1", "", "real:l", ""),
    f("CUMSUM", OPERATORS, "Cumulative Sum", "real", "", "real:l", "p"),
    f("DIV", OPERATORS, "Vector Arithmetic Div", "real0 real1", "", "real:l", "n"),
    f("MAX", OPERATORS, "Highest value over a specified period", "real", "timeperiod", "real:l", "s"),
    f("MAXINDEX", OPERATORS, "Index of highest value over a specified period", "real", "timeperiod", "integer:lix>", ""),
    f("MIN", OPERATORS, "Lowest value over a specified period", "real", "timeperiod", "real:l", "s"),
    f("MININDEX", OPERATORS, "Index of lowest value over a specified period", "real", "timeperiod", "integer:lix", ""),
    f("MINMAX", OPERATORS, "Lowest and highest values over a specified period", "real", "timeperiod", "min:l max:l", "s"),
    f("MINMAXINDEX", OPERATORS, "Indexes of lowest and highest values over a specified period", "real", "timeperiod", "minidx:lix maxidx:lix>", ""),
    f("MULT", OPERATORS, "Vector Arithmetic Mult", "real0 real1", "", "real:l", ""),
    f("SUB", OPERATORS, "Vector Arithmetic Subtraction", "real0 real1", "", "real:l", ""),
    f("SUM", OPERATORS, "Summation", "real", "timeperiod", "real:l", ""),
    f("ACOS", TRANSFORM, "Vector Trigonometric ACos", "real", "", "real:l", "n"),
    f("ASIN", TRANSFORM, "Vector Trigonometric ASin", "real", "", "real:l", "n"),
    f("ATAN", TRANSFORM, "Vector Trigonometric ATan", "real", "", "real:l", ""),
    f("CEIL", TRANSFORM, "Vector Ceil", "real", "", "real:l", ""),
    f("COS", TRANSFORM, "Vector Trigonometric Cos", "real", "", "real:l", ""),
    f("COSH", TRANSFORM, "Vector Trigonometric Cosh", "real", "", "real:l", ""),
    f("EXP", TRANSFORM, "Vector Arithmetic Exp", "real", "", "real:l", ""),
    f("FLOOR", TRANSFORM, "Vector Floor", "real", "", "real:l", ""),
    f("LN", TRANSFORM, "Vector Log Natural", "real", "", "real:l", "n"),
    f("LOG10", TRANSFORM, "Vector Log10", "real", "", "real:l", "n"),
    f("SIN", TRANSFORM, "Vector Trigonometric Sin", "real", "", "real:l", ""),
    f("SINH", TRANSFORM, "Vector Trigonometric Sinh", "real", "", "real:l", ""),
    f("SQRT", TRANSFORM, "Vector Square Root", "real", "", "real:l", "n"),
    f("TAN", TRANSFORM, "Vector Trigonometric Tan", "real", "", "real:l", ""),
    f("TANH", TRANSFORM, "Vector Trigonometric Tanh", "real", "", "real:l", ""),
    f("AC", MOMENTUM, "Accelerator/Decelerator Oscillator", "high low", "fastperiod slowperiod signalperiod", "real:h", ""),
    f("ADX", MOMENTUM, "Average Directional Movement Index", "high low close", "timeperiod", "real:l", "u"),
    f("ADXR", MOMENTUM, "Average Directional Movement Index Rating", "high low close", "timeperiod", "real:l", ""),
    f("AO", MOMENTUM, "Awesome Oscillator", "high low", "fastperiod slowperiod", "real:h", ""),
    f("APO", MOMENTUM, "Absolute Price Oscillator", "real", "fastperiod slowperiod matype:t", "real:l", ""),
    f("AROON", MOMENTUM, "Aroon", "high low", "timeperiod", "aroondown:d aroonup:l", ""),
    f("AROONOSC", MOMENTUM, "Aroon Oscillator", "high low", "timeperiod", "real:l", ""),
    f("BOP", MOMENTUM, "Balance Of Power", "open high low close", "", "real:l", ""),
    f("CCI", MOMENTUM, "Commodity Channel Index", "high low close", "timeperiod", "real:l", ""),
    f("CMO", MOMENTUM, "Chande Momentum Oscillator", "real", "timeperiod", "real:l", "u"),
    f("CMOU", MOMENTUM, "Chande Momentum Oscillator (Unsmoothed)", "real", "timeperiod", "real:l", ""),
    f("COPPOCK", MOMENTUM, "Coppock Curve", "real", "wmaperiod roc1period roc2period", "real:l", ""),
    f("DPO", MOMENTUM, "Detrended Price Oscillator", "real", "timeperiod", "real:l", ""),
    f("DX", MOMENTUM, "Directional Movement Index", "high low close", "timeperiod", "real:l", "u"),
    f("ER", MOMENTUM, "Kaufman Efficiency Ratio", "real", "timeperiod", "real:l", ""),
    f("ERI", MOMENTUM, "Elder Ray Index (Bull Power / Bear Power)", "high low close", "timeperiod", "bullpower:l bearpower:l", ""),
    f("FOSC", MOMENTUM, "Forecast Oscillator", "real", "timeperiod", "real:l", ""),
    f("FRACTAL", MOMENTUM, "Williams Fractal", "high low", "leftbars rightbars", "swinghigh:li swinglow:li", ""),
    f("IMI", MOMENTUM, "Intraday Momentum Index", "open close", "timeperiod", "real:l", ""),
    f("KDJ", MOMENTUM, "KDJ Stochastic", "high low close", "fastk_period slowk_period slowk_matype:t slowd_period slowd_matype:t", "k:l d:l j:l", ""),
    f("MACD", MOMENTUM, "Moving Average Convergence/Divergence", "real", "fastperiod slowperiod signalperiod", "macd:l macdsignal:d macdhist:h", ""),
    f("MACDEXT", MOMENTUM, "MACD with controllable MA type", "real", "fastperiod fastmatype:t slowperiod slowmatype:t signalperiod signalmatype:t", "macd:l macdsignal:d macdhist:h", ""),
    f("MACDFIX", MOMENTUM, "Moving Average Convergence/Divergence Fix 12/26", "real", "signalperiod", "macd:l macdsignal:d macdhist:h", ""),
    f("MFI", MOMENTUM, "Money Flow Index", "high low close volume", "timeperiod", "real:l", ""),
    f("MINUS_DI", MOMENTUM, "Minus Directional Indicator", "high low close", "timeperiod", "real:l", "u"),
    f("MINUS_DM", MOMENTUM, "Minus Directional Movement", "high low", "timeperiod", "real:l", "u"),
    f("MOM", MOMENTUM, "Momentum", "real", "timeperiod", "real:l", ""),
    f("PLUS_DI", MOMENTUM, "Plus Directional Indicator", "high low close", "timeperiod", "real:l", "u"),
    f("PLUS_DM", MOMENTUM, "Plus Directional Movement", "high low", "timeperiod", "real:l", "u"),
    f("PPO", MOMENTUM, "Percentage Price Oscillator", "real", "fastperiod slowperiod matype:t", "real:l", ""),
    f("QSTICK", MOMENTUM, "Qstick", "open close", "timeperiod", "real:l", ""),
    f("ROC", MOMENTUM, "Rate of change : ((price/prevPrice)-1)*100", "real", "timeperiod", "real:l", ""),
    f("ROCP", MOMENTUM, "Rate of change Percentage: (price-prevPrice)/prevPrice", "real", "timeperiod", "real:l", ""),
    f("ROCR", MOMENTUM, "Rate of change ratio: (price/prevPrice)", "real", "timeperiod", "real:l", ""),
    f("ROCR100", MOMENTUM, "Rate of change ratio 100 scale: (price/prevPrice)*100", "real", "timeperiod", "real:l", ""),
    f("RSI", MOMENTUM, "Relative Strength Index", "real", "timeperiod", "real:l", "u"),
    f("SMI", MOMENTUM, "Stochastic Momentum Index", "high low close", "timeperiod fastperiod slowperiod signalperiod", "smi:l smisignal:d", ""),
    f("STOCH", MOMENTUM, "Stochastic", "high low close", "fastk_period slowk_period slowk_matype:t slowd_period slowd_matype:t", "slowk:d slowd:d", ""),
    f("STOCHF", MOMENTUM, "Stochastic Fast", "high low close", "fastk_period fastd_period fastd_matype:t", "fastk:l fastd:l", ""),
    f("STOCHRSI", MOMENTUM, "Stochastic Relative Strength Index", "real", "timeperiod fastk_period fastd_period fastd_matype:t", "fastk:l fastd:l", ""),
    f("TRIX", MOMENTUM, "1-day Rate-Of-Change (ROC) of a Triple Smooth EMA", "real", "timeperiod", "real:l", ""),
    f("TSI", MOMENTUM, "True Strength Index", "real", "firstperiod secondperiod", "real:l", ""),
    f("ULTOSC", MOMENTUM, "Ultimate Oscillator", "high low close", "timeperiod1 timeperiod2 timeperiod3", "real:l", ""),
    f("VHF", MOMENTUM, "Vertical Horizontal Filter", "real", "timeperiod", "real:l", ""),
    f("VORTEX", MOMENTUM, "Vortex Indicator", "high low close", "timeperiod", "plusvi:l minusvi:l", ""),
    f("WAD", MOMENTUM, "Williams' Accumulation/Distribution", "high low close", "", "real:l", "p"),
    f("WILLR", MOMENTUM, "Williams' %R", "high low close", "timeperiod", "real:l", ""),
    f("ACCBANDS", OVERLAP, "Acceleration Bands", "high low close", "timeperiod", "upperband:U middleband:l lowerband:L", "s"),
    f("BBANDS", OVERLAP, "Bollinger Bands", "real", "timeperiod nbdevup:f nbdevdn:f matype:t", "upperband:U middleband:l lowerband:L", "s"),
    f("DEMA", OVERLAP, "Double Exponential Moving Average", "real", "timeperiod", "real:l", "1s"),
    f("DONCHIAN", OVERLAP, "Donchian Channels", "high low", "timeperiod", "upperband:U middleband:l lowerband:L", "s"),
    f("EMA", OVERLAP, "Exponential Moving Average", "real", "timeperiod", "real:l", "1su"),
    f("HMA", OVERLAP, "Hull Moving Average", "real", "timeperiod", "real:l", "1s"),
    f("HT_TRENDLINE", OVERLAP, "Hilbert Transform - Instantaneous Trendline", "real", "", "real:l", "su"),
    f("KAMA", OVERLAP, "Kaufman Adaptive Moving Average", "real", "timeperiod", "real:l", "1su"),
    f("KC", OVERLAP, "Keltner Channels", "high low close", "timeperiod atrperiod nbdev:f", "upperband:U middleband:l lowerband:L", "s"),
    f("MA", OVERLAP, "Moving average", "real", "timeperiod matype:t", "real:l", "1s"),
    f("MAMA", OVERLAP, "MESA Adaptive Moving Average", "real", "fastlimit:f slowlimit:f", "mama:l fama:do", "su"),
    f("MAVP", OVERLAP, "Moving average with variable period", "real periods", "minperiod maxperiod matype:t", "real:l", "s"),
    f("MIDPOINT", OVERLAP, "MidPoint over period", "real", "timeperiod", "real:l", "s"),
    f("MIDPRICE", OVERLAP, "Midpoint Price over period", "high low", "timeperiod", "real:l", "s"),
    f("RMA", OVERLAP, "Wilder's Smoothed Moving Average", "real", "timeperiod", "real:l", "1su"),
    f("SAR", OVERLAP, "Parabolic SAR", "high low", "acceleration:e maximum:e", "real:l", "sp"),
    f("SAREXT", OVERLAP, "Parabolic SAR - Extended", "high low", "startvalue:f offsetonreverse:f accelerationinitlong:f accelerationlong:f accelerationmaxlong:f accelerationinitshort:f accelerationshort:f accelerationmaxshort:f", "real:l", "sp"),
    f("SMA", OVERLAP, "Simple Moving Average", "real", "timeperiod", "real:l", "1s"),
    f("SUPERTREND", OVERLAP, "SuperTrend", "high low close", "timeperiod multiplier:e", "supertrend:l trend:li", "sp"),
    f("T3", OVERLAP, "Triple Exponential Moving Average (T3)", "real", "timeperiod vfactor:f", "real:l", "1su"),
    f("TEMA", OVERLAP, "Triple Exponential Moving Average", "real", "timeperiod", "real:l", "1s"),
    f("TRIMA", OVERLAP, "Triangular Moving Average", "real", "timeperiod", "real:l", "1s"),
    f("VWMA", OVERLAP, "Volume Weighted Moving Average", "real volume", "timeperiod", "real:l", "1sn"),
    f("WMA", OVERLAP, "Weighted Moving Average", "real", "timeperiod", "real:l", "1s"),
    f("ZLEMA", OVERLAP, "Zero-Lag Exponential Moving Average", "real", "timeperiod", "real:l", "1s"),
    f("CDL2CROWS", PATTERN, "Two Crows", "open high low close", "", "integer:li", "c"),
    f("CDL3BLACKCROWS", PATTERN, "Three Black Crows", "open high low close", "", "integer:li", "c"),
    f("CDL3INSIDE", PATTERN, "Three Inside Up/Down", "open high low close", "", "integer:li", "c"),
    f("CDL3LINESTRIKE", PATTERN, "Three-Line Strike", "open high low close", "", "integer:li", "c"),
    f("CDL3OUTSIDE", PATTERN, "Three Outside Up/Down", "open high low close", "", "integer:li", "c"),
    f("CDL3STARSINSOUTH", PATTERN, "Three Stars In The South", "open high low close", "", "integer:li", "c"),
    f("CDL3WHITESOLDIERS", PATTERN, "Three Advancing White Soldiers", "open high low close", "", "integer:li", "c"),
    f("CDLABANDONEDBABY", PATTERN, "Abandoned Baby", "open high low close", "penetration:e", "integer:li", "c"),
    f("CDLADVANCEBLOCK", PATTERN, "Advance Block", "open high low close", "", "integer:li", "c"),
    f("CDLBELTHOLD", PATTERN, "Belt-hold", "open high low close", "", "integer:li", "c"),
    f("CDLBREAKAWAY", PATTERN, "Breakaway", "open high low close", "", "integer:li", "c"),
    f("CDLCLOSINGMARUBOZU", PATTERN, "Closing Marubozu", "open high low close", "", "integer:li", "c"),
    f("CDLCONCEALBABYSWALL", PATTERN, "Concealing Baby Swallow", "open high low close", "", "integer:li", "c"),
    f("CDLCOUNTERATTACK", PATTERN, "Counterattack", "open high low close", "", "integer:li", "c"),
    f("CDLDARKCLOUDCOVER", PATTERN, "Dark Cloud Cover", "open high low close", "penetration:e", "integer:li", "c"),
    f("CDLDOJI", PATTERN, "Doji", "open high low close", "", "integer:li", "c"),
    f("CDLDOJISTAR", PATTERN, "Doji Star", "open high low close", "", "integer:li", "c"),
    f("CDLDRAGONFLYDOJI", PATTERN, "Dragonfly Doji", "open high low close", "", "integer:li", "c"),
    f("CDLENGULFING", PATTERN, "Engulfing Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLEVENINGDOJISTAR", PATTERN, "Evening Doji Star", "open high low close", "penetration:e", "integer:li", "c"),
    f("CDLEVENINGSTAR", PATTERN, "Evening Star", "open high low close", "penetration:e", "integer:li", "c"),
    f("CDLGAPSIDESIDEWHITE", PATTERN, "Up/Down-gap side-by-side white lines", "open high low close", "", "integer:li", "c"),
    f("CDLGRAVESTONEDOJI", PATTERN, "Gravestone Doji", "open high low close", "", "integer:li", "c"),
    f("CDLHAMMER", PATTERN, "Hammer", "open high low close", "", "integer:li", "c"),
    f("CDLHANGINGMAN", PATTERN, "Hanging Man", "open high low close", "", "integer:li", "c"),
    f("CDLHARAMI", PATTERN, "Harami Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLHARAMICROSS", PATTERN, "Harami Cross Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLHIGHWAVE", PATTERN, "High-Wave Candle", "open high low close", "", "integer:li", "c"),
    f("CDLHIKKAKE", PATTERN, "Hikkake Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLHIKKAKEMOD", PATTERN, "Modified Hikkake Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLHOMINGPIGEON", PATTERN, "Homing Pigeon", "open high low close", "", "integer:li", "c"),
    f("CDLIDENTICAL3CROWS", PATTERN, "Identical Three Crows", "open high low close", "", "integer:li", "c"),
    f("CDLINNECK", PATTERN, "In-Neck Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLINVERTEDHAMMER", PATTERN, "Inverted Hammer", "open high low close", "", "integer:li", "c"),
    f("CDLKICKING", PATTERN, "Kicking", "open high low close", "", "integer:li", "c"),
    f("CDLKICKINGBYLENGTH", PATTERN, "Kicking - bull/bear determined by the longer marubozu", "open high low close", "", "integer:li", "c"),
    f("CDLLADDERBOTTOM", PATTERN, "Ladder Bottom", "open high low close", "", "integer:li", "c"),
    f("CDLLONGLEGGEDDOJI", PATTERN, "Long Legged Doji", "open high low close", "", "integer:li", "c"),
    f("CDLLONGLINE", PATTERN, "Long Line Candle", "open high low close", "", "integer:li", "c"),
    f("CDLMARUBOZU", PATTERN, "Marubozu", "open high low close", "", "integer:li", "c"),
    f("CDLMATCHINGLOW", PATTERN, "Matching Low", "open high low close", "", "integer:li", "c"),
    f("CDLMATHOLD", PATTERN, "Mat Hold", "open high low close", "penetration:e", "integer:li", "c"),
    f("CDLMORNINGDOJISTAR", PATTERN, "Morning Doji Star", "open high low close", "penetration:e", "integer:li", "c"),
    f("CDLMORNINGSTAR", PATTERN, "Morning Star", "open high low close", "penetration:e", "integer:li", "c"),
    f("CDLONNECK", PATTERN, "On-Neck Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLPIERCING", PATTERN, "Piercing Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLRICKSHAWMAN", PATTERN, "Rickshaw Man", "open high low close", "", "integer:li", "c"),
    f("CDLRISEFALL3METHODS", PATTERN, "Rising/Falling Three Methods", "open high low close", "", "integer:li", "c"),
    f("CDLSEPARATINGLINES", PATTERN, "Separating Lines", "open high low close", "", "integer:li", "c"),
    f("CDLSHOOTINGSTAR", PATTERN, "Shooting Star", "open high low close", "", "integer:li", "c"),
    f("CDLSHORTLINE", PATTERN, "Short Line Candle", "open high low close", "", "integer:li", "c"),
    f("CDLSPINNINGTOP", PATTERN, "Spinning Top", "open high low close", "", "integer:li", "c"),
    f("CDLSTALLEDPATTERN", PATTERN, "Stalled Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLSTICKSANDWICH", PATTERN, "Stick Sandwich", "open high low close", "", "integer:li", "c"),
    f("CDLTAKURI", PATTERN, "Takuri (Dragonfly Doji with very long lower shadow)", "open high low close", "", "integer:li", "c"),
    f("CDLTASUKIGAP", PATTERN, "Tasuki Gap", "open high low close", "", "integer:li", "c"),
    f("CDLTHRUSTING", PATTERN, "Thrusting Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLTRISTAR", PATTERN, "Tristar Pattern", "open high low close", "", "integer:li", "c"),
    f("CDLUNIQUE3RIVER", PATTERN, "Unique 3 River", "open high low close", "", "integer:li", "c"),
    f("CDLUPSIDEGAP2CROWS", PATTERN, "Upside Gap Two Crows", "open high low close", "", "integer:li", "c"),
    f("CDLXSIDEGAP3METHODS", PATTERN, "Upside/Downside Gap Three Methods", "open high low close", "", "integer:li", "c"),
    f("AVGDEV", PRICE, "Average Deviation", "real", "timeperiod", "real:l", "s"),
    f("AVGPRICE", PRICE, "Average Price", "open high low close", "", "real:l", "s"),
    f("HA", PRICE, "Heikin-Ashi Candles", "open high low close", "", "haopen:l hahigh:lU halow:lL haclose:l", "su"),
    f("MEDPRICE", PRICE, "Median Price", "high low", "", "real:l", "s"),
    f("TYPPRICE", PRICE, "Typical Price", "high low close", "", "real:l", "s"),
    f("WCLPRICE", PRICE, "Weighted Close Price", "high low close", "", "real:l", "s"),
    f("BETA", STATISTIC, "Beta", "real0 real1", "timeperiod", "real:l", ""),
    f("CORREL", STATISTIC, "Pearson's Correlation Coefficient (r)", "real0 real1", "timeperiod", "real:l", ""),
    f("LINEARREG", STATISTIC, "Linear Regression", "real", "timeperiod", "real:l", "s"),
    f("LINEARREG_ANGLE", STATISTIC, "Linear Regression Angle", "real", "timeperiod", "real:l", ""),
    f("LINEARREG_INTERCEPT", STATISTIC, "Linear Regression Intercept", "real", "timeperiod", "real:l", "s"),
    f("LINEARREG_SLOPE", STATISTIC, "Linear Regression Slope", "real", "timeperiod", "real:l", ""),
    f("PERCENTILE", STATISTIC, "Percentile (nearest rank)", "real", "timeperiod percentile:e", "real:l", "s"),
    f("PERCENTRANK", STATISTIC, "Percent Rank", "real", "timeperiod", "real:l", ""),
    f("STDDEV", STATISTIC, "Standard Deviation", "real", "timeperiod nbdev:f", "real:l", ""),
    f("TSF", STATISTIC, "Time Series Forecast", "real", "timeperiod", "real:l", "s"),
    f("VAR", STATISTIC, "Variance", "real", "timeperiod nbdev:f", "real:l", ""),
    f("ADR", VOLATILITY, "Average Day Range", "high low", "timeperiod", "real:l", ""),
    f("ATR", VOLATILITY, "Average True Range", "high low close", "timeperiod", "real:l", "u"),
    f("CVI", VOLATILITY, "Chaikin's Volatility", "high low", "timeperiod rocperiod", "real:l", ""),
    f("MASSI", VOLATILITY, "Mass Index", "high low", "fastperiod slowperiod", "real:l", ""),
    f("NATR", VOLATILITY, "Normalized Average True Range", "high low close", "timeperiod", "real:l", "u"),
    f("RVI", VOLATILITY, "Relative Volatility Index", "real", "timeperiod stddevperiod", "real:l", "u"),
    f("TRANGE", VOLATILITY, "True Range", "high low close", "", "real:l", ""),
    f("AD", VOLUME, "Chaikin A/D Line", "high low close volume", "", "real:l", "p"),
    f("ADOSC", VOLUME, "Chaikin A/D Oscillator", "high low close volume", "fastperiod slowperiod", "real:l", "p"),
    f("CMF", VOLUME, "Chaikin Money Flow", "high low close volume", "timeperiod", "real:l", ""),
    f("EFI", VOLUME, "Elder's Force Index", "close volume", "timeperiod", "real:l", ""),
    f("MARKETFI", VOLUME, "Market Facilitation Index", "high low volume", "", "real:l", ""),
    f("NVI", VOLUME, "Negative Volume Index", "close volume", "", "real:l", "p"),
    f("OBV", VOLUME, "On Balance Volume", "real volume", "", "real:l", "p"),
    f("PVI", VOLUME, "Positive Volume Index", "close volume", "", "real:l", "p"),
    f("PVO", VOLUME, "Percentage Volume Oscillator", "volume", "fastperiod slowperiod matype:t", "real:l", ""),
    f("PVT", VOLUME, "Price Volume Trend", "close volume", "", "real:l", "p"),
    f("RVOL", VOLUME, "Relative Volume", "volume", "timeperiod", "real:l", "n"),
    f("VWAP", VOLUME, "Volume Weighted Average Price", "high low close volume", "", "real:l", "sp"),
];
