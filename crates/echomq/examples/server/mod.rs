//! Where an example finds its server.

use emq_testkit::Valkey;

/// The server of `EMQ_VALKEY_URL`; without one, a server of this run's own, which ends with the
/// value.
pub(crate) fn find() -> Result<(String, Option<Valkey>), Box<dyn std::error::Error>> {
    if let Ok(url) = std::env::var("EMQ_VALKEY_URL") {
        return Ok((url, None));
    }
    let valkey = Valkey::start()?;
    Ok((valkey.url(), Some(valkey)))
}
