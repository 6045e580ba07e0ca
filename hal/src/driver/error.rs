//! What a driver call can fail with.

use std::fmt;

use thiserror::Error;

/// A driver call that failed.
///
/// `code` is the driver's own number; the simulated device uses CUDA's
/// numbers for the same failures, so that one table serves both.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call} failed: {class} (code {code}){}", detail.as_deref().map(|d| format!(": {d}")).unwrap_or_default())]
pub struct DriverError {
    /// The driver function, such as `cuStreamEndCapture`.
    pub call: &'static str,
    /// The driver's number of the failure.
    pub code: u32,
    /// What kind of failure it is.
    pub class: ErrorClass,
    /// What more is known: the function, the size, the symbol.
    pub detail: Option<String>,
}

impl DriverError {
    /// A failure of `call` with a number of the CUDA driver API.
    pub fn new(call: &'static str, code: u32) -> Self {
        Self {
            call,
            code,
            class: ErrorClass::from_code(code),
            detail: None,
        }
    }

    /// A failure of `call` of a known kind.
    pub fn of(call: &'static str, class: ErrorClass) -> Self {
        Self {
            call,
            code: class.code(),
            class,
            detail: None,
        }
    }

    /// The same failure with more said about it.
    #[must_use]
    pub fn with(mut self, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        self.detail = Some(match self.detail {
            Some(before) => format!("{before}; {detail}"),
            None => detail,
        });
        self
    }
}

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// The kinds of failure that callers tell apart, with CUDA's numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorClass {
            $($(#[$doc])* $name,)*
            /// Any other number of the driver.
            Other(u32),
        }

        impl ErrorClass {
            /// The kind that a number of the CUDA driver API stands for.
            pub const fn from_code(code: u32) -> Self {
                match code {
                    $($code => Self::$name,)*
                    other => Self::Other(other),
                }
            }

            /// CUDA's number.
            pub const fn code(self) -> u32 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Other(code) => code,
                }
            }
        }

        impl fmt::Display for ErrorClass {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name => f.write_str($text),)*
                    Self::Other(code) => write!(f, "driver error {code}"),
                }
            }
        }
    };
}

classes! {
    /// An argument is out of range.
    InvalidValue = 1, "invalid value";
    /// No memory left.
    OutOfMemory = 2, "out of memory";
    /// The driver is shutting down.
    Deinitialized = 4, "driver is shutting down";
    /// No device.
    NoDevice = 100, "no device";
    /// No device of that number.
    InvalidDevice = 101, "no device of that number";
    /// The module's code does not fit the device.
    InvalidImage = 200, "invalid module image";
    /// No context, or one that is gone.
    InvalidContext = 201, "invalid context";
    /// No code for this architecture in the module.
    NoBinaryForGpu = 209, "no code for this architecture";
    /// PTX that does not compile.
    InvalidPtx = 218, "invalid PTX";
    /// A handle that the driver does not know.
    InvalidHandle = 400, "invalid handle";
    /// The object is in a state that does not allow the call.
    IllegalState = 401, "illegal state";
    /// No such symbol, or nothing at that address.
    NotFound = 500, "not found";
    /// Work is unfinished.
    NotReady = 600, "not ready";
    /// A kernel touched memory that is not its own.
    IllegalAddress = 700, "illegal address";
    /// A launch asked for more than the device has.
    LaunchOutOfResources = 701, "launch out of resources";
    /// A cooperative launch of more blocks than the device can hold at once.
    CooperativeTooLarge = 720, "more blocks than the device can hold at once";
    /// A kernel failed.
    LaunchFailed = 719, "launch failed";
    /// The call is not allowed.
    NotPermitted = 800, "not permitted";
    /// The device or driver cannot do this.
    NotSupported = 801, "not supported";
    /// The call is forbidden while a stream is capturing.
    CaptureUnsupported = 900, "operation not permitted while a stream is capturing";
    /// An earlier call broke the capture.
    CaptureInvalidated = 901, "the capture was invalidated by an earlier call";
    /// The call would merge two captures.
    CaptureMerge = 902, "operation would merge two captures";
    /// The capture was not begun on this stream.
    CaptureUnmatched = 903, "the capture was not begun on this stream";
    /// A forked stream was not joined.
    CaptureUnjoined = 904, "a forked stream was not joined";
    /// A dependency crosses the border of the capture.
    CaptureIsolation = 905, "a dependency crosses the border of the capture";
    /// The call would make the legacy default stream part of the capture.
    CaptureImplicit = 906, "the legacy default stream would become part of the capture";
    /// The event was last recorded in a capture.
    CapturedEvent = 907, "the event was last recorded in a capture";
    /// Another thread began the capture.
    CaptureWrongThread = 908, "the capture was begun by another thread";
    /// A graph was to be updated with one that differs in more than its operands.
    GraphUpdateRefused = 910, "the graphs differ in more than an update can change";
    /// Blocks in clusters that the device or the grid does not allow.
    InvalidCluster = 912, "invalid cluster size";
    /// Anything else, by the driver's own account.
    Unknown = 999, "unknown error";
}
