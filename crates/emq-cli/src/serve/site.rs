//! From a request to an answer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode, header};

use super::answer::{Answer, HTML, PROMETHEUS, STYLE, answer, see_other, text};
use super::console::{Console, Found};
use super::link::Link;
use super::metrics::{self, LinkCounts};
use super::pages;
use super::watcher::Watcher;

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Everything that can be asked for.
pub(super) struct Site {
    link: Link,
    watcher: Arc<Watcher>,
    console: Console,
    /// Whether only names of this machine's own may ask: no page of another site can look through
    /// a name that it lets point here.
    is_loopback: bool,
}

impl Site {
    pub(super) fn new(
        link: Link,
        watcher: Arc<Watcher>,
        address: SocketAddr,
        shows_payloads: bool,
    ) -> Arc<Site> {
        let console = Console::new(link.clone(), Arc::clone(&watcher), shows_payloads);
        Arc::new(Site { link, watcher, console, is_loopback: address.ip().is_loopback() })
    }

    pub(super) async fn answer(&self, request: &Request<Incoming>) -> Answer {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
            let allowed = header::HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(header::ALLOW, allowed);
            return refused;
        }
        if self.is_loopback && !names_this_machine(request) {
            return text(StatusCode::MISDIRECTED_REQUEST, "this host is not served here");
        }
        match tokio::time::timeout(ANSWER_WITHIN, self.route(request)).await {
            Ok(answer) => answer,
            Err(_) => text(StatusCode::GATEWAY_TIMEOUT, "the server doesn't answer"),
        }
    }

    async fn route(&self, request: &Request<Incoming>) -> Answer {
        let path = request.uri().path();
        let query = Query(request.uri().query().unwrap_or_default());
        match path {
            "/healthz" => return text(StatusCode::OK, "ok"),
            "/readyz" => return self.ready().await,
            "/metrics" => return self.metrics().await,
            "/style.css" => return answer(StatusCode::OK, STYLE, pages::STYLE_SHEET),
            _ => {}
        }
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let found = match parts[..] {
            [""] => self.console.queues().await,
            ["queues", queue] => self.console.queue(queue).await,
            ["queues", queue, "lanes"] => {
                self.console.lanes(queue, query.page(), query.get("lane")).await
            }
            ["queues", queue, "morgue"] => self.console.morgue(queue, query.get("before")).await,
            ["queues", queue, "job"] => self.console.find(queue, query.get("id").unwrap_or("")),
            ["queues", queue, "jobs", id] => self.console.job(queue, id).await,
            _ => Found::Nothing("There is no such page.".to_owned()),
        };
        match found {
            Found::Page(page) => answer(StatusCode::OK, HTML, page),
            Found::There(path) => see_other(&path),
            Found::Nothing(why) => {
                answer(StatusCode::NOT_FOUND, HTML, pages::failed("Not found", &why))
            }
            Found::Malformed(why) => {
                answer(StatusCode::BAD_REQUEST, HTML, pages::failed("Not understood", &why))
            }
            Found::Broken(why) => answer(
                StatusCode::INTERNAL_SERVER_ERROR,
                HTML,
                pages::failed("This can't be read", &why),
            ),
            Found::OutOfReach(why) => answer(
                StatusCode::SERVICE_UNAVAILABLE,
                HTML,
                pages::failed("The server is out of reach", &why),
            ),
        }
    }

    async fn ready(&self) -> Answer {
        match self.link.ready().await {
            Ok(()) => text(StatusCode::OK, "ready"),
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("not ready: {why}")),
        }
    }

    /// Also without a server: that it is down is a metric.
    async fn metrics(&self) -> Answer {
        let reading = self.watcher.snapshot().await;
        let counts = self.link.bus().ok().map(|bus| bus.counters()).map(|counters| LinkCounts {
            commands: counters.commands,
            reconnects: counters.reconnects,
        });
        let lines = metrics::lines(reading.as_deref().ok(), counts.as_ref());
        answer(StatusCode::OK, PROMETHEUS, lines)
    }
}

/// A query's fields. None of ours has letters that need an escape.
struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        let pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(field, value)| *field == name && !value.is_empty()).map(|(_, v)| v).next()
    }

    /// Pages count from 1.
    fn page(&self) -> usize {
        self.get("page").and_then(|page| page.parse().ok()).unwrap_or(1).max(1)
    }
}

/// Whether the request's host, if it names one, is a name of the loopback interface.
fn names_this_machine(request: &Request<Incoming>) -> bool {
    let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    host.or_else(|| request.uri().host()).is_none_or(is_loopback_name)
}

fn is_loopback_name(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_address = |name: &str| name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    name.eq_ignore_ascii_case("localhost") || is_address(name) || is_address(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_loopback_interface_pass() {
        for host in ["localhost", "LocalHost:7479", "127.0.0.1:1", "127.8.9.1", "[::1]:80", "[::1]"]
        {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in [
            "example.com",
            "localhost.example.com",
            "10.0.0.1:7479",
            "127.0.0.1.example.com",
            "?",
            "",
        ] {
            assert!(!is_loopback_name(host), "{host}");
        }
    }

    #[test]
    fn a_query_is_read_by_its_first_field_of_a_name() {
        let query = Query("a=&page=3&a=x&b&before=JOB&page=4");
        assert_eq!((query.page(), query.get("a"), query.get("b")), (3, Some("x"), None));
        for bad in ["", "page=0", "page=-1", "page=x", "page=99999999999999999999999"] {
            assert_eq!(Query(bad).page(), 1, "{bad}");
        }
    }
}
