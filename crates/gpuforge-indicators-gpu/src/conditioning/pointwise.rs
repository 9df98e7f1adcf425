//! Error bounds of pointwise nodes: sums with cancellation, products, quotients, comparisons, functions.

use gpuforge_indicators::graph::{BinaryOp, UnaryOp};

use super::{
    Bound, COUNT, Conditioning, DECISION, EXACT, ErrorKind, LEVEL, LIMIT, OVERFLOW, PEAK, PHASES, RATIO,
    SHALLOW, TINY, TRIGONOMETRY, UNEVEN, patterns::is_power_of_two,
};

/// A product with a constant; `keeps` whole numbers whole.
pub(super) fn times(x: Conditioning, k: f64, keeps: bool) -> Conditioning {
    let exact = x.is_exact() && (k.fract() == 0.0 || is_power_of_two(k));
    let scaled = Conditioning { whole: x.whole && keeps, ..x.scaled(k) };
    let fraction = scaled.fraction || x.is_exact();
    if exact { scaled } else { Conditioning { fraction, ..scaled.rounded() } }
}

/// A sum, or with `sign` -1 a difference.
pub(super) fn sum(a: Conditioning, b: Conditioning, sign: f64) -> Conditioning {
    let same_level = a.level_of == b.level_of || !a.has_level() || !b.has_level();
    let unlike_units = a.degree != b.degree || !same_level;
    let (a, b) = if unlike_units { (a.decoded(), b.decoded()) } else { (a, b) };
    let owner = if a.has_level() { a } else { b };
    let level = a.level + if same_level { sign * b.level } else { 0.0 };
    let level = if level.abs() > TINY { level } else { 0.0 };
    let lag = a.lag + sign * b.lag;
    let exact = a.is_exact() && b.is_exact() && same_level;
    let ordered = sign < 0.0 && matches!((a.side, b.side), (Some(x), Some(y)) if x > y);
    let nonnegative = (a.nonnegative && b.nonnegative && sign > 0.0) || ordered;
    let unlike = |x: &Conditioning| match () {
        () if x.has_level() => x.spread,
        () if x.constant => 0.0,
        () => x.walk.size,
    };
    let spread = if level == 0.0 { 0.0 } else { unlike(&a).max(unlike(&b)) };
    let largest = (a.trend.size.max(b.trend.size), a.walk.size.max(b.walk.size));
    let both = a.has_level() && b.has_level() && sign > 0.0;
    let largest = if both { (a.trend.size + b.trend.size, a.walk.size + b.walk.size) } else { largest };
    let cancels = level == 0.0 && a.has_level();
    let opposed = sign < 0.0
        && level == 0.0
        && a.level == 0.0
        && a.steady != 0
        && !a.varies
        && a.steady == b.steady
        && (a.trend.size - b.trend.size).abs() <= TINY * a.trend.size;
    let still = lag.abs() <= TINY * (1.0 + a.lag.abs());
    let vanishes = match () {
        () if cancels => still && a.fields == b.fields && a.spread.max(b.spread) == 0.0,
        () if opposed => true,
        () => a.vanishes && b.vanishes,
    };
    let (trend, walk) = match () {
        () if cancels => {
            let (apart, step) = (a.spread + b.spread, a.step.max(b.step));
            let bars = (lag.abs() / step).max(1.0);
            let trend = match () {
                () if still && apart == 0.0 && a.fields != b.fields => step,
                () if still || apart == 0.0 => lag.abs() + UNEVEN * step + apart,
                // Both may be opposite.
                () => lag.abs().max(apart) / 4.0 + UNEVEN * step,
            };
            (trend, PEAK * step * bars.sqrt() + apart)
        }
        () if opposed && still && !exact => (0.0, largest.1),
        () => largest,
    };
    let worse = if b.refused && !a.refused { b } else { a };
    let found = Conditioning {
        trend: Bound { error: a.trend.error + b.trend.error, size: trend },
        walk: Bound { error: a.walk.error + b.walk.error, size: walk },
        kind: a.kind.max(b.kind).max(if exact || nonnegative {
            ErrorKind::Relative
        } else {
            ErrorKind::Terms
        }),
        level,
        level_of: owner.level_of,
        lag,
        step: match () {
            () if both => a.step + b.step,
            () if a.has_level() && b.has_level() => a.step.max(b.step),
            () => owner.step,
        },
        spread,
        fields: a.fields | b.fields,
        side: None,
        steady: match () {
            () if b.vanishes => a.steady,
            () if a.vanishes && sign > 0.0 => b.steady,
            () => 0,
        },
        whole: a.whole && b.whole,
        vanishes,
        fraction: a.fraction || b.fraction,
        blurred: a.blurred || b.blurred || (sign > 0.0 && a.fraction && b.fraction),
        rolling: a.rolling || b.rolling,
        varies: a.varies || b.varies,
        settles: a.settles || b.settles,
        constant: a.constant && b.constant,
        finite: a.finite && b.finite,
        positive: nonnegative && !ordered && (a.positive || b.positive),
        degree: owner.degree,
        mixed: a.mixed || b.mixed || unlike_units,
        nonnegative,
        reason: worse.reason,
        refused: a.refused || b.refused,
    };
    // A percentage that is all or nothing on a trend, less 100.
    let percent = |x: &Conditioning| x.constant && x.walk.size == 100.0;
    if !exact && level == 0.0 && !found.whole && (percent(&a) || percent(&b)) {
        let trend = Bound { error: found.trend.error + found.trend.size, size: 0.0 };
        return Conditioning { trend, vanishes: true, ..found.rounded() };
    }
    if exact { found } else { found.rounded() }
}

/// Are both prices with the same offset?
pub(super) fn alike(a: Conditioning, b: Conditioning) -> bool {
    a.is_price() && b.is_price() && a.degree == b.degree && (a.level - b.level).abs() <= TINY
}

/// `a / b - 1` of two levels, which kernels compute from their difference.
pub(super) fn excess(a: Conditioning, b: Conditioning) -> Conditioning {
    quotient(sum(a, b, -1.0), b)
}

pub(super) fn product(a: Conditioning, b: Conditioning) -> Conditioning {
    let times = |x: Bound, y: Bound| {
        let size = x.size * y.size;
        let error = x.error * y.size + y.error * x.size;
        Bound { error, size }
    };
    let (a, b) = if a.has_level() { (a, b) } else { (b, a) };
    let (a, b) = (a.decoded(), b.decoded());
    let worse = if b.refused && !a.refused { b } else { a };
    let found = Conditioning {
        trend: times(a.trend, b.trend),
        walk: times(a.walk, b.walk),
        kind: a.kind.max(b.kind),
        // What a level weighs varies: it cancels no more, until it is divided by the weights.
        level: if b.nonnegative { a.level * b.trend.size } else { 0.0 },
        lag: if b.nonnegative { a.lag * b.trend.size } else { 0.0 },
        degree: a.degree + b.degree,
        mixed: a.mixed || b.mixed,
        nonnegative: a.nonnegative && b.nonnegative,
        // Weights vary by as much as they are.
        spread: match (a.has_level(), b.has_level()) {
            (true, true) => a.spread * b.walk.size + b.spread * a.walk.size,
            (true, false) => a.walk.size * b.walk.size,
            _ => 0.0,
        },
        varies: a.varies || b.varies,
        settles: a.settles || b.settles,
        constant: a.constant && b.constant,
        step: a.step * b.trend.size,
        finite: a.finite && b.finite,
        fraction: a.fraction || b.fraction,
        blurred: a.blurred || b.blurred,
        positive: false,
        fields: a.fields | b.fields,
        side: None,
        steady: 0,
        whole: a.whole && b.whole,
        vanishes: a.vanishes || b.vanishes,
        refused: a.refused || b.refused,
        reason: worse.reason,
        ..a
    };
    if a.is_exact() && b.is_exact() && !found.has_level() { found } else { found.rounded() }
}

pub(super) fn quotient(a: Conditioning, b: Conditioning) -> Conditioning {
    let worse = if b.refused && !a.refused { b } else { a };
    let refused = a.refused || b.refused;
    let (fraction, finite) = (false, a.finite && b.finite);
    let a = Conditioning {
        constant: false,
        varies: a.varies || b.varies,
        settles: a.settles || b.settles,
        refused,
        reason: worse.reason,
        side: None,
        steady: 0,
        whole: false,
        fraction,
        finite,
        ..a
    };
    if b.is_price() {
        let size = b.step * LEVEL;
        let level = if a.has_level() { a.level / b.level } else { 0.0 };
        let lag = if a.has_level() { (a.lag - level * b.lag) / size } else { a.lag / size };
        let step = if a.has_level() { a.step / size } else { 1.0 };
        let scaled = Conditioning { degree: a.degree - b.degree, ..a.scaled(1.0 / size) };
        if !a.has_level() {
            // No constant on a trend any more: it drifts as the level moves.
            return Conditioning { lag, step, trend: scaled.trend.rounded(1.0), ..scaled.rounded() };
        }
        let own = if a.level_of.is_none() { level.abs() } else { a.walk.size / size };
        let ratio = Bound::exact(own).rounded(2.0);
        let spread = (a.spread + level.abs() * b.spread) / size;
        let (degree, kind) = (a.degree - b.degree, ErrorKind::Absolute);
        return Conditioning { trend: ratio, walk: ratio, level, lag, step, spread, degree, kind, ..a };
    }
    let signed = !b.nonnegative || b.has_level();
    let a = a.decoded();
    if b.is_noise() || (!b.is_exact() && signed && b.kind > ErrorKind::Relative) {
        return a.refuse(RATIO);
    }
    let over = |x: Bound, y: Bound, shallow: f64| {
        // An error that does not shrink with the divisor counts where the divisor is small.
        let of_divisor = if b.kind == ErrorKind::Relative { 1.0 } else { shallow };
        let size = x.size / y.size.max(TINY);
        let own = if a.kind == ErrorKind::Absolute { shallow } else { 1.0 };
        let error = (x.error * own + size * y.error * of_divisor) / y.size.max(TINY);
        Bound { error, size }
    };
    let reason = if a.refused { a.reason } else { RATIO };
    let found = Conditioning {
        trend: over(a.trend, b.trend, 1.0),
        walk: over(a.walk, b.walk, SHALLOW),
        kind: a.kind.max(b.kind),
        level: a.level / b.trend.size.max(TINY),
        lag: a.lag / b.trend.size.max(TINY),
        // Weights cancel.
        spread: 0.0,
        step: a.step / b.trend.size.max(TINY),
        degree: a.degree - b.degree,
        mixed: a.mixed || b.mixed,
        finite: a.finite && b.positive,
        positive: a.positive && b.positive,
        nonnegative: a.nonnegative && b.nonnegative,
        reason,
        ..a
    };
    found.rounded()
}

/// Arctangent of a quotient: the angle of a vector, whose parts may be 0 one at a time.
pub(super) fn angle(a: Conditioning, b: Conditioning) -> Conditioning {
    let vector = |x: Bound, y: Bound| Bound { error: SHALLOW * (x.relative() + y.relative()), size: 1.0 };
    let found = Conditioning {
        trend: vector(a.trend, b.trend),
        walk: vector(a.walk, b.walk),
        kind: ErrorKind::Absolute,
        reason: RATIO,
        nonnegative: false,
        ..EXACT
    };
    let found = found.rounded().with(&[a, b]);
    if a.is_noise() || b.is_noise() { found.refuse(RATIO) } else { found }
}

pub(super) fn binary(f: BinaryOp, a: Conditioning, b: Conditioning) -> Conditioning {
    match f {
        BinaryOp::Add => sum(a, b, 1.0),
        BinaryOp::Sub => sum(a, b, -1.0),
        BinaryOp::Mul => product(a, b),
        BinaryOp::Div => quotient(a, b),
        BinaryOp::Div0 => Conditioning { finite: a.finite && b.finite, ..quotient(a, b) },
        BinaryOp::Max => Conditioning { nonnegative: a.nonnegative || b.nonnegative, ..a.or(b) },
        BinaryOp::Min => a.or(b),
        BinaryOp::Pow => Conditioning { level: 0.0, lag: 0.0, ..product(a, a).with(&[b]) },
        BinaryOp::And | BinaryOp::Or => COUNT.with(&[a, b]),
        BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne => {
            decision(a, b)
        }
    }
}

/// A comparison: wrong where both are closer than their errors, which must be rare.
pub(super) fn decision(a: Conditioning, b: Conditioning) -> Conditioning {
    let apart = sum(a, b, -1.0);
    let found = COUNT.with(&[a, b]);
    let comparable = a.walk.size.min(b.walk.size) > TINY * a.walk.size.max(b.walk.size);
    let same = a.fields == b.fields && a.fields != 0 && comparable;
    let ties = same && (a.blurred || b.blurred || (a.rolling && b.rolling));
    let close = apart.walk.error > LIMIT * apart.walk.size;
    if apart.is_noise() || ties || close { found.refuse(DECISION) } else { found }
}

pub(super) fn unary(f: UnaryOp, x: Conditioning, power: bool) -> Conditioning {
    let free = Conditioning {
        constant: false,
        level: 0.0,
        lag: 0.0,
        spread: 0.0,
        side: None,
        steady: 0,
        whole: false,
        ..x
    };
    match f {
        UnaryOp::Neg => Conditioning { steady: 0, ..x.scaled(-1.0) },
        UnaryOp::Abs if x.has_level() => x,
        UnaryOp::Abs => Conditioning { nonnegative: true, lag: 0.0, steady: 0, ..x },
        UnaryOp::Sqrt if x.is_price() => x.decoded().rounded(),
        UnaryOp::Ln | UnaryOp::Log10 if x.has_level() && !x.mixed => {
            let unit = |b: Bound| Bound { error: b.relative() + 1.0, size: 1.0 };
            let x = x.decoded();
            let finite = x.finite && x.spread == 0.0;
            let (trend, walk) = (unit(x.trend), unit(x.walk));
            Conditioning {
                level: 1.0,
                step: 1.0 / LEVEL,
                spread: 0.0,
                lag: x.lag / (LEVEL * x.step),
                trend,
                walk,
                finite,
                ..x
            }
        }
        UnaryOp::Sqrt => {
            let root = |b: Bound| {
                let size = b.size.sqrt();
                Bound { error: b.error / (2.0 * size.max(TINY)), size }
            };
            let degree = x.degree / 2.0;
            Conditioning { trend: root(x.trend), walk: root(x.walk), degree, nonnegative: true, ..free }
                .rounded()
        }
        UnaryOp::Ln | UnaryOp::Log10 => {
            let kind = x.kind.max(ErrorKind::Terms);
            let unit = |b: Bound| Bound { error: b.relative(), size: 1.0 };
            let finite = x.finite && x.positive;
            Conditioning {
                trend: unit(x.trend),
                walk: unit(x.walk),
                nonnegative: false,
                kind,
                finite,
                ..free
            }
            .rounded()
        }
        UnaryOp::Exp if power => Conditioning { nonnegative: true, ..free.rounded() },
        UnaryOp::Exp | UnaryOp::Sinh | UnaryOp::Cosh => x.refuse(OVERFLOW),
        UnaryOp::Tan => x.refuse(RATIO),
        UnaryOp::Sin | UnaryOp::Cos => {
            // The argument's absolute error, of a column that may be small; and the function's own.
            let unit = |b: Bound| Bound { error: PHASES * b.error + TRIGONOMETRY, size: 1.0 };
            let (kind, x) = (ErrorKind::Absolute, x.decoded());
            let reason = if x.refused { x.reason } else { RATIO };
            Conditioning {
                trend: unit(x.trend),
                walk: unit(x.walk),
                nonnegative: false,
                kind,
                reason,
                ..free
            }
        }
        // The error is magnified near 1.
        UnaryOp::Asin | UnaryOp::Acos if !x.is_exact() => x.refuse(RATIO),
        UnaryOp::Asin | UnaryOp::Acos => Conditioning { nonnegative: false, ..free.rounded() },
        UnaryOp::Atan => {
            // The functions of small arguments are less precise.
            let small =
                |b: Bound| if b.size < 0.1 { Bound { error: b.error + 400.0 * b.size, ..b } } else { b };
            // Of a price it is next to a right angle at every bar: neighbours are told apart by rounding.
            let blurred = x.blurred || x.has_level();
            Conditioning { trend: small(x.trend), walk: small(x.walk), blurred, ..free }.rounded()
        }
        // Rounded to 1, however small the argument is.
        UnaryOp::Tanh => {
            let unit = |b: Bound| Bound { error: b.error + 1.0, size: b.size.min(1.0) };
            Conditioning { trend: unit(x.trend), walk: unit(x.walk), ..free }
        }
        UnaryOp::Floor | UnaryOp::Ceil if x.is_exact() => x,
        UnaryOp::Floor | UnaryOp::Ceil => x.refuse(DECISION),
        UnaryOp::Sign => {
            let found = Conditioning { nonnegative: false, ..COUNT }.with(&[x]);
            if x.is_noise() { found.refuse(DECISION) } else { found }
        }
    }
}
