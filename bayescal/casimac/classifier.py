"""The CASIMAC classifier: a scikit-learn classifier on features, with a posterior of its class probabilities."""

import warnings
from typing import Any, Self

from bayescal.calibrators.notes import warn_about_convergence
from bayescal.casimac.answers import CASIMACAnswers
from bayescal.casimac.learning import learn
from bayescal.casimac.simplex import simplex_vertices
from bayescal.validation import CalibrationWarning


class CASIMACClassifier(CASIMACAnswers):
    """Calibrated simplex-mapping classifier with a latent Gaussian process.

    Training cases are put into a latent space that is cut into one cone for each class: far inside the cone of their
    class where their neighbours are of that class, near its border where they are not. A Gaussian process extends
    that to all features, and the probability of a class is the mass of its predictive distribution in the cone,
    computed exactly. Meant for some ten to a thousand cases; time grows with the cube of their number.

    Parameters
    ----------
    gamma : float in [0, 1] or "auto", default="auto"
        Weight of the distances to other classes; 1 - gamma is that of the closeness to the own class. "auto" averages
        over a grid with weights from leave-one-out predictions that do not see the label left out.
    alpha, beta : float, default=None
        Weights of attraction and repulsion, instead of gamma = beta = 1 - alpha.
    k_alpha, k_beta : int or "auto", default="auto"
        Neighbours of the own class, at most c - 1, and of each other class, at most c, where c is the size of the
        smallest class. "auto" averages over 1, 3 and 5, as far as c allows.
    spread : float of at least 1 or "auto", default="auto"
        Multiplier of the predictive standard deviation; 1 is the plain process. "auto" averages as for gamma.
    metric : str or callable, default="euclidean"
        Distance in which neighbours are nearest: a name of `scipy.spatial.distance`, "cityblock" being the taxicab
        metric, or a symmetric function of two rows.
    kernel : {"matern32", "matern52", "rbf"} or callable, default="matern52"
        Correlation of latents by Euclidean distance; or a function of two sets of rows that returns a matrix of
        correlations, which has no length-scale. With callables for metric and kernel, rows may be any objects.
    length_scales : {"shared", "each"}, default="shared"
        One length-scale for all features, or one for each, which finds features without information; see the notes.
        "each" takes features, metric and kernel by name, and no regressor.
    inference : {"nuts", "point"}, default="nuts"
        Posterior of the process's hyperparameters, or their most probable values.
    regressor : estimator, default=None
        Regressor of scikit-learn's kind whose ``predict`` takes ``return_std``, in place of the process; with
        ``inference="point"`` and everything else fixed.
    standardize : bool, default=True
        Whether features are brought to mean 0 and standard deviation 1 first.
    priors : CASIMACPriors or dict, default=None
        Prior settings of the process.
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
    transformations_ : pandas.DataFrame
        Transformations in the average, heaviest first, with their weights and mean spread; ``attrs["loo_log_loss"]``
        is the mean leave-one-out log loss over the weights.
    diagnostics_ : pandas.DataFrame
        R-hat and effective sample sizes; divergences, verdict and interpolation error in ``attrs``.
    idata_ : xarray.DataTree
        Posterior, draw statistics and data, for ArviZ.
    n_features_in_ : int
        Features of the fit.

    See Also
    --------
    GenerativeCASIMACClassifier : Latents unknown, and labels saying no more than their cones.
    plot_simplex : Draw cases in the simplex of three or four classes.

    Notes
    -----
    ``predict_proba`` averages over `fitting.PREDICTED` posterior draws. ``predict_interval`` and ``proba_draws`` hold
    what the latent process leaves open at a row, beside its hyperparameters; noise, of which more cases of the same
    kind would not rid us, is in the probability itself.

    With ``length_scales="each"``, log l_d = log l + 0.5 e_d for feature d, where l has the prior of the shared
    length-scale and e_d is standard normal: features differ by a factor of 1.6 at one standard deviation, and the
    longest of ten length-scales is 2.5 to 9.4 times the shortest (5 % to 95 % of the prior, median 4.5). Only the
    process has them; neighbours are found by ``metric`` as before. The prior is tight because a length-scale for each
    feature sees the labels in more detail. For the same reason transformations and spreads keep the weights that
    leave-one-out with the shared length-scale gives them. It helps where features are useless and costs a little where
    all are about equally useful: of n = 60 and 150 cases (``tests/studies/results/casimac_length_scales.txt``, truths
    not designed on, six data sets each), log loss above the truth's was .153 and .076 in place of .231 and .145 with 5
    to 9 useless features, and .176 and .091 in place of .162 and .087 without any. 90 % intervals held .98 and .92
    (shared .97 and .95), and .92 and .89 (.93 and .87). Fits of 2 x 250 draws took 2 to 17 s of processor time in
    place of about 0.7 s. On the paper's data (``casimac_paper.txt``) log losses with ``inference="point"``, a fit of a
    second, were .220, .026, .139 and .075 (quadrants, alcohol, climate, wifi) in place of .224, .037, .154 and .078;
    with the posterior, .131 in place of .155 on climate, in four minutes for 300 cases of 18 features. To choose,
    search over ``length_scales`` with scikit-learn's ``GridSearchCV``, ``scoring="neg_log_loss"``.

    ``idata_`` has no ``log_likelihood`` group, and ``az.loo`` does not apply. The posterior is that of the process
    given latents, each of which was made from the labels of several cases: the observations are no labels, and leaving
    out the likelihood of one latent leaves its label in the latents of its neighbours. What is offered instead is the
    leave-one-out log loss with the label taken out of all latents, ``transformations_.attrs["loo_log_loss"]``, always
    that with a shared length-scale. Transformations and spreads are weighed by it, so it is a little too good.

    References
    ----------
    .. [1] Heese, R., Schmid, J., Walczak, M. and Bortz, M. (2023). Calibrated simplex-mapping classification.
       PLOS ONE 18.

    Examples
    --------
    >>> import numpy as np, bayescal as bc
    >>> x = np.array([[-2.0], [-1.5], [-1.0], [1.0], [1.5], [2.0]])
    >>> clf = bc.CASIMACClassifier(inference="point").fit(x, ["low"] * 3 + ["high"] * 3)
    >>> clf.predict([[-1.2], [1.2]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        gamma: Any = "auto",
        *,
        alpha: float | None = None,
        beta: float | None = None,
        k_alpha: Any = "auto",
        k_beta: Any = "auto",
        spread: Any = "auto",
        metric: Any = "euclidean",
        kernel: Any = "matern52",
        length_scales: str = "shared",
        inference: str = "nuts",
        regressor: Any = None,
        standardize: bool = True,
        priors: Any = None,
        draws: int = 1000,
        tune: int = 500,
        chains: int = 4,
        cores: int | None = None,
        random_state: Any = None,
        progressbar: Any = None,
    ) -> None:
        self.gamma = gamma
        self.alpha = alpha
        self.beta = beta
        self.k_alpha = k_alpha
        self.k_beta = k_beta
        self.spread = spread
        self.metric = metric
        self.kernel = kernel
        self.length_scales = length_scales
        self.inference = inference
        self.regressor = regressor
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
        X : array-like of shape (n, d), or any rows that metric and kernel read
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
            If an input or a setting is outside its domain.

        Warns
        -----
        CalibrationWarning
            If cases with different labels coincide, or nothing could be left out to weigh the transformations by.
        ConvergenceWarning
            If the draws do not pass the convergence checks.
        """
        fit, notes = learn(self, X, y)
        # nothing above has changed the estimator but its features; an interrupted fit leaves what was there
        self.__dict__.pop("idata_", None)
        self._fit, self.classes_, self.vertices_ = fit, fit.classes, simplex_vertices(len(fit.classes))
        for note in notes:
            warnings.warn(note, CalibrationWarning, stacklevel=2)
        if fit.posterior is not None:
            warn_about_convergence(fit.posterior.sampled.convergence, "CASIMAC")
        return self

    def save(self, path: Any) -> None:
        """Write the fitted classifier to a netCDF file that `bayescal.load` reads.

        Parameters
        ----------
        path : path-like
            File to write; it appears whole or not at all. It holds the training cases, which predictions need.

        Raises
        ------
        ParameterValueError
            If metric or kernel is a callable, or a regressor takes the place of the process: a file holds no code.

        Examples
        --------
        >>> import tempfile, bayescal as bc
        >>> x = [[-2.0], [-1.5], [-1.0], [1.0], [1.5], [2.0]]
        >>> clf = bc.CASIMACClassifier(inference="point").fit(x, ["low"] * 3 + ["high"] * 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     clf.save(f"{folder}/fit.nc")
        ...     bc.load(f"{folder}/fit.nc").predict([[-1.2], [1.2]]).tolist()
        ['low', 'high']
        """
        from bayescal.casimac.files import save

        save(self, path)
