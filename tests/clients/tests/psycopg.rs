//! psycopg 3, the driver that most Python programs use, runs its script against the real server.
//!
//! The test does not run if Python has no psycopg (`COLLIE_PYTHON` can name a Python that has it), unless
//! `COLLIE_REQUIRE_LAB=1`.

use std::path::Path;

use collie_clients_tests::{Server, not_run, program};

/// Goal: psycopg works unmodified. Method: `python/psycopg_session.py` checks the results itself and prints `done`.
#[test]
fn psycopg_runs_its_session() {
    let Some(python) = program::python_with_psycopg() else {
        not_run("Python has no psycopg: pip install 'psycopg[binary]', or name a Python that has it in COLLIE_PYTHON");
        return;
    };
    let server = Server::fresh();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/psycopg_session.py");
    let done = program::run(&python, &[script.to_str().unwrap(), &server.url()], &[], "");
    assert_eq!((done.code, done.out.as_str()), (Some(0), "done\n"), "{}", done.err);
}
