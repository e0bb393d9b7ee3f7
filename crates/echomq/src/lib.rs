//! echomq
