"""The functions that `tolerances.py` measures: public functions of JAX, optax, flax and equinox, and what users build of them.

A row of the tables below names functions and the arguments they get. `Data` draws the arguments in the dtype under
measurement, so that one table serves every dtype; a function that does not take a dtype raises, and is counted as such.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import jax.scipy.optimize
import numpy as np
import optax
from flax import nnx
from jax import lax

__all__ = ["FLOAT8", "REASONS", "Case", "Data", "cases"]

Function = Callable[..., Any]
Arguments = Callable[["Data"], tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One function with a recipe for its arguments."""

    name: str
    fn: Function
    arguments: Arguments


class Data:
    """Draws arguments: every float array in `dtype`, reproducible from `seed`."""

    def __init__(self, dtype: Any, seed: int) -> None:
        self.dtype = np.dtype(dtype)
        self._rng = np.random.default_rng(seed)
        self._complex = self.dtype.kind == "c"

    def array(self, values: np.ndarray) -> jax.Array:
        """`values` rounded once, from float64, to the dtype."""
        return jnp.asarray(values.astype(self.dtype))

    def normal(self, *shape: int, mean: float = 0.0, std: float = 1.0) -> jax.Array:
        """Normal deviates, about a mean that may be large beside their spread."""
        values = self._rng.normal(mean, std, shape)
        return self.array(values + 1j * self._rng.normal(mean, std, shape) if self._complex else values)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> jax.Array:
        """Real numbers in an open interval, whatever the dtype."""
        margin = 0.01 * (high - low)
        return self.array(self._rng.uniform(low + margin, high - margin, shape))

    def positive(self, *shape: int) -> jax.Array:
        """Log-normal numbers: positive, over about three decades."""
        return self.array(np.exp(self._rng.normal(size=shape)))

    def spd(self, n: int) -> jax.Array:
        """A symmetric (Hermitian) positive definite matrix with condition number near 10."""
        a = self._rng.normal(size=(n, 2 * n)) + (1j * self._rng.normal(size=(n, 2 * n)) if self._complex else 0)
        return self.array(a @ a.conj().T / (2 * n) + 0.1 * np.eye(n))

    def dominant(self, n: int) -> jax.Array:
        """A general matrix that is safely invertible."""
        return self.array(self._rng.normal(size=(n, n)) + math.sqrt(n) * 2 * np.eye(n))

    def simplex(self, *shape: int) -> jax.Array:
        """Rows of positive numbers that sum to one."""
        return self.array(self._rng.dirichlet(np.ones(shape[-1]), shape[:-1]))

    def labels(self, *shape: int, classes: int = 10) -> jax.Array:
        """Integer classes."""
        return jnp.asarray(self._rng.integers(0, classes, shape), jnp.int32)

    def one_hot(self, n: int, classes: int = 10) -> jax.Array:
        """One-hot rows in the dtype."""
        return self.array(np.eye(classes)[self._rng.integers(0, classes, n)])

    def key(self) -> jax.Array:
        """A PRNG key."""
        return jax.random.key(int(self._rng.integers(1 << 30)))

    def like(self, shapes: Any) -> Any:
        """A tree of parameters with the given shapes: kernels over the root of their fan-in, scales and variances near one."""
        return jax.tree_util.tree_map_with_path(self._parameter, shapes)

    def _parameter(self, path: Any, leaf: Any) -> Any:
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            return jnp.zeros(leaf.shape, leaf.dtype)
        values = self._rng.normal(size=leaf.shape)
        if leaf.ndim >= 2:
            return self.array(values / math.sqrt(leaf.size / max(leaf.shape[-1], 1)))
        near_one = any(word in jax.tree_util.keystr(path) for word in ("scale", "var"))
        return self.array(1 + 0.1 * np.abs(values) if near_one else 0.1 * values)


# -- the arguments, by name ----------------------------------------------------------------------------------------------------

ARGUMENTS: dict[str, Arguments] = {
    "real": lambda d: (d.normal(1000, 10),),
    "positive": lambda d: (d.positive(1000, 10),),
    "unit": lambda d: (d.uniform(1000, 10),),
    "signed unit": lambda d: (d.uniform(1000, 10, low=-1.0),),
    "above one": lambda d: (d.uniform(1000, 10, low=1.5, high=20.0),),
    "two real": lambda d: (d.normal(1000, 10), d.normal(1000, 10)),
    "two positive": lambda d: (d.positive(1000, 10), d.positive(1000, 10)),
    "three positive": lambda d: (d.positive(200, 10), d.positive(200, 10), d.uniform(200, 10)),
    "columns": lambda d: (d.normal(10_000, 10, mean=3.0, std=2.0),),
    "centred columns": lambda d: (d.normal(10_000, 10),),
    "million": lambda d: (d.normal(1000, 1000, mean=1.0),),
    "centred million": lambda d: (d.normal(1000, 1000),),
    "positive million": lambda d: (d.positive(1000, 1000),),
    "near one": lambda d: (d.uniform(100, 10, low=0.9, high=1.1),),
    "vector": lambda d: (d.normal(1000),),
    "long vector": lambda d: (d.normal(100_000),),
    "two vectors": lambda d: (d.normal(1000), d.normal(1000)),
    "table": lambda d: (d.uniform(1000), jnp.sort(d.uniform(50)), d.normal(50)),
    "vector and filter": lambda d: (d.normal(1000), d.normal(31)),
    "two images": lambda d: (d.normal(64, 64), d.normal(7, 7)),
    "matrices": lambda d: (d.normal(128, 256), d.normal(256, 64)),
    "same matrices": lambda d: (d.normal(64, 256), d.normal(32, 256)),
    "square": lambda d: (d.normal(32, 32),),
    "dominant": lambda d: (d.dominant(32),),
    "spd": lambda d: (d.spd(32),),
    "system": lambda d: (d.dominant(32), d.normal(32, 4)),
    "spd system": lambda d: (d.spd(32), d.normal(32)),
    "tall": lambda d: (d.normal(60, 20),),
    "tall system": lambda d: (d.normal(60, 20), d.normal(60, 3)),
    "signal": lambda d: (d.normal(8, 1024),),
    "image": lambda d: (d.normal(4, 32, 32),),
    "logits": lambda d: (d.normal(256, 100, std=3.0),),
    "two logits": lambda d: (d.normal(256, 10, std=3.0), d.normal(256, 10, std=3.0)),
    "logits, one-hot": lambda d: (d.normal(256, 10, std=3.0), d.one_hot(256)),
    "logits, labels": lambda d: (d.normal(256, 10, std=3.0), d.labels(256)),
    "logits, signs": lambda d: (d.normal(256), jnp.sign(d.normal(256))),
    "log-probabilities": lambda d: (jax.nn.log_softmax(d.normal(256, 10)), d.simplex(256, 10)),
    "segments": lambda d: (d.normal(1000, 8), d.labels(1000, classes=20)),
    "key": lambda d: (d.key(), d.positive(1)),
    "attention": lambda d: tuple(d.normal(2, 64, 4, 16) for _ in range(3)),
}


# -- public functions: module, names, arguments, keywords ----------------------------------------------------------------------

JNP_SMOOTH = "sin cos tan sinh cosh tanh arctan arcsinh exp exp2 expm1 sinc i0 cbrt square"
POSITIVE = "sqrt log log2 log10 log1p reciprocal"
NN_SMOOTH = "sigmoid silu gelu elu celu selu softplus soft_sign log_sigmoid squareplus mish tanh"
SPECIAL_POSITIVE = "gammaln digamma i0 i0e i1 i1e exp1 expi entr gamma spence rgamma"
REDUCTIONS = "sum mean std var"

PUBLIC: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("jax.numpy", JNP_SMOOTH, "real", {}),
    ("jax.numpy", "abs negative sign floor ceil trunc rint round deg2rad rad2deg nan_to_num angle conj real imag", "real", {}),
    ("jax.numpy", POSITIVE, "positive", {}),
    ("jax.numpy", "arcsin arccos arctanh", "signed unit", {}),
    ("jax.numpy", "arccosh", "above one", {}),
    ("jax.numpy", "add subtract multiply divide arctan2 hypot logaddexp logaddexp2 maximum minimum fmod mod", "two real", {}),
    ("jax.numpy", "copysign heaviside nextafter floor_divide divmod power float_power", "two positive", {}),
    ("jax.numpy", f"{REDUCTIONS} max min median ptp nanmean nanstd cumsum argmax sort", "columns", {"axis": 0}),
    ("jax.numpy", "quantile percentile", "columns", {"axis": 0, "q": np.array([0.25, 0.5])}),
    ("jax.numpy", f"{REDUCTIONS} nansum nanvar cumsum diff gradient", "centred columns", {"axis": 0}),
    ("jax.numpy", f"{REDUCTIONS} max average count_nonzero", "million", {}),
    ("jax.numpy", f"{REDUCTIONS} cumsum", "centred million", {"axis": 1}),
    ("jax.numpy", f"{REDUCTIONS} nansum", "positive million", {}),
    ("jax.numpy", "sum mean std var", "centred million", {}),
    ("jax.numpy", "prod cumprod nanprod", "near one", {"axis": 0}),
    ("jax.numpy", "sum mean std var cumsum ptp trapezoid sort argsort unwrap ediff1d vander", "vector", {}),
    ("jax.numpy", "dot vdot inner convolve correlate polyadd polymul corrcoef cov", "two vectors", {}),
    ("jax.numpy", "interp", "table", {}),
    ("jax.numpy", "polyval", "vector and filter", {}),
    ("jax.numpy", "convolve correlate", "vector and filter", {}),
    ("jax.numpy", "dot matmul", "matrices", {}),
    ("jax.numpy", "inner", "same matrices", {}),
    ("jax.numpy", "outer kron", "two images", {}),
    ("jax.numpy", "cov corrcoef", "tall", {}),
    ("jax.numpy", "transpose ravel flip triu tril trace diag", "square", {}),
    ("jax.numpy.linalg", "det slogdet inv pinv matrix_rank cond norm matrix_norm matrix_transpose eigvals", "dominant", {}),
    ("jax.numpy.linalg", "cholesky eigvalsh inv det slogdet eigh", "spd", {}),
    ("jax.numpy.linalg", "svd qr svdvals pinv norm vector_norm", "tall", {}),
    ("jax.numpy.linalg", "matrix_power", "spd", {"n": 5}),
    ("jax.numpy.linalg", "norm", "columns", {"axis": 0}),
    ("jax.numpy.linalg", "norm", "million", {}),
    ("jax.numpy.linalg", "solve", "system", {}),
    ("jax.numpy.linalg", "lstsq", "tall system", {}),
    ("jax.numpy.fft", "fft ifft rfft irfft hfft ihfft fftshift", "signal", {}),
    ("jax.numpy.fft", "fft2 ifft2 rfft2 irfft2 fftn", "image", {}),
    ("jax.scipy.special", "erf erfc expit ndtr log_ndtr i0e i1e logsumexp softmax log_softmax sici fresnel wofz", "real", {}),
    ("jax.scipy.special", SPECIAL_POSITIVE, "positive", {}),
    ("jax.scipy.special", "erfinv", "signed unit", {}),
    ("jax.scipy.special", "logit ndtri", "unit", {}),
    ("jax.scipy.special", "beta betaln rel_entr kl_div xlogy xlog1py gammainc gammaincc poch zeta", "two positive", {}),
    ("jax.scipy.special", "betainc hyp1f1", "three positive", {}),
    ("jax.scipy.special", "factorial", "above one", {}),
    ("jax.scipy.special", "multigammaln", "above one", {"d": 2}),
    ("jax.scipy.stats.norm", "pdf logpdf cdf logcdf sf logsf", "real", {}),
    ("jax.scipy.stats.norm", "ppf isf", "unit", {}),
    ("jax.scipy.stats.logistic", "pdf logpdf cdf sf", "real", {}),
    ("jax.scipy.stats.laplace", "pdf logpdf cdf", "real", {}),
    ("jax.scipy.stats.cauchy", "pdf logpdf cdf", "real", {}),
    ("jax.scipy.stats.expon", "pdf logpdf cdf", "positive", {}),
    ("jax.scipy.stats.t", "pdf logpdf", "two positive", {}),
    ("jax.scipy.stats.gamma", "pdf logpdf cdf sf", "two positive", {}),
    ("jax.scipy.stats.chi2", "pdf logpdf cdf", "two positive", {}),
    ("jax.scipy.stats", "rankdata sem", "vector", {}),
    ("jax.scipy.linalg", "det inv expm lu lu_factor svd qr polar schur", "dominant", {}),
    ("jax.scipy.linalg", "cholesky eigh cho_factor", "spd", {}),
    ("jax.scipy.linalg", "solve solve_triangular", "system", {}),
    ("jax.scipy.linalg", "toeplitz", "signal", {}),
    ("jax.scipy.signal", "convolve correlate fftconvolve", "vector and filter", {}),
    ("jax.scipy.signal", "convolve2d correlate2d", "two images", {}),
    ("jax.scipy.signal", "detrend welch stft", "signal", {}),
    ("jax.scipy.integrate", "trapezoid", "vector", {}),
    ("jax.scipy.sparse.linalg", "cg bicgstab gmres", "spd system", {}),
    ("jax.nn", f"{NN_SMOOTH} relu relu6 leaky_relu hard_sigmoid hard_silu hard_tanh glu", "real", {}),
    ("jax.nn", "softmax log_softmax logsumexp standardize", "logits", {}),
    ("jax.nn", "softmax standardize", "million", {}),
    ("jax.nn", "dot_product_attention", "attention", {}),
    ("jax.lax", "erf erfc rsqrt logistic tanh sin exp expm1 lgamma digamma", "positive", {}),
    ("jax.lax", "cumsum cumprod cummax cumlogsumexp", "near one", {}),
    ("jax.lax", "igamma igammac atan2 pow", "two positive", {}),
    ("jax.lax", "erf_inv asin atanh", "signed unit", {}),
    ("jax.lax", "dot", "matrices", {}),
    ("jax.lax", "top_k", "vector", {"k": 10}),
    ("jax.ops", "segment_sum segment_max segment_prod", "segments", {"num_segments": 20}),
    ("optax", "l2_loss huber_loss log_cosh squared_error", "two real", {}),
    ("optax", "cosine_similarity cosine_distance", "two logits", {}),
    ("optax", "softmax_cross_entropy sigmoid_binary_cross_entropy safe_softmax_cross_entropy poly_loss_cross_entropy",
     "logits, one-hot", {}),
    ("optax", "sigmoid_focal_loss convex_kl_divergence", "logits, one-hot", {}),
    ("optax", "softmax_cross_entropy_with_integer_labels multiclass_hinge_loss", "logits, labels", {}),
    ("optax", "hinge_loss perceptron_loss", "logits, signs", {}),
    ("optax", "kl_divergence", "log-probabilities", {}),
    ("optax", "global_norm", "columns", {}),
    ("optax", "safe_norm", "columns", {"min_norm": 1e-6}),
    ("optax.projections", "projection_simplex projection_l1_ball projection_l2_ball", "vector", {}),
)  # fmt: skip
"""Module, names, arguments (a key of `ARGUMENTS`), keywords."""

GRADIENTS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("jax.numpy", f"{JNP_SMOOTH} sum mean std var cumsum", "real", {}),
    ("jax.numpy", POSITIVE, "positive", {}),
    ("jax.numpy", "arctan2 hypot logaddexp multiply divide", "two real", {}),
    ("jax.numpy", "power", "two positive", {}),
    ("jax.numpy", "matmul", "matrices", {}),
    ("jax.numpy", "std var", "columns", {"axis": 0}),
    ("jax.numpy.linalg", "inv det slogdet norm", "dominant", {}),
    ("jax.numpy.linalg", "cholesky eigvalsh", "spd", {}),
    ("jax.numpy.linalg", "solve", "system", {}),
    ("jax.numpy.linalg", "qr svdvals", "tall", {}),
    ("jax.scipy.special", "erf erfc expit ndtr log_ndtr logsumexp", "real", {}),
    ("jax.scipy.special", "gammaln digamma i0e entr", "positive", {}),
    ("jax.scipy.stats.norm", "logpdf cdf logcdf", "real", {}),
    ("jax.scipy.stats.gamma", "logpdf", "two positive", {}),
    ("jax.scipy.linalg", "expm", "dominant", {}),
    ("jax.nn", NN_SMOOTH, "real", {}),
    ("jax.nn", "softmax log_softmax logsumexp standardize", "logits", {}),
    ("jax.nn", "dot_product_attention", "attention", {}),
    ("optax", "softmax_cross_entropy sigmoid_binary_cross_entropy", "logits, one-hot", {}),
    ("optax", "huber_loss log_cosh cosine_similarity", "two logits", {}),
)
"""As `PUBLIC`: the gradient of half the squared result, in the first argument."""

FUSED: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("jax.numpy", f"{JNP_SMOOTH} abs", "real", {}),
    ("jax.numpy", POSITIVE, "positive", {}),
    ("jax.numpy", f"{REDUCTIONS} cumsum", "columns", {"axis": 0}),
    ("jax.numpy", f"{REDUCTIONS}", "million", {}),
    ("jax.numpy", "prod cumprod", "near one", {"axis": 0}),
    ("jax.scipy.special", "erf erfc expit ndtr log_ndtr", "real", {}),
    ("jax.scipy.special", "gammaln digamma entr", "positive", {}),
    ("jax.nn", f"{NN_SMOOTH} relu", "real", {}),
    ("jax.nn", "softmax log_softmax standardize", "logits", {}),
    ("jax.numpy.fft", "fft", "signal", {}),
)
"""As `PUBLIC`: with arithmetic before and after, which a compiler fuses with it."""

RANDOM = "normal uniform exponential gumbel laplace logistic cauchy truncated_normal rademacher beta gamma dirichlet t rayleigh"
RANDOM_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "truncated_normal": (-1.0, 2.0),
    "beta": (2.0, 3.0),
    "gamma": (2.5,),
    "dirichlet": (np.ones(4),),
    "t": (4.0,),
    "rayleigh": (1.5,),
}


def _resolve(module: str, name: str) -> Function | None:
    """The function, or None where this version of the library does not have it."""
    return getattr(importlib.import_module(module), name, None)


def _rows(
    table: tuple[tuple[str, str, str, dict[str, Any]], ...], wrap: Callable[[Function], Function], label: str
) -> Iterator[Case]:
    for module, names, arguments, keywords in table:
        for name in names.split():
            if (fn := _resolve(module, name)) is not None:
                options = "".join(f", {keyword}={value}" for keyword, value in keywords.items())
                yield Case(
                    name=f"{label}{module.replace('jax.numpy', 'jnp')}.{name} [{arguments}{options}]",
                    fn=wrap(functools.partial(fn, **keywords)),
                    arguments=ARGUMENTS[arguments],
                )


def _plain(fn: Function) -> Function:
    return lambda *args: fn(*args)


def _gradient(fn: Function) -> Function:
    """The gradient of half the squared length of what `fn` returns."""

    def half_square(*args: Any) -> jax.Array:
        leaves = jax.tree.leaves(fn(*args))
        return sum((jnp.sum(jnp.real(leaf * jnp.conj(leaf))) for leaf in leaves), start=jnp.zeros(())) / 2

    return jax.grad(half_square)


def _fused(fn: Function) -> Function:
    return lambda x, *rest: 0.5 + fn(0.9 * x, *rest) * x


def _random() -> Iterator[Case]:
    for name in RANDOM.split():
        fn, parameters = getattr(jax.random, name), RANDOM_ARGUMENTS.get(name, ())

        def draw(key: Any, like: Any, fn: Function = fn, parameters: tuple[Any, ...] = parameters) -> Any:
            cast = [jnp.asarray(p, like.dtype) for p in parameters]
            return fn(key, *cast, shape=(2000,), dtype=like.dtype)

        yield Case(name=f"jax.random.{name}", fn=draw, arguments=ARGUMENTS["key"])


# -- layers and optimizers -----------------------------------------------------------------------------------------------------

SEQUENCE, IMAGE = (4, 16, 32), (4, 16, 16, 8)

LINEN: dict[str, tuple[Function, tuple[int, ...]]] = {
    "Dense": (lambda: nn.Dense(64), SEQUENCE),
    "DenseGeneral": (lambda: nn.DenseGeneral((4, 8)), SEQUENCE),
    "Conv": (lambda: nn.Conv(16, (3, 3)), IMAGE),
    "ConvTranspose": (lambda: nn.ConvTranspose(16, (3, 3)), IMAGE),
    "LayerNorm": (lambda: nn.LayerNorm(), SEQUENCE),
    "RMSNorm": (lambda: nn.RMSNorm(), SEQUENCE),
    "GroupNorm": (lambda: nn.GroupNorm(4), IMAGE),
    "InstanceNorm": (lambda: nn.InstanceNorm(), IMAGE),
    "BatchNorm": (lambda: nn.BatchNorm(use_running_average=True), IMAGE),
    "MultiHeadDotProductAttention": (lambda: nn.MultiHeadDotProductAttention(4), SEQUENCE),
    "RNN(LSTMCell)": (lambda: nn.RNN(nn.LSTMCell(32)), SEQUENCE),
    "RNN(GRUCell)": (lambda: nn.RNN(nn.GRUCell(32)), SEQUENCE),
    "WeightNorm(Dense)": (lambda: nn.WeightNorm(nn.Dense(16)), SEQUENCE),
    "PReLU": (lambda: nn.PReLU(), SEQUENCE),
    "Sequential": (lambda: nn.Sequential([nn.Dense(64), nn.gelu, nn.LayerNorm(), nn.Dense(8), nn.softmax]), SEQUENCE),
}

NNX: dict[str, tuple[Function, tuple[int, ...]]] = {
    "Linear": (lambda: nnx.Linear(32, 64, rngs=nnx.Rngs(0)), SEQUENCE),
    "Conv": (lambda: nnx.Conv(8, 16, (3, 3), rngs=nnx.Rngs(0)), IMAGE),
    "LayerNorm": (lambda: nnx.LayerNorm(32, rngs=nnx.Rngs(0)), SEQUENCE),
    "RMSNorm": (lambda: nnx.RMSNorm(32, rngs=nnx.Rngs(0)), SEQUENCE),
    "GroupNorm": (lambda: nnx.GroupNorm(8, num_groups=4, rngs=nnx.Rngs(0)), IMAGE),
    "BatchNorm": (lambda: nnx.BatchNorm(8, use_running_average=False, rngs=nnx.Rngs(0)), IMAGE),
    "MultiHeadAttention": (lambda: nnx.MultiHeadAttention(4, 32, decode=False, rngs=nnx.Rngs(0)), SEQUENCE),
    "RNN(GRUCell)": (lambda: nnx.RNN(nnx.GRUCell(32, 32, rngs=nnx.Rngs(0))), SEQUENCE),
}

EQUINOX: dict[str, tuple[Function, tuple[int, ...]]] = {
    "Linear": (lambda key: eqx.nn.Linear(32, 64, key=key), (64, 32)),
    "MLP": (lambda key: eqx.nn.MLP(32, 8, 64, 3, activation=jax.nn.gelu, key=key), (64, 32)),
    "Conv2d": (lambda key: eqx.nn.Conv2d(8, 16, 3, key=key), (4, 8, 16, 16)),
    "ConvTranspose2d": (lambda key: eqx.nn.ConvTranspose2d(8, 4, 3, key=key), (4, 8, 16, 16)),
    "LayerNorm": (lambda key: eqx.nn.LayerNorm(32), (64, 32)),
    "RMSNorm": (lambda key: eqx.nn.RMSNorm(32), (64, 32)),
    "GroupNorm": (lambda key: eqx.nn.GroupNorm(4, 8), (4, 8, 16, 16)),
    "AvgPool2d": (lambda key: eqx.nn.AvgPool2d(3), (4, 8, 16, 16)),
    "MaxPool2d": (lambda key: eqx.nn.MaxPool2d(3), (4, 8, 16, 16)),
    "PReLU": (lambda key: eqx.nn.PReLU(), (64, 32)),
    "RotaryPositionalEmbedding": (lambda key: eqx.nn.RotaryPositionalEmbedding(32), (4, 16, 32)),
}

OPTIMIZERS = (
    "adabelief adadelta adafactor adagrad adam adamax adamw amsgrad fromage lamb lars lion nadam novograd optimistic_gradient_descent "
    "radam rmsprop rprop sgd sign_sgd sm3 yogi"
)
SCHEDULES: dict[str, Function] = {
    "cosine_decay_schedule": lambda: optax.cosine_decay_schedule(0.1, 1000),
    "exponential_decay": lambda: optax.exponential_decay(0.1, 100, 0.9),
    "warmup_cosine_decay_schedule": lambda: optax.warmup_cosine_decay_schedule(0.0, 0.1, 100, 1000),
    "polynomial_schedule": lambda: optax.polynomial_schedule(0.1, 0.001, 2, 1000),
}


def _module_case(name: str, apply: Function, shapes: Any, shape: tuple[int, ...], *, gradient: bool) -> Iterator[Case]:
    def arguments(d: Data) -> tuple[Any, ...]:
        return d.like(shapes), d.normal(*shape)

    yield Case(name=name, fn=apply, arguments=arguments)
    if gradient:
        yield Case(name=f"grad {name}", fn=_gradient(apply), arguments=arguments)


def _linen() -> Iterator[Case]:
    for name, (make, shape) in LINEN.items():
        module = make()
        shapes = jax.eval_shape(module.init, jax.random.key(0), jnp.zeros(shape, jnp.float32))
        yield from _module_case(f"flax.linen.{name}", module.apply, shapes, shape, gradient="stats" not in str(shapes))


def _nnx() -> Iterator[Case]:
    for name, (make, shape) in NNX.items():
        graphdef, params, rest = nnx.split(nnx.eval_shape(make), nnx.Param, ...)

        def apply(state: Any, x: Any, graphdef: Any = graphdef) -> Any:
            return nnx.merge(graphdef, *state)(x)

        yield from _module_case(f"flax.nnx.{name}", apply, (params, rest), shape, gradient=not jax.tree.leaves(rest))


def _equinox() -> Iterator[Case]:
    for name, (make, shape) in EQUINOX.items():
        abstract = eqx.filter_eval_shape(make, jax.random.key(0))
        shapes, static = eqx.partition(abstract, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

        def apply(params: Any, x: Any, static: Any = static) -> Any:
            return jax.vmap(eqx.combine(params, static))(x)

        yield from _module_case(f"equinox.nn.{name}", apply, shapes, shape, gradient=bool(jax.tree.leaves(shapes)))


def _optimizers() -> Iterator[Case]:
    shapes = {"w": jax.ShapeDtypeStruct((32, 16), jnp.float32), "b": jax.ShapeDtypeStruct((16,), jnp.float32)}
    for name in OPTIMIZERS.split():
        optimizer = getattr(optax, name)(learning_rate=0.01)

        def two_steps(params: Any, first: Any, second: Any, optimizer: Any = optimizer) -> Any:
            state = optimizer.init(params)
            for gradients in (first, second):
                updates, state = optimizer.update(gradients, state, params)
                params = optax.apply_updates(params, updates)
            return params, state

        yield Case(
            name=f"optax.{name}, two steps", fn=two_steps, arguments=lambda d: tuple(d.like(shapes) for _ in range(3))
        )
    for name, make in SCHEDULES.items():
        schedule = make()
        yield Case(
            name=f"optax.{name}",
            fn=lambda step, schedule=schedule: schedule(step),
            arguments=lambda d: (d.array(np.arange(0.0, 1000.0, 7)),),
        )


# -- what users write ----------------------------------------------------------------------------------------------------------

MLP_SHAPES = (
    jax.ShapeDtypeStruct((20, 64), jnp.float32),
    jax.ShapeDtypeStruct((64,), jnp.float32),
    jax.ShapeDtypeStruct((64, 10), jnp.float32),
    jax.ShapeDtypeStruct((10,), jnp.float32),
)


def _mlp(params: Any, x: Any) -> Any:
    w1, b1, w2, b2 = params
    return jnp.tanh(x @ w1 + b1) @ w2 + b2


def _mlp_loss(params: Any, x: Any, labels: Any) -> Any:
    log_p = jax.nn.log_softmax(_mlp(params, x))
    return -jnp.mean(jnp.take_along_axis(log_p, labels[:, None], axis=1))


def _train(params: Any, x: Any, labels: Any, steps: int = 5) -> Any:
    for _ in range(steps):
        gradients = jax.grad(_mlp_loss)(params, x, labels)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
    return params


def _adam_step(params: Any, x: Any, labels: Any) -> Any:
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    loss, gradients = jax.value_and_grad(_mlp_loss)(params, x, labels)
    updates, _ = optimizer.update(gradients, optimizer.init(params), params)
    return optax.apply_updates(params, updates), loss


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e4)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def _layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-6) * scale + bias


def _pendulum(y: Any) -> Any:
    return jnp.stack([y[..., 1], -9.81 * jnp.sin(y[..., 0]) - 0.1 * y[..., 1]], axis=-1)


def _lorenz(y: Any) -> Any:
    a, b, c = y[..., 0], y[..., 1], y[..., 2]
    return jnp.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c], axis=-1)


def _rk4(field: Function, y: Any, h: float = 0.01) -> Any:
    k1 = field(y)
    k2 = field(y + 0.5 * h * k1)
    k3 = field(y + 0.5 * h * k2)
    k4 = field(y + h * k3)
    return y + h / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)


def _horner(x: Any, coefficients: Any) -> Any:
    total = jnp.zeros_like(x)
    for i in range(coefficients.shape[0]):
        total = total * x + coefficients[i]
    return total


def _distances(x: Any, y: Any) -> Any:
    return jnp.sqrt(jnp.sum((x[:, None] - y[None]) ** 2, -1))


def _gram_distances(x: Any, y: Any) -> Any:
    return (x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2 * x @ y.T


def _gaussian_process(x: Any, y: Any) -> Any:
    kernel = jnp.exp(-0.5 * (x[:, None] - x[None]) ** 2) + 0.1 * jnp.eye(x.shape[0], dtype=x.dtype)
    chol = jnp.linalg.cholesky(kernel)
    alpha = jax.scipy.linalg.cho_solve((chol, True), y)
    return -0.5 * y @ alpha - jnp.log(jnp.diag(chol)).sum() - 0.5 * x.shape[0] * math.log(2 * math.pi)


def _kalman(x: Any, p: Any, f: Any, q: Any, z: Any) -> Any:
    x, p = f @ x, f @ p @ f.T + q
    gain = p @ jnp.linalg.inv(p + q)
    return x + gain @ (z - x), p - gain @ p


def _lennard_jones(x: Any) -> Any:
    upper = jnp.triu_indices(x.shape[0], 1)
    r2 = jnp.sum((x[upper[0]] - x[upper[1]]) ** 2, -1)
    return jnp.sum(4 * (r2**-6 - r2**-3))


def _lattice(d: Data) -> jax.Array:
    sites = np.stack(np.meshgrid(*[np.arange(3.0)] * 3), -1).reshape(-1, 3) * 1.2
    return d.array(sites) + d.normal(27, 3, std=0.03)


def _gravity(x: Any, m: Any) -> Any:
    r = x[None] - x[:, None]
    return jnp.sum(m[None, :, None] * r / (jnp.sum(r**2, -1, keepdims=True) + 1e-2) ** 1.5, axis=1)


def _black_scholes(s: Any, k: Any, t: Any) -> Any:
    d1 = (jnp.log(s / k) + (0.02 + 0.5 * 0.2**2) * t) / (0.2 * jnp.sqrt(t))
    return s * jax.scipy.stats.norm.cdf(d1) - k * jnp.exp(-0.02 * t) * jax.scipy.stats.norm.cdf(d1 - 0.2 * jnp.sqrt(t))


def _options(d: Data) -> tuple[Any, ...]:
    return d.uniform(1000, low=80, high=120), d.uniform(1000, low=80, high=120), d.uniform(1000, low=0.1, high=2)


def _heat(u: Any) -> Any:
    for _ in range(20):
        u = u + 0.2 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u)
    return u


def _power_iteration(a: Any, v: Any) -> Any:
    for _ in range(20):
        v = a @ v
        v = v / jnp.linalg.norm(v)
    return v, v @ (a @ v)


def _gram_schmidt(a: Any) -> Any:
    columns: list[Any] = []
    for i in range(a.shape[1]):
        v = a[:, i]
        for u in columns:
            v = v - jnp.vdot(u, v) * u
        columns.append(v / jnp.linalg.norm(v))
    return jnp.stack(columns, 1)


def _newton(w: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        return jnp.mean(jax.nn.softplus(-y * (x @ w))) + 0.01 * w @ w

    return w - jnp.linalg.solve(jax.hessian(loss)(w), jax.grad(loss)(w))


def _rosenbrock(x: Any) -> Any:
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def _ewma(x: Any) -> Any:
    def body(mean: Any, value: Any) -> Any:
        mean = 0.9 * mean + 0.1 * value
        return mean, mean

    return lax.scan(body, x[0], x)[1]


def _haversine(a: Any, b: Any) -> Any:
    h = (
        jnp.sin((b[:, 0] - a[:, 0]) / 2) ** 2
        + jnp.cos(a[:, 0]) * jnp.cos(b[:, 0]) * jnp.sin((b[:, 1] - a[:, 1]) / 2) ** 2
    )
    return 2 * 6371.0 * jnp.arcsin(jnp.sqrt(h))


def _rotary(x: Any) -> Any:
    angle = jnp.arange(x.shape[1])[:, None] / 10000 ** (jnp.arange(x.shape[-1] // 2) / (x.shape[-1] // 2))
    sin, cos = jnp.sin(angle).astype(x.dtype), jnp.cos(angle).astype(x.dtype)
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def _cnn(kernels: Any, x: Any) -> Any:
    for kernel in kernels:
        x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    return x.mean((1, 2))


def _kernels(d: Data) -> tuple[Any, ...]:
    return (d.normal(3, 3, 8, 16, std=0.15), d.normal(3, 3, 16, 16, std=0.1)), d.normal(*IMAGE)


def _mixed_precision(params: Any, x: Any) -> Any:
    half = jnp.bfloat16 if x.dtype == jnp.float32 else x.dtype
    return _mlp(jax.tree.map(lambda p: p.astype(half), params), x.astype(half)).astype(x.dtype)


BLOCK_SHAPES = {
    "qkv": jax.ShapeDtypeStruct((32, 96), jnp.float32),
    "out": jax.ShapeDtypeStruct((32, 32), jnp.float32),
    "up": jax.ShapeDtypeStruct((32, 128), jnp.float32),
    "down": jax.ShapeDtypeStruct((128, 32), jnp.float32),
    "scale": jax.ShapeDtypeStruct((32,), jnp.float32),
}


def _transformer(blocks: Any, x: Any) -> Any:
    def norm(x: Any, scale: Any) -> Any:
        return x * lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6) * scale

    for block in blocks:
        q, k, v = (
            part.reshape(*x.shape[:2], 4, -1) for part in jnp.split(norm(x, block["scale"]) @ block["qkv"], 3, -1)
        )
        x = x + _attention(q, k, v).reshape(x.shape) @ block["out"]
        x = x + jax.nn.gelu(norm(x, block["scale"]) @ block["up"]) @ block["down"]
    return x


def _normalised_net(params: Any, x: Any) -> Any:
    """Layers with a batch normalisation before each activation: the gradient of their biases is zero but for rounding."""
    for _ in range(4):
        x = x @ params["w"] + params["b"]
        x = jax.nn.relu((x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5))
    return x


def _recurrent(params: Any, x: Any) -> Any:
    h = jnp.zeros_like(x[0])
    for step in x:
        h = jnp.tanh(h @ params["w"] + step + params["b"])
    return h


SQUARE_SHAPES = {"w": jax.ShapeDtypeStruct((32, 32), jnp.float32), "b": jax.ShapeDtypeStruct((32,), jnp.float32)}


def _quantised_matmul(a: Any, b: Any) -> Any:
    """A matrix product whose factors are scaled and rounded to float8."""
    scales = [jnp.max(jnp.abs(m)) / 448 for m in (a, b)]
    narrow = [(m / scale).astype(jnp.float8_e4m3fn) for m, scale in zip((a, b), scales, strict=True)]
    product = jnp.matmul(*narrow, preferred_element_type=jnp.float32) * scales[0] * scales[1]
    return jax.nn.silu(product).astype(a.dtype)


def _logistic_map(x: Any) -> Any:
    for _ in range(40):
        x = 3.9 * x * (1 - x)
    return x


def _kmeans_step(x: Any, centres: Any) -> Any:
    nearest = jnp.argmin(((x[:, None] - centres[None]) ** 2).sum(-1), 1)
    total = jax.ops.segment_sum(x, nearest, centres.shape[0])
    return total / (jax.ops.segment_sum(jnp.ones_like(x[:, :1]), nearest, centres.shape[0]) + 1e-6)


COMPOSITIONS: dict[str, tuple[Function, Arguments]] = {
    "normalise columns": (lambda x: (x - x.mean(0)) / x.std(0), ARGUMENTS["columns"]),
    "min-max scale columns": (lambda x: (x - x.min(0)) / (x.max(0) - x.min(0)), ARGUMENTS["columns"]),
    "unit rows": (lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True), ARGUMENTS["columns"]),
    "(a + b) + c - (c + a)": (lambda a, b: ((a + b) + 3.0) - (3.0 + a), ARGUMENTS["two real"]),
    "a * b + a * c": (lambda a, b: a * b + a * (b + 1), ARGUMENTS["two real"]),
    "sum of products": (lambda a, b: jnp.sum(a * b), ARGUMENTS["two positive"]),
    "sum of products, centred": (lambda a, b: jnp.sum(a * b, axis=1), ARGUMENTS["two real"]),
    "mean of squares of 10^6": (lambda x: jnp.mean(x**2), ARGUMENTS["million"]),
    "sum of x - mean of 10^6": (lambda x: jnp.sum(x - 1.0), ARGUMENTS["million"]),
    "row sums, then total": (lambda x: (2 * x + 1).sum(1).sum(), ARGUMENTS["million"]),
    "variance by hand": (lambda x: ((x - x.mean(0)) ** 2).mean(0), ARGUMENTS["columns"]),
    "variance as E[x^2] - E[x]^2": (lambda x: (x**2).mean(0) - x.mean(0) ** 2, ARGUMENTS["columns"]),
    "variance as E[x^2] - E[x]^2, mean 100": (
        lambda x: (x**2).mean(0) - x.mean(0) ** 2,
        lambda d: (d.normal(10_000, 10, mean=100.0),),
    ),
    "skewness": (lambda x: (((x - x.mean(0)) / x.std(0)) ** 3).mean(0), ARGUMENTS["columns"]),
    "logsumexp by hand": (lambda x: jnp.log(jnp.sum(jnp.exp(x - x.max(1, keepdims=True)), 1)) + x.max(1), ARGUMENTS["logits"]),
    "log of a softmax": (lambda x: jnp.log(jax.nn.softmax(x)), ARGUMENTS["logits"]),
    "softmax by hand": (lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), ARGUMENTS["logits"]),
    "entropy of a softmax": (lambda x: -jnp.sum(jax.nn.softmax(x) * jax.nn.log_softmax(x), -1), ARGUMENTS["logits"]),
    "attention": (_attention, ARGUMENTS["attention"]),
    "grad attention": (_gradient(_attention), ARGUMENTS["attention"]),
    "layer norm by hand": (_layer_norm, lambda d: (d.normal(256, 64), d.normal(64), d.normal(64))),
    "layer norm by hand, mean 1000": (_layer_norm, lambda d: (d.normal(256, 64, mean=1000.0), d.normal(64), d.normal(64))),
    "grad layer norm by hand": (_gradient(_layer_norm), lambda d: (d.normal(256, 64), d.normal(64), d.normal(64))),
    "LayerNorm, mean 1000": (nn.LayerNorm(use_bias=False, use_scale=False).bind({}), lambda d: (d.normal(128, 1024, mean=1000.0),)),
    "RK4 step, pendulum": (lambda y: _rk4(_pendulum, y), lambda d: (d.normal(100, 2),)),
    "RK4 step, Lorenz": (lambda y: _rk4(_lorenz, y), lambda d: (d.normal(100, 3, mean=5.0, std=3.0),)),
    "RK4, 20 steps unrolled, pendulum": (
        lambda y: functools.reduce(lambda y, _: _rk4(_pendulum, y), range(20), y),
        lambda d: (d.normal(100, 2),),
    ),
    "RK4, 200 steps scanned, Lorenz": (
        lambda y: lax.scan(lambda y, _: (_rk4(_lorenz, y), None), y, None, 200)[0],
        lambda d: (d.normal(100, 3, mean=5.0, std=3.0),),
    ),
    "grad of an RK4 step": (_gradient(lambda y: _rk4(_pendulum, y)), lambda d: (d.normal(100, 2),)),
    "random walk": (lambda x: jnp.cumsum(0.1 * x), ARGUMENTS["long vector"]),
    "cumulative mean": (lambda x: jnp.cumsum(x, 0) / jnp.arange(1, x.shape[0] + 1, dtype=x.dtype)[:, None], ARGUMENTS["centred columns"]),
    "moving average by cumsum": (lambda x: (jnp.cumsum(x)[50:] - jnp.cumsum(x)[:-50]) / 50, ARGUMENTS["long vector"]),
    "moving average by scan": (_ewma, ARGUMENTS["vector"]),
    "Horner": (_horner, lambda d: (d.normal(1000), d.normal(8))),
    "polynomial by powers": (lambda x, c: sum(c[i] * x**i for i in range(8)), lambda d: (d.normal(1000), d.normal(8))),
    "distances by differences": (_distances, lambda d: (d.normal(100, 8), d.normal(80, 8))),
    "squared distances by products": (_gram_distances, lambda d: (d.normal(100, 8), d.normal(80, 8))),
    "Gaussian kernel matrix": (lambda x, y: jnp.exp(-0.5 * _distances(x, y) ** 2), lambda d: (d.normal(100, 8), d.normal(80, 8))),
    "cosine similarity matrix": (
        lambda x, y: (x / jnp.linalg.norm(x, axis=1, keepdims=True)) @ (y / jnp.linalg.norm(y, axis=1, keepdims=True)).T,
        lambda d: (d.normal(100, 64), d.normal(80, 64)),
    ),
    "MLP": (_mlp, lambda d: (d.like(MLP_SHAPES), d.normal(128, 20))),
    "MLP in bfloat16 between float32": (_mixed_precision, lambda d: (d.like(MLP_SHAPES), d.normal(128, 20))),
    "matmul in float8 between float32": (
        lambda a, b: _quantised_matmul(jnp.tanh(a * a.mean()), b * b.std()),
        ARGUMENTS["matrices"],
    ),
    "MLP loss and gradient": (jax.value_and_grad(_mlp_loss), lambda d: (d.like(MLP_SHAPES), d.normal(128, 20), d.labels(128))),
    "MLP, five SGD steps": (_train, lambda d: (d.like(MLP_SHAPES), d.normal(128, 20), d.labels(128))),
    "MLP, clipped Adam step": (_adam_step, lambda d: (d.like(MLP_SHAPES), d.normal(128, 20), d.labels(128))),
    "transformer, four blocks": (_transformer, lambda d: (d.like([BLOCK_SHAPES] * 4), d.normal(2, 16, 32))),
    "grad transformer, four blocks": (_gradient(_transformer), lambda d: (d.like([BLOCK_SHAPES] * 4), d.normal(2, 16, 32))),
    "recurrent net, 30 steps": (_recurrent, lambda d: (d.like(SQUARE_SHAPES), d.normal(30, 16, 32))),
    "grad recurrent net, 30 steps": (_gradient(_recurrent), lambda d: (d.like(SQUARE_SHAPES), d.normal(30, 16, 32))),
    "batch-normalised net": (_normalised_net, lambda d: (d.like(SQUARE_SHAPES), d.normal(64, 32))),
    "grad batch-normalised net": (_gradient(_normalised_net), lambda d: (d.like(SQUARE_SHAPES), d.normal(64, 32))),
    "MLP, 100 SGD steps": (
        lambda p, x, y: lax.fori_loop(0, 100, lambda i, p: _train(p, x, y, steps=1), p),
        lambda d: (d.like(MLP_SHAPES), d.normal(128, 20), d.labels(128)),
    ),
    "CNN": (_cnn, _kernels),
    "grad CNN": (_gradient(_cnn), _kernels),
    "Newton step, logistic regression": (
        _newton,
        lambda d: (d.normal(10, std=0.1), d.normal(200, 10), jnp.sign(d.normal(200))),
    ),
    "least squares by normal equations": (lambda a, b: jnp.linalg.solve(a.T @ a, a.T @ b), ARGUMENTS["tall system"]),
    "residual of a solve": (lambda a, b: a @ jnp.linalg.solve(a, b) - b, ARGUMENTS["system"]),
    "power iteration": (_power_iteration, lambda d: (d.spd(32), d.normal(32))),
    "Gram-Schmidt": (_gram_schmidt, lambda d: (d.normal(32, 8),)),
    "Gaussian process likelihood": (_gaussian_process, lambda d: (d.uniform(40, low=-5, high=5), d.normal(40))),
    "grad Gaussian process likelihood": (jax.grad(_gaussian_process), lambda d: (d.uniform(40, low=-5, high=5), d.normal(40))),
    "Kalman step": (_kalman, lambda d: (d.normal(6), d.spd(6), d.dominant(6) * 0.2, d.spd(6), d.normal(6))),
    "Lennard-Jones energy": (_lennard_jones, lambda d: (_lattice(d),)),
    "Lennard-Jones forces": (jax.grad(_lennard_jones), lambda d: (_lattice(d),)),
    "gravity": (_gravity, lambda d: (d.normal(50, 3), d.positive(50))),
    "Black-Scholes price": (_black_scholes, _options),
    "Black-Scholes delta": (jax.grad(lambda *a: _black_scholes(*a).sum()), _options),
    "Black-Scholes gamma": (jax.vmap(jax.grad(jax.grad(_black_scholes))), _options),
    "heat equation": (_heat, lambda d: (d.normal(32, 32),)),
    "Laplacian by differences": (lambda u: u[2:] - 2 * u[1:-1] + u[:-2], lambda d: (d.normal(1000, std=0.01, mean=1.0),)),
    "Rosenbrock Hessian": (jax.hessian(_rosenbrock), lambda d: (d.normal(10),)),
    "haversine distance": (_haversine, lambda d: (d.uniform(500, 2, low=-1.5, high=1.5), d.uniform(500, 2, low=-1.5, high=1.5))),
    "rotary embedding": (_rotary, lambda d: (d.normal(4, 64, 32),)),
    "FFT low-pass filter": (
        lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * (jnp.arange(513) < 100).astype(x.dtype)),
        ARGUMENTS["signal"],
    ),
    "autocorrelation": (lambda x: jnp.fft.irfft(jnp.abs(jnp.fft.rfft(x - x.mean(1, keepdims=True))) ** 2), ARGUMENTS["signal"]),
    "KL of two Gaussians": (
        lambda m, s: (-jnp.log(s) + 0.5 * (s**2 + m**2) - 0.5).sum(-1),
        lambda d: (d.normal(256, 16), d.positive(256, 16)),
    ),
    "focal loss": (
        lambda x, y: (-((1 - jax.nn.sigmoid(x * y)) ** 2) * jax.nn.log_sigmoid(x * y)).mean(),
        ARGUMENTS["logits, signs"],
    ),
    "sqrt(x^2 + y^2)": (lambda x, y: jnp.sqrt(x * x + y * y), ARGUMENTS["two real"]),
    "x^2 - y^2, nearly equal": (lambda x, e: x**2 - (x + 0.001 * e) ** 2, ARGUMENTS["two positive"]),
    "1 - cos(x), small x": (lambda x: 1 - jnp.cos(0.01 * x), ARGUMENTS["real"]),
    "sin(1000 x)": (lambda x: jnp.sin(1000.0 * x), ARGUMENTS["real"]),
    "logistic map, 40 steps": (_logistic_map, ARGUMENTS["unit"]),
    "k-means step": (_kmeans_step, lambda d: (d.normal(1000, 4), d.normal(8, 4))),
    "image resize": (lambda x: jax.image.resize(x, (4, 48, 20), "bilinear"), ARGUMENTS["image"]),
    "image resize, cubic": (lambda x: jax.image.resize(x, (4, 48, 20), "cubic"), ARGUMENTS["image"]),
    "image scale_and_translate": (
        lambda x, s: jax.image.scale_and_translate(x, (4, 40, 40), (1, 2), s, s * 2, "lanczos3"),
        lambda d: (d.normal(4, 32, 32), d.uniform(2, low=0.8, high=1.2)),
    ),
    "ndimage map_coordinates": (
        lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1]], order=1, mode="nearest"),
        lambda d: (d.normal(32, 32), d.uniform(2, 500, high=31.0)),
    ),
    "multivariate_normal.logpdf": (
        jax.scipy.stats.multivariate_normal.logpdf,
        lambda d: (d.normal(100, 8), d.normal(8), d.spd(8)),
    ),
    "gaussian_kde": (lambda x, p: jax.scipy.stats.gaussian_kde(x).evaluate(p), lambda d: (d.normal(200), d.normal(50))),
    "cho_solve": (lambda a, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b), ARGUMENTS["spd system"]),
    "lu_solve": (lambda a, b: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), b), ARGUMENTS["system"]),
    "einsum of three": (lambda a, b: jnp.einsum("ij,jk,lk->il", a, b, b), ARGUMENTS["matrices"]),
    "tensordot": (lambda x: jnp.tensordot(x, x, [[1, 2], [1, 2]]), ARGUMENTS["image"]),
    "cross product": (jnp.cross, lambda d: (d.normal(500, 3), d.normal(500, 3))),
    "associative scan of products": (lambda x: lax.associative_scan(jnp.multiply, x), ARGUMENTS["near one"]),
    "average pooling": (
        lambda x: lax.reduce_window(x, jnp.zeros((), x.dtype), lax.add, (1, 3, 3), (1, 1, 1), "SAME") / 9,
        ARGUMENTS["image"],
    ),
    "conv_general_dilated": (
        lambda x, k: lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        lambda d: (d.normal(*IMAGE), d.normal(3, 3, 8, 16)),
    ),
    "BFGS on Rosenbrock": (
        lambda x: jax.scipy.optimize.minimize(_rosenbrock, x, method="BFGS", options={"maxiter": 10}).x,
        lambda d: (d.normal(4),),
    ),
}  # fmt: skip
"""Name to function and arguments."""


REASONS: dict[str, str] = {
    "grad flax.linen.MultiHeadDotProductAttention": "the gradient of the key bias is zero but for rounding",
    "grad flax.nnx.MultiHeadAttention": "the gradient of the key bias is zero but for rounding",
    "grad jax.nn.standardize": "the gradient is zero but for rounding",
    "grad batch-normalised net": "the gradient of a bias before a normalisation is zero but for rounding",
    "x^2 - y^2": "cancellation: a difference of nearly equal squares",
    "variance as E[x^2]": "cancellation: a difference of nearly equal squares",
    "1 - cos(x)": "cancellation: a difference of nearly equal numbers",
    "jax.random.beta": "rounding decides whether a draw is accepted",
    "jax.random.dirichlet": "rounding decides whether a draw is accepted",
    "jax.random.gamma": "rounding decides whether a draw is accepted",
    "jax.random.t": "rounding decides whether a draw is accepted",
    "k-means step": "a near tie: the nearest of two centres",
    "BFGS": "rounding decides where the line search stops",
}
"""Beginnings of names to the reason, found by looking, why such a case may go beyond any tolerance."""

FLOAT8 = (
    "jnp.add", "jnp.multiply", "jnp.sum [columns", "jnp.mean [", "jnp.max [", "jnp.dot", "jnp.exp [", "jnp.tanh", "jnp.sqrt",
    "jax.nn.relu [", "jax.nn.gelu [", "jax.nn.softmax [", "flax.linen.Dense", "flax.linen.Conv", "normalise columns",
    "softmax by hand", "attention", "layer norm by hand", "MLP [", "MLP in", "MLP loss", "Horner",
)  # fmt: skip
"""Beginnings of the names of what is measured in float8: on some others XLA compiles for minutes."""


def _compositions() -> Iterator[Case]:
    for name, (fn, arguments) in COMPOSITIONS.items():
        yield Case(name=name, fn=fn, arguments=arguments)


def cases() -> Iterator[Case]:
    """Every case, public functions first."""
    yield from _rows(PUBLIC, _plain, "")
    yield from _random()
    yield from _linen()
    yield from _nnx()
    yield from _equinox()
    yield from _optimizers()
    yield from _rows(GRADIENTS, _gradient, "grad ")
    yield from _rows(FUSED, _fused, "fused ")
    yield from _compositions()
