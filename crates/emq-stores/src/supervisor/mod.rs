//! Owners that are restarted alone.
