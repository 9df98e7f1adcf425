//! SIMD kernels of the expression interpreter: one loop per function, with run-time dispatch (AVX-512, AVX2, baseline).
//!
//! The SIMD level is detected at run time. Results do not depend on it: every function is the same sequence of IEEE operations per
//! element, and Rust never contracts them to FMA.

#[cfg(target_arch = "x86_64")]
use gpuforge_simd::{Simd, SimdLevel};

use super::{
    Function,
    math::{self, MAX_ANGLE},
};

/// Elements per iteration; 64 bytes, so that a non-temporal store writes a whole cache line.
pub(crate) const LINE: usize = 16;

/// Opcode of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpCode {
    /// A function of the expression.
    Call(Function),
    /// `a*b + c` in one pass, rounded twice like the two nodes it stands for.
    MulAdd,
    /// Copy.
    Copy,
}

/// Scalar semantics of a function; what all loops below compute.
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
    angle.abs() <= MAX_ANGLE
}

/// Runs an instruction over a block; unused operands are ignored, the others are as long as `out`. With `stream`, results are
/// written with non-temporal stores where supported and `out` is aligned to a cache line.
pub(crate) fn step(code: OpCode, from: [&[f32]; 3], out: &mut [f32], stream: bool) {
    let stream = stream && cfg!(target_arch = "x86_64") && (out.as_ptr() as usize).is_multiple_of(4 * LINE);
    if stream { dispatch::<true>(code, from, out) } else { dispatch::<false>(code, from, out) }
}

/// Store fence: makes non-temporal stores visible to other threads.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "an instruction that every x86-64 has")]
    // SAFETY: a fence has no preconditions; SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "calls code compiled for detected CPU features")]
fn dispatch<const STREAM: bool>(code: OpCode, from: [&[f32]; 3], out: &mut [f32]) {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    fn avx512<const STREAM: bool>(code: OpCode, from: [&[f32]; 3], out: &mut [f32]) {
        body::<STREAM>(code, from, out);
    }
    #[target_feature(enable = "avx2")]
    fn avx2<const STREAM: bool>(code: OpCode, from: [&[f32]; 3], out: &mut [f32]) {
        body::<STREAM>(code, from, out);
    }
    match Simd::detect().level() {
        // SAFETY: the detected level has AVX-512 F, DQ and VL.
        SimdLevel::Avx512 => unsafe { avx512::<STREAM>(code, from, out) },
        // SAFETY: the detected level has AVX2.
        SimdLevel::Avx2 => unsafe { avx2::<STREAM>(code, from, out) },
        SimdLevel::Scalar => body::<STREAM>(code, from, out),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn dispatch<const STREAM: bool>(code: OpCode, from: [&[f32]; 3], out: &mut [f32]) {
    body::<STREAM>(code, from, out);
}

#[inline(always)]
fn body<const STREAM: bool>(code: OpCode, [a, b, c]: [&[f32]; 3], out: &mut [f32]) {
    // One arm per function, so that each loop is compiled and vectorised for it alone.
    macro_rules! arms {
        ($($arity:ident: $($f:ident)*;)*) => {
            match code {
                OpCode::Copy => one::<STREAM>(a, out, |a| a),
                OpCode::MulAdd => three::<STREAM>(a, b, c, out, |a, b, c| a * b + c),
                OpCode::Call(Function::Sin) => angles::<STREAM>(a, out, math::sin, f32::sin),
                OpCode::Call(Function::Cos) => angles::<STREAM>(a, out, math::cos, f32::cos),
                OpCode::Call(Function::Select) => {
                    three::<STREAM>(a, b, c, out, |a, b, c| apply(Function::Select, a, b, c));
                }
                $($(OpCode::Call(Function::$f) => arms!(@ $arity $f),)*)*
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

/// Stores a cache line.
#[inline(always)]
fn store_line<const STREAM: bool>(out: &mut [f32; LINE], line: [f32; LINE]) {
    #[cfg(target_arch = "x86_64")]
    if STREAM {
        use std::arch::x86_64::{_mm_setr_ps, _mm_stream_ps};
        let (quads, _) = line.as_chunks::<4>();
        for (to, [a, b, c, d]) in out.as_chunks_mut::<4>().0.iter_mut().zip(quads) {
            #[allow(unsafe_code, reason = "no safe intrinsic for non-temporal stores")]
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
        store_line::<STREAM>(out, a.map(&f));
    }
    for (out, a) in rest.iter_mut().zip(a_rest) {
        *out = f(*a);
    }
}

/// As `one`, with a fallback for angles out of range; which one is used depends on the element alone.
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
        store_line::<STREAM>(out, line);
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
        store_line::<STREAM>(out, line);
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
        store_line::<STREAM>(out, line);
    }
    for (((out, a), b), c) in rest.iter_mut().zip(a_rest).zip(b_rest).zip(c_rest) {
        *out = f(*a, *b, *c);
    }
}
