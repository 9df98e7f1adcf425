//! Golden disassembly of the AArch64 encoder, by binutils' `objdump`.

use std::process::Command;

use super::{Golden, ema_code, lines, scan};
use crate::jit::{
    aarch64::{Assembler, Element, Form, Gpr, SP, X0, X1, X2, X4, X16, X17, emit},
    error::EmitError,
    ir::{Arith, Bitwise, Compare, EmaPowers, Inst, Ir, MinMax, Opcode, Rounding, ScanKind, Src},
    target::{MemoryHints, Width},
};

/// Disassemblers, by preference: the cross binutils, then the host's, which on AArch64 is the same.
const OBJDUMPS: [&str; 2] = ["aarch64-linux-gnu-objdump", "objdump"];

/// `None` where no disassembler for AArch64 is installed.
fn disassemble(code: &[u8]) -> Option<Vec<String>> {
    static FILES: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = FILES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("gpuforge-jit-{}-{number}.bin", std::process::id()));
    std::fs::write(&file, code).unwrap();
    let run = |objdump: &&str| {
        let arguments = ["-D", "-b", "binary", "-m", "aarch64", "--no-show-raw-insn"];
        let output = Command::new(objdump).args(arguments).arg(&file).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let text = OBJDUMPS.iter().find_map(run);
    std::fs::remove_file(&file).unwrap();
    // "   0:\tfadd\tv0.2d, v1.2d, v2.2d"; comments and symbols are objdump's, not the instruction's.
    let instruction = |line: &str| {
        let (address, text) = line.split_once(":\t")?;
        address.trim().chars().all(|c| c.is_ascii_hexdigit()).then_some(())?;
        let text = text.split("//").next()?.split('<').next()?;
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    text.map(|text| text.lines().filter_map(instruction).collect())
}

fn golden(want: &'static str, emit: impl FnOnce(&mut Assembler) -> Result<(), EmitError>) -> Golden {
    let mut asm = Assembler::default();
    emit(&mut asm).unwrap();
    Golden { code: asm.code, want }
}

/// Groups: vector and scalar forms, low and high registers, offsets of every encoding.
fn groups() -> Vec<Golden> {
    use Form::{Scalar, Vector};
    vec![
        golden(
            "fadd v0.2d, v1.2d, v2.2d\nfsub v8.2d, v9.2d, v31.2d\nfmul v3.2d, v12.2d, v4.2d\nfdiv v30.2d, v5.2d, v6.2d",
            |a| {
                a.farith(Arith::Add, Vector, 0, 1, 2);
                a.farith(Arith::Sub, Vector, 8, 9, 31);
                a.farith(Arith::Mul, Vector, 3, 12, 4);
                a.farith(Arith::Div, Vector, 30, 5, 6);
                Ok(())
            },
        ),
        golden("fadd d0, d1, d2\nfsub d8, d9, d31\nfmul d3, d12, d4\nfdiv d30, d5, d6", |a| {
            a.farith(Arith::Add, Scalar, 0, 1, 2);
            a.farith(Arith::Sub, Scalar, 8, 9, 31);
            a.farith(Arith::Mul, Scalar, 3, 12, 4);
            a.farith(Arith::Div, Scalar, 30, 5, 6);
            Ok(())
        }),
        golden("and v1.16b, v2.16b, v3.16b\norr v9.16b, v2.16b, v31.16b\neor v1.16b, v30.16b, v4.16b", |a| {
            a.bitwise(Bitwise::And, 1, 2, 3);
            a.bitwise(Bitwise::Or, 9, 2, 31);
            a.bitwise(Bitwise::Xor, 1, 30, 4);
            Ok(())
        }),
        golden("bic v1.16b, v2.16b, v3.16b\nmvn v9.16b, v30.16b", |a| {
            a.bic(1, 2, 3);
            a.mvn(9, 30);
            Ok(())
        }),
        golden("mov v1.16b, v30.16b", |a| {
            a.mov(1, 30);
            // Nothing.
            a.mov(2, 2);
            Ok(())
        }),
        golden("fcmeq v1.2d, v2.2d, v3.2d\nfcmge v1.2d, v2.2d, v3.2d\nfcmgt v1.2d, v2.2d, v3.2d", |a| {
            a.fcm(Compare::Eq, 1, 2, 3);
            a.fcm(Compare::Ge, 1, 2, 3);
            a.fcm(Compare::Gt, 1, 2, 3);
            Ok(())
        }),
        golden("fcmge v1.2d, v3.2d, v2.2d\nfcmgt v1.2d, v3.2d, v2.2d", |a| {
            a.fcm(Compare::Le, 1, 2, 3);
            a.fcm(Compare::Lt, 1, 2, 3);
            Ok(())
        }),
        golden("fcmeq v1.2d, v2.2d, #0.0\nfcmgt v9.2d, v30.2d, #0.0\nfcmlt v31.2d, v2.2d, #0.0", |a| {
            a.fcmeq_zero(1, 2);
            a.fcmgt_zero(9, 30);
            a.fcmlt_zero(31, 2);
            Ok(())
        }),
        golden("fmin v1.2d, v2.2d, v3.2d\nfmax v9.2d, v30.2d, v31.2d", |a| {
            a.fminmax(MinMax::Min, 1, 2, 3);
            a.fminmax(MinMax::Max, 9, 30, 31);
            Ok(())
        }),
        golden("bsl v1.16b, v2.16b, v3.16b\nbit v9.16b, v30.16b, v31.16b\nbif v1.16b, v2.16b, v3.16b", |a| {
            a.bsl(1, 2, 3);
            a.bit(9, 30, 31);
            a.bif(1, 2, 3);
            Ok(())
        }),
        golden("fsqrt v1.2d, v30.2d\nfsqrt d9, d2", |a| {
            a.fsqrt(Vector, 1, 30);
            a.fsqrt(Scalar, 9, 2);
            Ok(())
        }),
        golden("frintm v1.2d, v2.2d\nfrintp v1.2d, v2.2d\nfrintm d9, d30\nfrintp d9, d30", |a| {
            a.frint(Rounding::Down, Vector, 1, 2);
            a.frint(Rounding::Up, Vector, 1, 2);
            a.frint(Rounding::Down, Scalar, 9, 30);
            a.frint(Rounding::Up, Scalar, 9, 30);
            Ok(())
        }),
        golden("fmla v0.2d, v1.2d, v2.2d\nfmla v30.2d, v9.2d, v31.2d", |a| {
            a.fmla(0, 1, 2);
            a.fmla(30, 9, 31);
            Ok(())
        }),
        golden(
            "fmla v0.2d, v1.2d, v2.d[0]\nfmla v7.2d, v28.2d, v31.d[1]\nfmul v0.2d, v1.2d, v2.d[0]\nfmul v7.2d, v28.2d, v31.d[1]",
            |a| {
                a.fmla_element(0, 1, (2, Element::First));
                a.fmla_element(7, 28, (31, Element::Last));
                a.fmul_element(0, 1, (2, Element::First));
                a.fmul_element(7, 28, (31, Element::Last));
                Ok(())
            },
        ),
        golden("dup v30.2d, v0.d[0]\ndup v6.2d, v21.d[1]\nzip1 v28.2d, v29.2d, v7.2d", |a| {
            a.dup(30, (0, Element::First));
            a.dup(6, (21, Element::Last));
            a.zip1(28, 29, 7);
            Ok(())
        }),
        golden("sub v1.2d, v2.2d, v31.2d\nscvtf v9.2d, v30.2d", |a| {
            a.sub_i64(1, 2, 31);
            a.scvtf(9, 30);
            Ok(())
        }),
        golden("b.cs 0x8\nret", |a| {
            let forward = a.b_hs();
            a.ret();
            a.land(forward)
        }),
        golden("fmov v31.2d, #1.000000000000000000e+00", |a| {
            a.fmov_one(31);
            Ok(())
        }),
        golden("ldr q29, [x2, #64]\nldr d1, [x16]\nldur d1, [x9, #-16]\nldr d30, [x2, #32752]", |a| {
            a.ldr(Vector, 29, X2, 64)?;
            a.ldr(Scalar, 1, X16, 0)?;
            a.ldr(Scalar, 1, Gpr(9), -16)?;
            a.ldr(Scalar, 30, X2, 32752)
        }),
        golden("str q29, [x2, #64]\nstr d1, [x17]\nstur d1, [x9, #-256]", |a| {
            a.str(Vector, 29, X2, 64)?;
            a.str(Scalar, 1, X17, 0)?;
            a.str(Scalar, 1, Gpr(9), -256)
        }),
        golden("ldp q0, q7, [x6]\nldp q14, q21, [x6, #32]\nldp q28, q29, [sp, #-1024]", |a| {
            a.ldp([0, 7], Gpr(6), 0)?;
            a.ldp([14, 21], Gpr(6), 32)?;
            a.ldp([28, 29], SP, -1024)
        }),
        golden("stp q0, q7, [x15, #1008]\nstnp q14, q21, [x15, #32]", |a| {
            a.stp([0, 7], Gpr(15), 1008)?;
            a.stnp([14, 21], Gpr(15), 32)
        }),
        golden("stp d8, d9, [sp]\nldp d14, d15, [sp, #48]", |a| {
            a.stp_d([8, 9], SP, 0)?;
            a.ldp_d([14, 15], SP, 48)
        }),
        golden(
            "ldr x17, [x0, #80]\nadd x17, x17, x4\nprfm pldl2keep, [x17]\nmov x4, #0x0\ncmp x4, x1",
            |a| {
                a.ldr_x(X17, X0, 80)?;
                a.add(X17, X17, X4);
                a.prfm_l2(X17);
                a.mov_zero(X4);
                a.cmp(X4, X1);
                Ok(())
            },
        ),
        golden(
            "add x6, x6, #0x40\nsub sp, sp, #0x40\nsub x16, x6, #0x2, lsl #12\nsub x16, x16, #0x8\nadd x16, sp, #0x1, lsl #12\nret\nb.cc 0x4",
            |a| {
                a.add_imm(Gpr(6), Gpr(6), 64)?;
                a.add_imm(SP, SP, -64)?;
                a.add_imm(X16, Gpr(6), -8200)?;
                a.add_imm(X16, SP, 4096)?;
                a.ret();
                a.b_lo(4)
            },
        ),
    ]
}

#[test]
fn every_group_disassembles_to_what_was_meant() {
    let groups = groups();
    assert_eq!(groups.len(), 25);
    for Golden { code, want } in groups {
        let Some(got) = disassemble(&code) else { return println!("skipped: no objdump for AArch64") };
        assert_eq!(got, lines(want));
    }
}

#[test]
fn an_ema_of_eight_series_is_this_loop() {
    let want = "
        sub sp, sp, #0x40
        stp d8, d9, [sp]
        stp d10, d11, [sp, #16]
        stp d12, d13, [sp, #32]
        stp d14, d15, [sp, #48]
        ldr x2, [x0]
        ldr x3, [x0, #8]
        ldr x6, [x0, #16]
        ldr x7, [x0, #24]
        ldp q6, q13, [x3]
        ldp q20, q27, [x3, #32]
        ldr q5, [x2]
        add x1, x1, x6
        ldp q0, q7, [x6, #-128]
        ldp q14, q21, [x6, #-96]
        fsub v0.2d, v0.2d, v6.2d
        fsub v7.2d, v7.2d, v13.2d
        fsub v14.2d, v14.2d, v20.2d
        fsub v21.2d, v21.2d, v27.2d
        fmul v0.2d, v0.2d, v5.2d
        fmul v7.2d, v7.2d, v5.2d
        fmul v14.2d, v14.2d, v5.2d
        fmul v21.2d, v21.2d, v5.2d
        fadd v0.2d, v0.2d, v6.2d
        fadd v7.2d, v7.2d, v13.2d
        fadd v14.2d, v14.2d, v20.2d
        fadd v21.2d, v21.2d, v27.2d
        mov v6.16b, v0.16b
        mov v13.16b, v7.16b
        mov v20.16b, v14.16b
        mov v27.16b, v21.16b
        stp q0, q7, [x7]
        stp q14, q21, [x7, #32]
        add x6, x6, #0x40
        add x7, x7, #0x40
        cmp x6, x1
        b.cc 0x34
        stp q6, q13, [x3]
        stp q20, q27, [x3, #32]
        ldp d8, d9, [sp]
        ldp d10, d11, [sp, #16]
        ldp d12, d13, [sp, #32]
        ldp d14, d15, [sp, #48]
        add sp, sp, #0x40
        ret";
    let code = ema_code(emit, Width::Eight, 8);
    let Some(got) = disassemble(&code) else { return println!("skipped: no objdump for AArch64") };
    assert_eq!(got, lines(want));
}

/// A loop along time: between the end of the prologue and the epilogue.
fn unrolled(code: &[u8]) -> Option<Vec<String>> {
    let all = disassemble(code)?;
    let begin = all.iter().position(|line| line.starts_with("add x1, x1")).unwrap() + 1;
    let end = all.iter().rposition(|line| line.starts_with("str q6, [x3]")).unwrap_or(all.len());
    Some(all[begin..end].to_vec())
}

/// Its last iteration, if their number is odd.
fn body(code: &[u8]) -> Option<Vec<String>> {
    let all = unrolled(code)?;
    let begin = all.iter().rposition(|line| line.starts_with("b.cs")).unwrap() + 1;
    Some(all[begin..].to_vec())
}

#[test]
fn a_cumulative_sum_of_one_series_is_this_scan() {
    let want = "
        ldp q0, q7, [x6]
        ldp q14, q21, [x6, #32]
        fmla v0.2d, v5.2d, v0.d[0]
        fmla v7.2d, v5.2d, v7.d[0]
        fmla v14.2d, v5.2d, v14.d[0]
        fmla v21.2d, v5.2d, v21.d[0]
        fmov v29.2d, #1.000000000000000000e+00
        fmla v7.2d, v29.2d, v0.d[1]
        fmla v21.2d, v29.2d, v14.d[1]
        fmla v14.2d, v29.2d, v7.d[1]
        fmla v21.2d, v29.2d, v7.d[1]
        fadd v0.2d, v0.2d, v6.2d
        fadd v7.2d, v7.2d, v6.2d
        fadd v14.2d, v14.2d, v6.2d
        fadd v21.2d, v21.2d, v6.2d
        dup v6.2d, v21.d[1]
        stp q0, q7, [x7]
        stp q14, q21, [x7, #32]";
    let code = emit(&scan(ScanKind::Sum), Width::Eight, 8, MemoryHints::default()).unwrap();
    let Some(got) = body(&code) else { return println!("skipped: no objdump for AArch64") };
    assert_eq!(got, lines(want));
    // Twice that, sixty-four bytes apart, then the last one.
    let whole = unrolled(&code).unwrap();
    let (head, rest) = whole.split_at(3);
    assert_eq!(head[..2], ["sub x5, x1, #0x40", "cmp x6, x5"]);
    let (first, rest) = rest.split_at(got.len());
    assert_eq!(first, got);
    let (second, rest) = rest.split_at(got.len());
    assert_eq!(second[..2], ["ldp q0, q7, [x6, #64]", "ldp q14, q21, [x6, #96]"]);
    assert_eq!(second[2..16], got[2..16]);
    assert_eq!(rest[..3], ["add x6, x6, #0x80", "add x7, x7, #0x80", "cmp x6, x5"]);
    let targets = [(head.last(), "b.cs"), (rest.get(3), "b.cc"), (rest.get(5), "b.cs")];
    assert!(
        targets.iter().all(|(line, branch)| line.is_some_and(|line| line.starts_with(branch))),
        "{whole:?}"
    );
    assert_eq!(rest[4], "cmp x6, x1");
    assert_eq!(rest[6..], got);
}

#[test]
fn an_ema_of_one_series_is_this_scan() {
    let want = "
        ldp q0, q7, [x6]
        ldp q14, q21, [x6, #32]
        dup v1.2d, v0.d[0]
        dup v8.2d, v0.d[0]
        dup v15.2d, v0.d[0]
        dup v22.2d, v0.d[0]
        fsub v6.2d, v6.2d, v1.2d
        fsub v0.2d, v0.2d, v1.2d
        fsub v7.2d, v7.2d, v1.2d
        fsub v14.2d, v14.2d, v1.2d
        fsub v21.2d, v21.2d, v1.2d
        fmla v0.2d, v4.2d, v0.d[0]
        fmla v7.2d, v4.2d, v7.d[0]
        fmla v14.2d, v4.2d, v14.d[0]
        fmla v21.2d, v4.2d, v21.d[0]
        fmla v7.2d, v11.2d, v0.d[1]
        fmla v21.2d, v11.2d, v14.d[1]
        fmla v14.2d, v25.2d, v7.d[1]
        fmla v21.2d, v5.2d, v7.d[1]
        fmla v1.2d, v0.2d, v18.2d
        fmla v8.2d, v7.2d, v18.2d
        fmla v15.2d, v14.2d, v18.2d
        fmla v22.2d, v21.2d, v18.2d
        fmla v1.2d, v6.2d, v25.2d
        fmla v8.2d, v6.2d, v5.2d
        fmla v15.2d, v6.2d, v12.2d
        fmla v22.2d, v6.2d, v19.2d
        dup v6.2d, v22.d[1]
        stp q1, q8, [x7]
        stp q15, q22, [x7, #32]";
    let powers = EmaPowers { k: 1, powers_1_to_4: 2, powers_5_to_8: 3, power_8: 4 };
    let code = emit(&scan(ScanKind::Ema(powers)), Width::Eight, 8, MemoryHints::default()).unwrap();
    let Some(got) = body(&code) else { return println!("skipped: no objdump for AArch64") };
    assert_eq!(got, lines(want));
}

#[test]
fn a_maximum_is_one_instruction_where_the_sign_of_zero_cannot_matter() {
    let max = |b: Src, consts: Vec<[u64; 4]>| {
        let a = Src::Mem { stream: 0, lag: 0 };
        let ir = Ir {
            insts: vec![
                Inst::Op { to: 0, op: Opcode::NanMinMax(MinMax::Max), from: [a, b, Src::None] },
                Inst::Store { stream: 1, val: Src::Val(0) },
            ],
            vals: 1,
            consts,
            streams: vec![(0, 0), (1, 0)],
            written: vec![false, true],
            ..Ir::default()
        };
        let lines = body(&emit(&ir, Width::Eight, 8, MemoryHints::default()).unwrap())?;
        Some(lines.iter().any(|line| line.starts_with("fcmeq")))
    };
    let Some(of_zero) = max(Src::Const(0), vec![[0; 4]]) else {
        return println!("skipped: no objdump for AArch64");
    };
    assert!(!of_zero, "the second of equals is 0, and so is fmax(-0, 0)");
    assert_eq!(max(Src::Const(0), vec![[1 << 63; 4]]), Some(true), "of 0 and -0 it is -0, but fmax is 0");
    assert_eq!(max(Src::Mem { stream: 0, lag: 0 }, Vec::new()), Some(true));
}

#[test]
fn what_does_not_fit_an_immediate_is_an_error() {
    let mut asm = Assembler::default();
    assert!(asm.ldr(Form::Vector, 0, X2, 65_536).is_err());
    assert!(asm.ldr(Form::Vector, 0, X2, 8).is_err());
    assert!(asm.ldr(Form::Scalar, 0, X2, -257).is_err());
    assert!(asm.ldp([0, 1], X2, 1024).is_err());
    assert!(asm.ldp([0, 1], X2, 8).is_err());
    assert!(asm.add_imm(X16, X2, 1 << 24).is_err());
    assert!(asm.b_lo(1 << 20).is_err());
    assert!(asm.code.is_empty(), "nothing is emitted for them");
}
