"""What a user may set: the priors of the latent process, the grids over which the transformation is averaged."""

from dataclasses import dataclass

from bayescal.priors import Priors, setting

GAMMAS = (0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0)
NEIGHBOURS = (1, 3, 5)
SPREADS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)


@dataclass(frozen=True)
class CASIMACPriors(Priors):
    """Prior settings of `CASIMACClassifier`: length-scale and noise ratio ~ LogNormal, signal variance ~ InverseGamma.

    The prior median of the length-scale is the median distance between training cases.

    Parameters
    ----------
    length_scale_log_sd : float, default=1.0
        Standard deviation of the log of the length-scale; positive.
    feature_log_sd : float, default=0.5
        With ``length_scales="each"``, standard deviation of the log of a feature's length-scale about the shared one;
        positive.
    noise_ratio_log_mean : float, default=log(0.1)
        Mean of the log of the noise's variance by the signal's.
    noise_ratio_log_sd : float, default=1.5
        Standard deviation of the same; positive.
    signal_variance_shape : float, default=2.0
        Shape of the inverse gamma prior of the signal variance, of latents with mean square 1; positive.
    signal_variance_scale : float, default=1.0
        Scale of the same; positive.

    Examples
    --------
    >>> CASIMACPriors().noise_ratio_log_sd
    1.5
    """

    length_scale_log_sd: float = setting(1.0, "log; a factor e about the median distance is one sd", positive=True)
    feature_log_sd: float = setting(0.5, "log; of a feature's length-scale about the shared one", positive=True)
    noise_ratio_log_mean: float = setting(-2.3025850929940455, "log; latents are mostly signal: a tenth is noise")
    noise_ratio_log_sd: float = setting(1.5, "log; noise of 2 % and of 45 % of the signal are one sd", positive=True)
    signal_variance_shape: float = setting(2.0, "worth four observed latents", positive=True)
    signal_variance_scale: float = setting(1.0, "latents have mean square 1, and so has the signal", positive=True)


@dataclass(frozen=True)
class GenerativeCASIMACPriors(Priors):
    """Prior settings of `GenerativeCASIMACClassifier`: length-scale ~ LogNormal, amplitude ~ HalfNormal.

    The prior median of the length-scale is the median distance between training cases; the noise has variance 1.

    Parameters
    ----------
    length_scale_log_sd : float, default=1.0
        Standard deviation of the log of the length-scale; positive.
    amplitude_sd : float, default=3.0
        Scale of the standard deviation of the latents; positive.

    Examples
    --------
    >>> GenerativeCASIMACPriors().amplitude_sd
    3.0
    """

    length_scale_log_sd: float = setting(1.0, "log; a factor e about the median distance is one sd", positive=True)
    amplitude_sd: float = setting(3.0, "from features without use to such as settle the label", positive=True)
