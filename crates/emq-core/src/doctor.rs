//! The doctor: examines a queue while it runs, and mends it.

use std::time::Duration;

use emq_scripts::{Checkup, CheckupOptions, CheckupStep, Diagnosis, Examined};

use crate::error::Error;
use crate::queue::Queue;

/// Examines a [`Queue`] while it runs, in bounded steps: each job is in exactly the one set that
/// its row says, rows are whole, unique keys have owners, lanes are in the ring exactly when they
/// can be served, leases are counted right, and no wake is missing. It needs no pause, and jobs
/// that move meanwhile are no false alarm: each finding was true at one instant.
///
/// It walks the server's keys to find what no set knows, so its time grows with the whole
/// database; each step holds the server for about a millisecond.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let valkey = emq_testkit::Valkey::start()?;
/// # let url = valkey.url();
/// let queue = emq_core::Bus::connect(&url).await?.queue("orders")?;
/// queue.enqueue("x").await?;
/// let report = queue.doctor().examine().await?;
/// assert!(report.is_healthy(), "{report:?}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a doctor does nothing until asked to examine or repair"]
pub struct Doctor {
    queue: Queue,
    options: CheckupOptions,
}

/// What a [`Doctor`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoctorReport {
    /// Each finding once, and whether it was mended.
    pub diagnoses: Vec<Diagnosis>,
    /// How much was looked at.
    pub examined: Examined,
}

impl Doctor {
    pub(crate) fn new(queue: Queue) -> Doctor {
        Doctor { queue, options: CheckupOptions::default() }
    }

    /// How long work may wait without a wake token before the wake counts as lost; a second unless
    /// said. A worker that has just taken the token is on its way, which takes it a round trip.
    pub fn wake_patience(mut self, patience: Duration) -> Self {
        self.options.wake_patience = patience;
        self
    }

    /// Looks, and changes nothing.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn examine(&self) -> Result<DoctorReport, Error> {
        self.run(CheckupOptions { repair: false, ..self.options }).await
    }

    /// Looks, and mends what can be mended safely, each in the instant in which it is found. What
    /// it finds and doesn't mend is an operator's to decide.
    ///
    /// # Errors
    /// See [`Error`]; what was mended until then stays mended, and the call can be made again.
    pub async fn repair(&self) -> Result<DoctorReport, Error> {
        self.run(CheckupOptions { repair: true, ..self.options }).await
    }

    async fn run(&self, options: CheckupOptions) -> Result<DoctorReport, Error> {
        let mut checkup = Checkup::new(self.queue.keys().clone(), options);
        let mut diagnoses = Vec::new();
        while let Some(step) = checkup.next(self.queue.bus().fenced().bundle()) {
            match step {
                CheckupStep::Send(cmd) => {
                    let reply = self.queue.read(cmd).await?;
                    diagnoses.extend(checkup.answer(reply).map_err(Error::of_queue)?);
                }
                CheckupStep::Wait(time) => tokio::time::sleep(time).await,
            }
        }
        Ok(DoctorReport { diagnoses, examined: checkup.examined() })
    }
}

impl DoctorReport {
    /// Whether nothing is out of order. What couldn't be examined is no fault.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.faults().next().is_none()
    }

    /// What is out of order, or was until it was mended.
    pub fn faults(&self) -> impl Iterator<Item = &Diagnosis> {
        self.diagnoses.iter().filter(|diagnosis| diagnosis.finding.is_fault())
    }

    /// The faults that stand: all of them after [`Doctor::examine`], and those that are left to an
    /// operator after [`Doctor::repair`].
    pub fn unmended(&self) -> impl Iterator<Item = &Diagnosis> {
        self.faults().filter(|diagnosis| !diagnosis.mended)
    }
}
