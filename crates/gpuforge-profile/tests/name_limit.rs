//! Name limit: a program that puts numbers into names uses bounded memory. Alone in its process: it fills the table.

use gpuforge_profile::{Category, MAX_NAMES, Name, Profiler};

#[test]
fn names_beyond_the_limit_share_one() {
    for i in 0..MAX_NAMES + 100 {
        Name::new(&format!("endless {i}"));
    }
    let profiler = Profiler::new();
    profiler.enable();
    drop(profiler.span(Name::new("one more"), Category::Cpu));
    drop(profiler.span(Name::new("and another"), Category::Cpu));
    assert_eq!(Name::new("one more"), Name::new("and another"));
    assert_eq!(profiler.drain().names, ["(too many names)"]);
}
