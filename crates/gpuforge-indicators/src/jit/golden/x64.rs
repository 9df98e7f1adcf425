//! Golden disassembly of the x86-64 encoder.

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

use super::{Golden, ema_code, lines};
use crate::jit::{
    ir::{Arith, Bitwise, MinMax, Rounding},
    target::Width,
    x64::{
        Assembler, Form, Predicate, R8, R9, R10, R12, R13, R14, R15, RAX, RBP, RBX, RCX, RDI, RDX, RSP,
        RegMem, emit,
    },
};

fn disassemble(code: &[u8]) -> Vec<String> {
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_space_after_operand_separator(true);
    formatter.options_mut().set_hex_prefix("0x");
    formatter.options_mut().set_hex_suffix("");
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_leading_zeros(false);
    formatter.options_mut().set_small_hex_numbers_in_decimal(false);
    let format = |instruction| {
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        text
    };
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE).into_iter().map(format).collect()
}

fn golden(want: &'static str, emit: impl FnOnce(&mut Assembler)) -> Golden {
    let mut asm = Assembler::default();
    emit(&mut asm);
    Golden { code: asm.code, want }
}

/// Twenty groups: every form of operand, low and high registers, displacements of every length.
fn groups() -> Vec<Golden> {
    use Form::{Packed, Packed128, Scalar};
    let reg = RegMem::Reg;
    let stream = |base, disp| RegMem::Stream { base, disp };
    let fixed = |base, disp| RegMem::Fixed { base, disp };
    let column = |base, disp| RegMem::Column { base, disp };
    vec![
        golden(
            "vaddpd ymm0, ymm1, ymm2
             vsubpd ymm8, ymm9, ymm15
             vmulpd ymm3, ymm12, ymm4
             vdivpd ymm14, ymm5, ymm6",
            |a| {
                a.varith(Arith::Add, Packed, 0, 1, reg(2));
                a.varith(Arith::Sub, Packed, 8, 9, reg(15));
                a.varith(Arith::Mul, Packed, 3, 12, reg(4));
                a.varith(Arith::Div, Packed, 14, 5, reg(6));
            },
        ),
        golden(
            "vaddsd xmm0, xmm1, xmm2
             vsubsd xmm8, xmm9, xmm15
             vmulsd xmm3, xmm12, xmm4
             vdivsd xmm14, xmm5, xmm6",
            |a| {
                a.varith(Arith::Add, Scalar, 0, 1, reg(2));
                a.varith(Arith::Sub, Scalar, 8, 9, reg(15));
                a.varith(Arith::Mul, Scalar, 3, 12, reg(4));
                a.varith(Arith::Div, Scalar, 14, 5, reg(6));
            },
        ),
        golden(
            "vaddpd ymm1, ymm2, [r9+rcx]
             vaddpd ymm1, ymm2, [r13+rcx]
             vaddpd ymm1, ymm2, [rbx+rcx-0x40]
             vaddpd ymm9, ymm10, [r12+rcx+0x1000]",
            |a| {
                a.vadd(Packed, 1, 2, stream(R9, 0));
                a.vadd(Packed, 1, 2, stream(R13, 0));
                a.vadd(Packed, 1, 2, stream(RBX, -64));
                a.vadd(Packed, 9, 10, stream(R12, 4096));
            },
        ),
        golden(
            "vmulsd xmm1, xmm2, [rdx+0x20]
             vmulsd xmm1, xmm2, [r8]
             vmulsd xmm1, xmm2, [rsp+0x400]
             vmulsd xmm1, xmm2, [rbp]",
            |a| {
                a.vmul(Scalar, 1, 2, fixed(RDX, 32));
                a.vmul(Scalar, 1, 2, fixed(R8, 0));
                a.vmul(Scalar, 1, 2, fixed(RSP, 1024));
                a.vmul(Scalar, 1, 2, fixed(RBP, 0));
            },
        ),
        golden(
            "vandpd ymm1, ymm2, ymm3
             vorpd xmm9, xmm2, xmm11
             vxorpd ymm1, ymm15, [rdx+0x60]",
            |a| {
                a.vbitwise(Bitwise::And, Packed, 1, 2, reg(3));
                a.vbitwise(Bitwise::Or, Packed128, 9, 2, reg(11));
                a.vbitwise(Bitwise::Xor, Packed, 1, 15, fixed(RDX, 96));
            },
        ),
        golden(
            "vcmpeqpd ymm1, ymm2, ymm3
             vcmpneqpd ymm1, ymm2, ymm3
             vcmplt_oqpd ymm1, ymm2, ymm3
             vcmple_oqpd ymm1, ymm2, ymm3
             vcmpgt_oqpd ymm1, ymm2, ymm3
             vcmpge_oqpd ymm9, ymm2, ymm3
             vcmpunordpd ymm1, ymm2, ymm11",
            |a| {
                for (predicate, to, b) in [
                    (Predicate::Eq, 1, 3),
                    (Predicate::Ne, 1, 3),
                    (Predicate::Lt, 1, 3),
                    (Predicate::Le, 1, 3),
                    (Predicate::Gt, 1, 3),
                    (Predicate::Ge, 9, 3),
                    (Predicate::Unordered, 1, 11),
                ] {
                    a.vcmp(predicate, Packed, to, 2, reg(b));
                }
            },
        ),
        golden("vcmpgt_oqsd xmm1, xmm2, [r10+rcx+0x8]", |a| {
            a.vcmp(Predicate::Gt, Scalar, 1, 2, stream(R10, 8))
        }),
        golden(
            "vminpd ymm1, ymm2, ymm3
             vmaxsd xmm9, xmm10, xmm11",
            |a| {
                a.vminmax(MinMax::Min, Packed, 1, 2, reg(3));
                a.vminmax(MinMax::Max, Scalar, 9, 10, reg(11));
            },
        ),
        golden(
            "vblendvpd ymm1, ymm2, ymm3, ymm4
             vblendvpd xmm9, xmm10, xmm11, xmm12",
            |a| {
                a.vblendv(Packed, 1, 2, reg(3), 4);
                a.vblendv(Scalar, 9, 10, reg(11), 12);
            },
        ),
        golden(
            "vsqrtpd ymm1, ymm9
             vsqrtsd xmm1, xmm9, xmm9
             vroundpd ymm1, ymm2, 0x9
             vroundsd xmm8, xmm9, xmm9, 0xA",
            |a| {
                a.vsqrt(Packed, 1, reg(9), 9);
                a.vsqrt(Scalar, 1, reg(9), 9);
                a.vround(Packed, 1, 2, Rounding::Down);
                a.vround(Scalar, 8, 9, Rounding::Up);
            },
        ),
        golden(
            "vmovupd ymm1, [r14+rcx]
             vmovsd xmm9, [r15+rcx+0x8]
             vmovapd ymm1, ymm9
             vmovapd xmm9, xmm1",
            |a| {
                a.vmov_load(Packed, 1, stream(R14, 0));
                a.vmov_load(Scalar, 9, stream(R15, 8));
                a.vmov_load(Packed, 1, reg(9));
                a.vmovapd(Scalar, 9, 1);
            },
        ),
        golden(
            "vmovupd [r9+rcx+0x20], ymm10
             vmovsd [r8+0x40], xmm1
             vmovntpd [rax+r15+0x20], ymm3",
            |a| {
                a.vmov_store(Packed, 10, stream(R9, 32));
                a.vmov_store(Scalar, 1, fixed(R8, 64));
                a.vmovntpd(3, column(RAX, 32));
            },
        ),
        golden(
            "vunpcklpd ymm7, ymm0, ymm1
             vunpckhpd ymm8, ymm9, ymm10
             vperm2f128 ymm3, ymm0, ymm1, 0x20
             vperm2f128 ymm11, ymm8, ymm9, 0x31",
            |a| {
                a.vunpcklpd(7, 0, 1);
                a.vunpckhpd(8, 9, 10);
                a.vperm2f128(3, 0, 1, 0x20);
                a.vperm2f128(11, 8, 9, 0x31);
            },
        ),
        golden(
            "vfmadd231pd ymm1, ymm2, [rdx+0x20]
             vfmadd132pd ymm9, ymm10, ymm11",
            |a| {
                a.vfmadd231pd(1, 2, fixed(RDX, 32));
                a.vfmadd132pd(9, 10, reg(11));
            },
        ),
        golden(
            "vmovddup ymm1, ymm9
             vbroadcastsd ymm9, xmm1
             vpermpd ymm1, ymm9, 0xFF
             vblendpd ymm1, ymm2, [rdx], 0x5",
            |a| {
                a.vmovddup(1, 9);
                a.vbroadcastsd(9, 1);
                a.vpermpd(1, 9, 0xff);
                a.vblendpd(1, 2, fixed(RDX, 0), 0b0101);
            },
        ),
        golden(
            "prefetcht1 [rax+rcx]
             prefetcht1 [r9+rcx+0xC00]
             prefetcht1 [rax+r15+0x100]",
            |a| {
                a.prefetcht1_stream(RAX, 0);
                a.prefetcht1_stream(R9, 3072);
                a.prefetcht1_column(RAX, 256);
            },
        ),
        golden(
            "mov rax, [rdi+0x18]
             mov r9, [rdi+0x100]
             mov rbp, rsp
             mov r12, rax",
            |a| {
                a.mov_load(RAX, RDI, 24);
                a.mov_load(R9, RDI, 256);
                a.mov(RBP, RSP);
                a.mov(R12, RAX);
            },
        ),
        golden(
            "add rcx, 0x40
             and rsp, 0xFFFFFFFFFFFFFFC0
             sub rsp, 0x80
             cmp r15, 0x200
             cmp rcx, rsi",
            |a| {
                a.add(RCX, 64);
                a.and(RSP, -64);
                a.sub(RSP, 128);
                a.cmp(R15, 512);
                a.cmp_rsi(RCX);
            },
        ),
        golden(
            "xor ecx, ecx
             xor r15d, r15d
             push rbp
             push r12
             pop r15
             pop rbx",
            |a| {
                a.xor_zero(RCX);
                a.xor_zero(R15);
                a.push(RBP);
                a.push(R12);
                a.pop(R15);
                a.pop(RBX);
            },
        ),
        golden(
            "vzeroupper
             ret
             jb 0x3",
            |a| {
                a.vzeroupper();
                a.ret();
                a.jb(3).unwrap();
            },
        ),
    ]
}

#[test]
fn every_group_disassembles_to_what_was_meant() {
    let groups = groups();
    assert_eq!(groups.len(), 20);
    for Golden { code, want } in groups {
        assert_eq!(disassemble(&code), lines(want));
    }
}

#[test]
fn an_ema_of_eight_series_is_this_loop() {
    let want = "
        push rbp
        push rbx
        push r12
        push r13
        push r14
        push r15
        mov rbp, rsp
        and rsp, 0xFFFFFFFFFFFFFFC0
        sub rsp, 0x0
        mov rdx, [rdi]
        mov r8, [rdi+0x8]
        mov r9, [rdi+0x10]
        mov r10, [rdi+0x18]
        vmovupd ymm6, [r8]
        vmovupd ymm14, [r8+0x20]
        xor ecx, ecx
        vmovupd ymm0, [r9+rcx-0x80]
        vmovupd ymm8, [r9+rcx-0x60]
        vsubpd ymm0, ymm0, ymm6
        vsubpd ymm8, ymm8, ymm14
        vmulpd ymm0, ymm0, [rdx]
        vmulpd ymm8, ymm8, [rdx]
        vaddpd ymm0, ymm0, ymm6
        vaddpd ymm8, ymm8, ymm14
        vmovapd ymm6, ymm0
        vmovapd ymm14, ymm8
        vmovupd [r10+rcx], ymm0
        vmovupd [r10+rcx+0x20], ymm8
        add rcx, 0x40
        cmp rcx, rsi
        jb 0x3E
        vmovupd [r8], ymm6
        vmovupd [r8+0x20], ymm14
        vzeroupper
        mov rsp, rbp
        pop r15
        pop r14
        pop r13
        pop r12
        pop rbx
        pop rbp
        ret";
    assert_eq!(disassemble(&ema_code(emit, Width::Eight, 8)), lines(want));
}
