"""Why a stock decoder is ahead of the automatic classifier by more than the goal, by task."""

FEW_FACES = (
    "Nobody tells the sex of faces from so few people: all accuracies are within chance, which the "
    "share of the classes among the test faces moves about."
)
ONE_SCAN = (
    "With one scan per class nothing can be left out, and the weight of the scores is what was "
    "expected beforehand; these data would bear a larger one."
)
FOUR_SCANS = (
    "Four left-out scans cannot speak loudly against even odds of nothing there: the price of "
    "being honest on noise."
)
STRONG_DIRECTIONS = (
    "The noise is mostly ten strong directions, which LDA's shrinkage of components suits."
)
WHY: dict[str, str] = {
    "digits, n = 2": FOUR_SCANS,
    "cohort, n = 10": STRONG_DIRECTIONS,
    "low-rank-4, n = 8": STRONG_DIRECTIONS,
    "sex, n = 2": FEW_FACES,
    "sex, n = 4": FEW_FACES,
    "sex-gain, n = 2": FEW_FACES,
    "sex-gain, n = 4": FEW_FACES,
    "digits-8, n = 1": ONE_SCAN,
    "digits, n = 1": ONE_SCAN,
}
