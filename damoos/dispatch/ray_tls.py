"""Certificates of a cluster on this computer: no port of it that another program takes is believed.

The authority that signs them is forgotten at once. A process of Ray's without them can neither ask nor answer.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from damoos.common.atomic_file import fill

AUTHORITY, KEY, CERTIFICATE = "RAY_TLS_CA_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_SERVER_CERT"
"""Variables of Ray that name the files, in the order in which gRPC takes their contents."""
_LASTS = datetime.timedelta(days=365)
_HOST = "127.0.0.1"


def certified(folder: Path) -> dict[str, str]:
    """Variables of Ray that name new certificates in a folder.

    Parameters
    ----------
    folder : Path
        Only this user can enter it.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def name(of: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, of)])

    def begun(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(name("damoos cluster"), name(subject), key.public_key())
        return (
            builder.serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))  # the clock may be set back
            .not_valid_after(now + _LASTS)
        )

    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    is_authority = x509.BasicConstraints(ca=True, path_length=0)
    authority = begun("damoos cluster", authority_key).add_extension(is_authority, critical=True)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(_HOST)), x509.DNSName("localhost")])
    own = begun(_HOST, key).add_extension(address, critical=False)
    pem = serialization.Encoding.PEM
    parts = {
        AUTHORITY: authority.sign(authority_key, hashes.SHA256()).public_bytes(pem),
        CERTIFICATE: own.sign(authority_key, hashes.SHA256()).public_bytes(pem),
        KEY: key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()),
    }
    for variable, content in parts.items():
        fill(file(folder, variable), [content])
    return variables(folder)


def file(folder: Path, variable: str) -> Path:
    """The file that a variable of Ray's names."""
    return folder / f"{variable.removeprefix('RAY_TLS_').lower()}.pem"


def variables(folder: Path) -> dict[str, str]:
    """Variables of Ray that name the certificates of a folder."""
    return {"RAY_USE_TLS": "1", **{name: str(file(folder, name)) for name in (AUTHORITY, KEY, CERTIFICATE)}}
