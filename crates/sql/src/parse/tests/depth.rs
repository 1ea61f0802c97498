//! Deep and random text: it is answered, and never ends the process (P1, P4, SQL-7).

use proptest::prelude::*;

use super::{failure, one, statements};
use crate::error::SqlState;
use crate::parse::{DEPTH_INLINE, TERMS_MAX, convert, fuzz_parse, raw, scan};

/// Goal: statements nested without limit are 54001. Method: a hundred thousand levels of each form that nests, on a
/// thread
/// with the stack of a server's worker.
#[test]
fn a_hundred_thousand_levels_of_anything_are_refused() {
    const N: usize = 100_000;
    let texts = [
        format!("select {}1{}", "(".repeat(N), ")".repeat(N)),
        format!("select true{}", " and true".repeat(N)),
        format!("select true{}", " or true".repeat(N)),
        format!("{}1{}", "select (".repeat(N), ")".repeat(N)),
        format!("select 1{}", "::int".repeat(N)),
        format!("select 1{}", " union select 1".repeat(N)),
        format!("select {}1", "not ".repeat(N)),
        format!("select {}1", "- ".repeat(N)),
        format!("select 1{}", " + 1".repeat(N)),
        format!("select 1 from a{}", " join a on true".repeat(N)),
        format!("select a{}", " is null".repeat(N)),
        format!("select {}1{}", "case when ".repeat(N), " then 1 end".repeat(N)),
        format!("select {}1{}", "f(".repeat(N), ")".repeat(N)),
        format!("select {}1{}", "array[".repeat(N), "]".repeat(N)),
        format!("select * from {}t{}", "(".repeat(N), ")".repeat(N)),
        format!("select * from {}select 1{}", "(".repeat(N), ") x".repeat(N)),
    ];
    for text in texts {
        let head: String = text.chars().take(40).collect();
        assert_eq!(failure(&text).state(), SqlState::STATEMENT_TOO_COMPLEX, "{head}");
    }
}

/// Goal: the limits are where they are documented. Method: just below and just above, for nesting to the left, to the
/// right and in parentheses, and for terms.
#[test]
fn statements_just_below_the_limits_are_accepted() {
    for (text, repeat) in [("select 1", " + 1"), ("select true", " is true"), ("select 1", " union all select 1")] {
        one(&format!("{text}{}", repeat.repeat(990)));
        let error = failure(&format!("{text}{}", repeat.repeat(1_010)));
        assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX, "{text}{repeat}");
    }
    one(&format!("select {}1", "not ".repeat(990)));
    one(&format!("{}1{}", "select (".repeat(490), ")".repeat(490)));
    one(&format!("select true{}", " and true".repeat(TERMS_MAX - 1)));
    let error = failure(&format!("select true{}", " and true".repeat(TERMS_MAX)));
    assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
}

/// Goal: a statement that is parsed on the caller's stack fits it, the other half of P4. Method: each nesting form as
/// deep
/// as the bound lets it stay, parsed, compared, printed and dropped on half of a worker's stack.
#[test]
fn statements_below_the_bound_fit_half_of_a_small_stack() {
    let forms = [
        ("select ", "(", "1", ")"),
        ("", "select (", "1", ")"),
        ("select ", "not ", "a", ""),
        ("select ", "- ", "a", ""),
        ("select 1", "", "", " + 1"),
        ("select a", "", "", "::text"),
        ("select a from t", "", "", " join u on b"),
        ("select 1", "", "", " union select 1"),
        ("select ", "case when ", "a", " then 1 end"),
        ("select * from ", "(select * from ", "t", ") x"),
        ("select ", "a in (select ", "b", ")"),
        ("", "with w as (", "select 1", ") select 2"),
        ("select ", "f(", "a", ")"),
    ];
    for (head, open, middle, close) in forms {
        let text = |n: usize| format!("{head}{}{middle}{}", open.repeat(n), close.repeat(n));
        let deepest =
            (1..).take_while(|&n| scan::shape(&text(n)).depth <= DEPTH_INLINE).last().expect("one level fits");
        let text = text(deepest);
        let worker = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            let parsed = statements(&text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            assert_eq!(parsed, parsed.clone());
            assert!(!format!("{parsed:?}").is_empty());
        });
        worker.expect("a thread starts").join().expect("it fits");
    }
}

/// Goal: the deepest tree can be handled on a worker's stack (A2). Method: clones, compares and drops one there.
#[test]
fn deepest_tree_can_be_cloned_and_compared_on_a_worker_stack() {
    for text in [format!("select {}a", "not ".repeat(990)), format!("{}1{}", "select (".repeat(490), ")".repeat(490))] {
        let worker = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
            let parsed = one(&text);
            assert_eq!(parsed, parsed.clone());
        });
        worker.expect("a thread starts").join().expect("it fits");
    }
}

/// Goal: many deep statements exhaust no resource of the process. Method: parses more of them than a process has
/// thread-specific keys, of which the grammar takes one per thread.
#[test]
fn deep_statements_can_be_parsed_without_end() {
    let text = format!("select {}1", "not ".repeat(250));
    for _ in 0..1_100 {
        one(&text);
    }
}

/// Goal: assignments that the grammar repeats cannot fill the memory. Method: nested row assignments, each doubling
/// what is
/// inside, and one of many columns over a long source.
#[test]
fn repeated_row_assignments_are_bounded() {
    let mut text = String::from("select 1");
    for _ in 0..40 {
        text = format!("with w as (update t set (a, b) = ({text}) returning 1) select 1");
    }
    assert_eq!(failure(&text).state(), SqlState::STATEMENT_TOO_COMPLEX);
    let columns = vec!["a"; 1_600].join(", ");
    let source = vec!["1"; 100_000].join(" + 1, ");
    let text = format!("update t set ({columns}) = (select {source})");
    assert_eq!(failure(&text).state(), SqlState::STATEMENT_TOO_COMPLEX);
    one("update t set (a, b) = (select 1, 2) where (a, b) = (3, 4)");
}

/// Goal: threads that parse at once do not disturb each other. Method: eight threads, valid and invalid texts.
#[test]
fn threads_parse_side_by_side() {
    std::thread::scope(|scope| {
        for worker in 0..8 {
            scope.spawn(move || {
                for at in 0..200 {
                    one(&format!("select {worker} + {at} from t where a = {at}"));
                    assert_eq!(failure("select from from").report().position, Some(12));
                }
            });
        }
    });
}

/// Returns the depth that the converter met.
fn true_depth(text: &str) -> Option<u64> {
    // On a stack that fits anything that the strategies generate.
    let text = text.to_owned();
    let worker = std::thread::Builder::new().stack_size(64 << 20).spawn(move || {
        let parsed = raw::parse(&text).ok()?;
        convert::depth_of(&text, parsed).ok().map(u64::from)
    });
    worker.expect("a thread starts").join().expect("the converter does not panic")
}

/// Generates expressions of every form that nests, in one of its spellings.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "'x'",
        "a",
        "t.b",
        "$1",
        "null",
        "-1.5",
        "current_date",
        "t.case",
        "t.end",
        "E'\\')'",
        "\"and\"",
        "$$)($$",
        "date 'x'",
        "interval '1' day",
        "count(*)",
        "/* ( */ 2",
        "a.between",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(12, 200, 4, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..4);
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            two.clone().prop_map(|(a, b)| format!("({a} + {b})")),
            two.clone().prop_map(|(a, b)| format!("({a} and {b} or {a})")),
            two.clone().prop_map(|(a, b)| format!("({a} between {b} and 3 is null)")),
            two.clone().prop_map(|(a, b)| format!("({a} not between - - {b} and {a} and not not {b})")),
            two.clone().prop_map(|(a, b)| format!("case {a} when {b} then 1 else {a} end")),
            two.clone().prop_map(|(a, b)| format!("(case when {a} then {b} end)::numeric(3)::text")),
            two.clone().prop_map(|(a, b)| format!("({a} in (select {b} from t join u on {a} join v using (c)))")),
            two.clone().prop_map(|(a, b)| format!("({a} like {b} escape 'x')")),
            two.prop_map(|(a, b)| format!("({a} similar to {b} escape 'x')")),
            (several.clone(), 0..40_usize).prop_map(|(list, chain)| format!(
                "f({}){}",
                list.join(", "),
                " + 1".repeat(chain)
            )),
            (inner.clone(), 0..30_usize).prop_map(|(a, n)| format!("({a}{})", " is null".repeat(n))),
            (inner.clone(), 0..30_usize).prop_map(|(a, n)| format!("({}{a} and b)", "not ".repeat(n))),
            (inner.clone(), 0..30_usize).prop_map(|(a, n)| format!("({}{a})", "- ".repeat(n))),
            (inner.clone(), 0..20_usize)
                .prop_map(|(a, n)| format!("(select {a} from t{})", " union select b, c and d from t".repeat(n))),
            (inner.clone(), 0..20_usize)
                .prop_map(|(a, n)| format!("(select 1 from t join u on {a}{})", " join v on a and b".repeat(n))),
            (inner.clone(), 0..6_usize).prop_map(|(a, n)| format!("(array[{a}]){}", "[1:2]".repeat(n))),
            several.prop_map(|list| format!("exists (values ({}), (1))", list.join(", "))),
            inner.prop_map(|a| format!("coalesce(nullif({a}, 1), extract(year from {a}), ({a}) at time zone 'x')")),
        ]
    })
}

/// Generates a text of random tokens.
fn soup() -> impl Strategy<Value = String> {
    let tokens = prop::sample::select(vec![
        "select",
        "from",
        "where",
        "(",
        ")",
        ",",
        ";",
        "a",
        "t.b",
        "1",
        "'x'",
        "'",
        "\"",
        "$1",
        "$$",
        "and",
        "or",
        "not",
        "case",
        "when",
        "then",
        "end",
        "union",
        "join",
        "on",
        "=",
        "+",
        "-",
        "--",
        "/*",
        "*/",
        "*",
        "insert",
        "into",
        "values",
        "update",
        "set",
        "delete",
        "create",
        "table",
        "int",
        "null",
        "is",
        "in",
        "between",
        "::",
        "[",
        "]",
        ".",
        "order",
        "by",
        "limit",
        "with",
        "as",
        "group",
        "alter",
        "drop",
        "copy",
        "begin",
        "E'\\'",
        "U&'\\00'",
        "0x",
        "1e",
        "\u{e4}",
        "\0",
        "default",
        "primary",
        "key",
        "row",
        "array",
        "any",
        "exists",
        "interval",
        "index",
        "returning",
    ]);
    (prop::collection::vec(tokens, 0..40), prop::sample::select(vec!["", " ", "\n"]))
        .prop_map(|(tokens, between)| tokens.join(between))
}

/// Goal: each rule of the bound is needed (S1). Method: texts whose depth is spread over two segments, which only that
/// rule
/// adds up: set operations, joins, BETWEEN, CASE with a column called `end`, parentheses.
#[test]
fn bound_adds_what_lies_across_segments() {
    let minus = "- ".repeat(80);
    let texts = [
        format!("select {minus} a{}", " union select b, c and d".repeat(60)),
        format!("select 1 from t join u on {minus} a{}", " join v on a and b".repeat(60)),
        format!("select {minus} a between 1 and 2{}", " is null".repeat(40)),
        format!("select {minus} case when t.end and {minus} a then 1 end"),
        format!("select {minus} (a and {minus} b, c)"),
        format!("select ({minus} a){}", " is null".repeat(60)),
    ];
    for text in texts {
        let depth = true_depth(&text).expect("it is accepted");
        let bound = scan::shape(&text).depth;
        assert!(depth > 100 && bound >= depth, "bound {bound}, depth {depth}: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: P4. Method: compares the bound of generated statements with the depth that the converter meets.
    #[test]
    fn bound_is_never_below_the_true_depth(a in expression(), b in expression()) {
        let text = format!("select {a}, {b} from t where {b} group by {a} having {b} order by {a}; select {a}");
        let bound = scan::shape(&text).depth;
        if let Some(depth) = true_depth(&text) {
            prop_assert!(bound >= depth, "bound {} below depth {}: {}", bound, depth, text);
        } else {
            prop_assert!(false, "not accepted: {:?}: {}", statements(&text), text);
        }
    }

    /// Goal: P1. Method: random tokens, and random bytes through the entry of the fuzz target.
    #[test]
    fn random_tokens_are_answered(text in soup(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        drop(statements(&text));
        drop(statements(&format!("select {text}")));
        fuzz_parse(&bytes);
    }
}

/// Goal: ordinary statements do not need a thread. Method: checks the bound of a long but flat statement.
#[test]
fn ordinary_statements_stay_on_their_thread() {
    let flat = format!("select a from t where b in ({}) and c = 1 and d is not null", vec!["$1"; 1_000].join(", "));
    for text in ["select abalance from pgbench_accounts where aid = $1", flat.as_str()] {
        assert!(scan::shape(text).depth < DEPTH_INLINE, "{text}");
    }
}
