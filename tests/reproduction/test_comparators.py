"""One line a system, at the rate that its first seed chose; what it cost is of all of its runs."""

from reproduction.comparators import measured
from reproduction.experiment import Cost
from reproduction.judgement import by_experiment


def test_the_price_is_of_the_runs_that_were_timed_at_any_rate(result):
    """The chosen rate may have run beside others, which tells no seconds."""
    chosen = result("campus/vgg16-gem-triplet-rate-0.04", 0.9, cost=Cost(0.0, 166, 2000, 900))
    other = result("campus/vgg16-gem-triplet-rate-0.12", 0.5, cost=Cost(7.0, 166, 2000, 900))
    (line,) = measured(by_experiment([chosen, other]))
    assert (line.experiment, line.rates) == (chosen.experiment, (0.1,))
    assert line.recall["R@5"].value == 0.9
    assert line.cost.seconds == 7.0
