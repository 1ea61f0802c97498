//! Who may read what HTTP answers, the console and everything else: there is no authentication, and the port is on loopback, which every page that a browser of this machine shows
//! can ask too.
//!
//! - A page elsewhere whose name was made to lead here (DNS rebinding) counts as one origin with this server for its browser: so
//!   requests are answered only under a name that nobody else can have.
//! - A page elsewhere that asks across origins is answered, but its browser keeps the answer from it, unless it is told that this origin may
//!   have it: only pages of this machine may, such as a replica's.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};

/// Whether `authority` (`HOST` or `HOST:PORT`) can be nobody's but this machine's.
fn is_here(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || host.eq_ignore_ascii_case("localhost")
}

/// Returns whether a request came under a name of this machine; one without a name is no browser's.
pub(in crate::http) fn is_for_here(headers: &HeaderMap) -> bool {
    headers.get(HOST).is_none_or(|host| host.to_str().is_ok_and(is_here))
}

/// Returns the origin of the page that asks, if it may read the answer.
pub(in crate::http) fn allowed_origin(headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let is_ours = origin.to_str().ok()?.strip_prefix("http://").is_some_and(is_here);
    is_ours.then(|| origin.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: hyper::header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    /// Goal: O3: names that somebody else can have are not answered under. Method: names of this machine, and names that look like them.
    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["127.0.0.1:8433", "127.0.0.1", "127.1.2.3:1", "localhost:8433", "LOCALHOST", "[::1]:8433", "[::1]"]
        {
            assert!(is_for_here(&asked(HOST, host)), "{host}");
        }
        for host in [
            "example.org:8433",
            "127.0.0.1.example.org",
            "localhost.example.org:80",
            "10.0.0.1:8433",
            "[::2]:1",
            "",
            "[::1",
        ] {
            assert!(!is_for_here(&asked(HOST, host)), "{host}");
        }
        assert!(is_for_here(&HeaderMap::new()));
    }

    /// Goal: O3: pages of this machine may read across origins, no others. Method: origins of each kind.
    #[test]
    fn only_pages_of_this_machine_read_across_origins() {
        let allowed = |origin| allowed_origin(&asked(ORIGIN, origin));
        assert_eq!(allowed("http://127.0.0.1:8434"), Some(HeaderValue::from_static("http://127.0.0.1:8434")));
        assert!(allowed("http://localhost:1").is_some());
        for origin in
            ["http://example.org", "https://127.0.0.1:8434.example.org", "null", "http://127.0.0.1.example.org:1"]
        {
            assert_eq!(allowed(origin), None, "{origin}");
        }
        assert_eq!(allowed_origin(&HeaderMap::new()), None);
    }
}
