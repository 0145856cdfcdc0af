"""The shipped data: what they are, and that they may be shipped."""

import numpy as np

import bayescal as bc
from bayescal.tables import read_table


def test_rain_at_niamey_is_what_was_published() -> None:
    days = bc.datasets.load_rain_niamey()
    assert days.columns.tolist() == ["date", "rain", "logistic", "emos", "ens", "epc"]
    assert len(days) == 92 and days["rain"].sum() == 53  # July to September 2016; Dimitriadis et al. (2021)
    assert (days["date"].diff().dropna().dt.days == 1).all()
    # Brier scores computed from the source file with its 15 digits
    brier = days[["logistic", "emos", "ens", "epc"]].sub(days["rain"], axis=0).pow(2).mean()
    assert brier.round(4).to_dict() == {"logistic": 0.2057, "emos": 0.2320, "ens": 0.2662, "epc": 0.2343}


def test_raw_ensemble_is_a_share_of_52_members() -> None:
    members = 52 * bc.datasets.load_rain_niamey()["ens"].to_numpy()
    np.testing.assert_allclose(members, members.round(), atol=1e-8)


def test_command_line_reads_the_same_rows() -> None:
    days = bc.datasets.load_rain_niamey()
    table = read_table(bc.datasets.path_rain_niamey(), score_columns=["ens"], label_column="rain")
    np.testing.assert_array_equal(table.scores[:, 0], days["ens"])
    np.testing.assert_array_equal(table.labels, days["rain"])


def test_attribution_and_licence_are_beside_the_data() -> None:
    folder = bc.datasets.path_rain_niamey().parent
    note = (folder / "README.md").read_text(encoding="utf-8")
    for words in ("rain_niamey.csv", "scoringrules", "Apache License", "LICENSE-Apache-2.0.txt", "Changed:"):
        assert words in note
    licence = (folder / "LICENSE-Apache-2.0.txt").read_text(encoding="utf-8")
    assert "Apache License" in licence and "END OF TERMS AND CONDITIONS" in licence
