"""Every function of TA-Lib that the catalogue has. Written by tools/talib_functions.py; changes are made there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from gpuforge._gpuforge import talib_call as _call

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Real = NDArray[np.float64]
    Whole = NDArray[np.int32]
    Precision = Literal["exact", "fast"]


def HT_DCPERIOD(real: Any, *, precision: Precision | None = None) -> Real:
    """Hilbert Transform - Dominant Cycle Period (Cycle Indicators)

    Hilbert transform, dominant cycle period in bars, 6 to 50, smoothed. Uses bars from 12 on, values
    from bar 32 on.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(0, real)  # type: ignore[no-any-return]
    return _call(0, real, precision=precision)  # type: ignore[no-any-return]


def HT_DCPHASE(real: Any, *, precision: Precision | None = None) -> Real:
    """Hilbert Transform - Dominant Cycle Phase (Cycle Indicators)

    Hilbert transform, dominant cycle phase in degrees, -45 to 315, by correlating one cycle of the
    smoothed price with a sine and a cosine.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(1, real)  # type: ignore[no-any-return]
    return _call(1, real, precision=precision)  # type: ignore[no-any-return]


def HT_PHASOR(real: Any, *, precision: Precision | None = None) -> tuple[Real, Real]:
    """Hilbert Transform - Phasor Components (Cycle Indicators)

    Hilbert transform, phasor components: in-phase (the detrended price three bars ago) and quadrature
    (its Hilbert transform). Uses bars from 12 on, values from bar 32 on.

    Inputs: real
    Outputs: inphase, quadrature
    """
    if precision is None:
        return _call(2, real)  # type: ignore[no-any-return]
    return _call(2, real, precision=precision)  # type: ignore[no-any-return]


def HT_SINE(real: Any, *, precision: Precision | None = None) -> tuple[Real, Real]:
    """Hilbert Transform - SineWave (Cycle Indicators)

    Hilbert transform, sine wave: sine of the dominant cycle's phase, and the lead sine 45 degrees
    ahead; they cross shortly before turning points.

    Inputs: real
    Outputs: sine, leadsine
    """
    if precision is None:
        return _call(3, real)  # type: ignore[no-any-return]
    return _call(3, real, precision=precision)  # type: ignore[no-any-return]


def HT_TRENDMODE(real: Any, *, precision: Precision | None = None) -> Whole:
    """Hilbert Transform - Trend vs Cycle Mode (Cycle Indicators)

    Hilbert transform, trend mode: 1 in a trend, 0 in a cycle: a cycle from a crossing of sine and lead
    sine for half a period, or while the phase advances steadily, unless the price is 1.5 % away from
    the trendline.

    Inputs: real
    Outputs: integer
    """
    if precision is None:
        return _call(4, real)  # type: ignore[no-any-return]
    return _call(4, real, precision=precision)  # type: ignore[no-any-return]


def ADD(real0: Any, real1: Any, *, precision: Precision | None = None) -> Real:
    """Vector Arithmetic Add (Math Operators)

    Sum of two sources.

    Inputs: real0, real1
    Outputs: real
    """
    if precision is None:
        return _call(5, real0, real1)  # type: ignore[no-any-return]
    return _call(5, real0, real1, precision=precision)  # type: ignore[no-any-return]


def CUMSUM(real: Any, *, precision: Precision | None = None) -> Real:
    """Cumulative Sum (Math Operators)

    Cumulative sum.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(6, real)  # type: ignore[no-any-return]
    return _call(6, real, precision=precision)  # type: ignore[no-any-return]


def DIV(real0: Any, real1: Any, *, precision: Precision | None = None) -> Real:
    """Vector Arithmetic Div (Math Operators)

    Quotient of two sources: the first over the second; a division by 0 is infinite, or NaN where both
    are 0.

    Inputs: real0, real1
    Outputs: real
    """
    if precision is None:
        return _call(7, real0, real1)  # type: ignore[no-any-return]
    return _call(7, real0, real1, precision=precision)  # type: ignore[no-any-return]


def MAX(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Highest value over a specified period (Math Operators)

    Max of the last `period` values.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(8, real, timeperiod)  # type: ignore[no-any-return]
    return _call(8, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MAXINDEX(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Whole:
    """Index of highest value over a specified period (Math Operators)

    Bar index, counted from 0, of the max of the last `period` values; the most recent of equals.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: integer
    """
    if precision is None:
        return _call(9, real, timeperiod)  # type: ignore[no-any-return]
    return _call(9, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MIN(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Lowest value over a specified period (Math Operators)

    Min of the last `period` values.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(10, real, timeperiod)  # type: ignore[no-any-return]
    return _call(10, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MININDEX(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Whole:
    """Index of lowest value over a specified period (Math Operators)

    Bar index, counted from 0, of the min of the last `period` values; the most recent of equals.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: integer
    """
    if precision is None:
        return _call(11, real, timeperiod)  # type: ignore[no-any-return]
    return _call(11, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MINMAX(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> tuple[Real, Real]:
    """Lowest and highest values over a specified period (Math Operators)

    Min and max of the last `period` values.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: min, max
    """
    if precision is None:
        return _call(12, real, timeperiod)  # type: ignore[no-any-return]
    return _call(12, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MINMAXINDEX(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> tuple[Whole, Whole]:
    """Indexes of lowest and highest values over a specified period (Math Operators)

    Bar indices, counted from 0, of the min and the max of the last `period` values; the most recent of
    equals.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: minidx, maxidx
    """
    if precision is None:
        return _call(13, real, timeperiod)  # type: ignore[no-any-return]
    return _call(13, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MULT(real0: Any, real1: Any, *, precision: Precision | None = None) -> Real:
    """Vector Arithmetic Mult (Math Operators)

    Product of two sources.

    Inputs: real0, real1
    Outputs: real
    """
    if precision is None:
        return _call(14, real0, real1)  # type: ignore[no-any-return]
    return _call(14, real0, real1, precision=precision)  # type: ignore[no-any-return]


def SUB(real0: Any, real1: Any, *, precision: Precision | None = None) -> Real:
    """Vector Arithmetic Subtraction (Math Operators)

    Difference of two sources: the first minus the second.

    Inputs: real0, real1
    Outputs: real
    """
    if precision is None:
        return _call(15, real0, real1)  # type: ignore[no-any-return]
    return _call(15, real0, real1, precision=precision)  # type: ignore[no-any-return]


def SUM(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Summation (Math Operators)

    Rolling sum of the last `period` values.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(16, real, timeperiod)  # type: ignore[no-any-return]
    return _call(16, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ACOS(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Trigonometric ACos (Math Transform)

    Arc cosine in radians; NaN outside -1 to 1.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(17, real)  # type: ignore[no-any-return]
    return _call(17, real, precision=precision)  # type: ignore[no-any-return]


def ASIN(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Trigonometric ASin (Math Transform)

    Arc sine in radians; NaN outside -1 to 1.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(18, real)  # type: ignore[no-any-return]
    return _call(18, real, precision=precision)  # type: ignore[no-any-return]


def ATAN(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Trigonometric ATan (Math Transform)

    Arc tangent in radians.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(19, real)  # type: ignore[no-any-return]
    return _call(19, real, precision=precision)  # type: ignore[no-any-return]


def CEIL(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Ceil (Math Transform)

    Ceiling: the smallest integer not less than the value.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(20, real)  # type: ignore[no-any-return]
    return _call(20, real, precision=precision)  # type: ignore[no-any-return]


def COS(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Trigonometric Cos (Math Transform)

    Cosine of an angle in radians.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(21, real)  # type: ignore[no-any-return]
    return _call(21, real, precision=precision)  # type: ignore[no-any-return]


def COSH(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Trigonometric Cosh (Math Transform)

    Hyperbolic cosine; infinite on overflow.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(22, real)  # type: ignore[no-any-return]
    return _call(22, real, precision=precision)  # type: ignore[no-any-return]


def EXP(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Arithmetic Exp (Math Transform)

    e to the power of the value; infinite on overflow.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(23, real)  # type: ignore[no-any-return]
    return _call(23, real, precision=precision)  # type: ignore[no-any-return]


def FLOOR(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Floor (Math Transform)

    Floor: the largest integer not greater than the value.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(24, real)  # type: ignore[no-any-return]
    return _call(24, real, precision=precision)  # type: ignore[no-any-return]


def LN(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Log Natural (Math Transform)

    Natural logarithm; minus infinity at 0, NaN below.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(25, real)  # type: ignore[no-any-return]
    return _call(25, real, precision=precision)  # type: ignore[no-any-return]


def LOG10(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Log10 (Math Transform)

    Logarithm to base 10; minus infinity at 0, NaN below.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(26, real)  # type: ignore[no-any-return]
    return _call(26, real, precision=precision)  # type: ignore[no-any-return]


def SIN(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Trigonometric Sin (Math Transform)

    Sine of an angle in radians.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(27, real)  # type: ignore[no-any-return]
    return _call(27, real, precision=precision)  # type: ignore[no-any-return]


def SINH(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Trigonometric Sinh (Math Transform)

    Hyperbolic sine; infinite on overflow.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(28, real)  # type: ignore[no-any-return]
    return _call(28, real, precision=precision)  # type: ignore[no-any-return]


def SQRT(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Square Root (Math Transform)

    Square root; NaN below 0.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(29, real)  # type: ignore[no-any-return]
    return _call(29, real, precision=precision)  # type: ignore[no-any-return]


def TAN(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Trigonometric Tan (Math Transform)

    Tangent of an angle in radians.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(30, real)  # type: ignore[no-any-return]
    return _call(30, real, precision=precision)  # type: ignore[no-any-return]


def TANH(real: Any, *, precision: Precision | None = None) -> Real:
    """Vector Trigonometric Tanh (Math Transform)

    Hyperbolic tangent.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(31, real)  # type: ignore[no-any-return]
    return _call(31, real, precision=precision)  # type: ignore[no-any-return]


def AC(high: Any, low: Any, fastperiod: int = -(2**31), slowperiod: int = -(2**31), signalperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Accelerator/Decelerator Oscillator (Momentum Indicators)

    Accelerator oscillator (AC): the awesome oscillator minus its own SMA of `signal` bars.

    Inputs: high, low
    Parameters: fastperiod (5), slowperiod (34), signalperiod (5)
    Outputs: real
    """
    if precision is None:
        return _call(32, high, low, fastperiod, slowperiod, signalperiod)  # type: ignore[no-any-return]
    return _call(32, high, low, fastperiod, slowperiod, signalperiod, precision=precision)  # type: ignore[no-any-return]


def ADX(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Average Directional Movement Index (Momentum Indicators)

    Average directional index (ADX): Wilder's moving average of DX, seeded with the mean of the first
    `period` of them. A bar on which DX is undefined counts as 0 in the seed and is skipped later.

    Inputs: high, low, close
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(33, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(33, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ADXR(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Average Directional Movement Index Rating (Momentum Indicators)

    Average directional index rating (ADXR): mean of ADX and of ADX `period - 1` bars ago.

    Inputs: high, low, close
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(34, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(34, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def AO(high: Any, low: Any, fastperiod: int = -(2**31), slowperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Awesome Oscillator (Momentum Indicators)

    Awesome oscillator (AO): SMA of (h+l)/2 over `fast` bars minus that over `slow` bars.

    Inputs: high, low
    Parameters: fastperiod (5), slowperiod (34)
    Outputs: real
    """
    if precision is None:
        return _call(35, high, low, fastperiod, slowperiod)  # type: ignore[no-any-return]
    return _call(35, high, low, fastperiod, slowperiod, precision=precision)  # type: ignore[no-any-return]


def APO(real: Any, fastperiod: int = -(2**31), slowperiod: int = -(2**31), matype: int = 1, *, precision: Precision | None = None) -> Real:
    """Absolute Price Oscillator (Momentum Indicators)

    Absolute price oscillator (APO): a fast moving average minus a slow one; periods in the wrong order
    are swapped.

    Inputs: real
    Parameters: fastperiod (12), slowperiod (26), matype (1)
    Outputs: real
    """
    if precision is None:
        return _call(36, real, fastperiod, slowperiod, matype)  # type: ignore[no-any-return]
    return _call(36, real, fastperiod, slowperiod, matype, precision=precision)  # type: ignore[no-any-return]


def AROON(high: Any, low: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> tuple[Real, Real]:
    """Aroon (Momentum Indicators)

    Aroon: how recent the lowest low and the highest high of the last `period + 1` bars are: 100 for
    this bar, 0 for `period` bars ago; the most recent of equals.

    Inputs: high, low
    Parameters: timeperiod (14)
    Outputs: aroondown, aroonup
    """
    if precision is None:
        return _call(37, high, low, timeperiod)  # type: ignore[no-any-return]
    return _call(37, high, low, timeperiod, precision=precision)  # type: ignore[no-any-return]


def AROONOSC(high: Any, low: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Aroon Oscillator (Momentum Indicators)

    Aroon oscillator: Aroon up minus Aroon down, that is, 100 / `period` times the bars between the
    lowest low and the highest high.

    Inputs: high, low
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(38, high, low, timeperiod)  # type: ignore[no-any-return]
    return _call(38, high, low, timeperiod, precision=precision)  # type: ignore[no-any-return]


def BOP(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Real:
    """Balance Of Power (Momentum Indicators)

    Balance of power: (close - open) / (high - low); 0 where the bar has no range.

    Inputs: open, high, low, close
    Outputs: real
    """
    if precision is None:
        return _call(39, open, high, low, close)  # type: ignore[no-any-return]
    return _call(39, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CCI(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Commodity Channel Index (Momentum Indicators)

    Commodity channel index (CCI): distance of the typical price (h+l+c)/3 from its SMA of `period`, in
    units of 0.015 mean deviations. 0 where there is no deviation.

    Inputs: high, low, close
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(40, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(40, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def CMO(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Chande Momentum Oscillator (Momentum Indicators)

    Chande momentum oscillator (CMO) with Wilder's smoothing: 100 * (gains - losses) / (gains + losses),
    seeded like the RSI. 0 where nothing has moved.

    Inputs: real
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(41, real, timeperiod)  # type: ignore[no-any-return]
    return _call(41, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def CMOU(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Chande Momentum Oscillator (Unsmoothed) (Momentum Indicators)

    Chande momentum oscillator, unsmoothed as published: rolling sums of the last `period` changes, 100
    * (gains - losses) / (gains + losses). 0 where nothing moved.

    Inputs: real
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(42, real, timeperiod)  # type: ignore[no-any-return]
    return _call(42, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def COPPOCK(real: Any, wmaperiod: int = -(2**31), roc1period: int = -(2**31), roc2period: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Coppock Curve (Momentum Indicators)

    Coppock curve: WMA of `period` of the sum of two rates of change in percent; a rate of change from 0
    counts as 0.

    Inputs: real
    Parameters: wmaperiod (10), roc1period (11), roc2period (14)
    Outputs: real
    """
    if precision is None:
        return _call(43, real, wmaperiod, roc1period, roc2period)  # type: ignore[no-any-return]
    return _call(43, real, wmaperiod, roc1period, roc2period, precision=precision)  # type: ignore[no-any-return]


def DPO(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Detrended Price Oscillator (Momentum Indicators)

    Detrended price oscillator (DPO): the value period/2 + 1 bars ago minus the SMA of the last `period`
    values.

    Inputs: real
    Parameters: timeperiod (20)
    Outputs: real
    """
    if precision is None:
        return _call(44, real, timeperiod)  # type: ignore[no-any-return]
    return _call(44, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def DX(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Directional Movement Index (Momentum Indicators)

    Directional movement index (DX): 100 |+DI - -DI| / (+DI + -DI). Holds its value where there is no
    movement; 0 at first.

    Inputs: high, low, close
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(45, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(45, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ER(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Kaufman Efficiency Ratio (Momentum Indicators)

    Efficiency ratio (Kaufman): absolute change over `period` bars over the sum of absolute one-bar
    changes. 1 where nothing moved.

    Inputs: real
    Parameters: timeperiod (10)
    Outputs: real
    """
    if precision is None:
        return _call(46, real, timeperiod)  # type: ignore[no-any-return]
    return _call(46, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ERI(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> tuple[Real, Real]:
    """Elder Ray Index (Bull Power / Bear Power) (Momentum Indicators)

    Elder ray index: bull power (high) and bear power (low), each minus the EMA of `period` of the
    close.

    Inputs: high, low, close
    Parameters: timeperiod (13)
    Outputs: bullpower, bearpower
    """
    if precision is None:
        return _call(47, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(47, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def FOSC(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Forecast Oscillator (Momentum Indicators)

    Forecast oscillator: distance of the value from the forecast of the linear regression through the
    `period` values before it, in percent of the value; 0 where that is 0.

    Inputs: real
    Parameters: timeperiod (5)
    Outputs: real
    """
    if precision is None:
        return _call(48, real, timeperiod)  # type: ignore[no-any-return]
    return _call(48, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def FRACTAL(high: Any, low: Any, leftbars: int = -(2**31), rightbars: int = -(2**31), *, precision: Precision | None = None) -> tuple[Whole, Whole]:
    """Williams Fractal (Momentum Indicators)

    Williams fractal, signalled at the bar that completes it: 100 where the high `right` bars ago
    exceeds those of the `left` bars before and the `right` bars after it, else 0; and the same for a
    low that is below them.

    Inputs: high, low
    Parameters: leftbars (2), rightbars (2)
    Outputs: swinghigh, swinglow
    """
    if precision is None:
        return _call(49, high, low, leftbars, rightbars)  # type: ignore[no-any-return]
    return _call(49, high, low, leftbars, rightbars, precision=precision)  # type: ignore[no-any-return]


def IMI(open: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Intraday Momentum Index (Momentum Indicators)

    Intraday momentum index (IMI): rising bodies (close - open) in percent of all bodies over `period`
    bars. 50 where no bar has a body.

    Inputs: open, close
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(50, open, close, timeperiod)  # type: ignore[no-any-return]
    return _call(50, open, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def KDJ(high: Any, low: Any, close: Any, fastk_period: int = -(2**31), slowk_period: int = -(2**31), slowk_matype: int = 13, slowd_period: int = -(2**31), slowd_matype: int = 13, *, precision: Precision | None = None) -> tuple[Real, Real, Real]:
    """KDJ Stochastic (Momentum Indicators)

    KDJ: slow stochastic oscillator smoothed by Wilder's moving average, and J = 3 K - 2 D. 0 where
    there is no range.

    Inputs: high, low, close
    Parameters: fastk_period (9), slowk_period (3), slowk_matype (13), slowd_period (3), slowd_matype (13)
    Outputs: k, d, j
    """
    if precision is None:
        return _call(51, high, low, close, fastk_period, slowk_period, slowk_matype, slowd_period, slowd_matype)  # type: ignore[no-any-return]
    return _call(51, high, low, close, fastk_period, slowk_period, slowk_matype, slowd_period, slowd_matype, precision=precision)  # type: ignore[no-any-return]


def MACD(real: Any, fastperiod: int = -(2**31), slowperiod: int = -(2**31), signalperiod: int = -(2**31), *, precision: Precision | None = None) -> tuple[Real, Real, Real]:
    """Moving Average Convergence/Divergence (Momentum Indicators)

    Moving average convergence/divergence (MACD): EMA of `fast` minus EMA of `slow`; the signal line is
    its EMA of `signal`, the histogram the difference of both. Both EMAs start at the slow one's first
    bar. Periods in the wrong order are swapped.

    Inputs: real
    Parameters: fastperiod (12), slowperiod (26), signalperiod (9)
    Outputs: macd, macdsignal, macdhist
    """
    if precision is None:
        return _call(52, real, fastperiod, slowperiod, signalperiod)  # type: ignore[no-any-return]
    return _call(52, real, fastperiod, slowperiod, signalperiod, precision=precision)  # type: ignore[no-any-return]


def MACDEXT(real: Any, fastperiod: int = -(2**31), fastmatype: int = 0, slowperiod: int = -(2**31), slowmatype: int = 0, signalperiod: int = -(2**31), signalmatype: int = 0, *, precision: Precision | None = None) -> tuple[Real, Real, Real]:
    """MACD with controllable MA type (Momentum Indicators)

    MACD with moving averages of any type. Both start at the bar where the longer one does; periods in
    the wrong order are swapped, with their types.

    Inputs: real
    Parameters: fastperiod (12), fastmatype (0), slowperiod (26), slowmatype (0), signalperiod (9), signalmatype (0)
    Outputs: macd, macdsignal, macdhist
    """
    if precision is None:
        return _call(53, real, fastperiod, fastmatype, slowperiod, slowmatype, signalperiod, signalmatype)  # type: ignore[no-any-return]
    return _call(53, real, fastperiod, fastmatype, slowperiod, slowmatype, signalperiod, signalmatype, precision=precision)  # type: ignore[no-any-return]


def MACDFIX(real: Any, signalperiod: int = -(2**31), *, precision: Precision | None = None) -> tuple[Real, Real, Real]:
    """Moving Average Convergence/Divergence Fix 12/26 (Momentum Indicators)

    MACD with the smoothing factors 0.15 and 0.075 of its inventor in place of periods; seeded like
    MACD(12, 26).

    Inputs: real
    Parameters: signalperiod (9)
    Outputs: macd, macdsignal, macdhist
    """
    if precision is None:
        return _call(54, real, signalperiod)  # type: ignore[no-any-return]
    return _call(54, real, signalperiod, precision=precision)  # type: ignore[no-any-return]


def MFI(high: Any, low: Any, close: Any, volume: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Money Flow Index (Momentum Indicators)

    Money flow index (MFI): typical price times volume on rising bars, in percent of that on rising and
    falling bars, over `period` bars. Typical prices that differ by less than 1e-14 of their sum are
    equal, and the bar does not count; 0 where none counts.

    Inputs: high, low, close, volume
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(55, high, low, close, volume, timeperiod)  # type: ignore[no-any-return]
    return _call(55, high, low, close, volume, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MINUS_DI(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Minus Directional Indicator (Momentum Indicators)

    Minus directional indicator (-DI): 100 times Wilder's sum of -DM over that of the true range; 0
    where the range is 0. With a period of 1, the unsmoothed ratio itself.

    Inputs: high, low, close
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(56, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(56, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MINUS_DM(high: Any, low: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Minus Directional Movement (Momentum Indicators)

    Minus directional movement (-DM): the fall of the low where it exceeds the rise of the high, in
    Wilder's running sum `y = y - y/period + x`, seeded with the plain sum of the first `period - 1`.

    Inputs: high, low
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(57, high, low, timeperiod)  # type: ignore[no-any-return]
    return _call(57, high, low, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MOM(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Momentum (Momentum Indicators)

    Momentum: the value minus the value `period` bars ago.

    Inputs: real
    Parameters: timeperiod (10)
    Outputs: real
    """
    if precision is None:
        return _call(58, real, timeperiod)  # type: ignore[no-any-return]
    return _call(58, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def PLUS_DI(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Plus Directional Indicator (Momentum Indicators)

    Plus directional indicator (+DI): 100 times Wilder's sum of +DM over that of the true range; 0 where
    the range is 0. With a period of 1, the unsmoothed ratio itself.

    Inputs: high, low, close
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(59, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(59, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def PLUS_DM(high: Any, low: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Plus Directional Movement (Momentum Indicators)

    Plus directional movement (+DM): the rise of the high where it exceeds the fall of the low, in
    Wilder's running sum `y = y - y/period + x`, seeded with the plain sum of the first `period - 1`.

    Inputs: high, low
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(60, high, low, timeperiod)  # type: ignore[no-any-return]
    return _call(60, high, low, timeperiod, precision=precision)  # type: ignore[no-any-return]


def PPO(real: Any, fastperiod: int = -(2**31), slowperiod: int = -(2**31), matype: int = 1, *, precision: Precision | None = None) -> Real:
    """Percentage Price Oscillator (Momentum Indicators)

    Percentage price oscillator (PPO): a fast moving average minus a slow one, in percent of the slow
    one; 0 where that is 0. Periods in the wrong order are swapped.

    Inputs: real
    Parameters: fastperiod (12), slowperiod (26), matype (1)
    Outputs: real
    """
    if precision is None:
        return _call(61, real, fastperiod, slowperiod, matype)  # type: ignore[no-any-return]
    return _call(61, real, fastperiod, slowperiod, matype, precision=precision)  # type: ignore[no-any-return]


def QSTICK(open: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Qstick (Momentum Indicators)

    Qstick: SMA of the candle bodies (close - open) of the last `period` bars.

    Inputs: open, close
    Parameters: timeperiod (10)
    Outputs: real
    """
    if precision is None:
        return _call(62, open, close, timeperiod)  # type: ignore[no-any-return]
    return _call(62, open, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ROC(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Rate of change : ((price/prevPrice)-1)*100 (Momentum Indicators)

    Rate of change (ROC) over `period` bars in percent: (x / x[period] - 1) * 100; 0 where the earlier
    value is 0.

    Inputs: real
    Parameters: timeperiod (10)
    Outputs: real
    """
    if precision is None:
        return _call(63, real, timeperiod)  # type: ignore[no-any-return]
    return _call(63, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ROCP(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Rate of change Percentage: (price-prevPrice)/prevPrice (Momentum Indicators)

    Rate of change over `period` bars as a fraction: (x - x[period]) / x[period]; 0 where the earlier
    value is 0.

    Inputs: real
    Parameters: timeperiod (10)
    Outputs: real
    """
    if precision is None:
        return _call(64, real, timeperiod)  # type: ignore[no-any-return]
    return _call(64, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ROCR(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Rate of change ratio: (price/prevPrice) (Momentum Indicators)

    Rate of change ratio: the value over the value `period` bars ago; 0 where that is 0.

    Inputs: real
    Parameters: timeperiod (10)
    Outputs: real
    """
    if precision is None:
        return _call(65, real, timeperiod)  # type: ignore[no-any-return]
    return _call(65, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ROCR100(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Rate of change ratio 100 scale: (price/prevPrice)*100 (Momentum Indicators)

    Rate of change ratio, scaled by 100: the value over the value `period` bars ago, times 100; 0 where
    that is 0.

    Inputs: real
    Parameters: timeperiod (10)
    Outputs: real
    """
    if precision is None:
        return _call(66, real, timeperiod)  # type: ignore[no-any-return]
    return _call(66, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def RSI(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Relative Strength Index (Momentum Indicators)

    Relative strength index (RSI): gains as a fraction of gains plus losses, both smoothed by Wilder's
    moving average of `period`, from 0 to 100. Seeded with the SMA of the first `period` changes. 50
    where nothing has moved.

    Inputs: real
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(67, real, timeperiod)  # type: ignore[no-any-return]
    return _call(67, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def SMI(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), fastperiod: int = -(2**31), slowperiod: int = -(2**31), signalperiod: int = -(2**31), *, precision: Precision | None = None) -> tuple[Real, Real]:
    """Stochastic Momentum Index (Momentum Indicators)

    Stochastic momentum index (SMI): distance of the close from the midpoint of the range of `period`
    bars, in percent of half that range, both smoothed by EMAs of `slow` and then `fast`; the signal
    line is its EMA of `signal`. 0 where there is no range.

    Inputs: high, low, close
    Parameters: timeperiod (13), fastperiod (2), slowperiod (25), signalperiod (9)
    Outputs: smi, smisignal
    """
    if precision is None:
        return _call(68, high, low, close, timeperiod, fastperiod, slowperiod, signalperiod)  # type: ignore[no-any-return]
    return _call(68, high, low, close, timeperiod, fastperiod, slowperiod, signalperiod, precision=precision)  # type: ignore[no-any-return]


def STOCH(high: Any, low: Any, close: Any, fastk_period: int = -(2**31), slowk_period: int = -(2**31), slowk_matype: int = 0, slowd_period: int = -(2**31), slowd_matype: int = 0, *, precision: Precision | None = None) -> tuple[Real, Real]:
    """Stochastic (Momentum Indicators)

    Slow stochastic oscillator: position of the close between the lowest low and the highest high of
    `fast_k` bars in percent, smoothed to %K, and that smoothed again to %D. 0 where there is no range.

    Inputs: high, low, close
    Parameters: fastk_period (5), slowk_period (3), slowk_matype (0), slowd_period (3), slowd_matype (0)
    Outputs: slowk, slowd
    """
    if precision is None:
        return _call(69, high, low, close, fastk_period, slowk_period, slowk_matype, slowd_period, slowd_matype)  # type: ignore[no-any-return]
    return _call(69, high, low, close, fastk_period, slowk_period, slowk_matype, slowd_period, slowd_matype, precision=precision)  # type: ignore[no-any-return]


def STOCHF(high: Any, low: Any, close: Any, fastk_period: int = -(2**31), fastd_period: int = -(2**31), fastd_matype: int = 0, *, precision: Precision | None = None) -> tuple[Real, Real]:
    """Stochastic Fast (Momentum Indicators)

    Fast stochastic oscillator: position of the close between the lowest low and the highest high of
    `fast_k` bars in percent (%K), and its moving average (%D). 0 where there is no range.

    Inputs: high, low, close
    Parameters: fastk_period (5), fastd_period (3), fastd_matype (0)
    Outputs: fastk, fastd
    """
    if precision is None:
        return _call(70, high, low, close, fastk_period, fastd_period, fastd_matype)  # type: ignore[no-any-return]
    return _call(70, high, low, close, fastk_period, fastd_period, fastd_matype, precision=precision)  # type: ignore[no-any-return]


def STOCHRSI(real: Any, timeperiod: int = -(2**31), fastk_period: int = -(2**31), fastd_period: int = -(2**31), fastd_matype: int = 0, *, precision: Precision | None = None) -> tuple[Real, Real]:
    """Stochastic Relative Strength Index (Momentum Indicators)

    Stochastic RSI: fast stochastic oscillator of the RSI of `period`: its position in its own range of
    `fast_k` bars in percent, and the moving average of that. 0 where there is no range.

    Inputs: real
    Parameters: timeperiod (14), fastk_period (5), fastd_period (3), fastd_matype (0)
    Outputs: fastk, fastd
    """
    if precision is None:
        return _call(71, real, timeperiod, fastk_period, fastd_period, fastd_matype)  # type: ignore[no-any-return]
    return _call(71, real, timeperiod, fastk_period, fastd_period, fastd_matype, precision=precision)  # type: ignore[no-any-return]


def TRIX(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """1-day Rate-Of-Change (ROC) of a Triple Smooth EMA (Momentum Indicators)

    TRIX: one-bar rate of change of a triple EMA of `period`, in percent; 0 where the earlier value is
    0.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(72, real, timeperiod)  # type: ignore[no-any-return]
    return _call(72, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def TSI(real: Any, firstperiod: int = -(2**31), secondperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """True Strength Index (Momentum Indicators)

    True strength index (TSI): the price change smoothed by two nested EMAs, in percent of the absolute
    price change smoothed the same way. 0 where nothing has moved.

    Inputs: real
    Parameters: firstperiod (25), secondperiod (13)
    Outputs: real
    """
    if precision is None:
        return _call(73, real, firstperiod, secondperiod)  # type: ignore[no-any-return]
    return _call(73, real, firstperiod, secondperiod, precision=precision)  # type: ignore[no-any-return]


def ULTOSC(high: Any, low: Any, close: Any, timeperiod1: int = -(2**31), timeperiod2: int = -(2**31), timeperiod3: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Ultimate Oscillator (Momentum Indicators)

    Ultimate oscillator: buying pressure (close - true low) over the true range, over three periods,
    weighted 4, 2 and 1 from the shortest on, in percent. A period without any range counts as 0.

    Inputs: high, low, close
    Parameters: timeperiod1 (7), timeperiod2 (14), timeperiod3 (28)
    Outputs: real
    """
    if precision is None:
        return _call(74, high, low, close, timeperiod1, timeperiod2, timeperiod3)  # type: ignore[no-any-return]
    return _call(74, high, low, close, timeperiod1, timeperiod2, timeperiod3, precision=precision)  # type: ignore[no-any-return]


def VHF(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Vertical Horizontal Filter (Momentum Indicators)

    Vertical horizontal filter (VHF): the range of the last `period` values over the sum of the last
    `period` absolute changes; 0 where nothing moved.

    Inputs: real
    Parameters: timeperiod (28)
    Outputs: real
    """
    if precision is None:
        return _call(75, real, timeperiod)  # type: ignore[no-any-return]
    return _call(75, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def VORTEX(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> tuple[Real, Real]:
    """Vortex Indicator (Momentum Indicators)

    Vortex indicator: rolling sums of |high - previous low| (VI+) and of |low - previous high| (VI-)
    over that of the true range, each of `period` bars; 0 where nothing moved.

    Inputs: high, low, close
    Parameters: timeperiod (14)
    Outputs: plusvi, minusvi
    """
    if precision is None:
        return _call(76, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(76, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def WAD(high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Real:
    """Williams' Accumulation/Distribution (Momentum Indicators)

    Williams accumulation/distribution (WAD): cumulative sum of close - true low on a rise and close -
    true high on a fall, 0 on a tie and on the first bar.

    Inputs: high, low, close
    Outputs: real
    """
    if precision is None:
        return _call(77, high, low, close)  # type: ignore[no-any-return]
    return _call(77, high, low, close, precision=precision)  # type: ignore[no-any-return]


def WILLR(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Williams' %R (Momentum Indicators)

    Williams %R: distance of the close below the highest high of `period` bars, in percent of their
    range, from 0 to -100. 0 where there is no range.

    Inputs: high, low, close
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(78, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(78, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ACCBANDS(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> tuple[Real, Real, Real]:
    """Acceleration Bands (Overlap Studies)

    Acceleration bands (Headley): SMAs of high (1 + w), of the close and of low (1 - w), w = 4 (high -
    low) / (high + low), 0 where high + low is 0 up to rounding.

    Inputs: high, low, close
    Parameters: timeperiod (20)
    Outputs: upperband, middleband, lowerband
    """
    if precision is None:
        return _call(79, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(79, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def BBANDS(real: Any, timeperiod: int = -(2**31), nbdevup: float = -4e37, nbdevdn: float = -4e37, matype: int = 0, *, precision: Precision | None = None) -> tuple[Real, Real, Real]:
    """Bollinger Bands (Overlap Studies)

    Bollinger Bands: a moving average (`ma_type` as in TA-Lib, 0 is the SMA) plus and minus a number of
    population standard deviations of the last `period` values.

    Inputs: real
    Parameters: timeperiod (20), nbdevup (2.0), nbdevdn (2.0), matype (0)
    Outputs: upperband, middleband, lowerband
    """
    if precision is None:
        return _call(80, real, timeperiod, nbdevup, nbdevdn, matype)  # type: ignore[no-any-return]
    return _call(80, real, timeperiod, nbdevup, nbdevdn, matype, precision=precision)  # type: ignore[no-any-return]


def DEMA(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Double Exponential Moving Average (Overlap Studies)

    Double exponential moving average (DEMA, Mulloy): 2 EMA(x) - EMA(EMA(x)), which removes most of the
    lag.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(81, real, timeperiod)  # type: ignore[no-any-return]
    return _call(81, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def DONCHIAN(high: Any, low: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> tuple[Real, Real, Real]:
    """Donchian Channels (Overlap Studies)

    Donchian channel: the highest high and the lowest low of the last `period` bars, the current one
    included, and their midpoint.

    Inputs: high, low
    Parameters: timeperiod (20)
    Outputs: upperband, middleband, lowerband
    """
    if precision is None:
        return _call(82, high, low, timeperiod)  # type: ignore[no-any-return]
    return _call(82, high, low, timeperiod, precision=precision)  # type: ignore[no-any-return]


def EMA(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Exponential Moving Average (Overlap Studies)

    Exponential moving average (EMA): y += 2/(period+1) (x - y), seeded with the SMA of the first
    `period` values.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(83, real, timeperiod)  # type: ignore[no-any-return]
    return _call(83, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def HMA(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Hull Moving Average (Overlap Studies)

    Hull moving average (HMA): WMA over sqrt(period) of 2 WMA(period/2) - WMA(period); both lengths
    truncated to integers.

    Inputs: real
    Parameters: timeperiod (20)
    Outputs: real
    """
    if precision is None:
        return _call(84, real, timeperiod)  # type: ignore[no-any-return]
    return _call(84, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def HT_TRENDLINE(real: Any, *, precision: Precision | None = None) -> Real:
    """Hilbert Transform - Instantaneous Trendline (Overlap Studies)

    Hilbert transform, instantaneous trendline: mean price over one dominant cycle, weighted 4, 3, 2, 1
    over the last four bars. Uses bars from 37 on, values from bar 63 on.

    Inputs: real
    Outputs: real
    """
    if precision is None:
        return _call(85, real)  # type: ignore[no-any-return]
    return _call(85, real, precision=precision)  # type: ignore[no-any-return]


def KAMA(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Kaufman Adaptive Moving Average (Overlap Studies)

    Kaufman's adaptive moving average (KAMA): an EMA whose smoothing factor is interpolated between
    those of 30 and 2 bars and squared, by the efficiency ratio |change over `period`| / sum of
    |changes| (1 where nothing changes). Seeded with the value before its first bar.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(86, real, timeperiod)  # type: ignore[no-any-return]
    return _call(86, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def KC(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), atrperiod: int = -(2**31), nbdev: float = -4e37, *, precision: Precision | None = None) -> tuple[Real, Real, Real]:
    """Keltner Channels (Overlap Studies)

    Keltner channel: the EMA of the typical price plus and minus a multiple of the average true range
    (ATR); both are delayed to have their first values at the same bar.

    Inputs: high, low, close
    Parameters: timeperiod (20), atrperiod (10), nbdev (2.0)
    Outputs: upperband, middleband, lowerband
    """
    if precision is None:
        return _call(87, high, low, close, timeperiod, atrperiod, nbdev)  # type: ignore[no-any-return]
    return _call(87, high, low, close, timeperiod, atrperiod, nbdev, precision=precision)  # type: ignore[no-any-return]


def MA(real: Any, timeperiod: int = -(2**31), matype: int = 0, *, precision: Precision | None = None) -> Real:
    """Moving average (Overlap Studies)

    The moving average that `matype` names.

    Inputs: real
    Parameters: timeperiod (30), matype (0)
    Outputs: real
    """
    if precision is None:
        return _call(88, real, timeperiod, matype)  # type: ignore[no-any-return]
    return _call(88, real, timeperiod, matype, precision=precision)  # type: ignore[no-any-return]


def MAMA(real: Any, fastlimit: float = -4e37, slowlimit: float = -4e37, *, precision: Precision | None = None) -> tuple[Real, Real]:
    """MESA Adaptive Moving Average (Overlap Studies)

    MESA adaptive moving average (MAMA, Ehlers): a Hilbert transform measures the phase; the smoothing
    factor is fast_limit / (phase change in degrees), at least slow_limit. FAMA follows it with half the
    factor. Both start from 0 at bar 12; values from bar 32.

    Inputs: real
    Parameters: fastlimit (0.5), slowlimit (0.05)
    Outputs: mama, fama
    """
    if precision is None:
        return _call(89, real, fastlimit, slowlimit)  # type: ignore[no-any-return]
    return _call(89, real, fastlimit, slowlimit, precision=precision)  # type: ignore[no-any-return]


def MAVP(real: Any, periods: Any, minperiod: int = -(2**31), maxperiod: int = -(2**31), matype: int = 0, *, precision: Precision | None = None) -> Real:
    """Moving average with variable period (Overlap Studies)

    Moving average with variable period: the period of each bar is the second source (by default the
    high), truncated to an integer and clamped to `min_period`..`max_period` (if min exceeds max, both
    are the larger). Every average starts so that its first value is at the bar of the longest one's.

    Inputs: real, periods
    Parameters: minperiod (2), maxperiod (30), matype (0)
    Outputs: real
    """
    if precision is None:
        return _call(90, real, periods, minperiod, maxperiod, matype)  # type: ignore[no-any-return]
    return _call(90, real, periods, minperiod, maxperiod, matype, precision=precision)  # type: ignore[no-any-return]


def MIDPOINT(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """MidPoint over period (Overlap Studies)

    Midpoint of the highest and the lowest of the last `period` values.

    Inputs: real
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(91, real, timeperiod)  # type: ignore[no-any-return]
    return _call(91, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MIDPRICE(high: Any, low: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Midpoint Price over period (Overlap Studies)

    Midpoint price: midpoint of the highest high and the lowest low of the last `period` bars.

    Inputs: high, low
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(92, high, low, timeperiod)  # type: ignore[no-any-return]
    return _call(92, high, low, timeperiod, precision=precision)  # type: ignore[no-any-return]


def RMA(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Wilder's Smoothed Moving Average (Overlap Studies)

    Wilder's moving average (RMA, SMMA): y += (x - y) / period, seeded with the SMA of the first
    `period` values.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(93, real, timeperiod)  # type: ignore[no-any-return]
    return _call(93, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def SAR(high: Any, low: Any, acceleration: float = 0.02, maximum: float = 0.2, *, precision: Precision | None = None) -> Real:
    """Parabolic SAR (Overlap Studies)

    Parabolic SAR (Wilder): moves towards the extreme point of the trend by an acceleration factor that
    grows by `acceleration` with every new extreme up to `maximum`, never into the range of the last two
    bars, and reverses when a bar reaches it. The second bar decides the first direction.

    Inputs: high, low
    Parameters: acceleration (0.02), maximum (0.2)
    Outputs: real
    """
    if precision is None:
        return _call(94, high, low, acceleration, maximum)  # type: ignore[no-any-return]
    return _call(94, high, low, acceleration, maximum, precision=precision)  # type: ignore[no-any-return]


def SAREXT(high: Any, low: Any, startvalue: float = -4e37, offsetonreverse: float = -4e37, accelerationinitlong: float = -4e37, accelerationlong: float = -4e37, accelerationmaxlong: float = -4e37, accelerationinitshort: float = -4e37, accelerationshort: float = -4e37, accelerationmaxshort: float = -4e37, *, precision: Precision | None = None) -> Real:
    """Parabolic SAR - Extended (Overlap Studies)

    Parabolic SAR, extended: an initial stop (positive starts long, negative short, 0 as `sar`), an
    offset after every reversal as a fraction of the price, and acceleration factors per direction.
    Stops of a falling trend are negative.

    Inputs: high, low
    Parameters: startvalue (0.0), offsetonreverse (0.0), accelerationinitlong (0.02), accelerationlong (0.02), accelerationmaxlong (0.2), accelerationinitshort (0.02), accelerationshort (0.02), accelerationmaxshort (0.2)
    Outputs: real
    """
    if precision is None:
        return _call(95, high, low, startvalue, offsetonreverse, accelerationinitlong, accelerationlong, accelerationmaxlong, accelerationinitshort, accelerationshort, accelerationmaxshort)  # type: ignore[no-any-return]
    return _call(95, high, low, startvalue, offsetonreverse, accelerationinitlong, accelerationlong, accelerationmaxlong, accelerationinitshort, accelerationshort, accelerationmaxshort, precision=precision)  # type: ignore[no-any-return]


def SMA(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Simple Moving Average (Overlap Studies)

    Simple moving average (SMA): mean of the last `period` values.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(96, real, timeperiod)  # type: ignore[no-any-return]
    return _call(96, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def SUPERTREND(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), multiplier: float = 3.0, *, precision: Precision | None = None) -> tuple[Real, Whole]:
    """SuperTrend (Overlap Studies)

    SuperTrend: bands of a multiple of the average true range (ATR) around the median price that only
    tighten while the price stays between them; the line is the lower band in an uptrend, the upper one
    in a downtrend. Starts as an uptrend.

    Inputs: high, low, close
    Parameters: timeperiod (10), multiplier (3.0)
    Outputs: supertrend, trend
    """
    if precision is None:
        return _call(97, high, low, close, timeperiod, multiplier)  # type: ignore[no-any-return]
    return _call(97, high, low, close, timeperiod, multiplier, precision=precision)  # type: ignore[no-any-return]


def T3(real: Any, timeperiod: int = -(2**31), vfactor: float = -4e37, *, precision: Precision | None = None) -> Real:
    """Triple Exponential Moving Average (T3) (Overlap Studies)

    T3 moving average (Tilson): six nested EMAs; with v the volume factor (1+v)^3 e3 - 3v(1+v)^2 e4 +
    3v^2(1+v) e5 - v^3 e6.

    Inputs: real
    Parameters: timeperiod (5), vfactor (0.7)
    Outputs: real
    """
    if precision is None:
        return _call(98, real, timeperiod, vfactor)  # type: ignore[no-any-return]
    return _call(98, real, timeperiod, vfactor, precision=precision)  # type: ignore[no-any-return]


def TEMA(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Triple Exponential Moving Average (Overlap Studies)

    Triple exponential moving average (TEMA, Mulloy): 3 e1 - 3 e2 + e3, each the EMA of the one before.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(99, real, timeperiod)  # type: ignore[no-any-return]
    return _call(99, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def TRIMA(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Triangular Moving Average (Overlap Studies)

    Triangular moving average (TRIMA): weights that rise to the middle of the window and fall again; an
    SMA of an SMA.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(100, real, timeperiod)  # type: ignore[no-any-return]
    return _call(100, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def VWMA(real: Any, volume: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Volume Weighted Moving Average (Overlap Studies)

    Volume-weighted moving average (VWMA) of the last `period` values; NaN where all their volumes are
    0.

    Inputs: real, volume
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(101, real, volume, timeperiod)  # type: ignore[no-any-return]
    return _call(101, real, volume, timeperiod, precision=precision)  # type: ignore[no-any-return]


def WMA(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Weighted Moving Average (Overlap Studies)

    Weighted moving average (WMA): linear weights 1 to `period`, the newest value weighted most.

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(102, real, timeperiod)  # type: ignore[no-any-return]
    return _call(102, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ZLEMA(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Zero-Lag Exponential Moving Average (Overlap Studies)

    Zero-lag exponential moving average (ZLEMA): the EMA of 2 x - x[(period-1)/2 bars ago].

    Inputs: real
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(103, real, timeperiod)  # type: ignore[no-any-return]
    return _call(103, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def CDL2CROWS(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Two Crows (Pattern Recognition)

    Two crows: a long white candle, a black one above it, and a black one that opens in the second body
    and closes in the first (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(104, open, high, low, close)  # type: ignore[no-any-return]
    return _call(104, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDL3BLACKCROWS(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Three Black Crows (Pattern Recognition)

    Three black crows: after a white candle three falling black ones without lower shadows, each from
    within the body before, the first closing below the white one's high (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(105, open, high, low, close)  # type: ignore[no-any-return]
    return _call(105, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDL3INSIDE(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Three Inside Up/Down (Pattern Recognition)

    Three inside: a long candle, a short body inside it, and a candle of the other colour that closes
    beyond the first open (100 up, -100 down).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(106, open, high, low, close)  # type: ignore[no-any-return]
    return _call(106, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDL3LINESTRIKE(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Three-Line Strike (Pattern Recognition)

    Three-line strike: three candles of one colour moving on, each from within or near the body before,
    and a fourth of the other colour that takes all of it back (±100 by the three).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(107, open, high, low, close)  # type: ignore[no-any-return]
    return _call(107, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDL3OUTSIDE(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Three Outside Up/Down (Pattern Recognition)

    Three outside: an engulfing body of the opposite colour, and a close further in its direction (100
    up, -100 down).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(108, open, high, low, close)  # type: ignore[no-any-return]
    return _call(108, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDL3STARSINSOUTH(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Three Stars In The South (Pattern Recognition)

    Three stars in the south: three black candles that weaken: a long one with a long lower shadow, a
    smaller one that holds the low and has a lower shadow, a short one without shadows inside its range
    (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(109, open, high, low, close)  # type: ignore[no-any-return]
    return _call(109, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDL3WHITESOLDIERS(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Three Advancing White Soldiers (Pattern Recognition)

    Three white soldiers: three white candles of rising closes without upper shadows, each from within
    or near the body before and not far shorter than it, the last long (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(110, open, high, low, close)  # type: ignore[no-any-return]
    return _call(110, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLABANDONEDBABY(open: Any, high: Any, low: Any, close: Any, penetration: float = 0.3, *, precision: Precision | None = None) -> Whole:
    """Abandoned Baby (Pattern Recognition)

    Abandoned baby: a long candle, a doji with a gap between all shadows, and a candle of the other
    colour back into the first body, more than `penetration` of it (±100 by the third).

    Inputs: open, high, low, close
    Parameters: penetration (0.3)
    Outputs: integer
    """
    if precision is None:
        return _call(111, open, high, low, close, penetration)  # type: ignore[no-any-return]
    return _call(111, open, high, low, close, penetration, precision=precision)  # type: ignore[no-any-return]


def CDLADVANCEBLOCK(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Advance Block (Pattern Recognition)

    Advance block: three white candles of rising closes, the first long with a short upper shadow, that
    weaken: bodies far smaller, or smaller with upper shadows (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(112, open, high, low, close)  # type: ignore[no-any-return]
    return _call(112, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLBELTHOLD(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Belt-hold (Pattern Recognition)

    Belt hold: a long candle that opens at its extreme: white without a lower shadow (100), black
    without an upper one (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(113, open, high, low, close)  # type: ignore[no-any-return]
    return _call(113, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLBREAKAWAY(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Breakaway (Pattern Recognition)

    Breakaway: a long candle, a gap in its direction, two more candles that way, and a fifth of the
    other colour that closes in the gap (±100 by the fifth).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(114, open, high, low, close)  # type: ignore[no-any-return]
    return _call(114, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLCLOSINGMARUBOZU(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Closing Marubozu (Pattern Recognition)

    Closing marubozu: a long candle that closes at its extreme: white without an upper shadow (100),
    black without a lower one (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(115, open, high, low, close)  # type: ignore[no-any-return]
    return _call(115, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLCONCEALBABYSWALL(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Concealing Baby Swallow (Pattern Recognition)

    Concealing baby swallow: two black candles without shadows, a black one below that reaches back into
    the second body, and a black one around its whole range (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(116, open, high, low, close)  # type: ignore[no-any-return]
    return _call(116, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLCOUNTERATTACK(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Counterattack (Pattern Recognition)

    Counterattack: two long candles of opposite colour with equal closes (±100 by the second).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(117, open, high, low, close)  # type: ignore[no-any-return]
    return _call(117, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLDARKCLOUDCOVER(open: Any, high: Any, low: Any, close: Any, penetration: float = 0.5, *, precision: Precision | None = None) -> Whole:
    """Dark Cloud Cover (Pattern Recognition)

    Dark cloud cover: a long white candle, then a black one that opens above its high and closes in its
    body, more than `penetration` of it below the first close (-100).

    Inputs: open, high, low, close
    Parameters: penetration (0.5)
    Outputs: integer
    """
    if precision is None:
        return _call(118, open, high, low, close, penetration)  # type: ignore[no-any-return]
    return _call(118, open, high, low, close, penetration, precision=precision)  # type: ignore[no-any-return]


def CDLDOJI(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Doji (Pattern Recognition)

    Doji: open and close nearly equal, within a tenth of the mean range of the 10 candles before (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(119, open, high, low, close)  # type: ignore[no-any-return]
    return _call(119, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLDOJISTAR(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Doji Star (Pattern Recognition)

    Doji star: a long candle, then a doji beyond its close with a gap (100 after black, -100 after
    white).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(120, open, high, low, close)  # type: ignore[no-any-return]
    return _call(120, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLDRAGONFLYDOJI(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Dragonfly Doji (Pattern Recognition)

    Dragonfly doji: a doji at its high, with a lower shadow (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(121, open, high, low, close)  # type: ignore[no-any-return]
    return _call(121, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLENGULFING(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Engulfing Pattern (Pattern Recognition)

    Engulfing: a body that engulfs the previous one of the opposite colour: ±100 by its colour, ±80
    where one end is equal.

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(122, open, high, low, close)  # type: ignore[no-any-return]
    return _call(122, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLEVENINGDOJISTAR(open: Any, high: Any, low: Any, close: Any, penetration: float = 0.3, *, precision: Precision | None = None) -> Whole:
    """Evening Doji Star (Pattern Recognition)

    Evening doji star: a long white candle, a doji above it, and a long black candle back into its body,
    more than `penetration` of it (-100).

    Inputs: open, high, low, close
    Parameters: penetration (0.3)
    Outputs: integer
    """
    if precision is None:
        return _call(123, open, high, low, close, penetration)  # type: ignore[no-any-return]
    return _call(123, open, high, low, close, penetration, precision=precision)  # type: ignore[no-any-return]


def CDLEVENINGSTAR(open: Any, high: Any, low: Any, close: Any, penetration: float = 0.3, *, precision: Precision | None = None) -> Whole:
    """Evening Star (Pattern Recognition)

    Evening star: a long white candle, a short body above it, and a long black candle back into its
    body, more than `penetration` of it (-100).

    Inputs: open, high, low, close
    Parameters: penetration (0.3)
    Outputs: integer
    """
    if precision is None:
        return _call(124, open, high, low, close, penetration)  # type: ignore[no-any-return]
    return _call(124, open, high, low, close, penetration, precision=precision)  # type: ignore[no-any-return]


def CDLGAPSIDESIDEWHITE(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Up/Down-gap side-by-side white lines (Pattern Recognition)

    Side-by-side white lines: after a gap two white candles of like size and equal open that leave it
    open (100 up, -100 down).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(125, open, high, low, close)  # type: ignore[no-any-return]
    return _call(125, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLGRAVESTONEDOJI(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Gravestone Doji (Pattern Recognition)

    Gravestone doji: a doji at its low, with an upper shadow (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(126, open, high, low, close)  # type: ignore[no-any-return]
    return _call(126, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLHAMMER(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Hammer (Pattern Recognition)

    Hammer: a short body over a long lower shadow, no upper shadow, and the body below or near the
    previous low (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(127, open, high, low, close)  # type: ignore[no-any-return]
    return _call(127, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLHANGINGMAN(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Hanging Man (Pattern Recognition)

    Hanging man: a hammer whose body lies above or near the previous high (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(128, open, high, low, close)  # type: ignore[no-any-return]
    return _call(128, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLHARAMI(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Harami Pattern (Pattern Recognition)

    Harami: a long body, then a short one inside it: 100 after black, -100 after white; ±80 where an end
    is the same.

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(129, open, high, low, close)  # type: ignore[no-any-return]
    return _call(129, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLHARAMICROSS(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Harami Cross Pattern (Pattern Recognition)

    Harami cross: a harami whose second candle is a doji: 100 after black, -100 after white; ±80 where
    an end is the same.

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(130, open, high, low, close)  # type: ignore[no-any-return]
    return _call(130, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLHIGHWAVE(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """High-Wave Candle (Pattern Recognition)

    High wave: a short body between two shadows of more than twice its length (±100 by colour).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(131, open, high, low, close)  # type: ignore[no-any-return]
    return _call(131, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLHIKKAKE(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Hikkake Pattern (Pattern Recognition)

    Hikkake: an inside bar and then a bar that leaves its range down (100) or up (-100); twice that
    where one of the next three closes beyond the inside bar on the other side.

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(132, open, high, low, close)  # type: ignore[no-any-return]
    return _call(132, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLHIKKAKEMOD(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Modified Hikkake Pattern (Pattern Recognition)

    Modified hikkake: two inside bars, the first of them closing near its low (100) or its high (-100),
    then the false break; twice that where one of the next three bars closes beyond the second inside
    bar on the other side.

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(133, open, high, low, close)  # type: ignore[no-any-return]
    return _call(133, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLHOMINGPIGEON(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Homing Pigeon (Pattern Recognition)

    Homing pigeon: a long black candle, then a short black body inside its body (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(134, open, high, low, close)  # type: ignore[no-any-return]
    return _call(134, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLIDENTICAL3CROWS(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Identical Three Crows (Pattern Recognition)

    Identical three crows: three falling black candles without lower shadows, each from the close before
    (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(135, open, high, low, close)  # type: ignore[no-any-return]
    return _call(135, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLINNECK(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """In-Neck Pattern (Pattern Recognition)

    In neck: a long black candle, then a white one from below its low that closes at its close or barely
    above (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(136, open, high, low, close)  # type: ignore[no-any-return]
    return _call(136, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLINVERTEDHAMMER(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Inverted Hammer (Pattern Recognition)

    Inverted hammer: a short body under a long upper shadow, no lower shadow, gapping below the previous
    body (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(137, open, high, low, close)  # type: ignore[no-any-return]
    return _call(137, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLKICKING(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Kicking (Pattern Recognition)

    Kicking: two marubozu of opposite colour with a gap in the second's direction (±100 by the second).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(138, open, high, low, close)  # type: ignore[no-any-return]
    return _call(138, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLKICKINGBYLENGTH(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Kicking - bull/bear determined by the longer marubozu (Pattern Recognition)

    Kicking, with the sign of the longer of both marubozu; of the first where they are equal.

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(139, open, high, low, close)  # type: ignore[no-any-return]
    return _call(139, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLLADDERBOTTOM(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Ladder Bottom (Pattern Recognition)

    Ladder bottom: three black candles of falling opens and closes, a black one with an upper shadow,
    and a white one from above its body that closes above its high (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(140, open, high, low, close)  # type: ignore[no-any-return]
    return _call(140, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLLONGLEGGEDDOJI(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Long Legged Doji (Pattern Recognition)

    Long-legged doji: a doji with a long shadow on one side at least (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(141, open, high, low, close)  # type: ignore[no-any-return]
    return _call(141, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLLONGLINE(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Long Line Candle (Pattern Recognition)

    Long line: a long body with two short shadows (±100 by colour).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(142, open, high, low, close)  # type: ignore[no-any-return]
    return _call(142, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLMARUBOZU(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Marubozu (Pattern Recognition)

    Marubozu: a long body without shadows (±100 by colour).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(143, open, high, low, close)  # type: ignore[no-any-return]
    return _call(143, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLMATCHINGLOW(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Matching Low (Pattern Recognition)

    Matching low: two black candles with equal closes (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(144, open, high, low, close)  # type: ignore[no-any-return]
    return _call(144, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLMATHOLD(open: Any, high: Any, low: Any, close: Any, penetration: float = 0.5, *, precision: Precision | None = None) -> Whole:
    """Mat Hold (Pattern Recognition)

    Mat hold: a long white candle, a short black one above it, two short falling ones that take back
    less than `penetration` of the first body, and a white one that closes above all three (100).

    Inputs: open, high, low, close
    Parameters: penetration (0.5)
    Outputs: integer
    """
    if precision is None:
        return _call(145, open, high, low, close, penetration)  # type: ignore[no-any-return]
    return _call(145, open, high, low, close, penetration, precision=precision)  # type: ignore[no-any-return]


def CDLMORNINGDOJISTAR(open: Any, high: Any, low: Any, close: Any, penetration: float = 0.3, *, precision: Precision | None = None) -> Whole:
    """Morning Doji Star (Pattern Recognition)

    Morning doji star: a long black candle, a doji below it, and a long white candle back into its body,
    more than `penetration` of it (100).

    Inputs: open, high, low, close
    Parameters: penetration (0.3)
    Outputs: integer
    """
    if precision is None:
        return _call(146, open, high, low, close, penetration)  # type: ignore[no-any-return]
    return _call(146, open, high, low, close, penetration, precision=precision)  # type: ignore[no-any-return]


def CDLMORNINGSTAR(open: Any, high: Any, low: Any, close: Any, penetration: float = 0.3, *, precision: Precision | None = None) -> Whole:
    """Morning Star (Pattern Recognition)

    Morning star: a long black candle, a short body below it, and a long white candle back into its
    body, more than `penetration` of it (100).

    Inputs: open, high, low, close
    Parameters: penetration (0.3)
    Outputs: integer
    """
    if precision is None:
        return _call(147, open, high, low, close, penetration)  # type: ignore[no-any-return]
    return _call(147, open, high, low, close, penetration, precision=precision)  # type: ignore[no-any-return]


def CDLONNECK(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """On-Neck Pattern (Pattern Recognition)

    On neck: a long black candle, then a white one from below its low that closes at that low (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(148, open, high, low, close)  # type: ignore[no-any-return]
    return _call(148, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLPIERCING(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Piercing Pattern (Pattern Recognition)

    Piercing: a long black candle, then a long white one from below its low that closes in the upper
    half of its body (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(149, open, high, low, close)  # type: ignore[no-any-return]
    return _call(149, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLRICKSHAWMAN(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Rickshaw Man (Pattern Recognition)

    Rickshaw man: a doji with two long shadows whose body is near the middle of its range (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(150, open, high, low, close)  # type: ignore[no-any-return]
    return _call(150, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLRISEFALL3METHODS(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Rising/Falling Three Methods (Pattern Recognition)

    Rising or falling three methods: a long candle, three short ones against it that stay in its range,
    and a long one that carries on beyond its close (±100 by the first).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(151, open, high, low, close)  # type: ignore[no-any-return]
    return _call(151, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLSEPARATINGLINES(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Separating Lines (Pattern Recognition)

    Separating lines: two candles of opposite colour with equal opens, the second a belt hold (±100 by
    the second).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(152, open, high, low, close)  # type: ignore[no-any-return]
    return _call(152, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLSHOOTINGSTAR(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Shooting Star (Pattern Recognition)

    Shooting star: a short body under a long upper shadow, no lower shadow, gapping above the previous
    body (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(153, open, high, low, close)  # type: ignore[no-any-return]
    return _call(153, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLSHORTLINE(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Short Line Candle (Pattern Recognition)

    Short line: a short body with two short shadows (±100 by colour).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(154, open, high, low, close)  # type: ignore[no-any-return]
    return _call(154, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLSPINNINGTOP(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Spinning Top (Pattern Recognition)

    Spinning top: a short body between two shadows longer than it (±100 by colour).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(155, open, high, low, close)  # type: ignore[no-any-return]
    return _call(155, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLSTALLEDPATTERN(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Stalled Pattern (Pattern Recognition)

    Stalled pattern: two long white candles, the second without an upper shadow and from within or near
    the first body, then a short white one at the upper end of the second (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(156, open, high, low, close)  # type: ignore[no-any-return]
    return _call(156, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLSTICKSANDWICH(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Stick Sandwich (Pattern Recognition)

    Stick sandwich: a white candle that trades above the first close between two black ones of equal
    close (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(157, open, high, low, close)  # type: ignore[no-any-return]
    return _call(157, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLTAKURI(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Takuri (Dragonfly Doji with very long lower shadow) (Pattern Recognition)

    Takuri: a dragonfly doji with a lower shadow of more than twice its body (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(158, open, high, low, close)  # type: ignore[no-any-return]
    return _call(158, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLTASUKIGAP(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Tasuki Gap (Pattern Recognition)

    Tasuki gap: after a gap a candle in its direction, then one of like size against it that opens in
    the body before and closes in the gap without filling it (±100 by the gap).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(159, open, high, low, close)  # type: ignore[no-any-return]
    return _call(159, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLTHRUSTING(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Thrusting Pattern (Pattern Recognition)

    Thrusting: a long black candle, then a white one from below its low that closes in the lower half of
    its body, clearly above its close (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(160, open, high, low, close)  # type: ignore[no-any-return]
    return _call(160, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLTRISTAR(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Tristar Pattern (Pattern Recognition)

    Tristar: three doji, the second beyond the first with a gap and the third back from it (100 at the
    bottom, -100 at the top). One threshold, the first candle's, serves all three.

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(161, open, high, low, close)  # type: ignore[no-any-return]
    return _call(161, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLUNIQUE3RIVER(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Unique 3 River (Pattern Recognition)

    Unique three river: a long black candle, a black body inside it with a lower low, and a short white
    one that opens above that low (100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(162, open, high, low, close)  # type: ignore[no-any-return]
    return _call(162, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLUPSIDEGAP2CROWS(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Upside Gap Two Crows (Pattern Recognition)

    Upside gap two crows: a long white candle, a short black one above it, and a black one around that
    body that still closes above the first (-100).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(163, open, high, low, close)  # type: ignore[no-any-return]
    return _call(163, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def CDLXSIDEGAP3METHODS(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Whole:
    """Upside/Downside Gap Three Methods (Pattern Recognition)

    Gap three methods: two candles of one colour with a gap in its direction, and one of the other
    colour that opens in the second body and closes in the first (±100 by the first).

    Inputs: open, high, low, close
    Outputs: integer
    """
    if precision is None:
        return _call(164, open, high, low, close)  # type: ignore[no-any-return]
    return _call(164, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def AVGDEV(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Average Deviation (Price Transform)

    Mean absolute deviation of the last `period` values from their mean.

    Inputs: real
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(165, real, timeperiod)  # type: ignore[no-any-return]
    return _call(165, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def AVGPRICE(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Real:
    """Average Price (Price Transform)

    Average price: (open + high + low + close) / 4.

    Inputs: open, high, low, close
    Outputs: real
    """
    if precision is None:
        return _call(166, open, high, low, close)  # type: ignore[no-any-return]
    return _call(166, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def HA(open: Any, high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> tuple[Real, Real, Real, Real]:
    """Heikin-Ashi Candles (Price Transform)

    Heikin-Ashi candles: the close is the bar's average price, the open the midpoint of the previous
    candle's open and close (at the first bar of its own open and close), high and low are the max and
    min including both.

    Inputs: open, high, low, close
    Outputs: haopen, hahigh, halow, haclose
    """
    if precision is None:
        return _call(167, open, high, low, close)  # type: ignore[no-any-return]
    return _call(167, open, high, low, close, precision=precision)  # type: ignore[no-any-return]


def MEDPRICE(high: Any, low: Any, *, precision: Precision | None = None) -> Real:
    """Median Price (Price Transform)

    Median price: (high + low) / 2.

    Inputs: high, low
    Outputs: real
    """
    if precision is None:
        return _call(168, high, low)  # type: ignore[no-any-return]
    return _call(168, high, low, precision=precision)  # type: ignore[no-any-return]


def TYPPRICE(high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Real:
    """Typical Price (Price Transform)

    Typical price: (high + low + close) / 3.

    Inputs: high, low, close
    Outputs: real
    """
    if precision is None:
        return _call(169, high, low, close)  # type: ignore[no-any-return]
    return _call(169, high, low, close, precision=precision)  # type: ignore[no-any-return]


def WCLPRICE(high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Real:
    """Weighted Close Price (Price Transform)

    Weighted close: (high + low + 2 close) / 4.

    Inputs: high, low, close
    Outputs: real
    """
    if precision is None:
        return _call(170, high, low, close)  # type: ignore[no-any-return]
    return _call(170, high, low, close, precision=precision)  # type: ignore[no-any-return]


def BETA(real0: Any, real1: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Beta (Statistic Functions)

    Beta: regression slope over the last `period` pairs of relative changes of two sources, those of the
    second against those of the first; 0 where the changes of the first do not vary.

    Inputs: real0, real1
    Parameters: timeperiod (5)
    Outputs: real
    """
    if precision is None:
        return _call(171, real0, real1, timeperiod)  # type: ignore[no-any-return]
    return _call(171, real0, real1, timeperiod, precision=precision)  # type: ignore[no-any-return]


def CORREL(real0: Any, real1: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Pearson's Correlation Coefficient (r) (Statistic Functions)

    Pearson correlation coefficient of two sources over the last `period` bars, from -1 to 1; 0 where
    one does not vary.

    Inputs: real0, real1
    Parameters: timeperiod (30)
    Outputs: real
    """
    if precision is None:
        return _call(172, real0, real1, timeperiod)  # type: ignore[no-any-return]
    return _call(172, real0, real1, timeperiod, precision=precision)  # type: ignore[no-any-return]


def LINEARREG(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Linear Regression (Statistic Functions)

    Linear regression: end point of the least-squares line through the last `period` values.

    Inputs: real
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(173, real, timeperiod)  # type: ignore[no-any-return]
    return _call(173, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def LINEARREG_ANGLE(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Linear Regression Angle (Statistic Functions)

    Linear regression angle: slope of the least-squares line through the last `period` values, in
    degrees.

    Inputs: real
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(174, real, timeperiod)  # type: ignore[no-any-return]
    return _call(174, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def LINEARREG_INTERCEPT(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Linear Regression Intercept (Statistic Functions)

    Linear regression intercept: first point of the least-squares line through the last `period` values.

    Inputs: real
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(175, real, timeperiod)  # type: ignore[no-any-return]
    return _call(175, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def LINEARREG_SLOPE(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Linear Regression Slope (Statistic Functions)

    Linear regression slope, per bar, of the least-squares line through the last `period` values.

    Inputs: real
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(176, real, timeperiod)  # type: ignore[no-any-return]
    return _call(176, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def PERCENTILE(real: Any, timeperiod: int = -(2**31), percentile: float = 50.0, *, precision: Precision | None = None) -> Real:
    """Percentile (nearest rank) (Statistic Functions)

    Nearest-rank percentile of the last `period` values: the ceil(percent * period / 100)-th smallest,
    at least the first.

    Inputs: real
    Parameters: timeperiod (30), percentile (50.0)
    Outputs: real
    """
    if precision is None:
        return _call(177, real, timeperiod, percentile)  # type: ignore[no-any-return]
    return _call(177, real, timeperiod, percentile, precision=precision)  # type: ignore[no-any-return]


def PERCENTRANK(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Percent Rank (Statistic Functions)

    Percent rank: percentage of the `period` values before this one that are less than it.

    Inputs: real
    Parameters: timeperiod (100)
    Outputs: real
    """
    if precision is None:
        return _call(178, real, timeperiod)  # type: ignore[no-any-return]
    return _call(178, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def STDDEV(real: Any, timeperiod: int = -(2**31), nbdev: float = -4e37, *, precision: Precision | None = None) -> Real:
    """Standard Deviation (Statistic Functions)

    Population standard deviation of the last `period` values, times a factor.

    Inputs: real
    Parameters: timeperiod (5), nbdev (1.0)
    Outputs: real
    """
    if precision is None:
        return _call(179, real, timeperiod, nbdev)  # type: ignore[no-any-return]
    return _call(179, real, timeperiod, nbdev, precision=precision)  # type: ignore[no-any-return]


def TSF(real: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Time Series Forecast (Statistic Functions)

    Time series forecast (TSF): the least-squares line through the last `period` values, extrapolated
    one bar ahead.

    Inputs: real
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(180, real, timeperiod)  # type: ignore[no-any-return]
    return _call(180, real, timeperiod, precision=precision)  # type: ignore[no-any-return]


def VAR(real: Any, timeperiod: int = -(2**31), nbdev: float = -4e37, *, precision: Precision | None = None) -> Real:
    """Variance (Statistic Functions)

    Population variance of the last `period` values. The second parameter is ignored, as in TA-Lib.

    Inputs: real
    Parameters: timeperiod (5), nbdev (1.0)
    Outputs: real
    """
    if precision is None:
        return _call(181, real, timeperiod, nbdev)  # type: ignore[no-any-return]
    return _call(181, real, timeperiod, nbdev, precision=precision)  # type: ignore[no-any-return]


def ADR(high: Any, low: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Average Day Range (Volatility Indicators)

    Average day range (ADR): SMA of high - low over the last `period` bars.

    Inputs: high, low
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(182, high, low, timeperiod)  # type: ignore[no-any-return]
    return _call(182, high, low, timeperiod, precision=precision)  # type: ignore[no-any-return]


def ATR(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Average True Range (Volatility Indicators)

    Average true range (ATR): Wilder's moving average of the true range, seeded with the mean of the
    first `period`.

    Inputs: high, low, close
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(183, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(183, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def CVI(high: Any, low: Any, timeperiod: int = -(2**31), rocperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Chaikin's Volatility (Volatility Indicators)

    Chaikin volatility: rate of change in percent, over `roc` bars, of the EMA of high - low; 0 where
    the earlier EMA is 0.

    Inputs: high, low
    Parameters: timeperiod (10), rocperiod (10)
    Outputs: real
    """
    if precision is None:
        return _call(184, high, low, timeperiod, rocperiod)  # type: ignore[no-any-return]
    return _call(184, high, low, timeperiod, rocperiod, precision=precision)  # type: ignore[no-any-return]


def MASSI(high: Any, low: Any, fastperiod: int = -(2**31), slowperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Mass Index (Volatility Indicators)

    Mass index: sum over `slow` bars of the ratio of the EMA of high - low to the EMA of that EMA; a
    ratio whose divisor is 0 counts as 1.

    Inputs: high, low
    Parameters: fastperiod (9), slowperiod (25)
    Outputs: real
    """
    if precision is None:
        return _call(185, high, low, fastperiod, slowperiod)  # type: ignore[no-any-return]
    return _call(185, high, low, fastperiod, slowperiod, precision=precision)  # type: ignore[no-any-return]


def NATR(high: Any, low: Any, close: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Normalized Average True Range (Volatility Indicators)

    Normalized average true range (NATR): ATR in percent of the close; 0 where the close is 0. With a
    period of 1, the true range itself, as TA-Lib has it.

    Inputs: high, low, close
    Parameters: timeperiod (14)
    Outputs: real
    """
    if precision is None:
        return _call(186, high, low, close, timeperiod)  # type: ignore[no-any-return]
    return _call(186, high, low, close, timeperiod, precision=precision)  # type: ignore[no-any-return]


def RVI(real: Any, timeperiod: int = -(2**31), stddevperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Relative Volatility Index (Volatility Indicators)

    Relative volatility index (RVI, Dorsey): Wilder's moving average of the standard deviation on rising
    bars, in percent of that on rising and on falling bars; 50 where both are 0.

    Inputs: real
    Parameters: timeperiod (14), stddevperiod (10)
    Outputs: real
    """
    if precision is None:
        return _call(187, real, timeperiod, stddevperiod)  # type: ignore[no-any-return]
    return _call(187, real, timeperiod, stddevperiod, precision=precision)  # type: ignore[no-any-return]


def TRANGE(high: Any, low: Any, close: Any, *, precision: Precision | None = None) -> Real:
    """True Range (Volatility Indicators)

    True range: max of high - low, |high - previous close| and |low - previous close|.

    Inputs: high, low, close
    Outputs: real
    """
    if precision is None:
        return _call(188, high, low, close)  # type: ignore[no-any-return]
    return _call(188, high, low, close, precision=precision)  # type: ignore[no-any-return]


def AD(high: Any, low: Any, close: Any, volume: Any, *, precision: Precision | None = None) -> Real:
    """Chaikin A/D Line (Volume Indicators)

    Accumulation/distribution line (AD): cumulative sum of the volume times the close location value,
    from -1 (low) to 1 (high); a bar without a range adds 0.

    Inputs: high, low, close, volume
    Outputs: real
    """
    if precision is None:
        return _call(189, high, low, close, volume)  # type: ignore[no-any-return]
    return _call(189, high, low, close, volume, precision=precision)  # type: ignore[no-any-return]


def ADOSC(high: Any, low: Any, close: Any, volume: Any, fastperiod: int = -(2**31), slowperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Chaikin A/D Oscillator (Volume Indicators)

    Chaikin oscillator (ADOSC): fast minus slow EMA of the accumulation/distribution line, both seeded
    with its first value; valid from the longer period on.

    Inputs: high, low, close, volume
    Parameters: fastperiod (3), slowperiod (10)
    Outputs: real
    """
    if precision is None:
        return _call(190, high, low, close, volume, fastperiod, slowperiod)  # type: ignore[no-any-return]
    return _call(190, high, low, close, volume, fastperiod, slowperiod, precision=precision)  # type: ignore[no-any-return]


def CMF(high: Any, low: Any, close: Any, volume: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Chaikin Money Flow (Volume Indicators)

    Chaikin money flow (CMF): rolling sum of the money flow volume of `period` bars over that of the
    volume; 0 where there is no volume.

    Inputs: high, low, close, volume
    Parameters: timeperiod (20)
    Outputs: real
    """
    if precision is None:
        return _call(191, high, low, close, volume, timeperiod)  # type: ignore[no-any-return]
    return _call(191, high, low, close, volume, timeperiod, precision=precision)  # type: ignore[no-any-return]


def EFI(close: Any, volume: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Elder's Force Index (Volume Indicators)

    Elder's force index (EFI): EMA of the change of the close times the volume.

    Inputs: close, volume
    Parameters: timeperiod (13)
    Outputs: real
    """
    if precision is None:
        return _call(192, close, volume, timeperiod)  # type: ignore[no-any-return]
    return _call(192, close, volume, timeperiod, precision=precision)  # type: ignore[no-any-return]


def MARKETFI(high: Any, low: Any, volume: Any, *, precision: Precision | None = None) -> Real:
    """Market Facilitation Index (Volume Indicators)

    Market facilitation index: (high - low) / volume; 0 without volume.

    Inputs: high, low, volume
    Outputs: real
    """
    if precision is None:
        return _call(193, high, low, volume)  # type: ignore[no-any-return]
    return _call(193, high, low, volume, precision=precision)  # type: ignore[no-any-return]


def NVI(close: Any, volume: Any, *, precision: Precision | None = None) -> Real:
    """Negative Volume Index (Volume Indicators)

    Negative volume index (NVI): starts at 1000 and changes with the close on bars whose volume is below
    the previous one's.

    Inputs: close, volume
    Outputs: real
    """
    if precision is None:
        return _call(194, close, volume)  # type: ignore[no-any-return]
    return _call(194, close, volume, precision=precision)  # type: ignore[no-any-return]


def OBV(real: Any, volume: Any, *, precision: Precision | None = None) -> Real:
    """On Balance Volume (Volume Indicators)

    On-balance volume (OBV): cumulative sum of the volume, added on a rise and subtracted on a fall;
    starts with the first volume.

    Inputs: real, volume
    Outputs: real
    """
    if precision is None:
        return _call(195, real, volume)  # type: ignore[no-any-return]
    return _call(195, real, volume, precision=precision)  # type: ignore[no-any-return]


def PVI(close: Any, volume: Any, *, precision: Precision | None = None) -> Real:
    """Positive Volume Index (Volume Indicators)

    Positive volume index (PVI): starts at 1000 and changes with the close on bars whose volume is above
    the previous one's.

    Inputs: close, volume
    Outputs: real
    """
    if precision is None:
        return _call(196, close, volume)  # type: ignore[no-any-return]
    return _call(196, close, volume, precision=precision)  # type: ignore[no-any-return]


def PVO(volume: Any, fastperiod: int = -(2**31), slowperiod: int = -(2**31), matype: int = 1, *, precision: Precision | None = None) -> Real:
    """Percentage Volume Oscillator (Volume Indicators)

    Percentage volume oscillator (PVO): a fast moving average of the volume minus a slow one, in percent
    of the slow one; 0 where that is 0. Periods in the wrong order are swapped.

    Inputs: volume
    Parameters: fastperiod (12), slowperiod (26), matype (1)
    Outputs: real
    """
    if precision is None:
        return _call(197, volume, fastperiod, slowperiod, matype)  # type: ignore[no-any-return]
    return _call(197, volume, fastperiod, slowperiod, matype, precision=precision)  # type: ignore[no-any-return]


def PVT(close: Any, volume: Any, *, precision: Precision | None = None) -> Real:
    """Price Volume Trend (Volume Indicators)

    Price volume trend (PVT): cumulative sum of the relative change of the close times the volume, 0 on
    the first bar; a previous close of 0 adds 0.

    Inputs: close, volume
    Outputs: real
    """
    if precision is None:
        return _call(198, close, volume)  # type: ignore[no-any-return]
    return _call(198, close, volume, precision=precision)  # type: ignore[no-any-return]


def RVOL(volume: Any, timeperiod: int = -(2**31), *, precision: Precision | None = None) -> Real:
    """Relative Volume (Volume Indicators)

    Relative volume (RVOL): the volume over the SMA of the `period` bars before. Not guarded, as in TA-
    Lib: after bars without any volume it is infinite, or NaN where there is still none.

    Inputs: volume
    Parameters: timeperiod (20)
    Outputs: real
    """
    if precision is None:
        return _call(199, volume, timeperiod)  # type: ignore[no-any-return]
    return _call(199, volume, timeperiod, precision=precision)  # type: ignore[no-any-return]


def VWAP(high: Any, low: Any, close: Any, volume: Any, *, precision: Precision | None = None) -> Real:
    """Volume Weighted Average Price (Volume Indicators)

    Volume-weighted average price (VWAP) of the typical price (high + low + close) / 3 since the first
    bar; 0 before any volume.

    Inputs: high, low, close, volume
    Outputs: real
    """
    if precision is None:
        return _call(200, high, low, close, volume)  # type: ignore[no-any-return]
    return _call(200, high, low, close, volume, precision=precision)  # type: ignore[no-any-return]


#: Names by group.
GROUPS: dict[str, list[str]] = {
    "Cycle Indicators": [
        "HT_DCPERIOD",
        "HT_DCPHASE",
        "HT_PHASOR",
        "HT_SINE",
        "HT_TRENDMODE",
    ],
    "Math Operators": [
        "ADD",
        "CUMSUM",
        "DIV",
        "MAX",
        "MAXINDEX",
        "MIN",
        "MININDEX",
        "MINMAX",
        "MINMAXINDEX",
        "MULT",
        "SUB",
        "SUM",
    ],
    "Math Transform": [
        "ACOS",
        "ASIN",
        "ATAN",
        "CEIL",
        "COS",
        "COSH",
        "EXP",
        "FLOOR",
        "LN",
        "LOG10",
        "SIN",
        "SINH",
        "SQRT",
        "TAN",
        "TANH",
    ],
    "Momentum Indicators": [
        "AC",
        "ADX",
        "ADXR",
        "AO",
        "APO",
        "AROON",
        "AROONOSC",
        "BOP",
        "CCI",
        "CMO",
        "CMOU",
        "COPPOCK",
        "DPO",
        "DX",
        "ER",
        "ERI",
        "FOSC",
        "FRACTAL",
        "IMI",
        "KDJ",
        "MACD",
        "MACDEXT",
        "MACDFIX",
        "MFI",
        "MINUS_DI",
        "MINUS_DM",
        "MOM",
        "PLUS_DI",
        "PLUS_DM",
        "PPO",
        "QSTICK",
        "ROC",
        "ROCP",
        "ROCR",
        "ROCR100",
        "RSI",
        "SMI",
        "STOCH",
        "STOCHF",
        "STOCHRSI",
        "TRIX",
        "TSI",
        "ULTOSC",
        "VHF",
        "VORTEX",
        "WAD",
        "WILLR",
    ],
    "Overlap Studies": [
        "ACCBANDS",
        "BBANDS",
        "DEMA",
        "DONCHIAN",
        "EMA",
        "HMA",
        "HT_TRENDLINE",
        "KAMA",
        "KC",
        "MA",
        "MAMA",
        "MAVP",
        "MIDPOINT",
        "MIDPRICE",
        "RMA",
        "SAR",
        "SAREXT",
        "SMA",
        "SUPERTREND",
        "T3",
        "TEMA",
        "TRIMA",
        "VWMA",
        "WMA",
        "ZLEMA",
    ],
    "Pattern Recognition": [
        "CDL2CROWS",
        "CDL3BLACKCROWS",
        "CDL3INSIDE",
        "CDL3LINESTRIKE",
        "CDL3OUTSIDE",
        "CDL3STARSINSOUTH",
        "CDL3WHITESOLDIERS",
        "CDLABANDONEDBABY",
        "CDLADVANCEBLOCK",
        "CDLBELTHOLD",
        "CDLBREAKAWAY",
        "CDLCLOSINGMARUBOZU",
        "CDLCONCEALBABYSWALL",
        "CDLCOUNTERATTACK",
        "CDLDARKCLOUDCOVER",
        "CDLDOJI",
        "CDLDOJISTAR",
        "CDLDRAGONFLYDOJI",
        "CDLENGULFING",
        "CDLEVENINGDOJISTAR",
        "CDLEVENINGSTAR",
        "CDLGAPSIDESIDEWHITE",
        "CDLGRAVESTONEDOJI",
        "CDLHAMMER",
        "CDLHANGINGMAN",
        "CDLHARAMI",
        "CDLHARAMICROSS",
        "CDLHIGHWAVE",
        "CDLHIKKAKE",
        "CDLHIKKAKEMOD",
        "CDLHOMINGPIGEON",
        "CDLIDENTICAL3CROWS",
        "CDLINNECK",
        "CDLINVERTEDHAMMER",
        "CDLKICKING",
        "CDLKICKINGBYLENGTH",
        "CDLLADDERBOTTOM",
        "CDLLONGLEGGEDDOJI",
        "CDLLONGLINE",
        "CDLMARUBOZU",
        "CDLMATCHINGLOW",
        "CDLMATHOLD",
        "CDLMORNINGDOJISTAR",
        "CDLMORNINGSTAR",
        "CDLONNECK",
        "CDLPIERCING",
        "CDLRICKSHAWMAN",
        "CDLRISEFALL3METHODS",
        "CDLSEPARATINGLINES",
        "CDLSHOOTINGSTAR",
        "CDLSHORTLINE",
        "CDLSPINNINGTOP",
        "CDLSTALLEDPATTERN",
        "CDLSTICKSANDWICH",
        "CDLTAKURI",
        "CDLTASUKIGAP",
        "CDLTHRUSTING",
        "CDLTRISTAR",
        "CDLUNIQUE3RIVER",
        "CDLUPSIDEGAP2CROWS",
        "CDLXSIDEGAP3METHODS",
    ],
    "Price Transform": [
        "AVGDEV",
        "AVGPRICE",
        "HA",
        "MEDPRICE",
        "TYPPRICE",
        "WCLPRICE",
    ],
    "Statistic Functions": [
        "BETA",
        "CORREL",
        "LINEARREG",
        "LINEARREG_ANGLE",
        "LINEARREG_INTERCEPT",
        "LINEARREG_SLOPE",
        "PERCENTILE",
        "PERCENTRANK",
        "STDDEV",
        "TSF",
        "VAR",
    ],
    "Volatility Indicators": [
        "ADR",
        "ATR",
        "CVI",
        "MASSI",
        "NATR",
        "RVI",
        "TRANGE",
    ],
    "Volume Indicators": [
        "AD",
        "ADOSC",
        "CMF",
        "EFI",
        "MARKETFI",
        "NVI",
        "OBV",
        "PVI",
        "PVO",
        "PVT",
        "RVOL",
        "VWAP",
    ],
}

#: Positions by name.
POSITIONS: dict[str, int] = {
    "HT_DCPERIOD": 0,
    "HT_DCPHASE": 1,
    "HT_PHASOR": 2,
    "HT_SINE": 3,
    "HT_TRENDMODE": 4,
    "ADD": 5,
    "CUMSUM": 6,
    "DIV": 7,
    "MAX": 8,
    "MAXINDEX": 9,
    "MIN": 10,
    "MININDEX": 11,
    "MINMAX": 12,
    "MINMAXINDEX": 13,
    "MULT": 14,
    "SUB": 15,
    "SUM": 16,
    "ACOS": 17,
    "ASIN": 18,
    "ATAN": 19,
    "CEIL": 20,
    "COS": 21,
    "COSH": 22,
    "EXP": 23,
    "FLOOR": 24,
    "LN": 25,
    "LOG10": 26,
    "SIN": 27,
    "SINH": 28,
    "SQRT": 29,
    "TAN": 30,
    "TANH": 31,
    "AC": 32,
    "ADX": 33,
    "ADXR": 34,
    "AO": 35,
    "APO": 36,
    "AROON": 37,
    "AROONOSC": 38,
    "BOP": 39,
    "CCI": 40,
    "CMO": 41,
    "CMOU": 42,
    "COPPOCK": 43,
    "DPO": 44,
    "DX": 45,
    "ER": 46,
    "ERI": 47,
    "FOSC": 48,
    "FRACTAL": 49,
    "IMI": 50,
    "KDJ": 51,
    "MACD": 52,
    "MACDEXT": 53,
    "MACDFIX": 54,
    "MFI": 55,
    "MINUS_DI": 56,
    "MINUS_DM": 57,
    "MOM": 58,
    "PLUS_DI": 59,
    "PLUS_DM": 60,
    "PPO": 61,
    "QSTICK": 62,
    "ROC": 63,
    "ROCP": 64,
    "ROCR": 65,
    "ROCR100": 66,
    "RSI": 67,
    "SMI": 68,
    "STOCH": 69,
    "STOCHF": 70,
    "STOCHRSI": 71,
    "TRIX": 72,
    "TSI": 73,
    "ULTOSC": 74,
    "VHF": 75,
    "VORTEX": 76,
    "WAD": 77,
    "WILLR": 78,
    "ACCBANDS": 79,
    "BBANDS": 80,
    "DEMA": 81,
    "DONCHIAN": 82,
    "EMA": 83,
    "HMA": 84,
    "HT_TRENDLINE": 85,
    "KAMA": 86,
    "KC": 87,
    "MA": 88,
    "MAMA": 89,
    "MAVP": 90,
    "MIDPOINT": 91,
    "MIDPRICE": 92,
    "RMA": 93,
    "SAR": 94,
    "SAREXT": 95,
    "SMA": 96,
    "SUPERTREND": 97,
    "T3": 98,
    "TEMA": 99,
    "TRIMA": 100,
    "VWMA": 101,
    "WMA": 102,
    "ZLEMA": 103,
    "CDL2CROWS": 104,
    "CDL3BLACKCROWS": 105,
    "CDL3INSIDE": 106,
    "CDL3LINESTRIKE": 107,
    "CDL3OUTSIDE": 108,
    "CDL3STARSINSOUTH": 109,
    "CDL3WHITESOLDIERS": 110,
    "CDLABANDONEDBABY": 111,
    "CDLADVANCEBLOCK": 112,
    "CDLBELTHOLD": 113,
    "CDLBREAKAWAY": 114,
    "CDLCLOSINGMARUBOZU": 115,
    "CDLCONCEALBABYSWALL": 116,
    "CDLCOUNTERATTACK": 117,
    "CDLDARKCLOUDCOVER": 118,
    "CDLDOJI": 119,
    "CDLDOJISTAR": 120,
    "CDLDRAGONFLYDOJI": 121,
    "CDLENGULFING": 122,
    "CDLEVENINGDOJISTAR": 123,
    "CDLEVENINGSTAR": 124,
    "CDLGAPSIDESIDEWHITE": 125,
    "CDLGRAVESTONEDOJI": 126,
    "CDLHAMMER": 127,
    "CDLHANGINGMAN": 128,
    "CDLHARAMI": 129,
    "CDLHARAMICROSS": 130,
    "CDLHIGHWAVE": 131,
    "CDLHIKKAKE": 132,
    "CDLHIKKAKEMOD": 133,
    "CDLHOMINGPIGEON": 134,
    "CDLIDENTICAL3CROWS": 135,
    "CDLINNECK": 136,
    "CDLINVERTEDHAMMER": 137,
    "CDLKICKING": 138,
    "CDLKICKINGBYLENGTH": 139,
    "CDLLADDERBOTTOM": 140,
    "CDLLONGLEGGEDDOJI": 141,
    "CDLLONGLINE": 142,
    "CDLMARUBOZU": 143,
    "CDLMATCHINGLOW": 144,
    "CDLMATHOLD": 145,
    "CDLMORNINGDOJISTAR": 146,
    "CDLMORNINGSTAR": 147,
    "CDLONNECK": 148,
    "CDLPIERCING": 149,
    "CDLRICKSHAWMAN": 150,
    "CDLRISEFALL3METHODS": 151,
    "CDLSEPARATINGLINES": 152,
    "CDLSHOOTINGSTAR": 153,
    "CDLSHORTLINE": 154,
    "CDLSPINNINGTOP": 155,
    "CDLSTALLEDPATTERN": 156,
    "CDLSTICKSANDWICH": 157,
    "CDLTAKURI": 158,
    "CDLTASUKIGAP": 159,
    "CDLTHRUSTING": 160,
    "CDLTRISTAR": 161,
    "CDLUNIQUE3RIVER": 162,
    "CDLUPSIDEGAP2CROWS": 163,
    "CDLXSIDEGAP3METHODS": 164,
    "AVGDEV": 165,
    "AVGPRICE": 166,
    "HA": 167,
    "MEDPRICE": 168,
    "TYPPRICE": 169,
    "WCLPRICE": 170,
    "BETA": 171,
    "CORREL": 172,
    "LINEARREG": 173,
    "LINEARREG_ANGLE": 174,
    "LINEARREG_INTERCEPT": 175,
    "LINEARREG_SLOPE": 176,
    "PERCENTILE": 177,
    "PERCENTRANK": 178,
    "STDDEV": 179,
    "TSF": 180,
    "VAR": 181,
    "ADR": 182,
    "ATR": 183,
    "CVI": 184,
    "MASSI": 185,
    "NATR": 186,
    "RVI": 187,
    "TRANGE": 188,
    "AD": 189,
    "ADOSC": 190,
    "CMF": 191,
    "EFI": 192,
    "MARKETFI": 193,
    "NVI": 194,
    "OBV": 195,
    "PVI": 196,
    "PVO": 197,
    "PVT": 198,
    "RVOL": 199,
    "VWAP": 200,
}
