//! [`Rows`]: collects the rows of one statement, as JSON: numbers and booleans as such where JSON has them, everything
//! else as the text that clients get.

use collie_sql::{
    analyze::bound::ResultColumn,
    error::{Report, Result as SqlResult, SqlError},
    session::{Client, CopyInput, Formats, NoticeLevel},
    types::{
        Value,
        io::{TextContext, to_text},
    },
};
use serde_json::{Map, Value as Json, json};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Rows {
    columns: Vec<String>,
    rows: Vec<Json>,
    failed: Option<SqlError>,
}

impl Rows {
    /// Returns the columns and rows, or the error.
    pub(super) fn json(self) -> Json {
        match self.failed {
            None => json!({ "columns": self.columns, "rows": self.rows }),
            Some(error) => json!({ "error": error.to_string(), "code": error.state().as_str() }),
        }
    }
}

/// Returns a value; a number that JSON cannot express (`NaN`, `Infinity`) becomes text.
fn cell(value: &Value, column: &ResultColumn, text: &TextContext) -> Json {
    let as_text = || Json::from(to_text(value, column.ty.oid, text));
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Int2(value) => Json::from(*value),
        Value::Int4(value) => Json::from(*value),
        Value::Int8(value) => Json::from(*value),
        Value::Float8(value) if value.is_finite() => Json::from(*value),
        _ => as_text(),
    }
}

impl Client for Rows {
    fn columns(&mut self, columns: &[ResultColumn], _formats: &Formats) {
        self.columns = columns.iter().map(|column| column.name.clone()).collect();
    }

    fn row(&mut self, values: &[Value], columns: &[ResultColumn], _: &Formats, text: &TextContext) -> SqlResult<()> {
        let cells = values.iter().zip(columns).map(|(value, column)| (column.name.clone(), cell(value, column, text)));
        self.rows.push(Json::Object(cells.collect::<Map<String, Json>>()));
        Ok(())
    }

    fn complete(&mut self, _tag: &str) {}

    fn empty(&mut self) {}

    fn suspended(&mut self) {}

    fn notice(&mut self, _level: NoticeLevel, _report: &Report) {}

    fn error(&mut self, error: &SqlError, _text: &str) {
        self.failed = Some(error.clone());
    }

    fn copy_in(&mut self, _columns: usize) {}

    fn copy_out(&mut self, _columns: usize) {}

    fn copy_data(&mut self, _data: &[u8]) {}

    fn copy_done(&mut self) {}

    fn is_full(&self) -> bool {
        false
    }

    async fn drain(&mut self) -> SqlResult<()> {
        Ok(())
    }

    async fn next_copy(&mut self) -> SqlResult<CopyInput> {
        Ok(CopyInput::Fail("nothing is copied here".to_owned()))
    }
}
