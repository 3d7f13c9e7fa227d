//! What a Redis that fails in any way costs a request: nothing but its limit.
