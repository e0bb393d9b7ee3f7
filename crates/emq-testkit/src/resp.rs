//! Just enough of the protocol to administer a server: one connection per call, RESP2, blocking.
//! It shares nothing with the connector that the tests are about.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::AdminError;
use crate::address::{Address, Place};

/// How long an administrative command may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// A bound on nested replies, lines and bulk lengths: the other side may be any program.
const MAX_DEPTH: usize = 16;
const MAX_LINE: u64 = 64 * 1024;
const MAX_BULK: usize = 512 * 1024 * 1024;
const MAX_ITEMS: usize = 1 << 20;

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Sends one command and answers its reply as text.
pub(crate) fn call(address: &Address, args: &[&[u8]]) -> Result<String, AdminError> {
    let mut stream = BufReader::new(connect(&address.place)?);
    if let Some(password) = &address.password {
        let user = address.user.as_deref().unwrap_or("default");
        exchange(&mut stream, &[b"AUTH", user.as_bytes(), password.as_bytes()])?;
    }
    if address.database != 0 {
        exchange(&mut stream, &[b"SELECT", address.database.to_string().as_bytes()])?;
    }
    exchange(&mut stream, args)
}

/// Whether the server answers at all: even a demand for a password is an answer.
pub(crate) fn answers(address: &Address) -> bool {
    let Ok(stream) = connect(&address.place) else { return false };
    match exchange(&mut BufReader::new(stream), &[b"PING"]) {
        Ok(_) => true,
        Err(AdminError::Refused(text)) => !text.starts_with("LOADING"),
        Err(_) => false,
    }
}

fn connect(place: &Place) -> Result<Box<dyn Stream>, AdminError> {
    match place {
        Place::Tcp { host, port } => {
            let mut last = None;
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, PATIENCE) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        stream.set_read_timeout(Some(PATIENCE))?;
                        stream.set_write_timeout(Some(PATIENCE))?;
                        return Ok(Box::new(stream));
                    }
                    Err(e) => last = Some(e),
                }
            }
            Err(AdminError::Io(last.unwrap_or_else(|| std::io::ErrorKind::NotFound.into())))
        }
        Place::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Box::new(stream))
        }
    }
}

fn exchange<S: Stream>(stream: &mut BufReader<S>, args: &[&[u8]]) -> Result<String, AdminError> {
    let mut request = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
    stream.get_mut().write_all(&request)?;
    reply(stream, 0)
}

/// A reply as text: the items of an array one a line, a missing value as `(nil)`.
fn reply(stream: &mut impl BufRead, depth: usize) -> Result<String, AdminError> {
    let line = line(stream)?;
    let (kind, rest) = line.split_at_checked(1).ok_or(AdminError::NotAReply)?;
    match kind {
        "+" | ":" => Ok(rest.to_owned()),
        "-" => Err(AdminError::Refused(rest.to_owned())),
        "$" => match length(rest, MAX_BULK)? {
            None => Ok("(nil)".to_owned()),
            Some(length) => bulk(stream, length),
        },
        "*" if depth < MAX_DEPTH => match length(rest, MAX_ITEMS)? {
            None => Ok("(nil)".to_owned()),
            Some(count) => {
                let items: Result<Vec<_>, _> = (0..count).map(|_| item(stream, depth)).collect();
                Ok(items?.join("\n"))
            }
        },
        _ => Err(AdminError::NotAReply),
    }
}

/// An error inside an array (a failed command of an EXEC) is an item like the others.
fn item(stream: &mut impl BufRead, depth: usize) -> Result<String, AdminError> {
    match reply(stream, depth + 1) {
        Err(AdminError::Refused(text)) => Ok(format!("(error) {text}")),
        other => other,
    }
}

fn line(stream: &mut impl BufRead) -> Result<String, AdminError> {
    let mut bytes = Vec::new();
    stream.take(MAX_LINE).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Err(AdminError::Io(std::io::ErrorKind::UnexpectedEof.into()));
    }
    let text = bytes.strip_suffix(b"\r\n").ok_or(AdminError::NotAReply)?;
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn length(text: &str, most: usize) -> Result<Option<usize>, AdminError> {
    if text == "-1" {
        return Ok(None);
    }
    let length = text.parse().ok().filter(|length| *length <= most);
    length.map(Some).ok_or(AdminError::NotAReply)
}

fn bulk(stream: &mut impl BufRead, length: usize) -> Result<String, AdminError> {
    // Grown as bytes arrive, so that a false length costs nothing.
    let mut bytes = Vec::new();
    stream.take(length as u64 + 2).read_to_end(&mut bytes)?;
    if bytes.len() != length + 2 || !bytes.ends_with(b"\r\n") {
        return Err(AdminError::NotAReply);
    }
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &str) -> Result<String, AdminError> {
        reply(&mut bytes.as_bytes(), 0)
    }

    #[test]
    fn replies_become_text() {
        assert_eq!(read("+PONG\r\n").unwrap(), "PONG");
        assert_eq!(read(":-7\r\n").unwrap(), "-7");
        assert_eq!(read("$4\r\na\r\nb\r\n").unwrap(), "a\r\nb");
        assert_eq!(read("$-1\r\n").unwrap(), "(nil)");
        assert_eq!(read("*3\r\n$1\r\na\r\n:2\r\n-ERR no\r\n").unwrap(), "a\n2\n(error) ERR no");
        assert!(matches!(read("-NOAUTH x\r\n"), Err(AdminError::Refused(t)) if t == "NOAUTH x"));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in ["HTTP/1.1 400\r\n", "$5\r\nab\r\n", "$x\r\n", "$999999999999\r\n", "+cut"] {
            assert!(matches!(read(bytes), Err(AdminError::NotAReply)), "{bytes:?}");
        }
        assert!(matches!(read(&"*1\r\n".repeat(100)), Err(AdminError::NotAReply)));
        assert!(matches!(read(""), Err(AdminError::Io(_))));
    }
}
