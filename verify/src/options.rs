//! What a run of the verifier is asked for.

/// What a run of the verifier is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most hazards that are listed.
    /// [`Report::hazards_total`](crate::Report::hazards_total) counts all.
    pub limit: usize,
    /// Whether a safe report carries a certificate. It costs a pass over the
    /// whole trace.
    pub certificate: bool,
}

impl Default for Options {
    /// At most 1000 hazards, and a certificate.
    fn default() -> Self {
        Self {
            limit: 1000,
            certificate: true,
        }
    }
}
