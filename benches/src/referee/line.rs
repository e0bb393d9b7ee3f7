//! What a contender prints.

use serde_json::{Map, Value};

/// The fields of a row.
pub type Fields = Map<String, Value>;

/// One line of a contender.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The first: what plays here.
    Versions(Fields),
    /// A handler started while the referee kills servers: unix time, microseconds.
    Served(u64),
    /// What became of a row.
    Row(String, Outcome),
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was played.
    Measured(Fields),
    /// The side hasn't got it, and why.
    Absent(String),
    /// The side came to grief in it.
    Failed(String),
}

impl Line {
    /// Reads a line.
    ///
    /// # Errors
    /// A line that isn't of the protocol, in words.
    pub fn parse(line: &str) -> Result<Line, String> {
        let wrong = |what: &str| format!("{what}: {line}");
        let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else {
            return Err(wrong("not a JSON object"));
        };
        let Some(Value::String(row)) = fields.remove("row") else {
            return Err(wrong("no row is named"));
        };
        if row == "versions" {
            return Ok(Line::Versions(fields));
        }
        for (field, of) in
            [("absent", Outcome::Absent as fn(String) -> Outcome), ("failed", Outcome::Failed)]
        {
            match fields.remove(field) {
                Some(Value::String(why)) => return Ok(Line::Row(row, of(why))),
                Some(_) => return Err(wrong("a reason is a text")),
                None => {}
            }
        }
        match fields.get("served_us").map(Value::as_u64) {
            Some(Some(at)) => Ok(Line::Served(at)),
            Some(None) => Err(wrong("served_us is a time in whole microseconds")),
            None => Ok(Line::Row(row, Outcome::Measured(fields))),
        }
    }
}

/// Exact delivery: as many effects as jobs, none twice. Rows without effects have nothing to say.
///
/// # Errors
/// What was lost or doubled, in words.
pub fn exact(fields: &Fields) -> Result<(), String> {
    let count = |name: &str| fields.get(name).and_then(Value::as_u64);
    let Some(done) = count("done") else { return Ok(()) };
    let (Some(n), Some(twice)) = (count("n"), count("twice")) else {
        return Err("done without n and twice".to_owned());
    };
    if done == n && twice == 0 {
        return Ok(());
    }
    Err(format!("{done} of {n} jobs were done, and {twice} effects were too many"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(line: &str) -> Fields {
        match Line::parse(line).unwrap() {
            Line::Row(_, Outcome::Measured(fields)) => fields,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_kind_of_line_is_told() {
        let versions = Line::parse(r#"{"row":"versions","bullmq":"6.7.0"}"#).unwrap();
        assert!(matches!(versions, Line::Versions(parts) if parts["bullmq"] == "6.7.0"));
        let row = |outcome| Ok(Line::Row("process_lanes".to_owned(), outcome));
        let absent = Line::parse(r#"{"row":"process_lanes","absent":"it is paid"}"#);
        assert_eq!(absent, row(Outcome::Absent("it is paid".to_owned())));
        let failed = Line::parse(r#"{"row":"process_lanes","failed":"it died"}"#);
        assert_eq!(failed, row(Outcome::Failed("it died".to_owned())));
        let served = Line::parse(r#"{"row":"recovery","served_us":1796000000000000}"#);
        assert_eq!(served, Ok(Line::Served(1_796_000_000_000_000)));
        assert_eq!(measured(r#"{"row":"enqueue_50","n":30,"per_s":7}"#)["per_s"], 7);
    }

    #[test]
    fn what_is_no_line_is_quoted() {
        for line in ["", "warning: slow", "[1]", r#"{"n":3}"#, r#"{"row":"a","absent":1}"#] {
            assert!(Line::parse(line).unwrap_err().ends_with(line), "{line}");
        }
        assert!(Line::parse(r#"{"row":"recovery","served_us":-1}"#).is_err());
    }

    #[test]
    fn delivery_is_exact_or_says_why_not() {
        let of = |done, twice| {
            exact(&measured(&format!(
                r#"{{"row":"process_c1","n":5,"done":{done},"twice":{twice}}}"#
            )))
        };
        assert_eq!(of(5, 0), Ok(()));
        assert!(of(4, 0).unwrap_err().contains("4 of 5"));
        assert!(of(5, 1).unwrap_err().contains("1 effects"));
        assert_eq!(exact(&measured(r#"{"row":"enqueue_50","n":5,"per_s":7}"#)), Ok(()));
        assert!(exact(&measured(r#"{"row":"process_c1","done":5}"#)).is_err());
    }
}
