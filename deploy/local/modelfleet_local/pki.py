"""A cluster's own certificate authorities, certificates and kubeconfigs. Every file is 0600.

Fresh random keys at each `up`: nothing that one cluster trusted is trusted by the next.
"""

import base64
import ipaddress
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = timedelta(days=365)
_CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class Credential:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Identity:
    """Whom a client certificate stands for."""

    user: str
    groups: Sequence[str] = ()


class Authority:
    """A certificate authority that lives in one folder."""

    def __init__(self, folder: Path, name: str) -> None:
        """Makes the authority and writes `NAME-ca.crt`; its key stays in this process's memory."""
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(f"modelfleet {name} authority", ())
        builder = _builder(self._name, self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_usage(authority=True), critical=True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
        )
        self.certificate = folder / f"{name}-ca.crt"
        private_file(self.certificate, _pem(builder.sign(self._key, hashes.SHA256())))

    def server(self, file_name: str, names: Sequence[str]) -> Credential:
        """A certificate for serving (and for dialling peers) under DNS names and addresses."""
        return self._issue(file_name, Identity(names[0]), names)

    def client(self, file_name: str, identity: Identity) -> Credential:
        """A certificate that says who a client is: user is the common name, groups the organizations."""
        return self._issue(file_name, identity, ())

    def _issue(self, file_name: str, identity: Identity, names: Sequence[str]) -> Credential:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(identity.user, identity.groups), self._name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(authority=False), critical=True)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if names else [])]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(n) for n in names]), critical=False
            )
        credential = Credential(self._folder / f"{file_name}.crt", self._folder / f"{file_name}.key")
        private_file(credential.certificate, _pem(builder.sign(self._key, hashes.SHA256())))
        private_file(credential.key, _key_pem(key))
        return credential


def signing_key(folder: Path) -> Credential:
    """The key pair for service-account tokens; `certificate` is the public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    pair = Credential(folder / "service-accounts.pub", folder / "service-accounts.key")
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    private_file(pair.certificate, public)
    private_file(pair.key, _key_pem(key))
    return pair


def kubeconfig(path: Path, *, server: str, authority: Authority, client: Credential, name: str) -> None:
    """Writes a kubeconfig that holds everything itself (JSON, which is YAML)."""

    def inline(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority-data": inline(authority.certificate)}}
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate-data": inline(client.certificate),
                    "client-key-data": inline(client.key),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    private_file(path, json.dumps(content, indent=1).encode())


def private_file(path: Path, content: bytes) -> None:
    """Writes a file that only its owner may read, from its first byte on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFE)
    )


def _subject(user: str, groups: Sequence[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
