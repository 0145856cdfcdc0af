"""Bivariate copulas of nine families, on one scale of dependence: Kendall's tau.

    F(s, t) = C(F_1(s), F_2(t)),      c(u, v) = d^2 C / du dv,      h(u | v) = dC/dv = P(U <= u | V = v),   0 < u, v < 1

independence  c = 1
gaussian      normal scores x, y with correlation r = sin(pi tau / 2)
t             scores of Student's t with 4 degrees of freedom, r as above
clayton       C = (u^-a + v^-a - 1)^(-1/a),                              a = 2 tau / (1 - tau)
gumbel        C = exp(-((-log u)^a + (-log v)^a)^(1/a)),                 a = 1 / (1 - tau)
frank         C = -log(1 + (e^(-a u) - 1)(e^(-a v) - 1) / (e^-a - 1)) / a,   tau = 1 - 4 (1 - D_1(a)) / a, D_1 Debye's
plackett      C (1 - u - v + C) = a (u - C)(v - C),                      tau by quadrature
rotated clayton, rotated gumbel: of (1 - u, 1 - v)

They are the families of Wang & Liu (2020, section 5), and independence. Every formula below is for tau >= 0 and is
symmetric in u and v. Negative dependence is the same rule for all: the copula of (U, 1 - V) has tau > 0. (For Gauss, t,
Frank and Plackett this is their own extension to negative parameters.) u and v are kept within [1e-12, 1 - 1e-12],
where the densities and their derivatives in tau are finite for abs(tau) <= 0.98: sums of exponentials are taken on the
log scale, and differences are written as products of what remains. Joe (2014), "Dependence modeling with copulas",
chapter 4, has the closed forms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit, gammaln, ndtr, ndtri, spence, stdtr

EDGE = 1e-12  # u and v stay this far from 0 and 1
LARGEST_TAU = 0.98
SMALLEST = 1e-9  # parameter of Clayton's and Frank's families at tau = 0: their independence copula, to rounding
NU = 4.0  # degrees of freedom of the t copula; four have a quantile in closed form

Array = np.ndarray


@dataclass(frozen=True)
class Family:
    """One family for tau >= 0. `density` and `conditional` take u, v and the parameter, and broadcast."""

    name: str
    parameter: Callable[[Array], Array]  # tau -> parameter
    kendall: Callable[[Array], Array]  # parameter -> tau
    density: Callable[[Array, Array, Array], Array]  # log c(u, v)
    conditional: Callable[[Array, Array, Array], Array]  # h(u | v)


def log_density(name: str, u: Array, v: Array, tau: Array | float) -> Array:
    """Log density of a family at u, v in [0, 1] and Kendall's tau in [-0.98, 0.98]; all three broadcast."""
    family, u, v, tau = FAMILIES[name], _inside(u), _inside(v), np.asarray(tau, dtype=float)
    return _reflected(lambda v, tau: family.density(u, v, family.parameter(tau)), v, tau)


def conditional(name: str, u: Array, v: Array, tau: Array | float) -> Array:
    """P(U <= u | V = v) under a family, at u, v in [0, 1] and Kendall's tau in [-0.98, 0.98]; all three broadcast."""
    family, u, v, tau = FAMILIES[name], _inside(u), _inside(v), np.asarray(tau, dtype=float)
    return np.clip(_reflected(lambda v, tau: family.conditional(u, v, family.parameter(tau)), v, tau), 0.0, 1.0)


def _inside(u: Array) -> Array:
    return np.clip(u, EDGE, 1 - EDGE)


def _reflected(function: Callable[[Array, Array], Array], v: Array, tau: Array) -> Array:
    """function(v, tau) where tau >= 0, function(1 - v, -tau) elsewhere."""
    tau = np.clip(tau, -LARGEST_TAU, LARGEST_TAU)
    if not (tau < 0).any():
        return function(v, tau)
    if (tau < 0).all():
        return function(1 - v, -tau)
    return function(np.where(tau < 0, 1 - v, v), np.abs(tau))


def _log1mexp(a: Array) -> Array:
    """log(1 - exp(-a)), a > 0."""
    return np.log(-np.expm1(-a))


# independence, Gauss, Student t ---------------------------------------------------------------------------------------


def _independence(u: Array, v: Array, a: Array) -> Array:
    return np.zeros(np.broadcast_shapes(np.shape(u), np.shape(v), np.shape(a)))


def _independence_conditional(u: Array, v: Array, a: Array) -> Array:
    return u + _independence(u, v, a)


def _correlation(tau: Array) -> Array:
    return np.sin(np.pi / 2 * tau)


def _correlation_tau(r: Array) -> Array:
    return np.arcsin(r) * 2 / np.pi


def _gaussian(u: Array, v: Array, r: Array) -> Array:
    x, y = ndtri(u), ndtri(v)
    rest = (1 - r) * (1 + r)
    # r^2 (x^2 + y^2) - 2 r x y = r ((x - y)^2 - (1 - r) (x^2 + y^2)): no difference of large numbers as r -> 1
    return -0.5 * np.log(rest) - 0.5 * r * ((x - y) ** 2 / rest - (x * x + y * y) / (1 + r))


def _gaussian_conditional(u: Array, v: Array, r: Array) -> Array:
    return ndtr((ndtri(u) - r * ndtri(v)) / np.sqrt((1 - r) * (1 + r)))


def student_score(u: Array) -> Array:
    """Quantile of Student's t with 4 degrees of freedom.

    With cos(phi) = 2 sqrt(u (1 - u)), t^2 / 4 = cos(phi / 3) / cos(phi) - 1 = 2 sin(phi / 3) sin(2 phi / 3) / cos(phi).
    Shaw (2006), "Sampling Student's t distribution".
    """
    cosine = 2 * np.sqrt(u * (1 - u))
    phi = np.arctan2(np.abs(1 - 2 * u), cosine)
    return np.sign(u - 0.5) * 2 * np.sqrt(2 * np.sin(phi / 3) * np.sin(2 * phi / 3) / cosine)


_T_CONSTANT = float(gammaln(NU / 2 + 1) + gammaln(NU / 2) - 2 * gammaln((NU + 1) / 2))


def _student(u: Array, v: Array, r: Array) -> Array:
    x, y = student_score(u), student_score(v)
    rest = (1 - r) * (1 + r)
    q = (x - y) ** 2 / rest + 2 * x * y / (1 + r)  # (x^2 + y^2 - 2 r x y) / (1 - r^2)
    margins = np.log1p(x * x / NU) + np.log1p(y * y / NU)
    return _T_CONSTANT - 0.5 * np.log(rest) - (NU + 2) / 2 * np.log1p(q / NU) + (NU + 1) / 2 * margins


def _student_conditional(u: Array, v: Array, r: Array) -> Array:
    x, y = student_score(u), student_score(v)
    return stdtr(NU + 1, (x - r * y) / np.sqrt((NU + y * y) * (1 - r) * (1 + r) / (NU + 1)))


# Clayton, Gumbel ------------------------------------------------------------------------------------------------------


def _clayton_parameter(tau: Array) -> Array:
    return np.maximum(2 * tau / (1 - tau), SMALLEST)


def _clayton_tau(a: Array) -> Array:
    return a / (2 + a)


def _clayton_excess(log_u: Array, log_v: Array, a: Array) -> Array:
    """log(u^-a + v^-a - 1) - log(v^-a)."""
    return np.logaddexp(0.0, a * (log_v - log_u) + _log1mexp(-a * log_u))


def _clayton(u: Array, v: Array, a: Array) -> Array:
    log_u, log_v = np.log(np.minimum(u, v)), np.log(np.maximum(u, v))
    # written about the smaller argument, whose power is the larger, so that the excess is small
    total = _clayton_excess(log_v, log_u, a)
    return np.log1p(a) + a * log_u - (1 + a) * log_v - (2 + 1 / a) * total


def _clayton_conditional(u: Array, v: Array, a: Array) -> Array:
    return np.exp(-(1 + 1 / a) * _clayton_excess(np.log(u), np.log(v), a))


def _gumbel_parameter(tau: Array) -> Array:
    return 1 / (1 - tau)


def _gumbel_tau(a: Array) -> Array:
    return 1 - 1 / a


def _gumbel(u: Array, v: Array, a: Array) -> Array:
    log_u, log_v = np.log(u), np.log(v)
    log_x, log_y = np.log(-log_u), np.log(-log_v)
    log_sum = np.logaddexp(a * log_x, a * log_y)
    w = np.exp(log_sum / a)
    powers = (a - 1) * (log_x + log_y) + (1 / a - 2) * log_sum
    return powers - w - log_u - log_v + np.log(w + a - 1)


def _gumbel_conditional(u: Array, v: Array, a: Array) -> Array:
    log_v = np.log(v)
    log_x, log_y = np.log(-np.log(u)), np.log(-log_v)
    log_sum = np.logaddexp(a * log_x, a * log_y)
    return np.exp(-np.exp(log_sum / a) - log_v + (a - 1) * log_y + (1 / a - 1) * log_sum)


# Frank, Plackett ------------------------------------------------------------------------------------------------------


def _frank_tau(a: Array) -> Array:
    a = np.asarray(a, dtype=float)
    small = a / 9 - a**3 / 900 + a**5 / 52920 - a**7 / 2721600
    big = np.maximum(a, 0.3)
    integral = np.pi**2 / 6 + big * _log1mexp(big) - spence(-np.expm1(-big))  # of t / (e^t - 1) from 0 to a
    return np.where(a < 0.3, small, 1 - 4 / big * (1 - integral / big))


@lru_cache(maxsize=1)
def _frank_inverse() -> CubicSpline:
    a = np.concatenate([[0.0], np.geomspace(0.01, 300.0, 300)])
    tau = np.arctanh(_frank_tau(a))
    return CubicSpline(tau, np.log1p(a))


def _frank_parameter(tau: Array) -> Array:
    return np.maximum(np.expm1(_frank_inverse()(np.arctanh(tau))), SMALLEST)


def _frank(u: Array, v: Array, a: Array) -> Array:
    # (1 - e^-a) - (1 - e^-au)(1 - e^-av), as a sum of two positive terms
    rest = np.logaddexp(_log1mexp(a * u) - a * v, _log1mexp(a * (1 - u)) - a * u)
    return np.log(a) + _log1mexp(a) - a * (u + v) - 2 * rest


def _frank_conditional(u: Array, v: Array, a: Array) -> Array:
    return expit(a * (u - v) + _log1mexp(a * u) - _log1mexp(a * (1 - u)))


def _plackett_tau(a: Array) -> Array:
    """4 E C(U, V) - 1, over V and the conditional probability of U uniform, which has a closed inverse."""
    node, weight = np.polynomial.legendre.leggauss(64)
    node, weight = (node + 1) / 2, weight / 2
    point = node**3 * (10 - 15 * node + 6 * node**2)  # crowded at both ends
    weight = weight * 30 * (node * (1 - node)) ** 2
    v, p = point[:, None], point
    a = np.asarray(a, dtype=float)[..., None, None]
    e, q = a - 1, p * (1 - p)
    root = np.sqrt(a) * np.sqrt(a + 4 * q * v * (1 - v) * e * e)
    u = (2 * q * (v * a * a + 1 - v) + a * (1 - 2 * q) - (1 - 2 * p) * root) / (2 * (a + q * e * e))
    u = np.clip(u, 0.0, 1.0)
    joint = 2 * u * v * a / (1 + e * (u + v) + _plackett_root(u, v, e))
    return 4 * np.einsum("...ij,i,j->...", joint, weight, weight) - 1


@lru_cache(maxsize=1)
def _plackett_inverse() -> CubicSpline:
    log_a = np.linspace(0.0, 13.0, 66)
    tau = _plackett_tau(np.exp(log_a))
    tau[0] = 0.0
    return CubicSpline(np.arctanh(tau), log_a)


def _plackett_parameter(tau: Array) -> Array:
    return np.exp(_plackett_inverse()(np.arctanh(tau)))


def _plackett_root(u: Array, v: Array, e: Array) -> Array:
    return np.sqrt(1 + 2 * e * (u * (1 - v) + v * (1 - u)) + (e * (u - v)) ** 2)


def _plackett(u: Array, v: Array, a: Array) -> Array:
    e = a - 1
    return np.log(a) + np.log1p(e * (u * (1 - v) + v * (1 - u))) - 3 * np.log(_plackett_root(u, v, e))


def _plackett_conditional(u: Array, v: Array, a: Array) -> Array:
    root = _plackett_root(u, v, a - 1)
    middle = 1 - 2 * u + (a - 1) * (v - u)
    # (root - middle) / (2 root), with root^2 - middle^2 = 4 a u (1 - u)
    share = 2 * a * u * (1 - u) / (root * (root + np.abs(middle)))
    return np.where(middle > 0, share, 1 - share)


# all ------------------------------------------------------------------------------------------------------------------


def _rotate(family: Family) -> Family:
    """The family of (1 - U, 1 - V)."""
    return Family(
        f"rotated {family.name}",
        family.parameter,
        family.kendall,
        lambda u, v, a: family.density(1 - u, 1 - v, a),
        lambda u, v, a: 1 - family.conditional(1 - u, 1 - v, a),
    )


_CLAYTON = Family("clayton", _clayton_parameter, _clayton_tau, _clayton, _clayton_conditional)
_GUMBEL = Family("gumbel", _gumbel_parameter, _gumbel_tau, _gumbel, _gumbel_conditional)

FAMILIES = {
    family.name: family
    for family in (
        Family("independence", np.zeros_like, np.zeros_like, _independence, _independence_conditional),
        Family("gaussian", _correlation, _correlation_tau, _gaussian, _gaussian_conditional),
        Family("t", _correlation, _correlation_tau, _student, _student_conditional),
        _CLAYTON,
        _rotate(_CLAYTON),
        _GUMBEL,
        _rotate(_GUMBEL),
        Family("frank", _frank_parameter, _frank_tau, _frank, _frank_conditional),
        Family("plackett", _plackett_parameter, _plackett_tau, _plackett, _plackett_conditional),
    )
}
