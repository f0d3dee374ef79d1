"""Certificates for the TLS listener of a local broker: a new authority, and what it signed.

They are created if a directory does not have any, so that clients of a broker with persistent data
keep trusting it. The authority's key is dropped as soon as it has signed.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from logstate.contracts.errors import ConfigError
from logstate.local_broker.ports import LOOPBACK
from logstate.local_broker.secured import AUTHORITY, KEYS

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as error:
    raise ConfigError(
        "A local broker with TLS makes its certificates with the package cryptography, which is"
        " not here: pip install 'logstate[broker,tls]'"
    ) from error

_VALID = datetime.timedelta(days=3_650)


class LocalAuthority:
    """Signs for this machine only."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _common_name("logstate local broker authority")
        built = _builder(self._name, self._name, self._key)
        self._certificate = (
            built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_SIGNS, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def write(self, directory: Path) -> None:
        """Files of a broker, unless they are there."""
        if (directory / KEYS).exists() and (directory / AUTHORITY).exists():
            return
        directory.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.IPAddress(ipaddress.ip_address(LOOPBACK)), x509.DNSName("localhost")]
        certificate = (
            _builder(_common_name("localhost"), self._name, key)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        secret = directory / KEYS
        secret.touch(mode=0o600)
        secret.write_bytes(_private(key) + _public(certificate))
        (directory / AUTHORITY).write_bytes(_public(self._certificate))


_SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _VALID)
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def _public(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
