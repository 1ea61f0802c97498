//! [`Browser`]: Debian's headless Chromium, driven by the DevTools protocol over two named pipes, so that tests can
//! read what a page shows.
//!
//! Chromium and all its child processes are killed when the value is dropped.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{program::find, stopwatch::Stopwatch};

/// The longest wait for an answer: Chromium starts slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two checks of a page.
const LOOK: Duration = Duration::from_millis(100);

/// The byte that ends each message.
const END: u8 = 0;

const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--remote-debugging-pipe",
];

/// A shell script that opens the two pipes as descriptors 3 (commands) and 4 (answers) and then executes the program.
const WIRING: &str = "asked=$1 said=$2; shift 2; exec \"$0\" \"$@\" 3<\"$asked\" 4>\"$said\"";

/// See the module's documentation.
pub struct Browser {
    child: Child,
    asked: File,
    said: File,
    messages: Receiver<Value>,
    next_id: u64,
    /// The protocol's session with the page, once a page is open.
    session: Option<String>,
    /// The events that arrived while a call waited for its answer.
    events: Vec<Value>,
    /// Removed after the program has ended.
    _dir: TempDir,
}

/// Makes a named pipe and opens it in both directions, so that the open does not block.
fn pipe(path: &Path) -> File {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo is there");
    assert!(made.success(), "mkfifo {}", path.display());
    File::options().read(true).write(true).open(path).expect("a pipe that was just made")
}

impl Browser {
    /// Starts the browser; returns `None` if Chromium is not installed.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start() -> Option<Self> {
        let program = find("chromium")?;
        let dir = tempfile::Builder::new().prefix("collie-browser-").tempdir().expect("a temporary directory");
        let paths = ["asked", "said"].map(|name| dir.path().join(name));
        let [asked, said] = paths.each_ref().map(|path| pipe(path));
        let child = Command::new("/bin/sh")
            .args(["-c", WIRING])
            .arg(program)
            .args(&paths)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .arg("about:blank")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is a shell");
        let (told, messages) = mpsc::channel();
        let mut reader = BufReader::new(said.try_clone().expect("a pipe can be read twice"));
        thread::spawn(move || {
            let mut message = Vec::new();
            while reader.read_until(END, &mut message).is_ok_and(|read| read > 1) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if told.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        Some(Self { child, asked, said, messages, next_id: 1, session: None, events: Vec::new(), _dir: dir })
    }

    /// Calls a method of the protocol.
    ///
    /// # Panics
    /// If the browser refuses the call or does not answer.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(END);
        self.asked.write_all(&bytes).expect("it reads");
        let start = Stopwatch::start();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let told = self.messages.recv_timeout(left).unwrap_or_else(|_| panic!("{method} is not answered"));
            if told["id"] != json!(id) {
                self.events.push(told);
                continue;
            }
            assert!(told["error"].is_null(), "{method}: {told}");
            return told["result"].clone();
        }
    }

    /// Opens a page.
    ///
    /// # Panics
    /// If the page cannot be reached.
    pub fn open(&mut self, url: &str) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = self.call("Target.attachToTarget", &json!({ "targetId": target["targetId"], "flatten": true }));
        self.session = Some(attached["sessionId"].as_str().expect("an attached page has a session").to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.call(domain, &json!({}));
        }
        let opened = self.call("Page.navigate", &json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
    }

    /// Evaluates a JavaScript expression on the page and returns its value.
    ///
    /// # Panics
    /// If the expression throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let done = self.call("Runtime.evaluate", &parameters);
        assert!(done["exceptionDetails"].is_null(), "{expression}: {done}");
        done["result"]["value"].clone()
    }

    /// Returns the text of the element with this id, or an empty string if there is none.
    pub fn words(&mut self, id: &str) -> String {
        let words = self.evaluate(&format!("document.getElementById({})?.innerText ?? ''", json!(id)));
        words.as_str().unwrap_or_default().to_owned()
    }

    /// Returns the number in the `value` attribute of the element with this id.
    pub fn figure(&mut self, id: &str) -> Option<f64> {
        let value = self.evaluate(&format!("document.getElementById({})?.value ?? ''", json!(id)));
        value.as_str()?.parse().ok()
    }

    /// Returns the body cells of the table with this id, row by row.
    pub fn table(&mut self, id: &str) -> Vec<Vec<String>> {
        let rows = format!("document.querySelectorAll('#' + {} + ' tbody tr')", json!(id));
        let cells = format!("[...{rows}].map((row) => [...row.cells].map((cell) => cell.innerText))");
        serde_json::from_value(self.evaluate(&cells)).expect("cells are text")
    }

    /// Waits until `done` returns true; otherwise panics with the page's text.
    ///
    /// # Panics
    /// After a minute.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let start = Stopwatch::start();
        while !done(self) {
            if start.elapsed() > PATIENCE {
                let shown = self.evaluate("document.body.innerText");
                panic!("waited in vain: {what}\n{}\n{:?}", shown.as_str().unwrap_or_default(), self.faults());
            }
            thread::sleep(LOOK);
        }
    }

    /// Sets the size of the page's window, in pixels.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Emulates a user's preference of dark or light pages.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// Returns all errors of the page so far: exceptions, refused files and scripts, and errors in its log.
    pub fn faults(&mut self) -> Vec<String> {
        self.call("Runtime.evaluate", &json!({ "expression": "1" })); // events sent before its answer have arrived
        let is_fault = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == json!("error"),
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == json!("error"),
            _ => false,
        };
        self.events.iter().filter(is_fault).map(|event| event["params"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser's children are in its process group; the call fails harmlessly if all of them have ended.
        let _gone = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _reaped = self.child.wait();
        // Wakes the reader thread, which then ends.
        let _nobody_reads = self.said.write_all(&[END]);
    }
}
