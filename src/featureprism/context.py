"""Old path of featureprism.lab.context; it stays until no paper imports it."""

from featureprism.lab.context import Context as Context
from featureprism.lab.context import check_device as check_device
from featureprism.progress import Progress as Progress
from featureprism.progress import no_progress as silent
from featureprism.progress import part as part

__all__ = ["Context", "Progress", "check_device", "part", "silent"]
