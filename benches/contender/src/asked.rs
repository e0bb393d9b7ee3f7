//! What the referee asks for.

use std::env;

/// The orders of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The server, or the database, to work on: empty, and for this run alone.
    pub url: String,
    /// Rows with their sizes, in the order in which to do them.
    pub rows: Vec<(String, usize)>,
}

impl Asked {
    /// Reads the orders from the environment: `REFEREE_URL` or `DATABASE_URL`, and `REFEREE_ROWS`.
    ///
    /// # Errors
    /// A variable that is missing, or a row that isn't `<row>=<n>`.
    pub fn from_env() -> Result<Asked, String> {
        let url = env::var("REFEREE_URL")
            .or_else(|_| env::var("DATABASE_URL"))
            .map_err(|_| "set REFEREE_URL or DATABASE_URL to an empty server")?;
        let rows = env::var("REFEREE_ROWS")
            .map_err(|_| "set REFEREE_ROWS, such as \"enqueue_1by1=3000 process_c10=6000\"")?;
        Ok(Asked { url, rows: parse(&rows)? })
    }
}

fn parse(rows: &str) -> Result<Vec<(String, usize)>, String> {
    rows.split_whitespace()
        .map(|order| {
            let size = order.split_once('=').and_then(|(row, n)| Some((row, n.parse().ok()?)));
            let (row, n) = size.ok_or_else(|| format!("{order}: a row is <row>=<n>"))?;
            Ok((row.to_owned(), n))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_the_order_asked() {
        let rows = parse("process_c10=6000  enqueue_1by1=3").unwrap();
        assert_eq!(rows, [("process_c10".to_owned(), 6000), ("enqueue_1by1".to_owned(), 3)]);
    }

    #[test]
    fn a_row_without_a_size_is_refused_by_name() {
        for order in ["process_c10", "process_c10=", "process_c10=many", "process_c10=-1"] {
            assert!(parse(order).unwrap_err().contains(order));
        }
    }
}
