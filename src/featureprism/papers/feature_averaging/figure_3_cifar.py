"""Figure 3 on CIFAR-10: robust accuracy against the ℓ2 radius with two labels and with ten."""

from featureprism.lab import Claim, Experiment, above
from featureprism.lab.rows import Row
from featureprism.papers.feature_averaging.images import (
    ABOUT,
    SHIPPED,
    ImageTraining,
    draw,
    gain,
    gain_note,
    lead_half_way,
    measure,
    overstated,
    radius_grid,
    scaled_down,
)
from featureprism.zoo.files import share_weights

PUBLISHED = ImageTraining(
    data="cifar10", epochs=200, step_size=0.1, schedule="cosine", radii=radius_grid(0.025, 0.6), restarts=2
)
# the networks of the zoo are larger: fewer images, steps and radii
FROM_ZOO: Row = {"zoo": SHIPPED, "test_images": 100, "steps": 10, "radii": radius_grid(0.05, 0.4)}
ABOUT_ZOO = (
    " Quick: two ResNets of the zoo, trained once by one recipe on all 50,000 images, with crops and flips ('featureprism zoo'); the"
    " seeds draw test images and attacks, the weights are the same."
)

CLAIMS = (
    Claim(
        "gain",
        source="Figure 3 (right)",
        says="On CIFAR-10, a network trained with all ten labels and merged afterwards is more robust than one trained with two"
        " labels.",
        quantity="ℓ2 radius at which half of the images break with ten labels ÷ with two, each image under the stronger of two attacks",
        bound=above(1.0),
        because="above 1 the radius with ten labels is larger",
        value=gain,
        note=gain_note,
    ),
    Claim(
        "lead",
        source="Figure 3 (right)",
        says="On CIFAR-10, the network trained with ten labels keeps a higher robust accuracy at small perturbations too.",
        quantity="robust accuracy with ten labels minus with two, at half of the radius at which half of the images break with"
        " two labels",
        bound=above(0.0),
        because="higher",
        value=lead_half_way,
    ),
    Claim(
        "attack",
        source="beside Figure 3 (right)",
        says="On CIFAR-10, an attack on the ten labels overstates the robustness of the merged decision.",
        quantity="radius at which half of the images break, of the ten-label network under the attack on its labels ÷ under the"
        " attack on the decision",
        bound=above(1.0),
        because="above 1 it overstates",
        value=overstated,
        origin="featureprism",
    ),
)

FIGURE_3_CIFAR = Experiment(
    id="feature-averaging/figure-3-cifar",
    source="Li et al. 2025, Figure 3 (CIFAR-10)",
    title="Two labels against ten on CIFAR-10",
    scales=scaled_down(PUBLISHED, {"train_images": 6000} | (FROM_ZOO if SHIPPED else {})),
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    slow=True,
    shared_weights=share_weights,
    about=ABOUT
    + " Step size 0.1 with a cosine schedule; 200 epochs at the paper's scale."
    + (ABOUT_ZOO if SHIPPED else ""),
)
