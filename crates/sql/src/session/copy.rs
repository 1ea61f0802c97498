//! COPY: rows in from the client through the INSERT path, rows out from a query.
//!
//! COPY FROM is one INSERT whose parameters are the fields of a line and that runs again for each line, so defaults,
//! checks, unique keys and types are those of INSERT. The formats themselves are in `copy_format.rs`.

use crate::{
    catalog::relation::Relation,
    error::{Result, SqlError, SqlState},
    exec::{Execution, RowSink, Step},
    parse::{
        Stmt,
        ast::{self, AssignTarget, Expr, ExprKind, InsertSource, Pos, SelectBody},
    },
    session::{
        Client, CopyInput, Session,
        client::draining,
        copy_format::{CopyFormat, Fields, Line, LineReader},
        named::named_columns,
        prepared::{Planned, Verb},
        turn::Turn,
    },
    types::{Value, io},
};

/// Collects encoded rows between two drains.
struct CopySink<'a> {
    format: &'a CopyFormat,
    types: &'a [u32],
    text: &'a io::TextContext,
    out: Vec<u8>,
    field_bytes: Vec<u8>,
    ends: Vec<Option<usize>>,
    pieces: Vec<u8>,
}

/// Output that is gathered before it is sent, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

impl RowSink for CopySink<'_> {
    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.field_bytes.clear();
        self.ends.clear();
        for (value, oid) in values.iter().zip(self.types) {
            if value.is_null() {
                self.ends.push(None);
                continue;
            }
            io::text_out(value, *oid, self.text, &mut self.field_bytes);
            self.ends.push(Some(self.field_bytes.len()));
        }
        let mut start = 0;
        let fields = self.ends.iter().map(|end| {
            let end = (*end)?;
            let field = &self.field_bytes[start..end];
            start = end;
            Some(field)
        });
        self.format.write_row(fields, &mut self.out);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.out.len() >= CHUNK_BYTES
    }
}

impl Session {
    /// Runs COPY; returns its command tag.
    pub(super) async fn copy<C: Client>(&mut self, copy: &ast::Copy, client: &mut C) -> Result<String> {
        match &copy.target {
            ast::CopyTarget::Client => {}
            ast::CopyTarget::File(_) | ast::CopyTarget::Program(_) => {
                let text = "COPY to or from a file or program of the server is not allowed";
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, text)
                    .hint("Use COPY ... FROM STDIN or TO STDOUT, or psql's \\copy."));
            }
        }
        if copy.filter.is_some() {
            return Err(SqlError::unsupported("COPY FROM ... WHERE"));
        }
        let rows = if copy.from { self.copy_from(copy, client).await? } else { self.copy_to(copy, client).await? };
        Ok(format!("COPY {rows}"))
    }

    async fn copy_to<C: Client>(&mut self, copy: &ast::Copy, client: &mut C) -> Result<u64> {
        let stmt = match &copy.source {
            ast::CopySource::Query(stmt) => (**stmt).clone(),
            ast::CopySource::Table { table, columns } => {
                let relation = self.table_named(table)?;
                let places = copied_columns(&relation, columns)?;
                select_columns(table, &relation, &places)
            }
        };
        if Verb::of(&stmt).is_none() {
            return Err(SqlError::unsupported("COPY of a statement that returns no rows"));
        }
        let planned = self.plan(&stmt, &[])?;
        let names: Vec<String> = planned.analyzed.columns.iter().map(|column| column.name.clone()).collect();
        let format = read_options(&copy.options, false, &names)?;
        if planned.analyzed.writes {
            self.refuse_read_only("COPY")?;
        }
        self.ensure_transaction()?;
        if planned.analyzed.writes {
            self.engine.note_purpose(false);
            self.wait_for_room().await?;
        }
        let planned = draining(client, self.begin_planned(&stmt, &[], planned)).await?;
        client.copy_out(names.len());
        let mut execution = self.execution(planned.plan.clone(), Vec::new());
        let rows = self.send_rows(&mut execution, &planned, &format, &names, client).await;
        self.engine.end_statement();
        let rows = rows?;
        self.answer_all(execution.take_events()).await?;
        client.copy_done();
        Ok(rows)
    }

    async fn send_rows<C: Client>(
        &mut self,
        execution: &mut Execution,
        planned: &Planned,
        format: &CopyFormat,
        names: &[String],
        client: &mut C,
    ) -> Result<u64> {
        let types: Vec<u32> = planned.analyzed.columns.iter().map(|column| column.ty.oid).collect();
        let named = named_columns(types.iter().copied(), |_| true);
        let text = self.text_context();
        let mut sink = CopySink {
            format,
            types: &types,
            text: &text,
            out: Vec::new(),
            field_bytes: Vec::new(),
            ends: Vec::new(),
            pieces: Vec::new(),
        };
        if format.header {
            format.write_header(names.iter().map(String::as_bytes), &mut sink.out);
        }
        loop {
            let step = self.step_named(execution, &text, &named, &mut sink);
            self.tell_warnings(client);
            let step = step?;
            std::mem::swap(&mut sink.out, &mut sink.pieces);
            // One CopyData message per line, as PostgreSQL sends them: some drivers depend on it.
            send_lines(&mut sink.pieces, format, client);
            match step {
                Step::Done { rows } => return Ok(rows),
                Step::Suspended => {}
                Step::Wait(blocker) => self.wait(blocker).await?,
                Step::Yield => {
                    client.drain().await?;
                    self.database.give_way().await;
                }
            }
        }
    }

    async fn copy_from<C: Client>(&mut self, copy: &ast::Copy, client: &mut C) -> Result<u64> {
        self.refuse_read_only("COPY FROM")?;
        let ast::CopySource::Table { table, columns } = &copy.source else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "COPY FROM needs a table"));
        };
        let relation = self.table_named(table)?;
        let places = copied_columns(&relation, columns)?;
        let names: Vec<String> = places.iter().map(|place| relation.columns[*place].name.to_string()).collect();
        let format = read_options(&copy.options, true, &names)?;
        let types: Vec<u32> = places.iter().map(|place| relation.columns[*place].ty.oid).collect();
        let stmt = insert_parameters(table, &names);
        self.ensure_transaction()?;
        self.engine.note_purpose(false);
        self.wait_for_room().await?;
        let planned = self.plan(&stmt, &types)?;
        let planned = self.lock_planned(&stmt, &types, planned).await?;
        self.begin_statement(true)?;
        client.copy_in(places.len());
        client.drain().await?;
        let mut input = CopyRows { reader: LineReader::new(format), names, types, relation: relation.name.to_string() };
        let mut execution = self.execution(planned.plan.clone(), Vec::new());
        let rows = self.take_rows(&mut execution, &mut input, client).await;
        self.engine.end_statement();
        let rows = rows?;
        self.answer_all(execution.take_events()).await?;
        Ok(rows)
    }

    async fn take_rows<C: Client>(
        &mut self,
        execution: &mut Execution,
        input: &mut CopyRows,
        client: &mut C,
    ) -> Result<u64> {
        let text = self.text_context();
        let mut fields = Fields::default();
        let mut spare = Vec::new();
        let (mut rows, mut done, mut turn) = (0, false, Turn::begin(&self.database));
        loop {
            match input.reader.next(&mut fields).map_err(|error| input.locate(error, None))? {
                Line::Row => {
                    let params = input.values(&fields, &text, spare)?;
                    spare = execution.reset(params);
                    self.insert_row(execution, &text).await.map_err(|error| input.locate(error, None))?;
                    rows += 1;
                    turn.pass_when_over(&self.database).await;
                }
                Line::End if done => return Ok(rows),
                Line::End => {
                    // Input after the end mark is read and ignored.
                    while let CopyInput::Data(_) = next_input(client).await? {}
                    return Ok(rows);
                }
                Line::More if done => return Ok(rows),
                Line::More => match next_input(client).await? {
                    CopyInput::Data(bytes) => input.reader.feed(&bytes),
                    CopyInput::Done => {
                        done = true;
                        input.reader.finish();
                    }
                    CopyInput::Fail(_) => unreachable!("next_input turns it into an error"),
                },
            }
        }
    }

    async fn insert_row(&mut self, execution: &mut Execution, text: &io::TextContext) -> Result<()> {
        struct NoRows;
        impl RowSink for NoRows {
            fn row(&mut self, _values: &[Value]) -> Result<()> {
                Ok(())
            }
        }
        loop {
            match self.step(execution, text, &mut NoRows)? {
                Step::Done { .. } => return Ok(()),
                Step::Wait(blocker) => self.wait(blocker).await?,
                Step::Suspended => {}
                Step::Yield => self.database.give_way().await,
            }
        }
    }
}

async fn next_input<C: Client>(client: &mut C) -> Result<CopyInput> {
    match client.next_copy().await? {
        CopyInput::Fail(reason) => {
            Err(SqlError::new(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {reason}")))
        }
        input => Ok(input),
    }
}

/// Sends the written output, one message per line.
fn send_lines<C: Client>(pieces: &mut Vec<u8>, format: &CopyFormat, client: &mut C) {
    if format.csv {
        // A quoted field may hold line ends, so lines could be found only by reading them again.
        if !pieces.is_empty() {
            client.copy_data(pieces);
        }
    } else {
        for line in pieces.split_inclusive(|byte| *byte == b'\n') {
            client.copy_data(line);
        }
    }
    pieces.clear();
}

/// Limit of the input that an error shows, in bytes.
const SHOWN_BYTES_MAX: usize = 100;

/// Returns the beginning of the input, as an error shows it.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let cut = &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)];
    if cut.len() < text.len() { format!("{cut}...") } else { cut.to_owned() }
}

/// COPY input and the columns that it becomes.
struct CopyRows {
    reader: LineReader,
    names: Vec<String>,
    types: Vec<u32>,
    relation: String,
}

impl CopyRows {
    /// Adds the line, and the column if given, to an error.
    fn locate(&self, error: SqlError, column: Option<(usize, &[u8])>) -> SqlError {
        let line = self.reader.line();
        let place = match column {
            Some((place, bytes)) => {
                format!(", column {}: \"{}\"", self.names[place], shown(bytes))
            }
            None => String::new(),
        };
        error.context(format!("COPY {}, line {line}{place}", self.relation))
    }

    fn values(&self, fields: &Fields, text: &io::TextContext, mut values: Vec<Value>) -> Result<Vec<Value>> {
        let bad = |message: String| {
            let (relation, line) = (&self.relation, self.reader.line());
            let error = SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message);
            error.context(format!("COPY {relation}, line {line}: \"{}\"", shown(self.reader.line_bytes())))
        };
        if fields.len() > self.types.len() {
            return Err(bad("extra data after last expected column".to_owned()));
        }
        if let Some(missing) = self.names.get(fields.len()) {
            return Err(bad(format!("missing data for column \"{missing}\"")));
        }
        values.clear();
        for (place, oid) in self.types.iter().enumerate() {
            let value = match fields.get(place) {
                None => Value::Null,
                Some(bytes) => std::str::from_utf8(bytes)
                    .map_err(|_| {
                        let text = "invalid byte sequence for encoding \"UTF8\"";
                        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, text)
                    })
                    .and_then(|field| io::text_in(*oid, -1, field, text))
                    .map_err(|error| self.locate(error, Some((place, bytes))))?,
            };
            values.push(value);
        }
        Ok(values)
    }
}

/// Returns the places of the columns that a COPY names, or of all columns.
fn copied_columns(relation: &Relation, names: &[String]) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Ok(relation.live_columns().map(|(place, _)| place).collect());
    }
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let (place, _) = relation.column(name).ok_or_else(|| {
            let text = format!("column \"{name}\" of relation \"{}\" does not exist", relation.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, text)
        })?;
        if places.contains(&place) {
            let text = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, text));
        }
        places.push(place);
    }
    Ok(places)
}

fn column(name: &str) -> Expr {
    Expr { kind: ExprKind::Column { path: vec![name.to_owned()], star: false }, pos: Pos::NONE }
}

fn plain_select(body: SelectBody) -> ast::Select {
    ast::Select {
        with: None,
        body,
        order_by: Vec::new(),
        limit: None,
        with_ties: false,
        offset: None,
        locking: Vec::new(),
    }
}

/// Makes `SELECT columns FROM table`.
fn select_columns(table: &ast::RelationName, relation: &Relation, places: &[usize]) -> Stmt {
    let targets = places.iter().map(|place| {
        let expr = column(&relation.columns[*place].name);
        ast::Target { expr, alias: None, pos: Pos::NONE }
    });
    let from = ast::FromItem::Table { table: ast::TableName { name: table.clone(), only: false }, alias: None };
    let core = ast::SelectCore {
        distinct: None,
        targets: targets.collect(),
        from: vec![from],
        filter: None,
        group_by: Vec::new(),
        having: None,
    };
    Stmt::Select(Box::new(plain_select(SelectBody::Core(Box::new(core)))))
}

/// Makes `INSERT INTO table (columns) VALUES ($1, ...)`.
fn insert_parameters(table: &ast::RelationName, names: &[String]) -> Stmt {
    let row = (1..).zip(names).map(|(number, _)| Expr { kind: ExprKind::Param(number), pos: Pos::NONE });
    let query = plain_select(SelectBody::Values(vec![row.collect()]));
    let target = |name: &String| AssignTarget { column: name.clone(), steps: Vec::new(), pos: Pos::NONE };
    Stmt::Insert(Box::new(ast::Insert {
        with: None,
        table: table.clone(),
        alias: None,
        columns: names.iter().map(target).collect(),
        source: InsertSource::Query(Box::new(query)),
        overriding: None,
        on_conflict: None,
        returning: Vec::new(),
    }))
}

/// Reads COPY's options. `names` are the copied columns.
fn read_options(options: &[ast::NamedOption], from: bool, names: &[String]) -> Result<CopyFormat> {
    let text = |option: &ast::NamedOption| match &option.value {
        Some(ast::OptionValue::Text(text)) => Ok(text.clone()),
        _ => Err(needs(option, "a string")),
    };
    // The format comes first: it decides the defaults and which other options are allowed.
    let mut format = CopyFormat::text();
    for option in options.iter().filter(|option| option.name == "format") {
        format = match text(option)?.as_str() {
            "text" => CopyFormat::text(),
            "csv" => CopyFormat::csv(),
            "binary" => return Err(SqlError::unsupported("COPY in binary format").at_opt(option.pos.get())),
            other => {
                let text = format!("COPY format \"{other}\" not recognized");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text).at_opt(option.pos.get()));
            }
        };
    }
    let csv_only = |option: &ast::NamedOption, csv: bool| {
        if csv {
            return Ok(());
        }
        let text = format!("COPY {} available only in CSV mode", option.name);
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, text).at_opt(option.pos.get()))
    };
    let mut escape = None;
    for option in options {
        match option.name.as_str() {
            "format" => {}
            "freeze" => {
                switch(option)?;
            }
            "delimiter" => format.delimiter = one_byte(option, &text(option)?)?,
            "null" => format.null = text(option)?.into_bytes(),
            "header" => format.header = switch(option)?,
            "quote" => {
                csv_only(option, format.csv)?;
                format.quote = one_byte(option, &text(option)?)?;
            }
            "escape" => {
                csv_only(option, format.csv)?;
                escape = Some(one_byte(option, &text(option)?)?);
            }
            "force_quote" => {
                csv_only(option, format.csv)?;
                format.force_quote = places(option, names)?;
            }
            "force_not_null" => {
                csv_only(option, format.csv && from)?;
                format.force_not_null = places(option, names)?;
            }
            "force_null" => {
                csv_only(option, format.csv && from)?;
                format.force_null = places(option, names)?;
            }
            "encoding" => {
                let encoding = text(option)?;
                if !matches!(encoding.to_ascii_lowercase().replace(['-', '_'], "").as_str(), "utf8" | "sqlascii") {
                    return Err(SqlError::unsupported(format!("COPY encoding \"{encoding}\"")).at_opt(option.pos.get()));
                }
            }
            other => {
                let text = format!("option \"{other}\" not recognized");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, text).at_opt(option.pos.get()));
            }
        }
    }
    // The default of ESCAPE is QUOTE, which may come after it.
    format.escape = escape.unwrap_or(format.quote);
    // Refuses options with which the output could not be read back.
    let clash = format.delimiter == b'\n'
        || format.delimiter == b'\r'
        || format.null.contains(&b'\n')
        || format.null.contains(&b'\r')
        || format.null.contains(&format.delimiter)
        || (format.csv && (format.quote == format.delimiter || format.null.contains(&format.quote)))
        || (!format.csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&format.delimiter));
    if clash {
        let text = "COPY delimiter, quote and NULL must differ from each other and from line ends";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text));
    }
    Ok(format)
}

fn needs(option: &ast::NamedOption, what: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("{} requires {what}", option.name)).at_opt(option.pos.get())
}

fn switch(option: &ast::NamedOption) -> Result<bool> {
    match &option.value {
        None => Ok(true),
        Some(ast::OptionValue::Bool(on)) => Ok(*on),
        Some(ast::OptionValue::Integer(number @ 0..=1)) => Ok(*number == 1),
        Some(ast::OptionValue::Text(text)) => {
            super::settings::parse_bool(text).ok_or_else(|| needs(option, "a Boolean value"))
        }
        Some(_) => Err(needs(option, "a Boolean value")),
    }
}

fn one_byte(option: &ast::NamedOption, text: &str) -> Result<u8> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => {
            let text = format!("COPY {} must be a single one-byte character", option.name);
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, text).at_opt(option.pos.get()))
        }
    }
}

fn places(option: &ast::NamedOption, names: &[String]) -> Result<Vec<usize>> {
    match &option.value {
        Some(ast::OptionValue::Star) => Ok((0..names.len()).collect()),
        Some(ast::OptionValue::List(list)) => {
            let find = |name: &String| {
                names.iter().position(|other| other == name).ok_or_else(|| {
                    let text = format!("column \"{name}\" not referenced by COPY");
                    SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, text).at_opt(option.pos.get())
                })
            };
            list.iter().map(find).collect()
        }
        _ => Err(needs(option, "a list of columns")),
    }
}
