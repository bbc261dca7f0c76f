"""Old path of featureprism.lab.phase."""

from featureprism.lab.phase import draw_map as draw_map
from featureprism.lab.phase import draw_slices as draw_slices
from featureprism.lab.phase import phase_of as phase_of
