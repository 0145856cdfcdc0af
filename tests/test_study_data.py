"""The data of Table 1 read from OpenML are those in files. OpenML is not asked: what it should send is made here."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

NUMBERS = {"V1": 40, "V6": 0, "V17": 0, "V18": 0, "V19": 0, "V31": 2, "V40": 52}


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "studies"))
    monkeypatch.delenv("BAYESCAL_DATA", raising=False)
    import income_data

    yield income_data
    for name in ("income_data", "real_scores_pools"):
        sys.modules.pop(name, None)


def sent_by_openml(monkeypatch: pytest.MonkeyPatch, table: pd.DataFrame, label: pd.Series) -> None:
    import sklearn.datasets

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **_: (table, label))


def test_census_is_read_by_position_without_its_weight(study, monkeypatch):
    columns = [f"V{i}" for i in range(1, 42)]  # 42 fields of the raw file, the last of them the label
    table = pd.DataFrame({c: [NUMBERS.get(c, "word")] * 3 for c in columns})
    sent_by_openml(monkeypatch, table, pd.Series([" - 50000.", " 50000+.", " - 50000."], dtype="category"))
    monkeypatch.setitem(study.SIZES, "Census", (3, 1))
    features, y = study.income_data("Census")
    np.testing.assert_array_equal(y, [0, 1, 0])
    assert features.shape == (3, 40)  # 7 numbers and 33 codes: the columns of the files
    assert features.select_dtypes("number").columns.tolist() == list(NUMBERS)


def test_adult_is_read_without_its_weight(study, monkeypatch):
    table = pd.DataFrame({"age": [39, 50], "fnlwgt": [1, 2], "race": pd.Series(["White", None], dtype="category")})
    sent_by_openml(monkeypatch, table, pd.Series(["<=50K", ">50K"], dtype="category"))
    monkeypatch.setitem(study.SIZES, "Adult", (2, 1))
    features, y = study.income_data("Adult")
    np.testing.assert_array_equal(y, [0, 1])
    assert features.columns.tolist() == ["age", "race"]
    assert features["race"].tolist() == ["White", "?"]  # missing is a category of its own, written as in the files


def test_data_of_another_size_is_refused(study, monkeypatch):
    sent_by_openml(monkeypatch, pd.DataFrame({"age": [39], "fnlwgt": [1]}), pd.Series(["<=50K"]))
    with pytest.raises(ValueError, match="1 rows with 0 positives"):
        study.income_data("Adult")
