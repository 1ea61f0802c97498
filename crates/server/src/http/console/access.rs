//! Which pages may read the answers of HTTP, of the console and of every other path. There is no authentication, and
//! the port is on loopback, which any page in a browser of this machine can query too.
//!
//! - A foreign page whose name was made to resolve to this machine (DNS rebinding) has the same origin as this server
//!   for its browser. So requests are answered only under a name that cannot belong to another machine.
//! - A foreign page that queries across origins is answered, but its browser withholds the answer unless the server
//!   allows that origin: only pages of this machine, such as a replica's, are allowed.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};

/// Returns whether `authority` (`HOST` or `HOST:PORT`) can belong to this machine only.
fn is_here(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || host.eq_ignore_ascii_case("localhost")
}

/// Returns whether a request uses a name of this machine; one without a name does not come from a browser.
pub(in crate::http) fn is_for_here(headers: &HeaderMap) -> bool {
    headers.get(HOST).is_none_or(|host| host.to_str().is_ok_and(is_here))
}

/// Returns the origin of the requesting page, if it may read the answer.
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

    /// Goal: O3: requests under names that may belong to another machine are not answered. Method: names of this
    /// machine, and names that look like them.
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
