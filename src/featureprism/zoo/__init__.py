"""Image networks that are trained once and shipped: who is there, how each was trained, how to read one, how to train it again."""

from featureprism.zoo.files import KEPT, family_mark, is_cifar, load, read_card, save, share_weights
from featureprism.zoo.members import ATTACKS, MEMBERS, Member
from featureprism.zoo.training import fresh, grow

__all__ = [
    "ATTACKS",
    "KEPT",
    "MEMBERS",
    "Member",
    "family_mark",
    "fresh",
    "grow",
    "is_cifar",
    "load",
    "read_card",
    "save",
    "share_weights",
]
