//! Figures of several rounds.

/// One figure for each round in which there was one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series(Vec<(usize, f64)>);

impl Series {
    /// Adds a round's figure.
    pub fn add(&mut self, round: usize, figure: f64) {
        self.0.push((round, figure));
    }

    /// The figures, in the order of their rounds.
    pub fn figures(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().map(|(_, figure)| *figure)
    }

    /// Whether no round had one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The middle; of an even number the mean of the two in the middle.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.figures().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        Some(f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]))
    }

    /// The least and the greatest.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let least = self.figures().min_by(f64::total_cmp)?;
        Some((least, self.figures().max_by(f64::total_cmp)?))
    }

    /// How far the rounds lie apart, as a share of the median.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        let ((least, most), median) = (self.range()?, self.median()?);
        (median > 0.0).then(|| (most - least) / median)
    }

    /// This series over another, round by round: what both had to bear at the same time.
    #[must_use]
    pub fn over(&self, other: &Series) -> Series {
        let ratio = |(round, figure): &(usize, f64)| {
            let (_, of) = other.0.iter().find(|(other, _)| other == round)?;
            (*of > 0.0).then(|| (*round, figure / of))
        };
        Series(self.0.iter().filter_map(ratio).collect())
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Series {
        Series(figures.into_iter().enumerate().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        let of = |figures: &[f64]| figures.iter().copied().collect::<Series>();
        assert_eq!(of(&[9.0, 1.0, 5.0]).median(), Some(5.0));
        assert_eq!(of(&[9.0, 1.0, 5.0, 6.0]).median(), Some(5.5));
        assert_eq!(of(&[4.0]).median(), Some(4.0));
        assert_eq!(of(&[]).median(), None);
        assert_eq!(of(&[9.0, 1.0, 5.0]).range(), Some((1.0, 9.0)));
        assert_eq!(of(&[9.0, 1.0, 5.0]).spread(), Some(1.6));
        assert_eq!(of(&[0.0]).spread(), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let (mut ours, mut theirs) = (Series::default(), Series::default());
        for (round, figure) in [(0, 10.0), (1, 30.0), (2, 8.0)] {
            ours.add(round, figure);
        }
        for (round, figure) in [(1, 10.0), (0, 5.0), (3, 1.0)] {
            theirs.add(round, figure);
        }
        assert_eq!(ours.over(&theirs).figures().collect::<Vec<_>>(), [2.0, 3.0]);
    }
}
