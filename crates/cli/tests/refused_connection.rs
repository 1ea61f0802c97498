//! The messages of commands about a server that is running but accepts no session yet.

mod common;

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Command,
};

use common::{COLLIE, run};

/// Goal: an operator learns that a server is starting, and is not asked whether it runs. Method: `collie status` and
/// `collie sql` against a listener that answers each start-up message as a server does while it opens its database.
#[test]
fn server_that_is_starting_is_said_to_be() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgresql://collie@{}/collie", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut client, _) = listener.accept().unwrap();
            let mut length = [0; 4];
            client.read_exact(&mut length).unwrap();
            let mut startup = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap() - 4];
            client.read_exact(&mut startup).unwrap();
            let fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0DIt is being opened.\0\0";
            client.write_all(b"E").unwrap();
            client.write_all(&u32::try_from(fields.len() + 4).unwrap().to_be_bytes()).unwrap();
            client.write_all(fields).unwrap();
        }
    });
    let expected =
        format!("error: {url} refuses the connection: the database system is starting up: It is being opened.\n");
    let status = run(Command::new(COLLIE).args(["status", &url]));
    assert_eq!((status.code, status.err.as_str()), (Some(2), expected.as_str()));
    let shell = run(Command::new(COLLIE).args(["sql", &url, "-c", "SELECT 1"]));
    assert_eq!((shell.code, shell.err.as_str()), (Some(1), expected.as_str()));
    answering.join().unwrap();
}
