//! What came out, a line a target: `target | measured | ratio | met or missed`.

/// What a ratio is asked to be.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// More than: one side is ahead of the other.
    Over(f64),
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
            Self::Over(bound) => ratio > bound,
        }
    }

    fn word(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {bound}"),
            Self::AtMost(bound) => format!("at most {bound}"),
            Self::Over(bound) => format!("over {bound}"),
        }
    }
}

/// The lines so far.
#[derive(Default)]
pub(crate) struct Board {
    lines: Vec<[String; 4]>,
    met: usize,
    missed: usize,
    unmeasured: usize,
}

impl Board {
    /// A target: its figure against its bound.
    pub(crate) fn judge(&mut self, target: &str, measured: String, ratio: f64, bound: Bound) {
        let met = bound.holds(ratio);
        *(if met { &mut self.met } else { &mut self.missed }) += 1;
        let ratio = format!("{ratio:.2} ({})", bound.word());
        self.add(target, measured, ratio, if met { "met" } else { "missed" });
    }

    /// A figure without a target.
    pub(crate) fn tell(&mut self, what: &str, measured: String, ratio: Option<f64>) {
        let ratio = ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        self.add(what, measured, ratio, "");
    }

    /// A target that can't be judged here and now.
    pub(crate) fn leave_out(&mut self, target: &str, why: &str) {
        self.unmeasured += 1;
        self.add(target, why.to_owned(), String::new(), "not measured");
    }

    fn add(&mut self, target: &str, measured: String, ratio: String, verdict: &str) {
        let line = [target.to_owned(), measured, ratio, verdict.to_owned()];
        println!("  {}", line.join(" | "));
        self.lines.push(line);
    }

    /// The table, and how many targets were met.
    pub(crate) fn print(&self) {
        let head = ["target", "measured", "ratio", "verdict"].map(str::to_owned);
        let lines: Vec<_> = std::iter::once(&head).chain(&self.lines).collect();
        let widths: [usize; 4] = std::array::from_fn(|column| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
        });
        println!();
        for line in lines {
            let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            println!("{}", cells.collect::<Vec<_>>().join(" | ").trim_end());
        }
        let Self { met, missed, unmeasured, .. } = self;
        println!("\ntargets: {met} met, {missed} missed, {unmeasured} not measured");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_on_its_bound_is_met_and_a_draw_is_not_ahead() {
        assert!(Bound::AtLeast(0.9).holds(0.9) && !Bound::AtLeast(0.9).holds(0.899));
        assert!(Bound::AtMost(1.3).holds(1.3) && !Bound::AtMost(1.3).holds(1.301));
        assert!(Bound::Over(1.0).holds(1.001) && !Bound::Over(1.0).holds(1.0));
        // What was divided by nothing is no success.
        assert!(!Bound::AtLeast(0.0).holds(f64::NAN) && !Bound::AtMost(1.0).holds(f64::NAN));
    }

    #[test]
    fn verdicts_are_counted() {
        let mut board = Board::default();
        board.judge("a", String::new(), 1.0, Bound::AtLeast(0.9));
        board.judge("b", String::new(), 0.5, Bound::AtLeast(0.9));
        board.tell("c", String::new(), Some(3.0));
        board.leave_out("d", "no tool");
        assert_eq!((board.met, board.missed, board.unmeasured), (1, 1, 1));
        assert_eq!(board.lines.len(), 4);
    }
}
