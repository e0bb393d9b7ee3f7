//! How a rival is set up.

/// Whether `RIVAL_TUNED=1` asks for the settings that the rival's own documents name for speed,
/// instead of its defaults. The versions line says so.
#[must_use]
pub fn tuned() -> bool {
    std::env::var("RIVAL_TUNED").is_ok_and(|asked| asked == "1")
}
