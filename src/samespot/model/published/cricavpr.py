"""CricaVPR, which cannot be had here."""

from samespot.model.published.record import Refused

MIXES = "mixes the images of a batch, so that a descriptor depends on the photos beside it"

MODELS = (
    Refused(
        "cricavpr",
        f"CricaVPR {MIXES}: the same photo would get another descriptor in another batch, and a map could not be "
        "searched; take megaloc, salad, boq-dinov2 or supervlad",
    ),
)
