//! redaction
