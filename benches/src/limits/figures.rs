//! Medians and quantiles.

use std::time::Duration;

/// The middle of at least one figure.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// One side to the other: the median of the rounds' ratios, since neighbours in time share what
/// else the machine was doing.
pub(crate) fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(ours.iter().zip(theirs).map(|(our, their)| our / their))
}

/// Of at least one time, the one that `q` of all stay under.
pub(crate) fn quantile(times: &mut [Duration], q: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * q).round() as usize]
}

/// The lowest and the highest, as a share of the median.
pub(crate) fn spread(figures: &[f64]) -> String {
    let middle = median(figures.iter().copied());
    let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let high = figures.iter().copied().fold(0.0, f64::max);
    format!("{:+.0}..{:+.0} %", (low / middle - 1.0) * 100.0, (high / middle - 1.0) * 100.0)
}

/// Milliseconds, with three places.
pub(crate) fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_not_the_mean() {
        assert_eq!(median([1.0, 900.0, 3.0, 2.0, 4.0]), 3.0);
        assert_eq!(spread(&[100.0, 90.0, 120.0]), "-10..+20 %");
    }

    #[test]
    fn a_slow_moment_of_both_sides_moves_no_ratio() {
        let (ours, theirs) = ([90.0, 9.0, 45.0, 91.0, 89.0], [100.0, 10.0, 50.0, 100.0, 100.0]);
        assert_eq!(ratio(&ours, &theirs), 0.9);
    }

    #[test]
    fn quantiles_reach_both_ends() {
        let mut times: Vec<_> = (1..=101).rev().map(Duration::from_millis).collect();
        let at = [0.0, 0.5, 0.99, 1.0].map(|q| quantile(&mut times, q).as_millis());
        assert_eq!(at, [1, 51, 100, 101]);
    }
}
