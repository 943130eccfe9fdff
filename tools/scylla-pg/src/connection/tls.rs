//! TLS, by `sslmode` and its kin.

use super::conninfo::Parameters;
use crate::failure::Failure;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore};
use rustls::{SignatureScheme, crypto};
use std::env;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How much of the server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Check {
    Nothing,
    Authority,
    AuthorityAndName,
}

/// Takes the parameters of TLS that the driver does not know, and leaves it a `sslmode` that it
/// does.
pub fn connector(parameters: &mut Parameters) -> Result<MakeRustlsConnect, Failure> {
    let mode = parameters.take("sslmode").unwrap_or_else(|| "prefer".into());
    let named_root = parameters.take("sslrootcert");
    let default_root =
        || Some(env::home_dir()?.join(".postgresql/root.crt")).filter(|it| it.exists());
    let root = named_root.clone().map(PathBuf::from).or_else(default_root);
    // libpq checks with `require`, too, where there are certificates to check by.
    let (mode, check) = match mode.as_str() {
        "disable" => ("disable", Check::Nothing),
        "allow" | "prefer" => ("prefer", Check::Nothing),
        "require" if root.is_none() => ("require", Check::Nothing),
        "require" | "verify-ca" => ("require", Check::Authority),
        "verify-full" => ("require", Check::AuthorityAndName),
        other => return Err(Failure::usage(format!("invalid sslmode \"{other}\""))),
    };
    // There is no TLS on a socket.
    let is_socket = parameters.get("host").is_some_and(|host| host.starts_with('/'));
    parameters.set("sslmode", if is_socket { "disable" } else { mode }.into());

    let provider = Arc::new(ring::default_provider());
    let (roots, inner) = match check {
        Check::Nothing => (Vec::new(), None),
        _ => {
            let roots = roots(root)?;
            (roots.clone(), Some(chains(roots, provider.clone())?))
        }
    };
    let verifier = Arc::new(Verifier { check, roots, inner, provider: provider.clone() });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::new(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let (cert, key) = (parameters.take("sslcert"), parameters.take("sslkey"));
    let config = match (cert, key) {
        (Some(cert), Some(key)) => {
            let chain = CertificateDer::pem_file_iter(&cert).and_then(Iterator::collect);
            let chain = chain.map_err(|error| unreadable(&cert, &error))?;
            let key =
                PrivateKeyDer::from_pem_file(&key).map_err(|error| unreadable(&key, &error))?;
            config.with_client_auth_cert(chain, key).map_err(|it| Failure::new(it.to_string()))?
        }
        (None, None) => config.with_no_client_auth(),
        _ => return Err(Failure::usage("sslcert and sslkey go together")),
    };
    Ok(MakeRustlsConnect::new(config))
}

fn unreadable(path: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("could not read \"{path}\"")).detail(format!("{error}."))
}

/// The certificates of a file; of the system, where the file is called `system`.
fn roots(file: Option<PathBuf>) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let Some(file) = file else {
        return Err(Failure::new("no root certificate to check the server by")
            .hint("Set sslrootcert to a file of certificates, or to system."));
    };
    if file.as_os_str() == "system" {
        return Ok(rustls_native_certs::load_native_certs().certs);
    }
    CertificateDer::pem_file_iter(&file)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(&file.to_string_lossy(), &error))
}

/// What checks chains that end in one of the roots.
fn chains(
    roots: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Failure> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider)
        .build()
        .map_err(|error| Failure::new("no usable root certificate").detail(format!("{error}.")))
}

/// Checks as much as the mode asks for. Signatures of the handshake are always checked.
#[derive(Debug)]
struct Verifier {
    check: Check,
    roots: Vec<CertificateDer<'static>>,
    /// Present unless nothing is checked.
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        // A server's own certificate, such as PostgreSQL's manual makes one, is an authority, too.
        if self.roots.iter().any(|root| root == certificate) {
            if self.check == Check::AuthorityAndName {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        match inner.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is judged last, by a chain that was found good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Authority => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
