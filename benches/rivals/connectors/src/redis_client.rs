//! The crate `redis`, in two versions that differ in name only here.

use crate::work::{Client, Failure, KEY, VALUE};

macro_rules! client {
    ($name:ident, $krate:ident, $version:literal) => {
        /// Its multiplexed connection, which clones share.
        #[derive(Clone)]
        pub(crate) struct $name($krate::aio::MultiplexedConnection);

        impl Client for $name {
            const NAME: &'static str = "redis";
            const VERSION: &'static str = $version;

            async fn connect(url: &str) -> Result<Self, Failure> {
                let client = $krate::Client::open(url)?;
                Ok(Self(client.get_multiplexed_async_connection().await?))
            }

            async fn set(&self) -> Result<(), Failure> {
                let mut connection = self.0.clone();
                Ok($krate::cmd("SET").arg(KEY).arg(VALUE).exec_async(&mut connection).await?)
            }

            async fn pipeline(&self, depth: usize) -> Result<(), Failure> {
                let mut connection = self.0.clone();
                let mut pipeline = $krate::pipe();
                for _ in 0..depth {
                    pipeline.cmd("SET").arg(KEY).arg(VALUE).ignore();
                }
                Ok(pipeline.exec_async(&mut connection).await?)
            }
        }
    };
}

client!(Redis1, redis1, "1.8.1");
client!(Redis2, redis2, "2.0.0-rc.2");
