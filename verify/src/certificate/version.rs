//! The version of certificates.

/// The version of certificates that this build writes and reads.
pub const VERSION: u32 = 4;
