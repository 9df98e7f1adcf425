//! Steps of a block: each segment of a plan as a fused JIT loop, or step by step through the kernels.

use crate::{
    exec::{
        buffers::{BlockBuffers, Buffer, output_rows},
        jit_call::FusedRun,
        tile::Tile,
    },
    graph::NodeOp,
    jit::Segment,
    kernel::{Block, Row, Rows},
    plan::{ExecPlan, MAX_PORTS, Step},
};

impl<const L: usize> Tile<L> {
    /// Runs every step over a block; calls `after` when a step's results are complete.
    pub(super) fn run_steps(
        &mut self,
        plan: &ExecPlan,
        t0: usize,
        t1: usize,
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
        mut after: impl FnMut(&BlockBuffers<L>, usize),
    ) {
        let jit = self.jit.take();
        let all = [Segment::Kernels(0..plan.steps.len())];
        for segment in jit.as_ref().map_or(&all as &[Segment], |p| &p.segments) {
            let (Segment::Kernels(steps) | Segment::Fused { steps, .. }) = segment;
            let (run, scans) = match (segment, &jit) {
                (Segment::Fused { index, .. }, Some(program)) => {
                    let fused = program.fused_loop(*index).filter(|l| t0 >= l.steady_from);
                    let run = fused.map(|l| self.run_fused_loop(program, l, (t0, t1), fields, columns));
                    let scans = fused.filter(|l| l.has_scans);
                    if scans.is_some() && run.is_some_and(|run| run.done < t1 - t0) {
                        // Kernels read constants that the loop embeds.
                        let rows = self.buffers.capacity;
                        plan.constants
                            .iter()
                            .for_each(|(x, slot)| self.buffers.fill_constant(*x, *slot, rows));
                    }
                    (run.unwrap_or_default(), scans)
                }
                _ => (FusedRun::default(), None),
            };
            for (at, step) in plan.steps.iter().enumerate().skip(steps.start).take(steps.len()) {
                if run.done < t1 - t0 {
                    self.buffers.done = run.done;
                    self.run_step(at, step, (t0 + run.done, t1), fields, columns);
                    self.buffers.done = 0;
                }
                after(&self.buffers, at);
            }
            if let Some(fused) = scans.filter(|_| run.kept > 0) {
                self.put_kept(fused, run, (t0, t1), fields, columns);
            }
        }
        self.jit = jit;
        self.last_block = t1 - t0;
    }

    /// Runs one step by its kernel.
    fn run_step(
        &mut self,
        at: usize,
        step: &Step,
        (t0, t1): (usize, usize),
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
    ) {
        // Before its first valid bar only a state machine has something to do.
        let all_warmup = t1 <= step.start && !matches!(step.op, NodeOp::StateMachine { .. });
        // Outputs are moved out while the kernel runs: a step never reads a buffer that it writes.
        if let ([slot], 0..=3) = (step.outputs.as_slice(), step.inputs.len()) {
            // Nearly all steps: no setup that is not needed, a block is short.
            let (mut own, lent) = self.buffers.take(*slot, columns);
            let input = |i: usize| {
                step.inputs.get(i).map_or(Rows::NONE, |p| self.buffers.input(*p, (t0, t1), fields, columns))
            };
            let inputs = [input(0), input(1), input(2)];
            let begin = self.buffers.begin(*slot);
            let mut output = [output_rows(begin, &mut own, lent, (t0, t1))];
            if all_warmup {
                output.iter_mut().for_each(|out| out.fill([f64::NAN; L]));
            } else if let Some(kernel) = self.kernels.get_mut(at) {
                let inputs = inputs.get(..step.inputs.len()).unwrap_or(&inputs);
                let (start, simd, nominal) = (step.start, self.simd, self.block);
                kernel.run(&mut Block { inputs, outputs: &mut output, t0, t1, nominal, start, simd });
            }
            return self.buffers.put(*slot, own, lent, columns);
        }
        let mut taken: [(Buffer<L>, &mut [Row<L>]); MAX_PORTS] = Default::default();
        for (entry, slot) in taken.iter_mut().zip(&step.outputs) {
            *entry = self.buffers.take(*slot, columns);
        }
        let mut inputs = [Rows::<L>::NONE; MAX_PORTS];
        for (rows, slot) in inputs.iter_mut().zip(&step.inputs) {
            *rows = self.buffers.input(*slot, (t0, t1), fields, columns);
        }
        let mut outputs: [&mut [Row<L>]; MAX_PORTS] = Default::default();
        for ((out, slot), (own, lent)) in outputs.iter_mut().zip(&step.outputs).zip(&mut taken) {
            *out = output_rows(self.buffers.begin(*slot), own, lent, (t0, t1));
        }
        let outputs = outputs.get_mut(..step.outputs.len()).unwrap_or_default();
        if all_warmup {
            outputs.iter_mut().for_each(|out| out.fill([f64::NAN; L]));
        } else if let Some(kernel) = self.kernels.get_mut(at) {
            let inputs = inputs.get(..step.inputs.len()).unwrap_or(&inputs);
            let (start, simd, nominal) = (step.start, self.simd, self.block);
            kernel.run(&mut Block { inputs, outputs, t0, t1, nominal, start, simd });
        }
        for (slot, (own, lent)) in step.outputs.iter().zip(taken) {
            self.buffers.put(*slot, own, lent, columns);
        }
    }
}
