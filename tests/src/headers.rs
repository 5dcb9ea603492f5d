//! A door in front of another that adds a header to every request: for clients that cannot be told of tokens.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
};

use anyhow::Result;

/// Starts it on a free port of an address, until the process ends; gives where it listens. `header` is a whole line without its
/// end. Requests are HTTP/1.1 without TLS, their bodies of announced length.
pub fn with_header(ip: IpAddr, behind: SocketAddr, header: &str) -> Result<SocketAddr> {
    let listener = TcpListener::bind((ip, 0))?;
    let address = listener.local_addr()?;
    let header = header.to_owned();
    thread::spawn(move || {
        for client in listener.incoming().filter_map(Result::ok) {
            let header = header.clone();
            thread::spawn(move || drop(connect(client, behind, &header)));
        }
    });
    Ok(address)
}

fn connect(client: TcpStream, behind: SocketAddr, header: &str) -> io::Result<()> {
    let server = TcpStream::connect(behind)?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (mut answers, mut asker) = (server.try_clone()?, client.try_clone()?);
    let back = thread::spawn(move || {
        let copied = io::copy(&mut answers, &mut asker);
        let _ = asker.shutdown(Shutdown::Both);
        copied
    });
    let asked = requests(&mut BufReader::new(client), &server, header);
    let _ = server.shutdown(Shutdown::Write);
    let _ = back.join();
    asked
}

/// Passes requests on, one after the other, until the client ends.
fn requests(client: &mut BufReader<TcpStream>, mut server: &TcpStream, header: &str) -> io::Result<()> {
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let before = head.len();
            if client.read_line(&mut head)? == 0 {
                return Ok(());
            }
            let line = head[before..].trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if line.is_empty() && before > 0 {
                head.truncate(before);
                break;
            }
        }
        write!(server, "{head}{header}\r\n\r\n")?;
        io::copy(&mut client.by_ref().take(length), &mut server)?;
    }
}
