//! Schedules: jobs that recur, by a cron expression or an interval.

mod clock;
mod cron;
mod decide;
mod definition;
mod error;
mod known;
mod record;
mod scheduler;
mod status;
mod table;
mod timing;

pub use self::definition::{Missed, Schedule};
pub use self::error::ScheduleError;
use self::known::Known;
pub use self::record::ScheduleRecord;
pub use self::scheduler::Scheduler;
pub use self::status::{SchedulerPhase, SchedulerStatus, SchedulerTotals};
pub use self::table::{Put, QueueSchedules};
pub use self::timing::{Timing, TimingError};
use crate::bus::Bus;
use crate::error::Error;

impl Bus {
    /// Jobs that recur.
    #[must_use]
    pub fn schedules(&self) -> Schedules {
        Schedules { bus: self.clone() }
    }
}

/// Jobs that recur: [`Bus::schedules`].
///
/// The definitions live with their queue, on the server; [`Schedules::queue`] is where they are put,
/// listed, paused and removed. A [`Scheduler`] admits a job at each tick. The job's id is derived
/// from the queue, the schedule's name and the tick, so its time, [`BrandedId::unix_ms`], is the
/// tick's.
///
/// ```
/// use std::time::Duration;
/// use emq_core::{Bus, Put, Schedule, Timing};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let valkey = emq_testkit::Valkey::start()?;
/// # let url = valkey.url();
/// let bus = Bus::connect(&url).await?;
/// let reports = bus.schedules().queue("reports")?;
/// let every_second = Timing::every(Duration::from_secs(1))?;
/// let put = reports.put(&Schedule::new("pulse", every_second)?.payload("now")).await?;
/// assert_eq!(put, Put::Added);
///
/// let scheduler = bus.schedules().scheduler(["reports"])?;
/// let mut status = scheduler.status();
/// let first_tick = async {
///     // Whatever tells the process to end.
///     let _ = status.wait_for(|status| status.totals.admitted == 1).await;
/// };
/// let totals = scheduler.run(first_tick).await?;
/// assert_eq!(totals.admitted, 1);
/// assert_eq!(bus.queue("reports")?.depth().await?, 1);
/// # Ok(()) }
/// ```
///
/// [`BrandedId::unix_ms`]: emq_keys::BrandedId::unix_ms
#[derive(Clone, Debug)]
pub struct Schedules {
    bus: Bus,
}

impl Schedules {
    /// The schedules of one queue.
    ///
    /// # Errors
    /// [`Error::QueueName`] says what is wrong with the name.
    pub fn queue(&self, name: impl AsRef<str>) -> Result<QueueSchedules, Error> {
        Ok(QueueSchedules::new(self.bus.queue(name)?))
    }

    /// A scheduler for some queues, in each of which it admits the jobs of all schedules.
    ///
    /// # Errors
    /// [`Error::QueueName`] says what is wrong with a name; [`Error::Setting`] when there is none.
    pub fn scheduler<N: AsRef<str>>(
        &self,
        queues: impl IntoIterator<Item = N>,
    ) -> Result<Scheduler, Error> {
        let known = queues.into_iter().map(|name| Ok(Known::new(self.queue(name)?)));
        let known: Vec<Known> = known.collect::<Result<_, Error>>()?;
        if known.is_empty() {
            return Err(Error::Setting { what: "the scheduler's queues", range: "one or more" });
        }
        Ok(Scheduler::new(self.bus.clone(), known))
    }
}
