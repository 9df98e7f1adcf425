//! String interning: span names to small ids, once per call site, in one process-wide table.

use crate::record::NAME_BITS;
use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

/// Longer names are truncated: a name is an identifier, not a message.
pub const MAX_NAME_BYTES: usize = 256;

/// Further distinct names share the last one: a program that puts numbers into names must not exhaust memory.
pub const MAX_NAMES: usize = 1 << 16;

const OVERFLOW: &str = "(too many names)";

const _: () = assert!(MAX_NAMES < 1 << NAME_BITS);

/// An interned name. Made by [`Name::new`], or by [`span!`](crate::span!) at its call site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u32);

struct Names {
    ids: BTreeMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
}

static NAMES: Mutex<Names> = Mutex::new(Names { ids: BTreeMap::new(), texts: Vec::new() });

fn names() -> MutexGuard<'static, Names> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Truncates a text to [`MAX_NAME_BYTES`] at a character boundary, with an ellipsis.
fn truncate(text: &str) -> std::borrow::Cow<'_, str> {
    const MARK: &str = "…";
    if text.len() <= MAX_NAME_BYTES {
        return text.into();
    }
    let end = text.floor_char_boundary(MAX_NAME_BYTES - MARK.len());
    format!("{}{MARK}", text.get(..end).unwrap_or_default()).into()
}

impl Name {
    /// Interns `text`, truncated to [`MAX_NAME_BYTES`]. Takes a lock: intern once and keep the name.
    pub fn new(text: &str) -> Name {
        let text = truncate(text);
        let mut names = names();
        if let Some(id) = names.ids.get(&*text) {
            return Name(*id);
        }
        let full = names.texts.len() >= MAX_NAMES - 1;
        let text: Arc<str> = if full { OVERFLOW.into() } else { text.into() };
        if let Some(id) = names.ids.get(&text) {
            return Name(*id);
        }
        names.texts.push(text.clone());
        // Ids start at 1: 0 marks an unresolved call site.
        let id = u32::try_from(names.texts.len()).unwrap_or(u32::MAX);
        names.ids.insert(text, id);
        Name(id)
    }

    pub(crate) const fn id(self) -> u32 {
        self.0
    }
}

/// The text of an id; `None` for an unknown id.
pub(crate) fn text_of(id: u32) -> Option<Arc<str>> {
    names().texts.get((id as usize).checked_sub(1)?).cloned()
}

/// What can name a span: a literal, or an interned [`Name`]. Resolved only while the profiler is enabled.
pub trait SpanName: sealed::Sealed {
    /// Interns it.
    fn resolve(self) -> Name;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Name {}
    impl Sealed for &'static str {}
}

impl SpanName for Name {
    fn resolve(self) -> Name {
        self
    }
}

/// Per-thread cache of literals: address, length, id. A literal never changes, so its address identifies it.
const CACHE: usize = 64;

thread_local! {
    static LITERALS: [Cell<(usize, usize, u32)>; CACHE] = const { [const { Cell::new((0, 0, 0)) }; CACHE] };
}

impl SpanName for &'static str {
    fn resolve(self) -> Name {
        let (address, length) = (self.as_ptr() as usize, self.len());
        let place = (address ^ address >> 6 ^ length << 2) % CACHE;
        let cached = LITERALS.try_with(|seen| seen.get(place).map(Cell::get)).ok().flatten();
        match cached {
            Some((a, l, id)) if (a, l) == (address, length) && id != 0 => Name(id),
            _ => {
                let name = Name::new(self);
                let keep = |seen: &[Cell<_>; CACHE]| {
                    seen.get(place).map(|cell| cell.set((address, length, name.id())))
                };
                // Without the cache the name is only interned again.
                LITERALS.try_with(keep).ok();
                name
            }
        }
    }
}

/// A call site of [`span!`](crate::span!): caches the id of its name.
#[derive(Debug)]
pub struct SpanSite {
    text: &'static str,
    id: AtomicU32,
}

impl SpanSite {
    /// An unresolved call site.
    pub const fn new(text: &'static str) -> SpanSite {
        SpanSite { text, id: AtomicU32::new(0) }
    }

    /// The name, interned at the first call.
    #[inline]
    pub fn name(&self) -> Name {
        match self.id.load(Ordering::Relaxed) {
            0 => self.resolve_slow(),
            id => Name(id),
        }
    }

    #[cold]
    fn resolve_slow(&self) -> Name {
        let name = Name::new(self.text);
        self.id.store(name.id(), Ordering::Relaxed);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_an_id() {
        static SITE: SpanSite = SpanSite::new("name::tests::a");
        let a = Name::new("name::tests::a");
        assert_eq!(SITE.name(), a);
        assert_eq!(SITE.name(), a);
        assert_eq!("name::tests::a".resolve(), a);
        assert_eq!("name::tests::a".resolve(), a);
        assert_eq!(a.resolve(), a);
        assert_ne!(Name::new("name::tests::b"), a);
        assert_eq!(text_of(a.id()).as_deref(), Some("name::tests::a"));
        assert_eq!(text_of(0), None);
        assert_eq!(text_of(u32::MAX), None);
    }

    #[test]
    fn long_names_are_truncated_at_character_boundaries() {
        let text = "ü".repeat(4000);
        let kept = text_of(Name::new(&text).id()).unwrap();
        assert!(kept.len() <= MAX_NAME_BYTES && kept.ends_with("ü…"), "{}", kept.len());
        let exact = "x".repeat(MAX_NAME_BYTES);
        assert_eq!(text_of(Name::new(&exact).id()).as_deref(), Some(exact.as_str()));
    }
}
