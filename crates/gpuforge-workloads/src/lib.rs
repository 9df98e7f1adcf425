//! Two real programs on the routed operations: lattices (`lattice`) and ball flights (`trajectory`).
//!
//! Flow: a plain description (a grid's shape and blocked cells; launches, ball and air) → checked once, errors name the
//! thing and its limit → a closed form where one is valid, else a computation on the processor, or the same computation
//! recorded as a plan for a device where the router measured that to be faster → plain results.

pub mod lattice;
pub mod trajectory;
