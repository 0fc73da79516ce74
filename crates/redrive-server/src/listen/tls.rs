//! TLS by rustls: 1.2 and later, a certificate that is exchanged without a restart, a key that nobody else can read.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig};

/// More than this is no certificate.
const MOST_BYTES: u64 = 1 << 20;

/// The certificate that a server shows. Cheap to clone; every clone is the same certificate.
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

struct Inner(RwLock<Certificate>);

/// A certificate that was read, and can be shown.
#[derive(Clone)]
pub struct Certificate {
    cert: PathBuf,
    key: PathBuf,
    chain: Vec<CertificateDer<'static>>,
    config: Arc<ServerConfig>,
}

impl PartialEq for Certificate {
    /// Two are one if they look alike to a client.
    fn eq(&self, other: &Certificate) -> bool {
        self.chain == other.chain
    }
}

/// Why a certificate cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum TlsTrouble {
    /// A file cannot be read.
    #[error("{file} cannot be read: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// Others can read the key.
    #[error("{file} can be read by others (mode {mode:04o}); chmod 600 it")]
    KeyIsOpen {
        /// The file.
        file: String,
        /// Its mode.
        mode: u32,
    },
    /// There is nothing in it.
    #[error("{file} holds no {what} in PEM")]
    Nothing {
        /// The file.
        file: String,
        /// What was looked for.
        what: &'static str,
    },
    /// The two do not fit each other, or are not understood.
    #[error("the certificate and its key cannot be used: {0}")]
    Unfit(#[source] rustls::Error),
}

impl Tls {
    /// Reads a certificate and its key.
    pub fn load(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Tls, TlsTrouble> {
        Ok(Tls(Arc::new(Inner(RwLock::new(Certificate::read(cert, key)?)))))
    }

    /// Reads them again. Connections that come from now on are shown the new one; when it cannot be used, the old one stays.
    pub fn reload(&self) -> Result<(), TlsTrouble> {
        let held = self.shown();
        self.show(Certificate::read(held.cert, held.key)?);
        Ok(())
    }

    /// Connections that come from now on are shown this one.
    pub fn show(&self, certificate: Certificate) {
        *self.0.0.write().unwrap_or_else(PoisonError::into_inner) = certificate;
    }

    /// The one that they are shown now.
    pub fn shown(&self) -> Certificate {
        self.0.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.shown().config.into()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(f)
    }
}

impl Certificate {
    /// Reads a certificate and its key, which nobody is shown yet.
    pub fn read(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Certificate, TlsTrouble> {
        let (cert, key) = (cert.into(), key.into());
        let (chain, config) = read(&cert, &key)?;
        Ok(Certificate { cert, key, chain, config })
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("cert", &self.cert).field("key", &self.key).finish_non_exhaustive()
    }
}

fn read(cert: &Path, key: &Path) -> Result<(Vec<CertificateDer<'static>>, Arc<ServerConfig>), TlsTrouble> {
    let name = |path: &Path| path.display().to_string();
    let nothing = |path, what| TlsTrouble::Nothing { file: name(path), what };
    let (bytes, _) = contents(cert)?;
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|_| nothing(cert, "certificate"))?;
    if certificates.is_empty() {
        return Err(nothing(cert, "certificate"));
    }
    let (bytes, found) = contents(key)?;
    let mode = found.mode() & 0o7777;
    if mode & closed_to_others(found.uid(), rustix::process::geteuid().as_raw()) != 0 {
        return Err(TlsTrouble::KeyIsOpen { file: name(key), mode });
    }
    let private = PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| nothing(key, "private key"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(TlsTrouble::Unfit)?
        .with_no_client_auth()
        .with_single_cert(certificates.clone(), private)
        .map_err(TlsTrouble::Unfit)?;
    // h2 is not spoken.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((certificates, Arc::new(config)))
}

/// The bits that the mode of a key must not have. A key of root's that a service reads by its group is how machines keep them: the
/// service can read it, and not change it. Whoever owns the key, or is root, needs no group for it.
fn closed_to_others(owner: u32, we: u32) -> u32 {
    if owner == 0 && we != 0 { 0o037 } else { 0o077 }
}

/// What is in a file, and who may read it; both of the same file, whatever happens to its name meanwhile.
fn contents(path: &Path) -> Result<(Vec<u8>, Metadata), TlsTrouble> {
    let trouble = |source| TlsTrouble::Read { file: path.display().to_string(), source };
    let file = File::open(path).map_err(trouble)?;
    let found = file.metadata().map_err(trouble)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(trouble)?;
    Ok((bytes, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reliability 73: a group may read a key of root's, for a service that is not root; nothing else is open.
    #[test]
    fn only_roots_key_may_be_read_by_a_group() {
        let refused = |mode: u32, owner, we| mode & closed_to_others(owner, we) != 0;
        for (mode, owner, we, expected) in [
            (0o600, 0, 0, false),
            (0o640, 0, 0, true),
            (0o640, 0, 990, false),
            (0o440, 0, 990, false),
            (0o660, 0, 990, true),
            (0o644, 0, 990, true),
            (0o640, 990, 990, true),
            (0o600, 990, 990, false),
        ] {
            assert_eq!(refused(mode, owner, we), expected, "{mode:o} of {owner}, read by {we}");
        }
    }
}
