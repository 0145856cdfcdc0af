"""Record what others say of copulas and of a kernel density estimate, in `recorded.json`.

    uv run --no-project --with "statsmodels==0.15.0" --with mpmath python tests/data/copulas/record.py

statsmodels: log densities at interior points, at the parameter that it finds for Kendall's tau; its default kernel
density estimate. mpmath: the textbook formulas of the densities with 60 digits at the very edge of the unit square.
"""

import json
from pathlib import Path

import mpmath as mp
import numpy as np
import statsmodels
from statsmodels.distributions.copula.api import (
    ClaytonCopula,
    FrankCopula,
    GaussianCopula,
    GumbelCopula,
    StudentTCopula,
)
from statsmodels.nonparametric.kde import KDEUnivariate

mp.mp.dps = 60

INTERIOR = [[u, v] for u in (0.03, 0.2, 0.5, 0.81, 0.98) for v in (0.03, 0.2, 0.5, 0.81, 0.98)]
TAUS = [0.05, 0.3, 0.6]  # beyond, differences cancel in its formula of Frank's density
EDGE = [
    [1e-12, 1e-12],
    [1e-12, 0.4],
    [1e-12, 1 - 1e-9],
    [1 - 1e-9, 1 - 1e-9],
    [1 - 1e-9, 1 - 3e-7],
    [2e-6, 5e-6],
    [0.5, 0.5],
]
SAMPLE = np.sin(np.arange(1, 31) ** 2) + 0.1 * np.arange(1, 31)
AT = np.linspace(-3.0, 6.0, 7)


def made_by_statsmodels(name, tau):
    """The copula of a family with Kendall's tau, and its parameter."""
    if name in ("gaussian", "t"):
        r = float(np.sin(np.pi / 2 * tau))
        return (GaussianCopula(corr=r) if name == "gaussian" else StudentTCopula(corr=r, df=4)), r
    family = {"clayton": ClaytonCopula, "gumbel": GumbelCopula, "frank": FrankCopula}[name]
    a = float(family().theta_from_tau(tau))
    return family(theta=a), a


def from_statsmodels(name, tau):
    """Parameter, and log densities at the interior points."""
    copula, a = made_by_statsmodels(name, tau)
    return {"parameter": a, "log_density": np.log(np.asarray(copula.pdf(INTERIOR)).reshape(-1)).tolist()}


def normal_score(u):
    """Quantile of the normal distribution."""
    return mp.findroot(lambda x: mp.log(mp.ncdf(x) / u) if u < 0.5 else mp.log(mp.ncdf(-x) / (1 - u)), 7 * (2 * u - 1))


def student_score(u):
    """Quantile of Student's t with 4 degrees of freedom, by bisection of its distribution function."""
    tail = min(u, 1 - u)
    low, high = mp.mpf(0), mp.mpf(10) ** 5
    for _ in range(230):
        t = (low + high) / 2
        w = t / mp.sqrt(4 + t * t)
        above = mp.mpf(1) / 2 - w * (3 - w * w) / 4
        low, high = (t, high) if above > tail else (low, t)
    return -low if u < 0.5 else low


def textbook(name, u, v, a):
    """Log density by the formulas that books print."""
    u, v, a = mp.mpf(u), mp.mpf(v), mp.mpf(a)
    if name == "gaussian":
        x, y = normal_score(u), normal_score(v)
        return -mp.log(1 - a * a) / 2 - (a * a * (x * x + y * y) - 2 * a * x * y) / (2 * (1 - a * a))
    if name == "t":
        x, y = student_score(u), student_score(v)
        joint = (1 + (x * x + y * y - 2 * a * x * y) / (4 * (1 - a * a))) ** -3 / (2 * mp.pi * mp.sqrt(1 - a * a))
        one = mp.gamma(mp.mpf(5) / 2) / (mp.gamma(2) * mp.sqrt(4 * mp.pi))
        return mp.log(joint / (one**2 * ((1 + x * x / 4) * (1 + y * y / 4)) ** (-mp.mpf(5) / 2)))
    if name == "clayton":
        return mp.log((1 + a) * (u * v) ** (-1 - a) * (u**-a + v**-a - 1) ** (-2 - 1 / a))
    if name == "gumbel":
        x, y = -mp.log(u), -mp.log(v)
        w = (x**a + y**a) ** (1 / a)
        return mp.log(mp.exp(-w) * (x * y) ** (a - 1) * w ** (1 - 2 * a) * (w + a - 1) / (u * v))
    if name == "frank":
        below = 1 - mp.exp(-a) - (1 - mp.exp(-a * u)) * (1 - mp.exp(-a * v))
        return mp.log(a * (1 - mp.exp(-a)) * mp.exp(-a * (u + v)) / below**2)
    s = 1 + (a - 1) * (u + v)
    return mp.log(a * (1 + (a - 1) * (u + v - 2 * u * v)) / (s * s - 4 * u * v * a * (a - 1)) ** (mp.mpf(3) / 2))


PARAMETERS = {
    "gaussian": [0.03, 0.7, 0.996],
    "t": [0.03, 0.7, 0.996],
    "clayton": [0.04, 2.0, 38.0],
    "gumbel": [1.02, 2.0, 20.0],
    "frank": [0.2, 6.0, 78.0],
    "plackett": [1.1, 11.0, 10000.0],
}
kde = KDEUnivariate(SAMPLE)
kde.fit()
recorded = {
    "statsmodels": {
        "version": statsmodels.__version__,
        "points": INTERIOR,
        "taus": TAUS,
        "families": {
            name: [from_statsmodels(name, tau) for tau in TAUS]
            for name in ("gaussian", "t", "clayton", "gumbel", "frank")
        },
        "kde": {
            "sample": SAMPLE.tolist(),
            "bandwidth": float(kde.bw),
            "at": AT.tolist(),
            "density": [float(value) for value in kde.evaluate(AT)],
        },
    },
    "mpmath": {
        "points": EDGE,
        "families": {
            name: [
                {"parameter": a, "log_density": [float(textbook(name, u, v, a)) for u, v in EDGE]} for a in parameters
            ]
            for name, parameters in PARAMETERS.items()
        },
    },
}
Path(__file__).with_name("recorded.json").write_text(json.dumps(recorded) + "\n", encoding="utf-8")
