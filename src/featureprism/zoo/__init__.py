"""Image networks that are trained once and shipped: who is there, how each was trained, how to read one, how to train it again."""

from featureprism.zoo.files import load, read_card
from featureprism.zoo.members import MEMBERS, Member

__all__ = ["MEMBERS", "Member", "load", "read_card"]
