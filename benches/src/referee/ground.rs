//! A fresh server for one run of one contender.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use emq_testkit::{Fsync, Postgres, Valkey};
use tokio::task::spawn_blocking;

use super::Failure;
use super::side::Store;

/// How often a server that comes back is asked whether it takes work.
const ASK_EVERY: Duration = Duration::from_micros(500);
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// A fresh server.
#[derive(Clone, Debug)]
pub enum Ground {
    /// Of the Valkey sides.
    Valkey(Arc<Valkey>),
    /// Of the PostgreSQL sides.
    Postgres(Arc<Postgres>),
}

impl Ground {
    /// Starts one.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn start(store: Store) -> Result<Ground, Failure> {
        spawn_blocking(move || {
            let builder = Valkey::builder();
            Ok(match store {
                Store::Volatile => Ground::Valkey(Arc::new(builder.start()?)),
                Store::AppendOnly(fsync) => {
                    Ground::Valkey(Arc::new(builder.append_only(fsync).start()?))
                }
                Store::Postgres => Ground::Postgres(Arc::new(Postgres::start()?)),
            })
        })
        .await?
    }

    /// One whose data outlives a kill: what a side that keeps nothing gets for this alone.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn start_lasting(store: Store) -> Result<Ground, Failure> {
        let lasting =
            if store == Store::Volatile { Store::AppendOnly(Fsync::Always) } else { store };
        Ground::start(lasting).await
    }

    /// The variable that tells a contender where it is, and its value.
    #[must_use]
    pub fn variable(&self) -> (&'static str, String) {
        match self {
            Ground::Valkey(valkey) => ("REFEREE_URL", at(valkey.port())),
            Ground::Postgres(postgres) => ("DATABASE_URL", postgres.url()),
        }
    }

    /// The address of a Valkey.
    #[must_use]
    pub fn valkey_address(&self) -> Option<SocketAddr> {
        match self {
            Ground::Valkey(valkey) => Some((Ipv4Addr::LOCALHOST, valkey.port()).into()),
            Ground::Postgres(_) => None,
        }
    }

    /// What it says it is.
    ///
    /// # Errors
    /// When it doesn't answer.
    pub async fn version(&self) -> Result<String, Failure> {
        let ground = self.clone();
        spawn_blocking(move || match ground {
            Ground::Valkey(valkey) => Ok(format!("Valkey {}", valkey.version()?)),
            Ground::Postgres(postgres) => Ok(format!("PostgreSQL {}", postgres.version()?)),
        })
        .await?
    }

    /// Kills it with SIGKILL and starts it again on its data and port. Answers when it took work
    /// again, in unix microseconds.
    ///
    /// # Errors
    /// When it doesn't come back.
    pub async fn kill_and_start(&self) -> Result<u64, Failure> {
        let ground = self.clone();
        spawn_blocking(move || ground.kill9()).await??;
        let (starts, asks) = (self.clone(), self.clone());
        // Asked from the start on: a start returns a little after the server takes work.
        let asking = spawn_blocking(move || asks.when_it_answers());
        spawn_blocking(move || starts.start_again()).await??;
        asking.await?
    }

    fn kill9(&self) -> Result<(), Failure> {
        match self {
            Ground::Valkey(valkey) => valkey.kill9()?,
            Ground::Postgres(postgres) => postgres.kill9()?,
        }
        Ok(())
    }

    fn start_again(&self) -> Result<(), Failure> {
        match self {
            Ground::Valkey(valkey) => valkey.start_again()?,
            Ground::Postgres(postgres) => postgres.start_again()?,
        }
        Ok(())
    }

    fn when_it_answers(&self) -> Result<u64, Failure> {
        let begun = Instant::now();
        while begun.elapsed() < BACK_WITHIN {
            let answers = match self {
                Ground::Valkey(valkey) => pong(valkey.port()),
                Ground::Postgres(postgres) => postgres.sql("SELECT 1").is_ok(),
            };
            if answers {
                return unix_us();
            }
            std::thread::sleep(ASK_EVERY);
        }
        Err("the server didn't come back".into())
    }
}

/// The URL of a Valkey on a port of this machine.
#[must_use]
pub fn at(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

/// Whether a server answers PING: one that still loads its data refuses.
fn pong(port: u16) -> bool {
    let answer = || -> std::io::Result<bool> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        socket.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        socket.read_exact(&mut answer)?;
        Ok(&answer == b"+PONG")
    };
    answer().unwrap_or(false)
}

fn unix_us() -> Result<u64, Failure> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_killed_server_takes_work_again_on_its_data() {
        let ground = Ground::start_lasting(Store::Volatile).await.unwrap();
        let Ground::Valkey(valkey) = &ground else { panic!("a Valkey") };
        valkey.cli(&["SET", "kept", "yes"]).unwrap();
        let before = unix_us().unwrap();
        let accepted = ground.kill_and_start().await.unwrap();
        assert!(accepted > before);
        assert_eq!(valkey.cli(&["GET", "kept"]).unwrap(), "yes");
    }

    #[test]
    fn a_port_without_a_server_does_not_answer() {
        // A port that was just ours is nobody's.
        let port = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let number = port.local_addr().unwrap().port();
        drop(port);
        assert!(!pong(number));
    }
}
