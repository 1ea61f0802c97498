//! The text and CSV formats of COPY: bytes to fields and fields to bytes.
//!
//! The module knows neither types (a field is text or NULL here) nor rows of a table. Input arrives cut anywhere; a
//! line is decoded once it is complete.
//!
//! # Invariants
//! - F1. `LineReader` reads the output of `write_row` back as the same fields, in each format and with any options.
//! - F2. A line that is longer than [`LINE_BYTES_MAX`] and still incomplete is refused.
//!
//! Checked by the round trip below and the fuzz target `copy_input`.

use crate::error::{Result, SqlError, SqlState};

/// Longest line of COPY input, in bytes.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// The format in which rows are written as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFormat {
    /// Whether the format is CSV; otherwise it is text.
    pub csv: bool,
    /// The byte between fields.
    pub delimiter: u8,
    /// The text of NULL.
    pub null: Vec<u8>,
    /// CSV: the byte around quoted fields.
    pub quote: u8,
    /// CSV: the byte before a quote inside a quoted field.
    pub escape: u8,
    /// Whether the first line names the columns.
    pub header: bool,
    /// CSV output: places of columns that are always quoted.
    pub force_quote: Vec<usize>,
    /// CSV input: places of columns whose unquoted NULL text is text, not NULL.
    pub force_not_null: Vec<usize>,
    /// CSV input: places of columns whose quoted NULL text is NULL too.
    pub force_null: Vec<usize>,
}

impl CopyFormat {
    /// Returns the text format with its defaults.
    pub fn text() -> Self {
        Self {
            csv: false,
            delimiter: b'\t',
            null: b"\\N".to_vec(),
            quote: b'"',
            escape: b'"',
            header: false,
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        }
    }

    /// Returns the CSV format with its defaults.
    pub fn csv() -> Self {
        Self { csv: true, delimiter: b',', null: Vec::new(), ..Self::text() }
    }

    /// Appends a row as one line. `None` is NULL.
    pub fn write_row<'a>(&self, fields: impl Iterator<Item = Option<&'a [u8]>>, out: &mut Vec<u8>) {
        self.write_line(fields, &self.force_quote, out);
    }

    /// Appends the line of column names, which are quoted only where necessary.
    pub fn write_header<'a>(&self, names: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        self.write_line(names.map(Some), &[], out);
    }

    fn write_line<'a>(&self, fields: impl Iterator<Item = Option<&'a [u8]>>, forced: &[usize], out: &mut Vec<u8>) {
        let start = out.len();
        let mut count = 0_usize;
        for (place, field) in fields.enumerate() {
            if place > 0 {
                out.push(self.delimiter);
            }
            count = place + 1;
            match field {
                None => out.extend_from_slice(&self.null),
                Some(field) if self.csv => self.write_csv(forced.contains(&place), field, out),
                Some(field) => self.write_text(field, out),
            }
        }
        // A line of `\.` would be read as the end of the data.
        if self.csv && count == 1 && &out[start..] == b"\\." {
            out.truncate(start);
            out.extend_from_slice(&[self.quote, b'\\', b'.', self.quote]);
        }
        out.push(b'\n');
    }

    fn write_text(&self, field: &[u8], out: &mut Vec<u8>) {
        for byte in field {
            let letter = match byte {
                8 => b'b',
                9 => b't',
                10 => b'n',
                11 => b'v',
                12 => b'f',
                13 => b'r',
                b'\\' => b'\\',
                other if *other == self.delimiter => *other,
                other => {
                    out.push(*other);
                    continue;
                }
            };
            out.extend_from_slice(&[b'\\', letter]);
        }
    }

    fn write_csv(&self, forced: bool, field: &[u8], out: &mut Vec<u8>) {
        let special = |byte: &u8| [self.delimiter, self.quote, b'\n', b'\r'].contains(byte);
        let plain = field != self.null && !field.iter().any(special) && !forced;
        if plain {
            out.extend_from_slice(field);
            return;
        }
        out.push(self.quote);
        for byte in field {
            if *byte == self.quote || *byte == self.escape {
                out.push(self.escape);
            }
            out.push(*byte);
        }
        out.push(self.quote);
    }
}

/// Fields of one line: their bytes, and where each one ends; `None` is NULL.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    ends: Vec<Option<usize>>,
    starts: Vec<usize>,
}

impl Fields {
    /// Returns the number of fields of the line.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the line has no field.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns field `place`; `None` is NULL.
    pub fn get(&self, place: usize) -> Option<&[u8]> {
        let end = (*self.ends.get(place)?)?;
        self.bytes.get(*self.starts.get(place)?..end)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.starts.clear();
    }

    fn begin(&mut self) {
        self.starts.push(self.bytes.len());
    }

    fn end(&mut self, null: bool) {
        self.ends.push((!null).then_some(self.bytes.len()));
    }
}

/// The result of reading a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A row; the fields hold it.
    Row,
    /// The end-of-data mark `\.`; what follows is ignored.
    End,
    /// There are not enough bytes for a whole line yet.
    More,
}

/// Cuts input into lines and lines into fields.
#[derive(Debug)]
pub struct LineReader {
    format: CopyFormat,
    buffer: Vec<u8>,
    /// The first byte that was not handed out.
    start: usize,
    /// The end of the searched part of the line at `start`, and whether that place is inside quotes (CSV).
    searched: usize,
    quoted: bool,
    /// The number of lines handed out so far, which is the number of the last one.
    line: u64,
    /// The place of the last line in the buffer, until more is fed.
    last: std::ops::Range<usize>,
    finished: bool,
}

impl LineReader {
    /// Makes a reader of input in `format`.
    pub fn new(format: CopyFormat) -> Self {
        Self { format, buffer: Vec::new(), start: 0, searched: 0, quoted: false, line: 0, last: 0..0, finished: false }
    }

    /// Returns the number of the line handed out last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the bytes of the line handed out last; empty once more input was fed.
    pub fn line_bytes(&self) -> &[u8] {
        self.buffer.get(self.last.clone()).unwrap_or_default()
    }

    /// Takes more input.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.last = 0..0;
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Notes that no more input comes: a last line without a line end counts as a line.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Reads the next line into `fields`.
    ///
    /// # Errors
    /// 22P04 for input that is not a row of the format; 54000 for an incomplete line beyond [`LINE_BYTES_MAX`].
    pub fn next(&mut self, fields: &mut Fields) -> Result<Line> {
        loop {
            let Some((from, to)) = self.next_line()? else { return Ok(Line::More) };
            self.line += 1;
            self.last = from..to;
            if &self.buffer[from..to] == b"\\." {
                return Ok(Line::End);
            }
            if self.line == 1 && self.format.header {
                continue;
            }
            fields.clear();
            let line = &self.buffer[from..to];
            if self.format.csv {
                split_csv(&self.format, line, fields)?
            } else {
                split_text(&self.format, line, fields)?
            }
            return Ok(Line::Row);
        }
    }

    /// Finds the next line, without its line end.
    fn next_line(&mut self) -> Result<Option<(usize, usize)>> {
        let mut at = self.searched.max(self.start);
        let mut quoted = self.quoted;
        while let Some(byte) = self.buffer.get(at) {
            match byte {
                b'\n' if !quoted => {
                    let from = self.start;
                    let to = if at > from && self.buffer[at - 1] == b'\r' { at - 1 } else { at };
                    self.take_to(at + 1);
                    return Ok(Some((from, to)));
                }
                // A backslash escapes the next byte, even a line end.
                b'\\' if !self.format.csv => at += 1,
                byte if self.format.csv
                    && quoted
                    && *byte == self.format.escape
                    && self.format.escape != self.format.quote =>
                {
                    at += 1
                }
                byte if self.format.csv && *byte == self.format.quote => quoted = !quoted,
                _ => {}
            }
            at += 1;
        }
        // The byte after a backslash may not have arrived: search again from the backslash.
        let whole = at <= self.buffer.len();
        self.searched = if whole { at } else { at - 2 };
        self.quoted = quoted;
        if self.buffer.len() - self.start > LINE_BYTES_MAX {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "COPY line is too long")
                .detail(format!("The limit is {LINE_BYTES_MAX} bytes.")));
        }
        if self.finished && self.start < self.buffer.len() {
            if quoted {
                return Err(bad("unterminated CSV quoted field"));
            }
            let (from, to) = (self.start, self.buffer.len());
            self.take_to(to);
            return Ok(Some((from, to)));
        }
        Ok(None)
    }

    fn take_to(&mut self, at: usize) {
        self.start = at;
        self.searched = at;
        self.quoted = false;
    }
}

fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn split_text(format: &CopyFormat, line: &[u8], fields: &mut Fields) -> Result<()> {
    for raw in (RawFields { format, rest: Some(line) }) {
        fields.begin();
        if raw == format.null {
            fields.end(true);
            continue;
        }
        let mut at = 0;
        while let Some(byte) = raw.get(at) {
            at += 1;
            if *byte != b'\\' {
                fields.bytes.push(*byte);
                continue;
            }
            let Some(escaped) = raw.get(at) else {
                fields.bytes.push(b'\\');
                break;
            };
            at += 1;
            let value = match escaped {
                b'b' => 8,
                b't' => 9,
                b'n' => 10,
                b'v' => 11,
                b'f' => 12,
                b'r' => 13,
                b'0'..=b'7' => number(raw, &mut at, u32::from(escaped - b'0'), 8, 2),
                b'x' if raw.get(at).is_some_and(u8::is_ascii_hexdigit) => number(raw, &mut at, 0, 16, 2),
                other => *other,
            };
            fields.bytes.push(value);
        }
        fields.end(false);
    }
    Ok(())
}

/// Reads up to `most` more digits of a numeric escape, and keeps the low 8 bits.
fn number(raw: &[u8], at: &mut usize, first: u32, radix: u32, most: usize) -> u8 {
    let mut value = first;
    for _ in 0..most {
        let Some(digit) = raw.get(*at).and_then(|byte| char::from(*byte).to_digit(radix)) else { break };
        value = value * radix + digit;
        *at += 1;
    }
    u8::try_from(value & 0xFF).expect("masked to 8 bits")
}

/// The fields of a text line, with their escapes still in them.
struct RawFields<'a> {
    format: &'a CopyFormat,
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for RawFields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        let mut at = 0;
        while let Some(byte) = rest.get(at) {
            if *byte == self.format.delimiter {
                self.rest = Some(&rest[at + 1..]);
                return Some(&rest[..at]);
            }
            at += if *byte == b'\\' { 2 } else { 1 };
        }
        Some(rest)
    }
}

fn split_csv(format: &CopyFormat, line: &[u8], fields: &mut Fields) -> Result<()> {
    let mut at = 0;
    loop {
        let place = fields.len();
        fields.begin();
        let start = fields.bytes.len();
        let mut was_quoted = false;
        let mut quoted = false;
        while let Some(byte) = line.get(at) {
            if quoted {
                let next = line.get(at + 1);
                if *byte == format.escape && next.is_some_and(|next| *next == format.quote || *next == format.escape) {
                    fields.bytes.push(line[at + 1]);
                    at += 1;
                } else if *byte == format.quote {
                    quoted = false;
                } else {
                    fields.bytes.push(*byte);
                }
            } else if *byte == format.quote {
                quoted = true;
                was_quoted = true;
            } else if *byte == format.delimiter {
                break;
            } else {
                fields.bytes.push(*byte);
            }
            at += 1;
        }
        if quoted {
            return Err(bad("unterminated CSV quoted field"));
        }
        let is_null_text = fields.bytes[start..] == format.null[..];
        let null = is_null_text
            && if was_quoted { format.force_null.contains(&place) } else { !format.force_not_null.contains(&place) };
        fields.end(null);
        if at >= line.len() {
            return Ok(());
        }
        at += 1;
    }
}

/// Runs the fuzz target: any input ends in rows or an error.
pub fn fuzz_copy(bytes: &[u8]) {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let format = if first & 1 == 0 { CopyFormat::text() } else { CopyFormat::csv() };
    let mut reader = LineReader::new(format);
    let mut fields = Fields::default();
    for piece in rest.chunks(usize::from(first >> 1).max(1)) {
        reader.feed(piece);
        while let Ok(Line::Row) = reader.next(&mut fields) {}
    }
    reader.finish();
    while let Ok(Line::Row) = reader.next(&mut fields) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(format: &CopyFormat, input: &[u8], piece: usize) -> Result<Vec<Vec<Option<Vec<u8>>>>> {
        let mut reader = LineReader::new(format.clone());
        let (mut rows, mut fields) = (Vec::new(), Fields::default());
        let mut chunks = input.chunks(piece.max(1));
        loop {
            match reader.next(&mut fields)? {
                Line::Row => rows.push((0..fields.len()).map(|i| fields.get(i).map(<[u8]>::to_vec)).collect()),
                Line::End => return Ok(rows),
                Line::More => match chunks.next() {
                    Some(chunk) => reader.feed(chunk),
                    None if reader.finished => return Ok(rows),
                    None => reader.finish(),
                },
            }
        }
    }

    fn strings(rows: Vec<Vec<Option<Vec<u8>>>>) -> Vec<Vec<Option<String>>> {
        rows.into_iter().map(|r| r.into_iter().map(|f| f.map(|f| String::from_utf8(f).unwrap())).collect()).collect()
    }

    /// Goal: the formats are PostgreSQL's. Method: hand-written input with each escape and quote.
    #[test]
    fn input_reads_as_documented() {
        let rows = strings(read(&CopyFormat::text(), b"1\ta\\tb\\\\\t\\N\n2\t\\x41\\101\t\r\n\\.\nrest", 3).unwrap());
        let some = |s: &str| Some(s.to_owned());
        assert_eq!(rows, [[some("1"), some("a\tb\\"), None], [some("2"), some("AA"), some("")]]);
        let rows = strings(read(&CopyFormat::csv(), b"1,\"a,\"\"b\"\"\n2\",\n3,x y,\"\"\n", 2).unwrap());
        assert_eq!(rows, [[some("1"), some("a,\"b\"\n2"), None], [some("3"), some("x y"), some("")]]);
        assert_eq!(read(&CopyFormat::csv(), b"\"open", 9).unwrap_err().state(), SqlState::BAD_COPY_FILE_FORMAT);
    }

    proptest! {
        /// Goal: F1, at any cut of the input. Method: random rows written, read back in pieces.
        #[test]
        fn rows_round_trip(
            csv: bool,
            piece in 1_usize..9,
            rows in proptest::collection::vec(proptest::collection::vec(proptest::option::of("[ab,\\\\\"\n\r\t.N;]{0,6}"), 1..4), 0..6),
        ) {
            let format = if csv { CopyFormat::csv() } else { CopyFormat::text() };
            let mut out = Vec::new();
            for row in &rows {
                format.write_row(row.iter().map(|f| f.as_deref().map(str::as_bytes)), &mut out);
            }
            prop_assert_eq!(strings(read(&format, &out, piece).unwrap()), rows);
        }

        /// Goal: no input panics or hangs. Method: random bytes.
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            fuzz_copy(&bytes);
        }
    }
}
