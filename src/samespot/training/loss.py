"""The paper's loss as a torch module, for loops of your own."""

from __future__ import annotations

from torch import Tensor, nn

from samespot.errors import InputError
from samespot.training.losses.contrastive import MARGIN, pair_losses

ROUNDING = 1e-6  # a similarity may be so far outside [0, 1]


class GeneralizedContrastiveLoss(nn.Module):
    """x, y: (n, d) descriptors of the two sides; similarity: (n,) in [0, 1] -> mean loss over the batch, 0 if
    it is empty. Similarities on the CPU are checked; on a GPU that would make the host wait."""

    def __init__(self, margin: float = MARGIN) -> None:
        super().__init__()
        if not margin > 0:
            raise InputError(f"margin {margin:g} is not positive; the paper's is {MARGIN:g}")
        self.margin = margin

    def forward(self, x: Tensor, y: Tensor, similarity: Tensor) -> Tensor:
        losses = pair_losses(x, y, similarity, self.margin)
        if similarity.device.type == "cpu":
            _refuse_outside(similarity)
        return losses.mean() if len(losses) else losses.sum()

    def extra_repr(self) -> str:
        return f"margin={self.margin:g}"


def _refuse_outside(similarity: Tensor) -> None:
    fine = (similarity >= -ROUNDING) & (similarity <= 1 + ROUNDING)  # False for NaN, too
    if not bool(fine.all()):
        at = int((~fine).nonzero()[0])
        raise InputError(
            f"similarity {float(similarity[at]):g} of pair {at} is not in [0, 1]; give the share of the places' "
            "overlap, 0 for none"
        )
