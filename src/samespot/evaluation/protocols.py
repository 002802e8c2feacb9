"""Every named protocol in one place."""

from __future__ import annotations

from samespot.errors import InputError
from samespot.evaluation import (
    campus_cases,
    garden_cases,
    indoor_cases,
    msls_cases,
    pose_cases,
    street_view_cases,
    town_cases,
)
from samespot.evaluation.protocol import Protocol

_FAMILIES = (msls_cases, street_view_cases, pose_cases, garden_cases, indoor_cases, campus_cases, town_cases)
PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol for family in _FAMILIES for protocol in family.PROTOCOLS
}


def protocol_named(name: str) -> Protocol:
    """The protocol of that name."""
    if name not in PROTOCOLS:
        raise InputError(f"protocol {name!r} is unknown; choose one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]
