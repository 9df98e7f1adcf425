//! How does a name become a small number? Once per call site, in one table for the whole process.

use crate::record::NAME_BITS;
use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

/// Longer names are cut: a name is an identifier, not a message.
pub const MAX_NAME_BYTES: usize = 256;

/// More distinct names than this share the last one: a program that puts numbers into names must not fill memory.
pub const MAX_NAMES: usize = 1 << 16;

const OVERFLOW: &str = "(too many names)";

const _: () = assert!(MAX_NAMES < 1 << NAME_BITS);

/// A name in the table. Made by [`Name::new`], or by [`span!`](crate::span!) at its call site.
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

/// At most [`MAX_NAME_BYTES`] of a text, cut between characters and marked.
fn shorten(text: &str) -> std::borrow::Cow<'_, str> {
    const MARK: &str = "…";
    if text.len() <= MAX_NAME_BYTES {
        return text.into();
    }
    let end = text.floor_char_boundary(MAX_NAME_BYTES - MARK.len());
    format!("{}{MARK}", text.get(..end).unwrap_or_default()).into()
}

impl Name {
    /// The name of `text`, cut to [`MAX_NAME_BYTES`]. Takes a lock: make it once and keep it.
    pub fn new(text: &str) -> Name {
        let text = shorten(text);
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
        // Ids begin at 1: a call site that holds 0 has not asked yet.
        let id = u32::try_from(names.texts.len()).unwrap_or(u32::MAX);
        names.ids.insert(text, id);
        Name(id)
    }

    pub(crate) const fn id(self) -> u32 {
        self.0
    }
}

/// The text of an id; `None` for one that was never given out.
pub(crate) fn text_of(id: u32) -> Option<Arc<str>> {
    names().texts.get((id as usize).checked_sub(1)?).cloned()
}

/// What can name a span: a literal, or a [`Name`] made before. Looked up only while the profiler is on.
pub trait SpanName: sealed::Sealed {
    /// Its place in the table.
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

/// Literals seen by this thread: address, length, id. A literal never changes, so its address identifies it.
const CACHE: usize = 64;

thread_local! {
    static SEEN: [Cell<(usize, usize, u32)>; CACHE] = const { [const { Cell::new((0, 0, 0)) }; CACHE] };
}

impl SpanName for &'static str {
    fn resolve(self) -> Name {
        let (address, length) = (self.as_ptr() as usize, self.len());
        let place = (address ^ address >> 6 ^ length << 2) % CACHE;
        let cached = SEEN.try_with(|seen| seen.get(place).map(Cell::get)).ok().flatten();
        match cached {
            Some((a, l, id)) if (a, l) == (address, length) && id != 0 => Name(id),
            _ => {
                let name = Name::new(self);
                let keep = |seen: &[Cell<_>; CACHE]| {
                    seen.get(place).map(|cell| cell.set((address, length, name.id())))
                };
                // Without the cache the name is only looked up again.
                SEEN.try_with(keep).ok();
                name
            }
        }
    }
}

/// A call site of [`span!`](crate::span!): remembers the id of its name.
#[derive(Debug)]
pub struct Site {
    text: &'static str,
    id: AtomicU32,
}

impl Site {
    /// A site that has not been passed yet.
    pub const fn new(text: &'static str) -> Site {
        Site { text, id: AtomicU32::new(0) }
    }

    /// The name, looked up at the first call.
    #[inline]
    pub fn name(&self) -> Name {
        match self.id.load(Ordering::Relaxed) {
            0 => self.look_up(),
            id => Name(id),
        }
    }

    #[cold]
    fn look_up(&self) -> Name {
        let name = Name::new(self.text);
        self.id.store(name.id(), Ordering::Relaxed);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_an_id_however_they_come() {
        static SITE: Site = Site::new("name::tests::a");
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
    fn long_names_are_cut_between_characters() {
        let text = "ü".repeat(4000);
        let kept = text_of(Name::new(&text).id()).unwrap();
        assert!(kept.len() <= MAX_NAME_BYTES && kept.ends_with("ü…"), "{}", kept.len());
        let exact = "x".repeat(MAX_NAME_BYTES);
        assert_eq!(text_of(Name::new(&exact).id()).as_deref(), Some(exact.as_str()));
    }
}
