"""Names of coupled learners, their couplings, domains and losses, as the tests make them."""

FEW = [
    "weights density_ratio ball linear",
    "weights dartboard box logistic",
    "weights anchored ball huber",
    "weights scheduled simplex linear",
    "leader density_ratio ball linear",
    "leader density_ratio box logistic",
    "leader density_ratio l3 quadratic",
    "leader scheduled simplex squared",
]
CUSTOM = [
    "weights dartboard ball custom",
    "weights anchored box custom",
    "leader density_ratio ball custom",
    "leader scheduled simplex custom",
]
