//! How is one step done for a block of elements? One loop a function, compiled for the widths that processors have.
//!
//! The widest that the processor offers is found when it runs. Results do not depend on it: every function is the same
//! sequence of IEEE operations for each element, and Rust never contracts them.

use super::{
    Function,
    math::{self, MOST_ANGLE},
};

/// Elements that are handled at once; 64 bytes, so that a streamed line is written whole.
pub(crate) const LINE: usize = 16;

/// What a step of a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// A function of the expression.
    Call(Function),
    /// `a*b + c` in one pass, rounded twice as the two steps it stands for.
    MulAdd,
    /// The value itself.
    Copy,
}

/// One element; what all loops below compute.
#[inline(always)]
pub(crate) fn apply(f: Function, a: f32, b: f32, c: f32) -> f32 {
    let one = |is: bool| if is { 1.0 } else { 0.0 };
    match f {
        Function::Add => a + b,
        Function::Sub => a - b,
        Function::Mul => a * b,
        Function::Div => a / b,
        Function::Neg => -a,
        Function::Min => a.min(b),
        Function::Max => a.max(b),
        Function::Abs => a.abs(),
        Function::Sqrt => a.sqrt(),
        Function::Floor => a.floor(),
        Function::Exp => math::exp(a),
        Function::Ln => math::ln(a),
        Function::Sin => {
            if in_range(a) {
                math::sin(a)
            } else {
                a.sin()
            }
        }
        Function::Cos => {
            if in_range(a) {
                math::cos(a)
            } else {
                a.cos()
            }
        }
        Function::Tanh => math::tanh(a),
        Function::Pow => a.powf(b),
        Function::Less => one(a < b),
        Function::LessEqual => one(a <= b),
        Function::Greater => one(a > b),
        Function::GreaterEqual => one(a >= b),
        Function::Equal => one(a == b),
        Function::Select => {
            if a != 0.0 {
                b
            } else {
                c
            }
        }
    }
}

#[inline(always)]
fn in_range(angle: f32) -> bool {
    angle.abs() <= MOST_ANGLE
}

/// Does a step for a whole block; operands that the step does not have are ignored, the others are as long as `out`.
/// With `stream` results go past the caches, where the processor can do that and `out` lies on a line.
pub(crate) fn step(code: Code, from: [&[f32]; 3], out: &mut [f32], stream: bool) {
    let stream = stream && cfg!(target_arch = "x86_64") && (out.as_ptr() as usize).is_multiple_of(4 * LINE);
    if stream { widest::<true>(code, from, out) } else { widest::<false>(code, from, out) }
}

/// Streamed results are seen by other threads only after this.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "an instruction that every x86-64 has")]
    // SAFETY: a fence has no preconditions; SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(
    unsafe_code,
    reason = "calls code compiled for what the processor was found to have; 2-4 times faster"
)]
fn widest<const STREAM: bool>(code: Code, from: [&[f32]; 3], out: &mut [f32]) {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    fn wide16<const STREAM: bool>(code: Code, from: [&[f32]; 3], out: &mut [f32]) {
        body::<STREAM>(code, from, out);
    }
    #[target_feature(enable = "avx2")]
    fn wide8<const STREAM: bool>(code: Code, from: [&[f32]; 3], out: &mut [f32]) {
        body::<STREAM>(code, from, out);
    }
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
    {
        // SAFETY: the processor has what it was compiled for.
        unsafe { wide16::<STREAM>(code, from, out) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what it was compiled for.
        unsafe { wide8::<STREAM>(code, from, out) }
    } else {
        body::<STREAM>(code, from, out);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn widest<const STREAM: bool>(code: Code, from: [&[f32]; 3], out: &mut [f32]) {
    body::<STREAM>(code, from, out);
}

#[inline(always)]
fn body<const STREAM: bool>(code: Code, [a, b, c]: [&[f32]; 3], out: &mut [f32]) {
    // One arm for each function: its loop is then compiled for it alone.
    macro_rules! arms {
        ($($arity:ident: $($f:ident)*;)*) => {
            match code {
                Code::Copy => one::<STREAM>(a, out, |a| a),
                Code::MulAdd => three::<STREAM>(a, b, c, out, |a, b, c| a * b + c),
                Code::Call(Function::Sin) => angles::<STREAM>(a, out, math::sin, f32::sin),
                Code::Call(Function::Cos) => angles::<STREAM>(a, out, math::cos, f32::cos),
                Code::Call(Function::Select) => {
                    three::<STREAM>(a, b, c, out, |a, b, c| apply(Function::Select, a, b, c));
                }
                $($(Code::Call(Function::$f) => arms!(@ $arity $f),)*)*
            }
        };
        (@ one $f:ident) => { one::<STREAM>(a, out, |a| apply(Function::$f, a, 0.0, 0.0)) };
        (@ two $f:ident) => { two::<STREAM>(a, b, out, |a, b| apply(Function::$f, a, b, 0.0)) };
    }
    arms! {
        one: Neg Abs Sqrt Floor Exp Ln Tanh;
        two: Add Sub Mul Div Min Max Pow Less LessEqual Greater GreaterEqual Equal;
    }
}

/// Writes a line.
#[inline(always)]
fn put<const STREAM: bool>(out: &mut [f32; LINE], line: [f32; LINE]) {
    #[cfg(target_arch = "x86_64")]
    if STREAM {
        use std::arch::x86_64::{_mm_setr_ps, _mm_stream_ps};
        let (quads, _) = line.as_chunks::<4>();
        for (to, [a, b, c, d]) in out.as_chunks_mut::<4>().0.iter_mut().zip(quads) {
            #[allow(unsafe_code, reason = "there is no safe way to write past the caches; 1.6 times faster")]
            // SAFETY: `to` is 16 bytes of ours; `step` streams only where lines begin at multiples of 64.
            unsafe {
                _mm_stream_ps(to.as_mut_ptr(), _mm_setr_ps(*a, *b, *c, *d));
            }
        }
        return;
    }
    *out = line;
}

#[inline(always)]
fn one<const STREAM: bool>(a: &[f32], out: &mut [f32], f: impl Fn(f32) -> f32) {
    let ((lines, rest), (a, a_rest)) = (out.as_chunks_mut::<LINE>(), a.as_chunks::<LINE>());
    for (out, a) in lines.iter_mut().zip(a) {
        put::<STREAM>(out, a.map(&f));
    }
    for (out, a) in rest.iter_mut().zip(a_rest) {
        *out = f(*a);
    }
}

/// As `one`, with another function for angles that are out of range; which one is used depends on the element alone.
#[inline(always)]
fn angles<const STREAM: bool>(
    a: &[f32],
    out: &mut [f32],
    near: impl Fn(f32) -> f32,
    far: impl Fn(f32) -> f32,
) {
    let ((lines, rest), (a, a_rest)) = (out.as_chunks_mut::<LINE>(), a.as_chunks::<LINE>());
    for (out, a) in lines.iter_mut().zip(a) {
        let mut line = a.map(&near);
        if a.iter().fold(false, |odd, a| odd | !in_range(*a)) {
            for (y, a) in line.iter_mut().zip(a).filter(|(_, a)| !in_range(**a)) {
                *y = far(*a);
            }
        }
        put::<STREAM>(out, line);
    }
    for (out, a) in rest.iter_mut().zip(a_rest) {
        *out = if in_range(*a) { near(*a) } else { far(*a) };
    }
}

#[inline(always)]
fn two<const STREAM: bool>(a: &[f32], b: &[f32], out: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    let (lines, rest) = out.as_chunks_mut::<LINE>();
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LINE>(), b.as_chunks::<LINE>());
    for ((out, a), b) in lines.iter_mut().zip(a).zip(b) {
        let mut line = [0.0; LINE];
        for ((y, a), b) in line.iter_mut().zip(a).zip(b) {
            *y = f(*a, *b);
        }
        put::<STREAM>(out, line);
    }
    for ((out, a), b) in rest.iter_mut().zip(a_rest).zip(b_rest) {
        *out = f(*a, *b);
    }
}

#[inline(always)]
fn three<const STREAM: bool>(
    a: &[f32],
    b: &[f32],
    c: &[f32],
    out: &mut [f32],
    f: impl Fn(f32, f32, f32) -> f32,
) {
    let (lines, rest) = out.as_chunks_mut::<LINE>();
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LINE>(), b.as_chunks::<LINE>());
    let (c, c_rest) = c.as_chunks::<LINE>();
    for (((out, a), b), c) in lines.iter_mut().zip(a).zip(b).zip(c) {
        let mut line = [0.0; LINE];
        for (((y, a), b), c) in line.iter_mut().zip(a).zip(b).zip(c) {
            *y = f(*a, *b, *c);
        }
        put::<STREAM>(out, line);
    }
    for (((out, a), b), c) in rest.iter_mut().zip(a_rest).zip(b_rest).zip(c_rest) {
        *out = f(*a, *b, *c);
    }
}
