"""A small real data set, for the demonstration and for examples.

Its origin and licence are in ``bayescal/data/README.md``.
"""

from pathlib import Path

import pandas as pd

__all__ = ["load_rain_niamey", "path_rain_niamey"]


def path_rain_niamey() -> Path:
    """Path of the shipped CSV file of rain forecasts at Niamey, for the command line.

    Returns
    -------
    pathlib.Path
        The file that `load_rain_niamey` reads.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.datasets.path_rain_niamey().name
    'rain_niamey.csv'
    """
    return Path(__file__).parent / "data" / "rain_niamey.csv"


def load_rain_niamey() -> pd.DataFrame:
    """Load 92 days of rain at Niamey, Niger, with four forecasts of its probability.

    The raw ensemble ``ens`` is the score that the demonstration calibrates: it promises rain far more often than it
    rains.

    Returns
    -------
    pandas.DataFrame of shape (92, 6)
        One row for each day from July to September 2016: ``date``; ``rain``, 1 on the 53 days with rain and 0 on the
        others; and probabilities in [0, 1], 24 hours ahead, by logistic regression (``logistic``), by a
        statistical correction of the ECMWF ensemble (``emos``), by the share of its 52 members that rain (``ens``)
        and by climatology (``epc``).

    References
    ----------
    Dimitriadis, T., Gneiting, T. and Jordan, A. I. (2021). Stable reliability diagrams for probabilistic classifiers.
    PNAS 118(8), e2016191118. Data by way of the Python package scoringrules, Apache License 2.0.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> days[["rain", "ens"]].mean().round(2).to_dict()
    {'rain': 0.58, 'ens': 0.79}
    """
    return pd.read_csv(path_rain_niamey(), parse_dates=["date"])
