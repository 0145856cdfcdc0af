"""The only place that samples: models are compiled once per structure, fed new data, sampled, and checked."""

from bayescal.inference.convergence import Convergence, assess_convergence
from bayescal.inference.sampling import SamplerSettings, sample
from bayescal.inference.seeds import seed_sequence

__all__ = ["Convergence", "SamplerSettings", "assess_convergence", "sample", "seed_sequence"]
