//! The same scripts on Collie and on PostgreSQL 15, compared line by line.
//!
//! Rows, tags, notices, errors with SQLSTATE, position, DETAIL and HINT must be equal; only the LOCATION lines of
//! PostgreSQL's source are left out. `docs/compatibility.md` lists the intended differences, and its statements run
//! too: both servers must answer as its table says.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use collie_clients_tests::{
    Psql, Server, not_run,
    program::{Done, run},
    reference::{PACKAGE, Reference},
};

const OPTIONS: [&str; 6] = ["-A", "-v", "VERBOSITY=verbose", "-P", "null=(null)", "-e"];

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Both servers.
struct Both {
    server: Server,
    reference: Reference,
}

impl Both {
    /// Starts both servers; returns `None` without PostgreSQL.
    fn start() -> Option<Self> {
        let reference = Reference::start();
        if reference.is_none() {
            not_run(&format!("PostgreSQL's server is not installed: apt-get install {PACKAGE}"));
        }
        Some(Self { reference: reference?, server: Server::fresh() })
    }

    /// Runs a script on both servers and returns the lines of each.
    fn play(&self, script: &str) -> (Vec<String>, Vec<String>) {
        let ours = Psql::new(&self.server).merged(&OPTIONS, script);
        let theirs = self.reference.merged(&[&["-d", "collie"], &OPTIONS[..]].concat(), script);
        (comparable(&ours), comparable(&theirs))
    }
}

/// Returns the lines that psql printed, errors among results, without the LOCATION lines, which can never be equal.
fn comparable(done: &Done) -> Vec<String> {
    let lines = done.out.lines().filter(|line| !line.starts_with("LOCATION:  "));
    lines.map(str::to_owned).collect()
}

/// How simple text is planned: every text by itself, or one plan for all texts that differ in literals only.
const PLAN_CACHE_MODES: [&str; 2] = ["force_custom_plan", "force_generic_plan"];

/// Goal: Collie answers as PostgreSQL 15 does, however its plans are shared. Method: every script of `tests/sql` on
/// both servers in every mode; all differences are shown.
#[test]
fn scripts_answer_as_in_postgresql() {
    let mut scripts: Vec<_> =
        fs::read_dir(tree().join("tests/sql")).unwrap().map(|file| file.unwrap().path()).collect();
    scripts.sort();
    assert!(scripts.len() >= 8, "{scripts:?}");
    let Some(both) = Both::start() else { return };
    let mut wrong = String::new();
    for (script, mode) in scripts.iter().flat_map(|script| PLAN_CACHE_MODES.map(|mode| (script, mode))) {
        let name = script.file_name().unwrap().to_string_lossy();
        let text = fs::read_to_string(script).unwrap();
        let (ours, theirs) = both.play(&format!("SET plan_cache_mode = {mode};\n{text}"));
        if ours == theirs {
            continue;
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (side, lines) in [("collie", &ours), ("postgresql", &theirs)] {
            fs::write(folder.path().join(side), lines.join("\n") + "\n").expect("own directory");
        }
        let file = |side: &str| folder.path().join(side).display().to_string();
        let diff = run(Path::new("diff"), &["-U3", &file("postgresql"), &file("collie")], &[], "");
        let _ = writeln!(wrong, "{name}, {mode}: - is PostgreSQL, + is Collie\n{}", diff.out);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A generator of expressions and texts from a seed: nested groups with every quantifier, back-references, constraints.
struct Generator(u64);

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Returns an expression with one or more alternatives. `groups` counts the capturing groups; it is `None` inside a
    /// look-around.
    fn expression(&mut self, depth: usize, groups: &mut Option<usize>) -> String {
        let branches = [1, 1, 1, 2, 2, 3][self.below(6)];
        (0..branches).map(|_| self.branch(depth, groups)).collect::<Vec<_>>().join("|")
    }

    fn branch(&mut self, depth: usize, groups: &mut Option<usize>) -> String {
        const QUANTIFIERS: &[&str] =
            &["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}", "{2,}", "{1,2}?", "{2}?"];
        const CONDITIONS: &[&str] = &["^", "$", r"\m", r"\M", r"\y", r"\Y", r"\A", r"\Z"];
        let mut out = String::new();
        for _ in 0..[1, 1, 2, 2, 3][self.below(5)] {
            match self.below(14) {
                0 => out += self.one(CONDITIONS),
                1 if depth > 0 => {
                    let open = self.one(&["(?=", "(?!", "(?<=", "(?<!"]);
                    out += &format!("{open}{})", self.expression(depth - 1, &mut None));
                }
                _ => {
                    out += &self.atom(depth, groups);
                    out += self.one(QUANTIFIERS);
                }
            }
        }
        out
    }

    fn atom(&mut self, depth: usize, groups: &mut Option<usize>) -> String {
        let plain = self.one(&["a", "b", "c", ".", "[ab]", "[^a]", r"\w", "x"]).to_owned();
        match (self.below(8), depth, groups.as_mut()) {
            (0..=3, ..) | (_, 0, _) => plain,
            (4 | 5, _, Some(count)) => {
                *count += 1;
                format!("({})", self.expression(depth - 1, groups))
            }
            (6, _, Some(1..)) => {
                let count = groups.unwrap_or(1);
                format!(r"\{}", self.below(count.min(9)) + 1)
            }
            _ => format!("(?:{})", self.expression(depth - 1, groups)),
        }
    }

    fn text(&mut self) -> String {
        (0..self.below(9)).map(|_| self.one(&["a", "a", "b", "b", "c", "x", " "])).collect()
    }
}

/// Goal: every regular expression matches where it does in PostgreSQL, and its groups match the same pieces. Method:
/// generated expressions and texts; both servers return the groups, and the text with all matches replaced.
#[test]
fn generated_regular_expressions_match_as_in_postgresql() {
    let Some(both) = Both::start() else { return };
    let mut generator = Generator(20_260_729);
    let mut script = String::new();
    for _ in 0..400 {
        let (pattern, text) = (generator.expression(3, &mut Some(0)), generator.text());
        let flags = generator.one(&["", "", "i", "n", "w"]);
        let _ = writeln!(script, "SELECT regexp_match('{text}', '{pattern}', '{flags}'), '{text}' ~ '{pattern}';");
        if !pattern.contains(['1', '2', '3', '4', '5', '6', '7', '8', '9']) {
            let _ = writeln!(script, "SELECT regexp_replace('{text}', '{pattern}', '<\\&>', 'g{flags}');");
        }
    }
    let (ours, theirs) = both.play(&script);
    let differing: Vec<_> = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).take(20).collect();
    assert!(ours == theirs, "{} and {} lines; first (Collie, PostgreSQL): {differing:#?}", ours.len(), theirs.len());
}

/// Goal: the list of known differences is true. Method: run its statements on both servers and compare the answers with
/// the list.
#[test]
fn known_differences_are_as_documented() {
    let page = fs::read_to_string(tree().join("docs/compatibility.md")).expect("a page of this tree");
    let Some(both) = Both::start() else { return };
    let mut wrong = String::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [statement, ours, theirs, _] = cells.as_slice() else { panic!("four columns: {row}") };
        let text = |cell: &str| cell.trim_matches('`').to_owned();
        let (said, said_there) = both.play(&format!("{};\n", text(statement)));
        for (who, lines, expected) in [("Collie", said, text(ours)), ("PostgreSQL", said_there, text(theirs))] {
            // The first line is the statement itself; then a header and rows, a tag, or an error.
            let found = lines.get(1..).unwrap_or_default().join(" / ");
            if !found.contains(&expected) {
                let _ = writeln!(wrong, "{statement}: {who} answers {found}, the page says {expected}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
