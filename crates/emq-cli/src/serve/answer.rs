//! Answers, all with the same headers of caution.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

/// What goes back to a client.
pub(super) type Answer = Response<Full<Bytes>>;

/// Nothing but the page itself and its own sheet of style: no script, no frame, no other host.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

/// The kinds of content.
pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const STYLE: &str = "text/css; charset=utf-8";
/// Prometheus' text format.
pub(super) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let always: [(HeaderName, &'static str); 6] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in always {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

pub(super) fn text(status: StatusCode, line: &str) -> Answer {
    answer(status, TEXT, format!("{line}\n"))
}

/// Sends the client to a path of this site, which must be of plain letters only.
pub(super) fn see_other(path: &str) -> Answer {
    let mut answer = text(StatusCode::SEE_OTHER, "see there");
    match HeaderValue::from_str(path) {
        Ok(path) => drop(answer.headers_mut().insert(header::LOCATION, path)),
        Err(_) => *answer.status_mut() = StatusCode::BAD_REQUEST,
    }
    answer
}
