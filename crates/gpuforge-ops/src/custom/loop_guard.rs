//! Loop guard: instruments the naga IR of a kernel to count loop iterations; the counts are checked after the dispatch.
//!
//! Software adapters cut loops silently after some iterations, *summed over all loops of a SIMD vector of invocations*: lanes that
//! are masked off while others loop pay as well. So every invocation writes two words: how many iterations its loops ran, and a
//! hash of its control path (which loop was entered and left at which count, which calls led there). Lanes with equal words ran
//! all loops in lockstep, and the vector iterated as often as each of them; for diverging lanes the sum is an upper bound. A
//! kernel with a single loop needs no hash: a vector runs it as often as its busiest lane.
//!
//! Counting is an addition in a register; counting in workgroup memory was far slower than the loop itself and was not chosen. An
//! invocation that reaches the limit leaves its loops, unless the kernel has barriers or subgroup operations, which all
//! invocations must reach. Everything is done on naga IR and written back as WGSL: early returns, nested loops and called
//! functions need no parser of ours.

use naga::{
    AddressSpace, ArraySize, BinaryOperator, Binding, Block, BuiltIn, EntryPoint, Expression, Function,
    FunctionArgument, GlobalVariable, Handle, Literal, Module, ResourceBinding, Scalar, Span, Statement,
    StorageAccess, Type, TypeInner, VectorSize,
};

/// Guard words per invocation.
pub(super) const WORDS: u64 = 2;
/// Largest limit; twice as much fits a word.
const MAX_LIMIT: u32 = 1 << 30;
/// Count before the kernel has finished; larger than any valid count.
const UNKNOWN: u32 = u32::MAX;

/// Loops reachable from an entry point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Loops {
    /// Reachable loop statements.
    pub(super) count: usize,
    /// Reachable functions.
    reached: Vec<Handle<Function>>,
    /// Some of the loops are in called functions.
    called: bool,
    /// It has barriers or subgroup operations.
    has_barriers: bool,
}

impl Loops {
    /// Is there a single loop, entered once?
    pub(super) fn single(&self) -> bool {
        self.count == 1 && !self.called
    }
}

/// Visits all statements of a block and of those inside it.
fn visit<'a>(block: &'a Block, see: &mut impl FnMut(&'a Statement)) {
    for statement in block {
        see(statement);
        match statement {
            Statement::Block(inner) => visit(inner, see),
            Statement::If { accept, reject, .. } => {
                visit(accept, see);
                visit(reject, see);
            }
            Statement::Switch { cases, .. } => cases.iter().for_each(|case| visit(&case.body, see)),
            Statement::Loop { body, continuing, .. } => {
                visit(body, see);
                visit(continuing, see);
            }
            _ => {}
        }
    }
}

/// The loops that an entry point can reach.
pub(super) fn find(module: &Module, entry: &EntryPoint) -> Loops {
    let mut loops = Loops::default();
    let mut next = 0;
    let mut body = Some(&entry.function.body);
    while let Some(block) = body {
        visit(block, &mut |statement| match statement {
            Statement::Loop { .. } => {
                loops.count += 1;
                loops.called |= next > 0;
            }
            Statement::Call { function, .. } if !loops.reached.contains(function) => {
                loops.reached.push(*function);
            }
            Statement::ControlBarrier(_)
            | Statement::WorkGroupUniformLoad { .. }
            | Statement::SubgroupBallot { .. }
            | Statement::SubgroupGather { .. }
            | Statement::SubgroupCollectiveOperation { .. } => loops.has_barriers = true,
            _ => {}
        });
        body = loops.reached.get(next).and_then(|f| module.functions.try_get(*f).ok()).map(|f| &f.body);
        next += 1;
    }
    loops
}

/// Parameters of the guard check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoopGuardCheck {
    /// Workgroup size.
    pub(super) group: u32,
    /// SIMD width: invocations that may run in lockstep.
    pub(super) lanes: u32,
    /// Iteration limit of a vector.
    pub(super) limit: u32,
    /// A single loop, entered once.
    pub(super) single: bool,
}

impl LoopGuardCheck {
    /// `lanes`: the device's largest subgroup; unknown means that a whole workgroup may run in lockstep.
    pub(super) fn new(size: [u32; 3], single: bool, limit: u32, lanes: Option<u32>) -> LoopGuardCheck {
        let [x, y, z] = size.map(|n| n.max(1));
        let rows = y.saturating_mul(z);
        let group = x.saturating_mul(rows);
        // Where vectors may be misaligned, the whole workgroup is treated as one.
        let lanes = lanes.map(|n| n.clamp(1, group)).filter(|n| rows == 1 || x.is_multiple_of(*n));
        LoopGuardCheck { group, lanes: lanes.unwrap_or(group), limit: limit.clamp(1, MAX_LIMIT), single }
    }

    /// Parameter words of the check kernel.
    pub(super) fn params(&self, groups: u32) -> [u32; 5] {
        [groups, self.group, self.lanes, self.limit, u32::from(self.single)]
    }

    /// Per workgroup: 0 where it passed. CPU reference of `shader/loop_guard.wgsl`.
    pub(super) fn check(&self, words: &[u32]) -> Vec<u32> {
        let per_group = self.group.max(1) as usize * WORDS as usize;
        let vector = |words: &[u32]| {
            let (lanes, _) = words.as_chunks::<{ WORDS as usize }>();
            let over = lanes.iter().any(|[own, _]| *own >= self.limit);
            let runs = lanes.chunk_by(|a, b| a == b).filter_map(|run| run.first());
            let sum = runs.fold(0u32, |sum, [own, _]| sum.saturating_add(*own));
            over || (!self.single && sum >= self.limit)
        };
        let group = |words: &[u32]| words.chunks(self.lanes.max(1) as usize * WORDS as usize).any(vector);
        words.chunks(per_group).map(|words| u32::from(group(words))).collect()
    }
}

/// Globals vars to the module.
struct GuardVars {
    words: Handle<GlobalVariable>,
    base: Handle<GlobalVariable>,
    own: Handle<GlobalVariable>,
    path: Option<Handle<GlobalVariable>>,
    limit: Option<u32>,
    reached: Vec<Handle<Function>>,
}

/// Instruments the only entry point of a module; its words are `array<u32>` at this binding.
pub(super) fn instrument(module: &mut Module, loops: Loops, binding: u32, limit: u32) {
    let word = scalar_type(module);
    let inner = TypeInner::Array { base: word, size: ArraySize::Dynamic, stride: 4 };
    let array = module.types.insert(Type { name: None, inner }, Span::UNDEFINED);
    let access = StorageAccess::LOAD | StorageAccess::STORE;
    let words = global(module, "gpuforge_words", AddressSpace::Storage { access }, array, Some(binding));
    let mut private = |name: &str| global(module, name, AddressSpace::Private, word, None);
    let vars = GuardVars {
        words,
        base: private("gpuforge_place"),
        own: private("gpuforge_own"),
        path: (!loops.single()).then(|| private("gpuforge_path")),
        limit: (!loops.has_barriers).then_some(limit.clamp(1, MAX_LIMIT)),
        reached: loops.reached,
    };
    let mut events = 0;
    for (handle, function) in module.functions.iter_mut() {
        if vars.reached.contains(&handle) {
            instrument_function(function, &vars, &mut events, false);
        }
    }
    instrument_entry(module, &vars, &mut events);
}

fn scalar_type(module: &mut Module) -> Handle<Type> {
    module.types.insert(Type { name: None, inner: TypeInner::Scalar(Scalar::U32) }, Span::UNDEFINED)
}

fn global(
    module: &mut Module,
    name: &str,
    space: AddressSpace,
    ty: Handle<Type>,
    binding: Option<u32>,
) -> Handle<GlobalVariable> {
    let binding = binding.map(|binding| ResourceBinding { group: 0, binding });
    let memory_decorations = naga::MemoryDecorations::empty();
    let variable =
        GlobalVariable { name: Some(name.to_owned()), space, binding, ty, init: None, memory_decorations };
    module.global_variables.append(variable, Span::UNDEFINED)
}

/// IR builder for one function. Expressions that have their value from the start must not be emitted; all others are, in runs.
struct IrBuilder<'a> {
    function: &'a mut Function,
    block: Block,
    emitted: usize,
}

impl<'a> IrBuilder<'a> {
    fn new(function: &'a mut Function) -> Self {
        let emitted = function.expressions.len();
        IrBuilder { function, block: Block::new(), emitted }
    }

    fn make(&mut self, expression: Expression) -> Handle<Expression> {
        self.function.expressions.append(expression, Span::UNDEFINED)
    }

    /// An expression that needs no emit (literals, globals, arguments).
    fn given(&mut self, expression: Expression) -> Handle<Expression> {
        self.emit();
        let handle = self.make(expression);
        self.emitted = self.function.expressions.len();
        handle
    }

    fn literal(&mut self, value: u32) -> Handle<Expression> {
        self.given(Expression::Literal(Literal::U32(value)))
    }

    fn load(&mut self, variable: Handle<GlobalVariable>) -> Handle<Expression> {
        let pointer = self.given(Expression::GlobalVariable(variable));
        self.make(Expression::Load { pointer })
    }

    /// Binary operation with a constant.
    fn with(&mut self, op: BinaryOperator, left: Handle<Expression>, right: u32) -> Handle<Expression> {
        let right = self.literal(right);
        self.binary(op, left, right)
    }

    fn binary(
        &mut self,
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Handle<Expression> {
        self.make(Expression::Binary { op, left, right })
    }

    /// Emits the expressions made since the last emit.
    fn emit(&mut self) {
        let expressions = &self.function.expressions;
        if expressions.len() > self.emitted {
            let range = expressions.range_from(self.emitted);
            self.emitted = expressions.len();
            self.block.push(Statement::Emit(range), Span::UNDEFINED);
        }
    }

    fn store(&mut self, variable: Handle<GlobalVariable>, value: Handle<Expression>) {
        let pointer = self.given(Expression::GlobalVariable(variable));
        self.block.push(Statement::Store { pointer, value }, Span::UNDEFINED);
    }

    /// Stores one guard word of this invocation.
    fn store_word(&mut self, vars: &GuardVars, which: u32, value: Handle<Expression>) {
        let base = self.given(Expression::GlobalVariable(vars.words));
        let start = self.load(vars.base);
        let index = self.with(BinaryOperator::Add, start, which);
        let pointer = self.make(Expression::Access { base, index });
        self.emit();
        self.block.push(Statement::Store { pointer, value }, Span::UNDEFINED);
    }

    fn finish(mut self) -> Block {
        self.emit();
        self.block
    }
}

/// Instruments a function; an entry point stores its words wherever it returns.
fn instrument_function(function: &mut Function, vars: &GuardVars, events: &mut u32, is_entry: bool) {
    let body = std::mem::take(&mut function.body);
    let mut body = instrument_block(body, function, vars, events, is_entry);
    if is_entry && !matches!(body.last(), Some(Statement::Return { .. })) {
        body.extend_block(store_words(function, vars));
    }
    function.body = body;
}

fn instrument_block(
    block: Block,
    function: &mut Function,
    vars: &GuardVars,
    events: &mut u32,
    is_entry: bool,
) -> Block {
    let mut result = Block::with_capacity(block.len());
    let mut inside = |block: &mut Block, function: &mut Function| {
        *block = instrument_block(std::mem::take(block), function, vars, events, is_entry);
    };
    let mut left = Vec::new();
    for (mut statement, span) in block.span_into_iter() {
        match &mut statement {
            Statement::Block(inner) => inside(inner, function),
            Statement::If { accept, reject, .. } => {
                inside(accept, function);
                inside(reject, function);
            }
            Statement::Switch { cases, .. } => {
                cases.iter_mut().for_each(|case| inside(&mut case.body, function));
            }
            Statement::Loop { body, continuing, .. } => {
                inside(body, function);
                inside(continuing, function);
                let mut counted = count_iteration(function, vars);
                counted.append(body);
                *body = counted;
            }
            _ => {}
        }
        left.push((statement, span));
    }
    for (statement, span) in left {
        let is_loop = matches!(statement, Statement::Loop { .. });
        let is_call =
            matches!(&statement, Statement::Call { function, .. } if vars.reached.contains(function));
        if is_loop || is_call {
            result.extend_block(mix_path(function, vars, events));
        }
        if is_entry && matches!(statement, Statement::Return { .. }) {
            result.extend_block(store_words(function, vars));
        }
        result.push(statement, span);
        if is_loop {
            result.extend_block(mix_path(function, vars, events));
        }
    }
    result
}

/// `own += 1; if (own >= limit) { break; }`
fn count_iteration(function: &mut Function, vars: &GuardVars) -> Block {
    let mut code = IrBuilder::new(function);
    let before = code.load(vars.own);
    let after = code.with(BinaryOperator::Add, before, 1);
    code.store(vars.own, after);
    let Some(limit) = vars.limit else { return code.finish() };
    let condition = code.with(BinaryOperator::GreaterEqual, after, limit);
    let mut block = code.finish();
    let accept = Block::from_vec(vec![Statement::Break]);
    block.push(Statement::If { condition, accept, reject: Block::new() }, Span::UNDEFINED);
    block
}

/// `path = mixed(path ^ (own + number of the event))`, with steps of the finaliser of MurmurHash3 (A. Appleby).
fn mix_path(function: &mut Function, vars: &GuardVars, events: &mut u32) -> Block {
    let Some(path) = vars.path else { return Block::new() };
    *events = events.wrapping_add(1);
    let mut code = IrBuilder::new(function);
    let own = code.load(vars.own);
    let what = code.with(BinaryOperator::Add, own, events.wrapping_mul(0x9e37_79b1));
    let before = code.load(path);
    let mixed = code.binary(BinaryOperator::ExclusiveOr, before, what);
    let mixed = code.with(BinaryOperator::Multiply, mixed, 0x85eb_ca6b);
    let high = code.with(BinaryOperator::ShiftRight, mixed, 15);
    let mixed = code.binary(BinaryOperator::ExclusiveOr, mixed, high);
    let mixed = code.with(BinaryOperator::Multiply, mixed, 0xc2b2_ae35);
    code.store(path, mixed);
    code.finish()
}

/// Stores count and path hash.
fn store_words(function: &mut Function, vars: &GuardVars) -> Block {
    let mut code = IrBuilder::new(function);
    let own = code.load(vars.own);
    code.store_word(vars, 0, own);
    if let Some(path) = vars.path {
        let path = code.load(path);
        code.store_word(vars, 1, path);
    }
    code.finish()
}

/// Prologue of the entry point: computes the word index and stores "unknown".
fn instrument_entry(module: &mut Module, vars: &GuardVars, events: &mut u32) {
    let word = scalar_type(module);
    let inner = TypeInner::Vector { size: VectorSize::Tri, scalar: Scalar::U32 };
    let three = module.types.insert(Type { name: None, inner }, Span::UNDEFINED);
    let wanted = [BuiltIn::WorkGroupId, BuiltIn::NumWorkGroups, BuiltIn::LocalInvocationIndex];
    let builtins = wanted
        .map(|b| find_builtin(module, b, if b == BuiltIn::LocalInvocationIndex { word } else { three }));
    let Some(entry) = module.entry_points.first_mut() else { return };
    let total = entry.workgroup_size.iter().fold(1u32, |n, d| n.saturating_mul(*d));
    instrument_function(&mut entry.function, vars, events, true);
    let mut code = IrBuilder::new(&mut entry.function);
    let [id, groups, lane] = builtins.map(|(argument, member)| {
        let base = code.given(Expression::FunctionArgument(argument));
        member.map_or(base, |index| code.make(Expression::AccessIndex { base, index }))
    });
    let [x, y, z] = [0, 1, 2].map(|index| code.make(Expression::AccessIndex { base: id, index }));
    let [width, height] = [0, 1].map(|index| code.make(Expression::AccessIndex { base: groups, index }));
    let rows = code.binary(BinaryOperator::Multiply, z, height);
    let rows = code.binary(BinaryOperator::Add, rows, y);
    let group = code.binary(BinaryOperator::Multiply, rows, width);
    let group = code.binary(BinaryOperator::Add, group, x);
    let first = code.with(BinaryOperator::Multiply, group, total);
    let number = code.binary(BinaryOperator::Add, first, lane);
    let base = code.with(BinaryOperator::Multiply, number, WORDS as u32);
    code.store(vars.base, base);
    let (unknown, zero) = (code.literal(UNKNOWN), code.literal(0));
    code.store_word(vars, 0, unknown);
    code.store_word(vars, 1, zero);
    let mut body = code.finish();
    body.append(&mut entry.function.body);
    entry.function.body = body;
}

/// The argument holding a builtin value, and the struct member if any; an argument is added if there is none.
fn find_builtin(module: &mut Module, builtin: BuiltIn, ty: Handle<Type>) -> (u32, Option<u32>) {
    let is = |binding: &Option<Binding>| matches!(binding, Some(Binding::BuiltIn(b)) if *b == builtin);
    let Module { types, entry_points, .. } = module;
    let Some(entry) = entry_points.first_mut() else { return (0, None) };
    for (at, argument) in (0..).zip(&entry.function.arguments) {
        if is(&argument.binding) {
            return (at, None);
        }
        if let Ok(Type { inner: TypeInner::Struct { members, .. }, .. }) = types.get_handle(argument.ty)
            && let Some((member, _)) = (0..).zip(members).find(|(_, m)| is(&m.binding))
        {
            return (at, Some(member));
        }
    }
    let binding = Some(Binding::BuiltIn(builtin));
    entry.function.arguments.push(FunctionArgument { name: Some("gpuforge_id".to_owned()), ty, binding });
    ((entry.function.arguments.len() - 1) as u32, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(check: LoopGuardCheck, lanes: &[(u32, u32)]) -> Vec<u32> {
        check.check(&lanes.iter().flat_map(|(own, path)| [*own, *path]).collect::<Vec<_>>())
    }

    #[test]
    fn lanes_of_a_vector_are_checked_together() {
        let check = LoopGuardCheck::new([4, 1, 1], false, 1000, Some(2));
        assert_eq!(checked(check, &[(900, 7); 8]), [0, 0], "all in lockstep");
        assert_eq!(checked(check, &[(900, 7), (900, 7), (900, 8), (900, 8)]), [0], "each vector its own");
        assert_eq!(checked(check, &[(600, 7), (600, 8), (1, 1), (1, 1)]), [1], "diverged: the sum counts");
        assert_eq!(checked(check, &[(400, 7), (599, 7), (1, 1), (1, 1)]), [0]);
        assert_eq!(
            checked(check, &[(900, 7), (0, 0), (0, 0), (900, 7)]),
            [0],
            "who did not loop costs nothing"
        );
        assert_eq!(checked(check, &[(1000, 7); 4]), [1]);
        assert_eq!(
            checked(check, &[(UNKNOWN, 0), (UNKNOWN, 0), (0, 0), (0, 0)]),
            [1],
            "never left its words"
        );
        let single = LoopGuardCheck { single: true, ..check };
        assert_eq!(checked(single, &[(999, 1), (5, 2), (999, 3), (0, 4)]), [0], "the busiest lane counts");
    }

    #[test]
    fn misaligned_vectors_are_whole_workgroups() {
        let lanes = |size, known| LoopGuardCheck::new(size, false, 10, known).lanes;
        assert_eq!(lanes([64, 1, 1], Some(8)), 8);
        assert_eq!(lanes([12, 1, 1], Some(8)), 8);
        assert_eq!(lanes([16, 4, 1], Some(8)), 8);
        assert_eq!(lanes([12, 2, 1], Some(8)), 24);
        assert_eq!(lanes([64, 1, 1], None), 64);
        assert_eq!(lanes([4, 1, 1], Some(32)), 4);
    }
}
