//! `to_char` of numbers: templates of `9`, `0`, `.`, `,`, `D`, `G`, `S`, `MI`, `PL`, `SG`, `PR`, `L`, `FM`, `TH` and
//! quoted text. `EEEE`, `RN` and `V` are 0A000.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{float, float4, int, new_text, numeric, text};
use super::context::EvalContext;
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;
use crate::types::numeric::Numeric;

/// One element of a template.
#[derive(Clone, PartialEq)]
enum Item {
    /// `9` or `0`: a digit; true for `0`.
    Digit(bool),
    Point,
    Group,
    /// `S`, at this place.
    Sign,
    /// `MI`
    Minus,
    /// `PL`
    Plus,
    /// `SG`
    EitherSign,
    /// `L`
    Currency,
    /// `TH` or `th`
    Ordinal(bool),
    Literal(char),
}

#[derive(Default)]
struct Template {
    items: Vec<Item>,
    /// Whether the items contain `S`, a point, and one of `PL`, `MI` and `SG`. They are cached because templates may be
    /// long and each item asks.
    has_sign: bool,
    has_point: bool,
    has_placed_sign: bool,
    /// `FM`: no filling blanks and zeros.
    bare: bool,
    /// `PR`: negative numbers in angle brackets.
    brackets: bool,
}

impl Template {
    fn push(&mut self, item: Item) {
        match item {
            Item::Sign => self.has_sign = true,
            Item::Point => self.has_point = true,
            Item::Plus | Item::Minus | Item::EitherSign => self.has_placed_sign = true,
            _ => {}
        }
        self.items.push(item);
    }

    /// Refuses an item that cannot follow the items before it.
    fn check(&self, item: &Item) -> Result<()> {
        let signed = self.has_sign;
        let refused = match item {
            Item::Digit(false) if self.brackets => "\"9\" must be ahead of \"PR\"",
            Item::Digit(true) if self.brackets => "\"0\" must be ahead of \"PR\"",
            Item::Point if self.has_point => "multiple decimal points",
            Item::Sign if signed => "cannot use \"S\" twice",
            Item::Sign if self.brackets || self.has_placed_sign => {
                "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"
            }
            Item::Minus if signed => "cannot use \"S\" and \"MI\" together",
            Item::Plus if signed => "cannot use \"S\" and \"PL\" together",
            Item::EitherSign if signed => "cannot use \"S\" and \"SG\" together",
            _ => return Ok(()),
        };
        Err(syntax(refused))
    }
}

#[cold]
fn syntax(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

fn parse(template: &str) -> Result<Template> {
    let mut parsed = Template::default();
    let mut rest = template;
    while let Some(c) = rest.chars().next() {
        let two = rest.get(..2).unwrap_or("").to_ascii_uppercase();
        if rest.get(..4).is_some_and(|t| t.eq_ignore_ascii_case("EEEE")) || two == "RN" || matches!(c, 'V' | 'v') {
            return Err(SqlError::unsupported("to_char with EEEE, RN or V"));
        }
        let (item, length) = match (two.as_str(), c) {
            ("FM", _) => {
                parsed.bare = true;
                rest = &rest[2..];
                continue;
            }
            ("PR", _) => {
                if parsed.has_sign || parsed.has_placed_sign {
                    return Err(syntax("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                parsed.brackets = true;
                rest = &rest[2..];
                continue;
            }
            ("MI", _) => (Item::Minus, 2),
            ("PL", _) => (Item::Plus, 2),
            ("SG", _) => (Item::EitherSign, 2),
            ("TH", first) => (Item::Ordinal(first == 'T'), 2),
            (_, '9') => (Item::Digit(false), 1),
            (_, '0') => (Item::Digit(true), 1),
            (_, '.' | 'D' | 'd') => (Item::Point, 1),
            (_, ',' | 'G' | 'g') => (Item::Group, 1),
            (_, 'S' | 's') => (Item::Sign, 1),
            // Reserved letters without an effect.
            (_, 'B' | 'b' | 'C' | 'c') => {
                rest = &rest[1..];
                continue;
            }
            (_, 'L' | 'l') => (Item::Currency, 1),
            (_, '"') => {
                let mut quoted = rest[1..].chars();
                while let Some(c) = quoted.next() {
                    match c {
                        '"' => break,
                        // A backslash at the very end stands for itself.
                        '\\' => parsed.items.push(Item::Literal(quoted.next().unwrap_or('\\'))),
                        c => parsed.items.push(Item::Literal(c)),
                    }
                }
                rest = quoted.as_str();
                continue;
            }
            // Outside quotes a backslash escapes only a quote.
            (_, '\\') if rest[1..].starts_with('"') => (Item::Literal('"'), 2),
            (_, other) => (Item::Literal(other), other.len_utf8()),
        };
        parsed.check(&item)?;
        parsed.push(item);
        rest = &rest[length..];
    }
    Ok(parsed)
}

/// Prints a number. `rounded` rounds its absolute value to at most the given number of decimals; it returns whether the
/// number is negative, the digits, and the number of decimals that are significant.
fn formatted(template: &Template, rounded: impl FnOnce(usize) -> (bool, String, usize)) -> Result<String> {
    let items = &template.items;
    let point = items.iter().position(|item| *item == Item::Point).unwrap_or(items.len());
    let digits = |items: &[Item]| items.iter().filter(|item| matches!(item, Item::Digit(_))).count();
    let (before, after) = (digits(&items[..point]), digits(&items[point..]));
    let (negative, plain, good) = rounded(after);
    let finite = plain.starts_with(|c: char| c.is_ascii_digit());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));

    // Under FM, zeros at the end that only a `9` asks for are dropped.
    let decimals: Vec<&Item> = items[point..].iter().filter(|i| matches!(i, Item::Digit(_))).collect();
    let last_zero = decimals.iter().rposition(|i| **i == Item::Digit(true));
    let kept = match template.bare {
        true => fraction.trim_end_matches('0').len().max(last_zero.map_or(0, |at| at + 1)),
        false => after,
    };
    // Floats may have fewer decimals than the template has places.
    let kept = kept.min(fraction.len());

    // A zero before the point is left out if a digit after the point is shown.
    let whole = if whole == "0" && after > 0 && before > 0 && (kept > 0 || !template.bare) { "" } else { whole };
    let too_wide = whole.len() > before;
    // The first place that shows a digit of the number, or a zero that the template asks for.
    let zero_from = items[..point].iter().filter(|i| matches!(i, Item::Digit(_))).position(|i| *i == Item::Digit(true));
    let first = if too_wide { 0 } else { (before - whole.len()).min(zero_from.unwrap_or(before)) };

    let explicit = |item: &Item| matches!(item, Item::Minus | Item::EitherSign);
    let places_sign = items.iter().any(explicit);
    let sign_at = items.iter().position(|item| *item == Item::Sign);
    let first_digit = items.iter().position(|item| matches!(item, Item::Digit(_))).unwrap_or(items.len());
    let has_digits = first_digit < items.len();
    let trailing_sign = sign_at.is_some_and(|at| at > first_digit);
    // The text directly before the first digit.
    let lead = match () {
        () if trailing_sign || places_sign => "",
        () if template.brackets => {
            if negative {
                "<"
            } else if template.bare {
                ""
            } else {
                " "
            }
        }
        () if sign_at.is_some() => {
            if negative {
                "-"
            } else {
                "+"
            }
        }
        () if negative => "-",
        () if template.bare => "",
        () => " ",
    };

    let mut out = String::new();
    let mut lead = Some(lead);
    let (mut digit, mut decimal, mut in_fraction) = (0, 0, false);
    let blank = |out: &mut String| {
        if !template.bare {
            out.push(' ')
        }
    };
    for item in items {
        match item {
            // The number ends here, as at a point below: further decimals of a float would not be significant.
            Item::Digit(_) if in_fraction && decimal >= good && plain != "NaN" => {
                if !template.bare {
                    return Ok(out);
                }
            }
            Item::Digit(_) if in_fraction => {
                if too_wide {
                    out.push('#');
                } else if !too_wide && finite && decimal < kept {
                    out.push(fraction.as_bytes().get(decimal).map_or('0', |&b| char::from(b)));
                }
                decimal += 1;
            }
            Item::Digit(_) => {
                if digit < first {
                    blank(&mut out);
                } else {
                    out.push_str(lead.take().unwrap_or(""));
                    let skipped = before - whole.len().min(before);
                    out.push(match () {
                        () if too_wide => '#',
                        () if digit < skipped => '0',
                        () => char::from(whole.as_bytes()[digit - skipped]),
                    });
                }
                digit += 1;
            }
            Item::Group if in_fraction || digit > first => out.push(','),
            Item::Group => blank(&mut out),
            // The number ends here, and so does the result, whatever the template has after the point.
            Item::Point if fraction.is_empty() && !too_wide => {
                out.push_str(lead.take().unwrap_or(""));
                return Ok(out);
            }
            Item::Point => {
                out.push_str(lead.take().unwrap_or(""));
                in_fraction = true;
                if finite || too_wide {
                    out.push('.');
                }
            }
            Item::Sign if trailing_sign => out.push(if negative { '-' } else { '+' }),
            Item::Sign => {}
            Item::Minus if negative => out.push('-'),
            Item::Minus => blank(&mut out),
            Item::Plus if negative => blank(&mut out),
            Item::Plus => out.push('+'),
            Item::EitherSign => out.push(if negative { '-' } else { '+' }),
            Item::Currency => blank(&mut out),
            Item::Ordinal(upper) => {
                if !finite {
                    let message = format!("\"{plain}\" is not a number");
                    return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
                }
                if !negative && !in_fraction && !too_wide {
                    let suffix = ordinal_suffix(whole);
                    out.push_str(&if *upper { suffix.to_ascii_uppercase() } else { suffix.to_owned() });
                }
            }
            Item::Literal(c) => out.push(*c),
        }
    }
    if template.brackets && has_digits {
        out.push_str(if negative {
            ">"
        } else if template.bare {
            ""
        } else {
            " "
        });
    }
    Ok(out)
}

fn ordinal_suffix(digits: &str) -> &'static str {
    let tens = digits.len() >= 2 && digits.as_bytes()[digits.len() - 2] == b'1';
    match digits.as_bytes().last() {
        Some(b'1') if !tens => "st",
        Some(b'2') if !tens => "nd",
        Some(b'3') if !tens => "rd",
        _ => "th",
    }
}

fn to_char(template: &str, rounded: impl FnOnce(usize) -> (bool, String, usize)) -> Result<Value> {
    if template.is_empty() {
        return Ok(new_text(""));
    }
    formatted(&parse(template)?, rounded).map(new_text)
}

fn exact_to_char(number: &Numeric, template: &str) -> Result<Value> {
    to_char(template, |scale| {
        let rounded = number.round(i32::try_from(scale).expect("a template is short"));
        (rounded.signum() < 0, rounded.abs().to_string(), scale)
    })
}

/// Prints a float with no more digits than are significant.
fn inexact_to_char(number: f64, digits: usize, template: &str) -> Result<Value> {
    to_char(template, |scale| {
        let magnitude = number.abs();
        if !magnitude.is_finite() {
            let shown = if magnitude.is_nan() { "NaN" } else { "Infinity" };
            return (number < 0.0, shown.to_owned(), scale.min(digits.saturating_sub(shown.len())));
        }
        let whole = format!("{magnitude:.0}").len();
        let scale = scale.min(digits.saturating_sub(whole));
        (number.is_sign_negative(), format!("{magnitude:.scale$}"), scale)
    })
}

fn int_to_char(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    exact_to_char(&Numeric::from(int(&args[0])), text(&args[1]))
}

fn numeric_to_char(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    exact_to_char(numeric(&args[0]), text(&args[1]))
}

fn float4_to_char(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    inexact_to_char(f64::from(float4(&args[0])), 6, text(&args[1]))
}

fn float8_to_char(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    inexact_to_char(float(&args[0]), 15, text(&args[1]))
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "int4_to_char" => int_to_char, "int8_to_char" => int_to_char, "numeric_to_char" => numeric_to_char,
    "float4_to_char" => float4_to_char, "float8_to_char" => float8_to_char,
}];
