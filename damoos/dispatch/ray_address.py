"""Which Ray cluster is meant, and whether it can be trusted: it can run programs here, by what it sends."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from damoos.agent.listeners import peer_owners
from damoos.dispatch import cluster, ray_tls, ray_token
from damoos.dispatch.ray_token import Token
from damoos.errors import ConfigError, UnsupportedError

KNOCK_S = 5.0
HINT = "'damoos cluster up --local i3' starts one here"
# A call that each Ray head knows, and that neither changes nor tells anything of use.
_CALL = "/ray.rpc.NodeInfoGcsService/GetClusterId"
# A call that each driver begins with; Ray itself would wait for its answer for minutes, and then end the process.
_FIRST_CALL = "/ray.rpc.InternalKVGcsService/InternalKVGet"


@dataclass(frozen=True)
class RayCluster:
    """A cluster as users name it.

    Parameters
    ----------
    address : str
        ``auto`` for the one that ``damoos cluster up`` has started or that ``RAY_ADDRESS`` names, or ``HOST:PORT`` of
        its head.
    insecure : bool
        Whether a cluster that asks for no token, or whose head is another user's, is used all the same.
    """

    address: str
    insecure: bool = False

    @classmethod
    def named(cls, address: str | None, insecure: bool = False) -> RayCluster | None:
        """A cluster of these words; None where no address is given.

        Raises
        ------
        ConfigError : words about a cluster, and no address
        """
        if address is None and insecure:
            raise ConfigError("--insecure-cluster says how to use a Ray cluster; give --ray, too")
        return None if address is None else cls(address, insecure)


@dataclass(frozen=True)
class Access:
    """How to get into a cluster.

    Parameters
    ----------
    address : str
        ``HOST:PORT`` of its head.
    environment : dict
        Variables of Ray that a driver needs.
    """

    address: str
    environment: dict[str, str]


def access(named: RayCluster) -> Access:
    """How to get into a cluster, once it has been seen to be one that asks for the token.

    Raises
    ------
    ConfigError : there is no cluster, its head is another user's, it asks for no token, or for another one
    UnsupportedError : Ray is not installed
    """
    running = cluster.state()
    if running and named.address in ("auto", running.address):
        environment, token = running.environment, partial(ray_token.of, running.token_file)
        address = _reached(running.address, insecure=False)
        return Access(address, environment | _authentication(address, environment, False, token))
    address = _reached(_address(named.address), named.insecure)
    environment = cluster.ONLY_HERE if address.startswith("127.0.0.1:") else {}
    token = partial(ray_token.token, os.environ)
    return Access(address, environment | _authentication(address, os.environ, named.insecure, token))


def _address(words: str) -> str:
    if words != "auto":
        return words
    if named := os.environ.get("RAY_ADDRESS"):
        return named
    raise ConfigError(f"--ray auto: no damoos cluster runs here, and RAY_ADDRESS is not set; {HINT}, or give HOST:PORT")


def _reached(address: str, insecure: bool) -> str:
    """The address at which something listens; one of this computer in numbers, once its listeners are known.

    Raises
    ------
    ConfigError : nothing listens there, or another user does
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"--ray {address}: not HOST:PORT; {HINT}")
    try:
        with socket.create_connection((host, int(port)), KNOCK_S) as link:  # Ray itself would knock for minutes
            there, owners = link.getpeername()[0], peer_owners(link)
    except OSError as error:
        raise ConfigError(f"--ray {address}: {error.strerror or error}; {HINT}") from None
    if owners is None:
        return address
    strange = owners - {0, os.geteuid()}
    if (strange or not owners) and not insecure:
        whose = f"belongs to user {min(strange, key=str)}" if strange else "is gone again"
        raise ConfigError(
            f"--ray {address}: the cluster there {whose}, and it could run programs as you; if that user may, add"
            " --insecure-cluster"
        )
    return f"[{there}]:{port}" if ":" in there else f"{there}:{port}"


def _authentication(
    address: str, environment: Mapping[str, str], insecure: bool, token_to_show: Callable[[], Token]
) -> dict[str, str]:
    """Variables by which a driver shows the token, after the cluster was seen to ask for it."""
    asks = partial(_asks, address, environment)
    if not asks():
        if not insecure:
            raise ConfigError(
                f"--ray {address}: this cluster asks for no token, so all who reach it can run programs as its user,"
                " and as you. Start its nodes with RAY_AUTH_MODE=token (docs/fleet.md), or add --insecure-cluster"
            )
        _check_answers(address, environment)
        return ray_token.NOT_DEMANDED
    token = token_to_show()
    if asks(token.text):
        raise ConfigError(
            f"--ray {address}: the cluster asks for another token than that of {token.source};"
            " name the file of its token by RAY_AUTH_TOKEN_PATH"
        )
    _check_answers(address, environment, token.text)
    return token.environment


def _check_answers(address: str, environment: Mapping[str, str], token: str | None = None) -> None:
    """Have a head answer a call as drivers make them.

    Raises
    ------
    ConfigError : it says nothing
    """
    if _refuses(_FIRST_CALL, address, environment, token):
        raise ConfigError(f"--ray {address}: the cluster takes the token, and then asks for another one; {HINT}")


def _asks(address: str, environment: Mapping[str, str], token: str | None = None) -> bool:
    """Whether a cluster refuses a call for want of a token, or of another one than this.

    Raises
    ------
    ConfigError : no Ray answers there
    """
    return _refuses(_CALL, address, environment, token)


def _refuses(call: str, address: str, environment: Mapping[str, str], token: str | None) -> bool:
    try:
        import grpc
    except ImportError:
        raise UnsupportedError("Ray is not installed; pip install 'damoos[ray]'") from None
    shown = (("authorization", f"Bearer {token}"),) if token else ()
    with _channel(grpc, address, environment) as channel:
        try:
            channel.unary_unary(call)(b"", timeout=KNOCK_S, metadata=shown)
            return False
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                return True
            raise ConfigError(f"--ray {address}: no Ray cluster answers there: {error.details()}; {HINT}") from None


def _channel(grpc: Any, address: str, environment: Mapping[str, str]) -> Any:
    """A channel to a head, by TLS where Ray's variables say so."""
    if environment.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return grpc.insecure_channel(address)
    names = (ray_tls.AUTHORITY, ray_tls.KEY, ray_tls.CERTIFICATE)
    try:
        certificates = [Path(environment[name]).read_bytes() for name in names]
    except (OSError, KeyError) as error:
        raise ConfigError(f"--ray {address}: RAY_USE_TLS is set, and a certificate is missing: {error}") from None
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(*certificates))
