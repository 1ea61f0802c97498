//! [`page`]: the files of the page, which are compiled into the program.

/// A file.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Page {
    path: &'static str,
    /// Its `Content-Type`.
    pub(in crate::http) kind: &'static str,
    /// Its content.
    pub(in crate::http) text: &'static str,
}

/// What a browser may do with the page (O2): run and load its own files, and query servers of this machine for figures.
pub(in crate::http) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self' http://127.0.0.1:* http://localhost:*; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const PAGES: [Page; 9] = [
    Page { path: "/", kind: HTML, text: include_str!("page/index.html") },
    Page { path: "/console/style.css", kind: "text/css; charset=utf-8", text: include_str!("page/style.css") },
    Page { path: "/console/icon.svg", kind: "image/svg+xml", text: include_str!("page/icon.svg") },
    Page { path: "/console/main.js", kind: SCRIPT, text: include_str!("page/main.js") },
    Page { path: "/console/server.js", kind: SCRIPT, text: include_str!("page/server.js") },
    Page { path: "/console/chart.js", kind: SCRIPT, text: include_str!("page/chart.js") },
    Page { path: "/console/tables.js", kind: SCRIPT, text: include_str!("page/tables.js") },
    Page { path: "/console/views.js", kind: SCRIPT, text: include_str!("page/views.js") },
    Page { path: "/console/format.js", kind: SCRIPT, text: include_str!("page/format.js") },
];

/// Returns the file at `path`.
pub(in crate::http) fn page(path: &str) -> Option<Page> {
    PAGES.iter().find(|page| page.path == path).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: O2: every file that the page names is among its files, nothing comes from other sites, and no value can
    /// become markup. Method: every attribute and import that names a file, and the words that would turn text into
    /// markup.
    #[test]
    fn page_needs_nothing_but_its_own_files() {
        let mut named = 0;
        for Page { path, text, .. } in PAGES {
            for marker in ["src=\"", "href=\"", "from \"./"] {
                for rest in text.split(marker).skip(1) {
                    let name = rest.split('"').next().unwrap_or_default();
                    let full = if marker.starts_with("from") { format!("/console/{name}") } else { name.to_owned() };
                    let is_answered = ["/metrics", "/readyz", "/console.json", "#main"].contains(&&*full);
                    assert!(is_answered || page(&full).is_some(), "{path} names {full}");
                    named += 1;
                }
            }
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://", "style=\""]
            {
                assert!(!text.contains(forbidden), "{path} has {forbidden}");
            }
        }
        assert!(named > 15, "only {named} names found");
    }

    /// Goal: the places that the page fills exist. Method: every id that the scripts use, looked up in the page.
    #[test]
    fn page_has_the_places_that_its_scripts_fill() {
        let html = page("/").expect("the page itself").text;
        let mut asked = 0;
        for Page { path, text, .. } in PAGES.iter().filter(|page| page.kind == SCRIPT) {
            for marker in ["byId(\"", "show(\"", "fill(\"", "fill(\n    \""] {
                for rest in text.split(marker).skip(1) {
                    let id = rest.split('"').next().unwrap_or_default();
                    assert!(html.contains(&format!("id=\"{id}\"")), "{path} fills {id}");
                    asked += 1;
                }
            }
        }
        assert!(asked > 25, "only {asked} ids found");
    }
}
