"""Adult and Census-Income (KDD), complete: the data of `fusion_paper.py`.

They are read from the sub-folders `adult` and `census_kdd` of the folder that the environment variable
``BAYESCAL_DATA`` names. Where that is not set or they are not there, scikit-learn fetches them from OpenML (data sets
1590 and 4535), so that the study runs anywhere. The rows are the same, their order may not be; repeats then draw other
rows.
"""

import numpy as np
import pandas as pd
from real_scores_pools import adult, census

ADULT, CENSUS = 1590, 4535  # of OpenML
CENSUS_NUMBERS = ("V1", "V6", "V17", "V18", "V19", "V31", "V40")  # age, wage, gains, losses, dividends, employer, weeks
SIZES = {"Adult": (48842, 11687), "Census": (299285, 18568)}  # rows and positives, as published
CENSUS_WEIGHT = "V25"  # of the survey; no feature


def income_data(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Features of every row of "Adult" or "Census", and whether the income is above 50,000 dollars (0 or 1)."""
    try:
        return adult() if name == "Adult" else census(("train", "test"))
    except FileNotFoundError:
        return fetch(name)


def fetch(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """`income_data` from OpenML."""
    from sklearn.datasets import fetch_openml

    table, label = fetch_openml(data_id=ADULT if name == "Adult" else CENSUS, return_X_y=True, as_frame=True)
    y = label.astype(str).str.contains(">50K" if name == "Adult" else "+", regex=False).to_numpy(dtype=np.int64)
    if (len(y), y.sum()) != SIZES[name]:
        raise ValueError(f"OpenML's {name} has {len(y)} rows with {y.sum()} positives, not {SIZES[name]} as published")
    table = table.drop(columns="fnlwgt" if name == "Adult" else CENSUS_WEIGHT)
    numbers = table.select_dtypes("number").columns if name == "Adult" else list(CENSUS_NUMBERS)
    words = table.drop(columns=numbers).astype(object).fillna("?").astype(str)
    return pd.concat([table[numbers].astype(float), words], axis=1), y
