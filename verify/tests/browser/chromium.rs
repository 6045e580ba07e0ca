//! A browser under remote control: Chromium, headless, over a pipe.
//!
//! Chromium reads commands from file descriptor 3 and writes answers and events
//! to 4, each a JSON text that ends with a zero byte
//! (`--remote-debugging-pipe`). A shell puts our two pipes there.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// One page in a browser of its own. Dropping it ends the browser.
pub(crate) struct Page {
    browser: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: String,
    next: u64,
    /// What the page complained of: exceptions, console errors, broken policy.
    pub(crate) complaints: Vec<String>,
    folder: PathBuf,
}

impl Page {
    /// Opens `markup` as a file, in a window of this size.
    pub(crate) fn open(name: &str, markup: &str, [width, height]: [u32; 2]) -> Self {
        let program = std::env::var_os("STREAMWEIR_BROWSER").expect(
            "STREAMWEIR_BROWSER names no browser; run `cargo xtask test --only browser`, \
             which looks for Chromium",
        );
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let profile = folder.join("profile");
        // What an earlier run left there.
        if folder.exists() {
            std::fs::remove_dir_all(&folder).expect("an old folder goes");
        }
        std::fs::create_dir_all(&profile).expect("a folder for the browser");
        let file = folder.join("report.html");
        std::fs::write(&file, markup).expect("the page is written");
        let mut browser = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2"#])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--no-sandbox"])
            .args(["--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--window-size={width},{height}"))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        let mut page = Self {
            commands: browser.stdin.take().expect("piped"),
            answers: BufReader::new(browser.stdout.take().expect("piped")),
            browser,
            session: String::new(),
            next: 0,
            complaints: Vec::new(),
            folder,
        };
        let target = page.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = page.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        page.session = attached["sessionId"]
            .as_str()
            .expect("a session")
            .to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        );
        page.call(
            "Page.navigate",
            json!({"url": format!("file://{}", file.display())}),
        );
        page.until("document.readyState === 'complete' && document.title !== ''");
        page
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// The same, as text.
    #[track_caller]
    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.value(expression);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{expression} is {value}"))
            .to_owned()
    }

    /// Waits until an expression is true. The test fails by what it waits for,
    /// not by the time it takes.
    #[track_caller]
    pub(crate) fn until(&mut self, expression: &str) {
        for _ in 0..2000 {
            // While a page is replaced there is none to ask.
            if self.value(&format!("Boolean({expression})")) == json!(true) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("never true: {expression}");
    }

    /// Lets the page draw what it was asked to draw.
    pub(crate) fn drawn(&mut self) {
        let frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";
        assert_eq!(self.value(frames), json!(true));
    }

    /// Moves the mouse to a point of the window.
    pub(crate) fn point(&mut self, [x, y]: [f64; 2]) {
        self.mouse("mouseMoved", [x, y], json!({}));
    }

    /// Clicks on a point of the window.
    pub(crate) fn click(&mut self, at: [f64; 2]) {
        self.point(at);
        let button = json!({"button": "left", "buttons": 1, "clickCount": 1});
        self.mouse("mousePressed", at, button.clone());
        self.mouse("mouseReleased", at, button);
    }

    /// Turns the wheel over a point; with control held, as for zooming.
    pub(crate) fn wheel(&mut self, at: [f64; 2], by: f64, control: bool) {
        let modifiers = if control { 2 } else { 0 };
        let wheel = json!({"deltaX": 0, "deltaY": by, "modifiers": modifiers});
        self.mouse("mouseWheel", at, wheel);
    }

    fn mouse(&mut self, kind: &str, [x, y]: [f64; 2], more: Value) {
        let mut event = json!({"type": kind, "x": x, "y": y});
        for (key, value) in more.as_object().expect("an object") {
            event[key] = value.clone();
        }
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Types text where the focus is.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses a key by its name, such as `Enter`.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "windowsVirtualKeyCode": code});
            if key.chars().count() == 1 && kind == "keyDown" {
                event["text"] = json!(key);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// The middle of an element, in the window.
    #[track_caller]
    pub(crate) fn middle(&mut self, selector: &str) -> [f64; 2] {
        let at = self.value(&format!(
            "(() => {{ const r = document.querySelector({}).getBoundingClientRect(); \
             return [r.x + r.width / 2, r.y + r.height / 2]; }})()",
            json!(selector)
        ));
        [0, 1].map(|i| at[i].as_f64().expect("a number"))
    }

    /// The bytes of a canvas as the page shows it, to tell pictures apart.
    #[track_caller]
    pub(crate) fn picture(&mut self, selector: &str) -> String {
        self.drawn();
        self.text(&format!(
            "document.querySelector({}).toDataURL()",
            json!(selector)
        ))
    }

    /// Sends a command and waits for its answer; keeps what the page complains
    /// of in the meantime.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut command = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands
            .write_all(&bytes)
            .expect("the browser listens");
        loop {
            let mut bytes = Vec::new();
            self.answers
                .read_until(0, &mut bytes)
                .expect("the browser answers");
            assert_eq!(bytes.pop(), Some(0), "the browser ended during {method}");
            let answer: Value = serde_json::from_slice(&bytes).expect("JSON");
            if answer["id"] == json!(self.next) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => params["type"] == "error",
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            _ => false,
        };
        if complaint {
            self.complaints.push(params.to_string());
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // A browser that has gone already is what we want.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
