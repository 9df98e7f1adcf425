//! Did it get slower? Two runs, operation by operation, with the chance of being wrong stated.
