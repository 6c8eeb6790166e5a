"""Which network interface has an address, and where to listen for all. Linux only; reads the kernel's tables."""

import fcntl
import ipaddress
import socket
import struct
from contextlib import suppress
from pathlib import Path

_SIOCGIFADDR = 0x8915
_IPV6 = Path("/proc/net/if_inet6")


def interface_of(address: str) -> str | None:
    """The interface with this IPv4 or IPv6 address; None if there is none or it is no address."""
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError:
        return None
    return _by_ipv4(wanted) if wanted.version == 4 else _by_ipv6(wanted)


def _by_ipv4(wanted: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # an interface without an IPv4 address
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if answer[20:24] == wanted.packed:
                    return name
    return None


def _by_ipv6(wanted: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str | None:
    with suppress(OSError):  # a kernel without IPv6
        for line in _IPV6.read_text().splitlines():
            digits, *_, name = line.split()
            if bytes.fromhex(digits) == wanted.packed:
                return name
    return None


def listening_host() -> str:
    """`::` where that takes IPv4 too, else `0.0.0.0`: a pod's address may be of either family."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
            both = probe.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 0
    except OSError:
        both = False
    return "::" if both else "0.0.0.0"
