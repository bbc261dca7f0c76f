"""The robust radius of a head: the least over all rivals of the radius of one margin."""

from math import inf

from jaxtyping import Float, Int
from torch import Tensor

from featureprism.heads.network import HeadNet
from featureprism.networks import LinearScores, QuadraticScores
from featureprism.networks.reading import Classifier
from featureprism.records import Progress, RadiusBracket, silent
from featureprism.threads import one_thread
from featureprism.verify import bracket_classifier
from featureprism.verify.pairs import Effort

# cells of each proof, unless told otherwise: more prove more. A limit in cells repeats exactly, one in seconds does not
MAX_CELLS = 1


@one_thread()
def head_radius(
    net: HeadNet | LinearScores | QuadraticScores,
    x: Float[Tensor, "n d"],
    y: Int[Tensor, " n"],
    *,
    gap: float = 0.01,
    seconds_per_point: float = inf,
    max_cells: int = MAX_CELLS,
    progress: Progress = silent,
) -> RadiusBracket:
    """The bracket of every point against all rivals; points that another class already wins or ties have radius 0."""
    effort = Effort(2, gap, seconds_per_point, max_cells)
    scores = net.margin(1, 0) if isinstance(net, HeadNet) and net.num_classes == 2 else net
    return bracket_classifier(Classifier(scores), x, y, effort, progress=progress)
