//! Results as an aligned table, as psql prints them.

/// Rows of text under their column names; `None` is NULL, shown empty.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) names: Vec<String>,
    pub(crate) right: Vec<bool>,
    pub(crate) rows: Vec<Vec<Option<String>>>,
}

impl Table {
    /// Prints the table with its row count.
    pub(crate) fn print(&self) {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)?.as_deref());
            cells.chain(self.names.get(column).map(String::as_str)).map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.names.len()).map(width).collect();
        let header: Vec<String> =
            self.names.iter().zip(&widths).map(|(name, width)| format!(" {name:^width$} ")).collect();
        println!("{}", header.join("|").trim_end());
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
        println!("{}", rule.join("+"));
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, width))| {
                    let text = cell.as_deref().unwrap_or("");
                    if self.right.get(column) == Some(&true) {
                        format!(" {text:>width$} ")
                    } else {
                        format!(" {text:<width$} ")
                    }
                })
                .collect();
            println!("{}", cells.join("|").trim_end());
        }
        let count = self.rows.len();
        println!("({count} row{})\n", if count == 1 { "" } else { "s" });
    }
}
