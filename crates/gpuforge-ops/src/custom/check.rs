//! Does somebody's kernel compile, and does it bind what it is given? Asked once per source text, before any device sees it.

use std::{
    collections::HashMap,
    error::Error,
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use naga::{
    AddressSpace, Module, ShaderStage, Span, StorageAccess, WithSpan,
    back::wgsl::{self, WriterFlags},
    valid::{Capabilities, ModuleInfo, ValidationError, ValidationFlags, Validator},
};

use super::guard;

/// Bytes of the parameter block.
const PARAM_BYTES: u32 = 64;
/// The longest source.
const MOST_SOURCE: usize = 1 << 20;
/// How many kernels are remembered; beyond it all are forgotten.
const MOST_KNOWN: usize = 256;
/// The entry point of kernels that were written back.
const WRITTEN: &str = "gpuforge_kernel";

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) source: Arc<str>,
    pub(super) entry: Arc<str>,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) f16: bool,
    pub(super) subgroups: bool,
    /// Iterations that an invocation's loops may not reach.
    pub(super) limit: u32,
}

/// A kernel that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ready {
    /// What the device compiles.
    pub(super) wgsl: String,
    pub(super) entry: &'static str,
    /// Invocations per group, in each dimension.
    pub(super) group: [u32; 3],
    /// It has loops: behind its outputs it binds words that say what they ran.
    pub(super) guarded: bool,
    /// One loop, entered once.
    pub(super) single: bool,
}

type Answer = Arc<Result<Ready, String>>;

/// The answer, from memory if it was asked before.
pub(super) fn check(question: &Question) -> Answer {
    static KNOWN: LazyLock<Mutex<HashMap<Question, Answer>>> = LazyLock::new(Mutex::default);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = known().get(question) {
        return answer.clone();
    }
    let answer = Arc::new(prepare(question));
    let mut known = known();
    if known.len() >= MOST_KNOWN {
        known.clear();
    }
    known.insert(question.clone(), answer.clone());
    answer
}

/// A fault that naga has no word for, at a place in the source.
#[derive(Debug)]
struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Fault {}

fn at(source: &str, span: Span, message: String, here: &str) -> String {
    WithSpan::new(Fault(message)).with_span(span, here).emit_to_string(source)
}

/// Validates against what the device can do; `say` makes the message.
fn validate(
    module: &Module,
    question: &Question,
    say: impl FnOnce(WithSpan<ValidationError>) -> String,
) -> Result<ModuleInfo, String> {
    let mut capabilities = Capabilities::default();
    capabilities.set(Capabilities::SHADER_FLOAT16, question.f16);
    capabilities.set(Capabilities::SUBGROUP, question.subgroups);
    Validator::new(ValidationFlags::all(), capabilities).validate(module).map_err(say)
}

fn prepare(question: &Question) -> Result<Ready, String> {
    let source = question.source.as_ref();
    if source.len() > MOST_SOURCE {
        return Err(format!("the source has {} bytes, at most {MOST_SOURCE}", source.len()));
    }
    let mut module = naga::front::wgsl::parse_str(source).map_err(|e| e.emit_to_string(source))?;
    validate(&module, question, |e| e.emit_to_string(source))?;
    choose_entry(&mut module, question)?;
    check_bindings(&module, question)?;
    let [entry] = module.entry_points.as_slice() else { return Err("there is no entry point".to_owned()) };
    let (group, loops) = (entry.workgroup_size, guard::find(&module, entry));
    let (guarded, single) = (loops.count > 0, loops.single());
    if !guarded && question.entry.as_ref() == "main" {
        return Ok(Ready { wgsl: source.to_owned(), entry: "main", group, guarded, single });
    }
    if let Some(entry) = module.entry_points.first_mut() {
        WRITTEN.clone_into(&mut entry.name);
    }
    if guarded {
        let binding = (1 + question.inputs + question.outputs) as u32;
        guard::add(&mut module, loops, binding, question.limit);
    }
    let wgsl = write(&module, question)?;
    Ok(Ready { wgsl, entry: WRITTEN, group, guarded, single })
}

/// Writes a changed module back and reads it once more: what a device gets must be what we meant.
fn write(module: &Module, question: &Question) -> Result<String, String> {
    let unable = |why: String| format!("its loops cannot be guarded: {why}");
    let info = validate(module, question, |e| unable(e.as_inner().to_string()))?;
    let text = wgsl::write_string(module, &info, WriterFlags::empty()).map_err(|e| unable(e.to_string()))?;
    let again = naga::front::wgsl::parse_str(&text).map_err(|e| unable(e.emit_to_string(&text)))?;
    match again.entry_points.as_slice() {
        [entry] if entry.name == WRITTEN => Ok(text),
        _ => Err(unable(format!("the name {WRITTEN} is taken"))),
    }
}

/// Leaves only the entry point that was asked for.
fn choose_entry(module: &mut Module, question: &Question) -> Result<(), String> {
    let compute = |e: &&naga::EntryPoint| e.stage == ShaderStage::Compute;
    let names: Vec<&str> = module.entry_points.iter().filter(compute).map(|e| e.name.as_str()).collect();
    let wanted = question.entry.as_ref();
    if names.is_empty() {
        return Err("there is no entry point: a function with @compute @workgroup_size(…)".to_owned());
    }
    if !names.contains(&wanted) {
        return Err(format!("there is no entry point {wanted:?}; there are: {}", names.join(", ")));
    }
    module.entry_points.retain(|e| e.stage == ShaderStage::Compute && e.name == wanted);
    let overridden = module.entry_points.iter().any(|e| e.workgroup_size_overrides.is_some());
    if overridden || !module.overrides.is_empty() {
        return Err("`override` has no value here: use the parameter block".to_owned());
    }
    Ok(())
}

/// Binding 0 holds parameters, then come inputs, then outputs.
fn check_bindings(module: &Module, question: &Question) -> Result<(), String> {
    let (inputs, outputs) = (question.inputs, question.outputs);
    let mut found = vec![false; 1 + inputs + outputs];
    let write = StorageAccess::LOAD | StorageAccess::STORE;
    for (handle, variable) in module.global_variables.iter() {
        let Some(binding) = variable.binding else { continue };
        let number = binding.binding as usize;
        let (what, want) = match number {
            0 => ("the parameters".to_owned(), "var<uniform>"),
            n if n <= inputs => (format!("input {}", n - 1), "var<storage, read>"),
            n => (format!("output {}", n - inputs - 1), "var<storage, read_write>"),
        };
        let right = match variable.space {
            AddressSpace::Uniform => number == 0,
            AddressSpace::Storage { access } if access == StorageAccess::LOAD => {
                (1..=inputs).contains(&number)
            }
            AddressSpace::Storage { access } => number > inputs && access == write,
            _ => false,
        };
        let span = module.global_variables.get_span(handle);
        let fault = |message: String, here: &str| Err(at(&question.source, span, message, here));
        let Some(found) = found.get_mut(number).filter(|_| binding.group == 0) else {
            let message = format!(
                "nothing is bound here: bindings are @group(0), 0 for parameters, then {inputs} inputs, then {outputs} outputs"
            );
            return fault(message, &format!("group {}, binding {number}", binding.group));
        };
        if !right {
            return fault(format!("binding {number} holds {what}"), &format!("must be {want}"));
        }
        if number == 0
            && module.types.get_handle(variable.ty).is_ok_and(|t| t.inner.size(module.to_ctx()) > PARAM_BYTES)
        {
            return fault(format!("the parameter block has {PARAM_BYTES} bytes"), "is longer");
        }
        *found = true;
    }
    match found.iter().skip(1).position(|found| !found) {
        None => Ok(()),
        Some(n) if n < inputs => Err(format!("binding {}, input {n}, is not declared", n + 1)),
        Some(n) => Err(format!("binding {}, output {}, is not declared", n + 1, n - inputs)),
    }
}
