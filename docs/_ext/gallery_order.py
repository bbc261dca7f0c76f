"""The order of the gallery: what people look for first, then the rest by name."""

FIRST = (
    "my_sklearn_model",
    "my_torch_or_onnx_model",
    "robust_head",
    "neurons_aligning",
    "two_labels_or_ten",
    "purify_features",
    "phase_diagram",
)


class FirstThingsFirst:
    """A key for sphinx-gallery to sort file names by."""

    def __init__(self, _folder: str) -> None:
        """The folder does not matter: there is one."""

    def __call__(self, filename: str) -> tuple[int, str]:
        """Where a file stands."""
        name = filename.removesuffix(".py")
        return FIRST.index(name) if name in FIRST else len(FIRST), name
