//! WGSL code generation for expressions: one `let` per node, on scalars or vec4 (alias `V`).

use std::fmt::Write as _;

use gpuforge_runtime::plan::MAX_PARAMS;

use super::{Expr, Function, Node};

/// Constants as parameter words, so that expressions that differ only in constants share a pipeline; those that do not fit become
/// literals.
#[derive(Debug, Clone)]
pub(crate) struct Params {
    words: Vec<u32>,
}

impl Params {
    /// Starts after these words.
    pub(crate) fn after(words: &[u32]) -> Params {
        Params { words: words.to_vec() }
    }

    /// All words.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    fn constant(&mut self, bits: u32) -> String {
        if self.words.len() >= MAX_PARAMS {
            return format!("V({:?}f)", f32::from_bits(bits));
        }
        self.words.push(bits);
        format!("V(bitcast<f32>({}))", word(self.words.len() - 1))
    }
}

/// WGSL access to a parameter word.
pub(crate) fn word(at: usize) -> String {
    format!("p.v[{}].{}", at / 4, ["x", "y", "z", "w"].get(at % 4).unwrap_or(&"x"))
}

/// Kernel prologue; `V` is a vector of `width` elements of this type.
pub(crate) fn head(width: u32, number: &str) -> String {
    let v = if width == 4 { format!("vec4<{number}>") } else { number.to_owned() };
    format!(
        "alias V = {v};\nstruct Params {{ v: array<vec4<u32>, 4> }}\n@group(0) @binding(0) var<uniform> p: Params;\n"
    )
}

/// A storage buffer binding.
pub(crate) fn binding(at: usize, access: &str, name: &str, number: &str) -> String {
    format!("@group(0) @binding({at}) var<storage, {access}> {name}: array<{number}>;\n")
}

/// Head of an entry point; `i` is the global invocation index.
pub(crate) fn entry(group: u32) -> String {
    format!(
        "@compute @workgroup_size({group})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {{
    let i = (id.y * groups.x + id.x) * {group}u + lane;
    if (i >= p.v[0].x) {{ return; }}
"
    )
}

/// Appends the nodes of an expression; inputs are called `x0`, `x1`… Returns the name of the result.
pub(crate) fn steps(expr: &Expr, params: &mut Params, text: &mut String) -> String {
    let mut names: Vec<String> = Vec::new();
    for (at, node) in expr.nodes().iter().enumerate() {
        let name = match *node {
            Node::Input(input) => format!("x{input}"),
            Node::Constant(bits) => {
                let _ = writeln!(text, "    let s{at} = {};", params.constant(bits));
                format!("s{at}")
            }
            Node::Call(f, [a, b, c]) => {
                let get = |at: u16| names.get(usize::from(at)).map_or("x0", String::as_str);
                let _ = writeln!(text, "    let s{at} = {};", call(f, get(a), get(b), get(c)));
                format!("s{at}")
            }
        };
        names.push(name);
    }
    names.pop().unwrap_or_else(|| "V(0.0)".to_owned())
}

fn call(f: Function, a: &str, b: &str, c: &str) -> String {
    match f {
        Function::Add | Function::Sub | Function::Mul | Function::Div => format!("{a} {} {b}", f.name()),
        Function::Less
        | Function::LessEqual
        | Function::Greater
        | Function::GreaterEqual
        | Function::Equal => format!("select(V(0.0), V(1.0), {a} {} {b})", f.name()),
        Function::Select => format!("select({c}, {b}, {a} != V(0.0))"),
        Function::Neg => format!("-{a}"),
        Function::Ln => format!("log({a})"),
        // Clamped: beyond 20 it is 1, and some drivers compute inf/inf there.
        Function::Tanh => format!("tanh(clamp({a}, V(-20.0), V(20.0)))"),
        Function::Min | Function::Max | Function::Pow => format!("{}({a}, {b})", f.name()),
        Function::Abs | Function::Sqrt | Function::Floor | Function::Exp | Function::Sin | Function::Cos => {
            format!("{}({a})", f.name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_parameters_while_they_fit() {
        let write = |text: &str| {
            let (mut params, mut out) = (Params::after(&[7]), String::new());
            let name = steps(&Expr::parse(text, &["a"]).unwrap(), &mut params, &mut out);
            (params.words().to_vec(), out, name)
        };
        let (two, three) = (write("a*2 + 1"), write("a*3 + 4"));
        assert_eq!((&two.1, &two.2), (&three.1, &three.2));
        assert_eq!(two.0, [7, 2f32.to_bits(), 1f32.to_bits()]);
        let long: Vec<String> = (0..20).map(|i| format!("a*{}.5", i + 1)).collect();
        let (words, text, _) = write(&long.join("+"));
        assert_eq!(words.len(), MAX_PARAMS);
        assert!(text.contains("V(20.5f)") && !text.contains("V(15.5f)"), "{text}");
    }
}
