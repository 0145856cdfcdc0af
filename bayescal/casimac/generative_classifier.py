"""The generative CASIMAC classifier: a Gaussian process whose noisy value lies in the cone of the label."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayescal.calibrators.notes import warn_about_convergence
from bayescal.casimac import generative
from bayescal.casimac.answers import LatentAnswers
from bayescal.casimac.fitting import PREDICTED
from bayescal.casimac.inputs import Space, read_cases
from bayescal.casimac.latent import KERNELS
from bayescal.casimac.learning import sampler_settings
from bayescal.casimac.settings import GenerativeCASIMACPriors
from bayescal.casimac.simplex import simplex_vertices
from bayescal.inference.seeds import seed_sequence
from bayescal.validation import ScoreValueError, check_choice

if TYPE_CHECKING:
    import xarray as xr

MEMORY = 4e9  # bytes of Cholesky factors and of draws that a fit may take


class GenerativeFit:
    """What predictions are made of, and what was found on the way."""

    def __init__(
        self,
        space: Space,
        codes: np.ndarray,
        posterior: generative.Posterior,
        process: generative.Process,
        vertices: np.ndarray,
        seed: int,
    ) -> None:
        chains, draws = posterior.draws["amplitude"].shape
        each = min(draws, max(1, PREDICTED // chains))
        chosen = np.linspace(0, draws - 1, each).round().astype(int)
        flat = {name: v[:, chosen].reshape(chains * each, *v.shape[2:]) for name, v in posterior.draws.items()}
        xi = np.random.default_rng(seed).normal(size=(chains * each, vertices.shape[1]))
        parts = generative.Parts(flat["length_scale"], flat["amplitude"], flat["latent"], xi)
        self.space, self.codes, self.posterior, self.seed = space, codes, posterior, seed
        self.predictor = generative.GenerativePredictor(process, parts, vertices)
        self.kept = (chains, chosen)


class GenerativeCASIMACClassifier(LatentAnswers):
    """CASIMAC with unknown latents: every label says that its case's noisy latent lies in the cone of its class.

    `CASIMACClassifier` computes latents from the labels and then takes them for data. Here they are unknown, a
    Gaussian process over the features is their prior, and the labels are the data: of two classes this is probit
    regression on a Gaussian process, of more its multinomial form. All latents are sampled, which takes some ten times
    as long at 40 cases and thirty times at 100, and predicts better there; see the notes.

    Parameters
    ----------
    kernel : {"matern32", "matern52", "rbf"}, default="matern52"
        Correlation of latents by Euclidean distance.
    standardize : bool, default=True
        Whether features are brought to mean 0 and standard deviation 1 first.
    priors : GenerativeCASIMACPriors or dict, default=None
        Prior settings of length-scale and amplitude.
    draws, tune, chains, cores : int
        Sizes of the sampler's run: draws and warm-up steps of each chain, chains, threads (None: as many as there are).
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws.
    progressbar : bool, callable or None, default=None
        None shows a bar on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        Sorted labels.
    vertices_ : ndarray of shape (C, C - 1)
        Vertices of the simplex, in the order of ``classes_``.
    diagnostics_ : pandas.DataFrame
        R-hat and effective sample sizes of length-scale, amplitude and every latent; divergences, verdict and
        interpolation error in ``attrs``.
    idata_ : xarray.DataTree
        Posterior, log likelihood of the labels, draw statistics and data, for ArviZ.
    n_features_in_ : int
        Features of the fit.

    See Also
    --------
    CASIMACClassifier : Latents computed from the labels; fast.
    plot_simplex : Draw cases in the simplex of three or four classes.

    Notes
    -----
    ``predict_proba`` averages over 200 posterior draws. ``predict_interval`` and ``proba_draws`` hold what the latent
    process leaves open at a row, beside length-scale and amplitude; the noise is in the probability itself.

    Of 35 data sets with known probabilities (``tests/studies/results/casimac_generative.txt``), log loss was .707 in
    place of .723 at 40 cases and .630 in place of .638 at 100; 90 % intervals held .925 (.888) and .944 (.902) and were
    about as wide. Few labels say little about length-scale and amplitude, and chains move through these slowly: expect
    a `ConvergenceWarning` about them, and take more draws where it matters; the latents themselves mix well.

    There is one unknown for each case and latent axis, and a compilation of the model, of some seconds, for each
    number of them. Interpolation of Cholesky factors over the length-scale is exact to about 1e-5 in the correlations
    (``diagnostics_.attrs["interpolation_error"]``).

    References
    ----------
    .. [1] Heese, R., Schmid, J., Walczak, M. and Bortz, M. (2023). Calibrated simplex-mapping classification.
       PLOS ONE 18. Eqs. 10-13.
    .. [2] Girolami, M. and Rogers, S. (2006). Variational Bayesian multinomial probit regression with Gaussian process
       priors. Neural Computation 18.

    Examples
    --------
    >>> import numpy as np, bayescal as bc
    >>> x = np.array([[-2.0], [-1.5], [-1.0], [1.0], [1.5], [2.0]])
    >>> clf = bc.GenerativeCASIMACClassifier(random_state=0).fit(x, ["low"] * 3 + ["high"] * 3)
    >>> clf.predict([[-1.2], [1.2]]).tolist()
    ['low', 'high']
    """

    metric = "euclidean"  # in which the kernel reads distances

    def __init__(
        self,
        kernel: str = "matern52",
        *,
        standardize: bool = True,
        priors: Any = None,
        draws: int = 1000,
        tune: int = 500,
        chains: int = 4,
        cores: int | None = None,
        random_state: Any = None,
        progressbar: Any = None,
    ) -> None:
        self.kernel = kernel
        self.standardize = standardize
        self.priors = priors
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.cores = cores
        self.random_state = random_state
        self.progressbar = progressbar

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to labelled cases.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        y : array-like of shape (n,)
            Labels of two or more classes.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ScoreValueError, LabelValueError, ParameterValueError
            If an input or a setting is outside its domain, or there are too many cases for the memory.

        Warns
        -----
        ConvergenceWarning
            If the draws do not pass the convergence checks.
        """
        check_choice(self.kernel, tuple(KERNELS), "kernel")
        priors = GenerativeCASIMACPriors.read(self.priors, GenerativeCASIMACPriors())
        seeds = seed_sequence(self.random_state).generate_state(2, np.uint64)
        settings = sampler_settings(self, int(seeds[0]))
        space, classes, codes = read_cases(self, X, y)
        vertices = simplex_vertices(len(classes))
        _refuse_large(len(codes), vertices.shape[1], priors, settings.draws * settings.chains)
        process = generative.Process(space.cases, self.kernel, priors)
        posterior = generative.sample_posterior(process, codes, vertices, settings)
        found = GenerativeFit(space, codes, posterior, process, vertices, int(seeds[1]))
        self.__dict__.pop("idata_", None)
        self._fit, self.classes_, self.vertices_ = found, classes, vertices
        warn_about_convergence(posterior.sampled.convergence, "GenerativeCASIMAC")
        return self

    def save(self, path: Any) -> None:
        """Write the fitted classifier to a netCDF file that `bayescal.load` reads.

        Parameters
        ----------
        path : path-like
            File to write; it appears whole or not at all. It holds the training cases, which predictions need.
        """
        from bayescal.casimac.generative_files import save

        save(self, path)

    def _build_datatree(self) -> "xr.DataTree":
        from bayescal.casimac.datatree import build_generative_datatree

        return build_generative_datatree(self)


def _refuse_large(n: int, axes: int, priors: GenerativeCASIMACPriors, draws: int) -> None:
    size = 8.0 * (3 * generative.grid_size(priors) * n * (n + 1) + 4 * draws * n * axes)
    if size > MEMORY:
        raise ScoreValueError(
            f"a fit to {n} cases of {axes + 1} classes would take about {size / 1e9:.0f} GB (at most "
            f"{MEMORY / 1e9:.0f}). Use CASIMACClassifier, fewer draws or fewer cases."
        )
