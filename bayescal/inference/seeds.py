"""One seed for everything a fit draws, from whatever scikit-learn calls a ``random_state``."""

from typing import Any

import numpy as np

from bayescal.validation import ParameterValueError


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Turn None, a nonnegative integer, a ``Generator`` or a ``RandomState`` into a seed sequence.

    Instances are advanced by one draw, as scikit-learn does; NumPy's global state is never touched.
    """
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31)))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return np.random.SeedSequence(int(random_state))
    raise ParameterValueError(
        f"random_state must be None, a nonnegative integer, a numpy Generator or RandomState, got {random_state!r}."
    )
