//! Tests of the decoder with constructed messages, every cut of them, and random bytes.

use proptest::prelude::*;

use crate::*;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend_from_slice(&u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    out.extend_from_slice(body);
    out
}

fn startup(body: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(body.len() + 4).unwrap().to_be_bytes().to_vec();
    out.extend_from_slice(body);
    out
}

fn session() -> Input {
    let mut input = Input::new(1 << 20);
    input.skip_startup();
    input
}

/// Goal: a conversation decodes the same wherever the network cuts it. Method: decode it in pieces of each size and
/// compare the printed messages.
#[test]
fn messages_decode_the_same_at_every_cut() {
    let mut bytes = startup(b"\x04\xd2\x16\x2f");
    bytes.extend(startup(b"\0\x03\0\0user\0collie\0database\0collie\0\0"));
    bytes.extend(message(b'P', b"s1\0SELECT $1\0\0\x01\0\0\0\x17"));
    bytes.extend(message(b'B', b"\0s1\0\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\x01\0\0"));
    bytes.extend(message(b'D', b"P\0"));
    bytes.extend(message(b'E', b"\0\0\0\0\x05"));
    bytes.extend(message(b'S', b""));
    bytes.extend(message(b'Q', b";\0"));
    bytes.extend(message(b'X', b""));
    let read = |piece: usize| {
        let mut input = Input::new(1 << 20);
        let mut seen = Vec::new();
        for chunk in bytes.chunks(piece) {
            input.feed(chunk);
            while let Some(message) = input.next().unwrap() {
                seen.push(format!("{message:?}"));
            }
        }
        seen
    };
    let whole = read(bytes.len());
    assert_eq!(whole.len(), 9);
    assert_eq!(whole[0], "SslRequest");
    assert!(whole[1].contains("(\"user\", \"collie\"), (\"database\", \"collie\")"), "{}", whole[1]);
    for piece in 1..40 {
        assert_eq!(read(piece), whole, "cut every {piece} bytes");
    }
}

/// Goal: Bind returns formats and values as sent. Method: one message with two values, one of them NULL.
#[test]
fn bind_yields_its_values_and_formats() {
    let mut input = session();
    input.feed(&message(b'B', b"p\0s\0\0\x02\0\0\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0"));
    let Some(Frontend::Bind(bind)) = input.next().unwrap() else { panic!("no Bind") };
    assert_eq!((bind.portal, bind.statement), ("p", "s"));
    assert_eq!(bind.values.clone().collect::<Vec<_>>(), [Some(&b"x"[..]), None]);
    assert_eq!((bind.value_formats.code(0), bind.value_formats.code(1)), (0, 1));
    assert!(bind.result_formats.is_empty());
    assert_eq!(bind.result_formats.code(3), 0);
}

fn refused(bytes: &[u8]) -> WireError {
    let mut input = session();
    input.feed(bytes);
    input.next().expect_err("refused")
}

/// Goal: W2 and W3 on each kind of bad message; the session continues after errors that are not fatal. Method:
/// table.
#[test]
fn malformed_messages_are_refused_with_their_sqlstate() {
    for (bytes, sqlstate, fatal) in [
        (message(b'Q', b"no end"), "08P01", false),
        (message(b'Q', b"\xff\0"), "22021", false),
        (message(b'Q', b"a\0b\0"), "08P01", false),
        (message(b'B', b"\0\0\0\0\0\x01\0\0\0\x09x\0\0"), "08P01", false),
        (message(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"), "08P01", false),
        (message(b'B', b"\0\0\0\x01\0\x02\0\0\0\0"), "08P01", false),
        (message(b'B', b"\0\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0"), "08P01", false),
        (message(b'P', b"\0x\0\0\x02\0\0\0\x17"), "08P01", false),
        (message(b'D', b"?\0"), "08P01", false),
        (message(b'S', b"?"), "08P01", false),
        (message(b'@', b""), "08P01", true),
        (b"Q\0\0\0\x03".to_vec(), "08P01", true),
        (b"Q\x7f\xff\xff\xff".to_vec(), "08P01", true),
        (b"Q\xff\xff\xff\xff".to_vec(), "08P01", true),
    ] {
        let error = refused(&bytes);
        assert_eq!((error.sqlstate, error.fatal), (sqlstate, fatal), "{bytes:?}: {error}");
        if !fatal {
            let mut input = session();
            input.feed(&bytes);
            input.feed(&message(b'S', b""));
            input.next().expect_err("refused");
            assert!(matches!(input.next(), Ok(Some(Frontend::Sync))), "{bytes:?}");
        }
    }
}

/// Goal: a length field alone costs no memory (W1). Method: announce the largest allowed message, send nothing of
/// it.
#[test]
fn announced_length_reserves_nothing() {
    let mut input = Input::new(64 << 20);
    input.skip_startup();
    input.feed(b"d\x03\xff\xff\xff");
    assert!(matches!(input.next(), Ok(None)));
    assert!(input.buffer().capacity() < 1024);
}

/// Goal: startup packets are bounded and need a known version. Method: table.
#[test]
fn startup_packets_are_bounded_and_checked() {
    let refused = |bytes: &[u8]| {
        let mut input = Input::new(1 << 20);
        input.feed(bytes);
        let error = input.next().expect_err("refused");
        assert!(error.fatal);
        error.sqlstate
    };
    assert_eq!(refused(&20_000_u32.to_be_bytes()), "08P01");
    assert_eq!(refused(&7_u32.to_be_bytes()), "08P01");
    assert_eq!(refused(&startup(b"\0\x02\0\0\0")), "0A000");
    assert_eq!(refused(&startup(b"\0\x03\0\0user\0x")), "08P01");
    assert_eq!(refused(b"GET / HTTP/1.1\r\n\r\n"), "08P01");
}

/// Goal: written messages have the lengths that the protocol requires, and a failed row leaves nothing. Method:
/// compare bytes.
#[test]
fn rows_are_written_whole_or_not_at_all() {
    let mut output = Output::new();
    let row = output.data_row(2, |column, out| {
        out.extend_from_slice(b"abc");
        Ok::<_, ()>(column == 0)
    });
    assert_eq!(row, Ok(()));
    assert_eq!(output.bytes(), b"D\0\0\0\x11\0\x02\0\0\0\x03abc\xff\xff\xff\xff");
    let before = output.len();
    assert_eq!(output.data_row(2, |column, _| if column == 0 { Ok(true) } else { Err("bad") }), Err("bad"));
    assert_eq!(output.len(), before);
}

proptest! {
    /// Goal: W4. Method: random bytes, also shaped as messages, cut at random.
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>, kinds in proptest::collection::vec((0_usize..14, any::<Vec<u8>>()), 0..8)) {
        fuzz_frontend(&bytes);
        let mut shaped = vec![3];
        for (kind, body) in kinds {
            shaped.extend(message(b"QPBDCESHdcfpFX"[kind], &body));
        }
        fuzz_frontend(&shaped);
    }
}
