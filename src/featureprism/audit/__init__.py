"""Someone's own model: what it looks at, what explains it, what would be better."""

from featureprism.audit.cards import NeuronCard, neuron_cards
from featureprism.audit.explanation import Explanation, explain
from featureprism.audit.run import audit

__all__ = ["Explanation", "NeuronCard", "audit", "explain", "neuron_cards"]
