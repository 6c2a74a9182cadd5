"""Library calls with a traced argument that decides the program: each is explained, and its static fix tried.

The table has the argument of the checked function that is to blame; the call's own parameter often has another name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import pytest

import pytest_jitcheck

x = jnp.arange(12.0).reshape(3, 4)
v = jnp.arange(6.0)
k = jax.random.key(0)

# Each lambda stands on a line of its own: the place of an error is a line.
CALLS: tuple[tuple[str, Callable[..., Any], tuple[Any, ...], list[str]], ...] = (
    ("sort", lambda x, axis: jnp.sort(x, axis=axis), (x, 0), ["axis"]),
    ("argsort", lambda x, axis: jnp.argsort(x, axis), (x, 0), ["axis"]),
    ("norm_ord", lambda x, order: jnp.linalg.norm(x, ord=order), (v, 2), ["order"]),
    ("norm_axis", lambda x, axis: jnp.linalg.norm(x, axis=axis), (x, 1), ["axis"]),
    ("cumsum", lambda x, axis: jnp.cumsum(x, axis=axis), (x, 1), ["axis"]),
    ("cumprod", lambda x, axis: jnp.cumprod(x, axis), (x, 1), ["axis"]),
    ("tile", lambda x, n: jnp.tile(x, n), (v, 2), ["n"]),
    ("tile2", lambda x, n, m: jnp.tile(x, (n, m)), (v, 2, 3), ["n", "m"]),
    ("split", lambda key, num: jax.random.split(key, num), (k, 3), ["num"]),
    ("one_hot", lambda i, n: jax.nn.one_hot(i, n), (jnp.arange(3), 5), ["n"]),
    ("linspace", lambda a, b, n: jnp.linspace(a, b, n), (0.0, 1.0, 5), ["n"]),
    ("logspace", lambda a, b, n: jnp.logspace(a, b, num=n), (0.0, 1.0, 5), ["n"]),
    ("geomspace", lambda a, b, n: jnp.geomspace(a, b, num=n), (1.0, 2.0, 5), ["n"]),
    ("resize", lambda im, h, w: jax.image.resize(im, (h, w), "linear"), (x, 6, 8), ["h", "w"]),
    ("resize_m", lambda im, method: jax.image.resize(im, (6, 8), method), (x, "linear"), ["method"]),
    ("mean", lambda x, axis: jnp.mean(x, axis=axis), (x, 0), ["axis"]),
    ("sum_m", lambda x, axis: x.sum(axis), (x, 0), ["axis"]),
    ("max", lambda x, axis: jnp.max(x, axis=axis), (x, 0), ["axis"]),
    ("argmax", lambda x, axis: jnp.argmax(x, axis=axis), (x, 0), ["axis"]),
    ("argmin_m", lambda x, axis: x.argmin(axis=axis), (x, 0), ["axis"]),
    ("std", lambda x, axis: jnp.std(x, axis=axis), (x, 0), ["axis"]),
    ("var_ddof", lambda x, axis: x.var(axis=axis), (x, 0), ["axis"]),
    ("median", lambda x, axis: jnp.median(x, axis=axis), (x, 0), ["axis"]),
    ("quantile", lambda x, axis: jnp.quantile(x, 0.5, axis=axis), (x, 0), ["axis"]),
    ("percentile", lambda x, axis: jnp.percentile(x, 50.0, axis=axis), (x, 0), ["axis"]),
    ("softmax", lambda x, axis: jax.nn.softmax(x, axis=axis), (x, 0), ["axis"]),
    ("log_softmax", lambda x, axis: jax.nn.log_softmax(x, axis), (x, 0), ["axis"]),
    ("logsumexp", lambda x, axis: jax.nn.logsumexp(x, axis=axis), (x, 0), ["axis"]),
    ("jsp_logsumexp", lambda x, axis: jsp.special.logsumexp(x, axis=axis), (x, 0), ["axis"]),
    ("concatenate", lambda x, axis: jnp.concatenate([x, x], axis=axis), (x, 0), ["axis"]),
    ("stack", lambda x, axis: jnp.stack([x, x], axis=axis), (x, 0), ["axis"]),
    ("expand_dims", lambda x, axis: jnp.expand_dims(x, axis), (x, 0), ["axis"]),
    ("squeeze", lambda x, axis: jnp.squeeze(x[None], axis), (x, 0), ["axis"]),
    ("swapaxes", lambda x, a, b: jnp.swapaxes(x, a, b), (x, 0, 1), ["a", "b"]),
    ("moveaxis", lambda x, a, b: jnp.moveaxis(x, a, b), (x, 0, 1), ["a", "b"]),
    ("transpose", lambda x, p: jnp.transpose(x, p), (x, (1, 0)), ["p"]),
    ("transpose_m", lambda x, a, b: x.transpose(a, b), (x, 1, 0), ["a", "b"]),
    ("reshape", lambda x, n: jnp.reshape(x, (n, -1)), (x, 6), ["n"]),
    ("reshape_m", lambda x, n: x.reshape(n, -1), (x, 6), ["n"]),
    ("reshape_t", lambda x, shape: x.reshape(shape), (x, (6, 2)), ["shape"]),
    ("reshape_list", lambda x, shape: x.reshape(shape), (x, [6, 2]), ["shape"]),
    ("broadcast_to", lambda x, n: jnp.broadcast_to(x, (n, 6)), (v, 3), ["n"]),
    ("zeros", lambda x, n: jnp.zeros((n,)) + x, (1.0, 3), ["n"]),
    ("ones", lambda x, n: jnp.ones(n) * x, (1.0, 3), ["n"]),
    ("full", lambda n, val: jnp.full(n, val), (3, 2.0), ["n"]),
    ("empty", lambda n: jnp.empty((n, 2)), (3,), ["n"]),
    ("eye", lambda n: jnp.eye(n), (3,), ["n"]),
    ("identity", lambda n: jnp.identity(n), (3,), ["n"]),
    ("arange", lambda n: jnp.arange(n), (3,), ["n"]),
    ("arange2", lambda a, b: jnp.arange(a, b), (3, 7), ["a", "b"]),
    ("tri", lambda n: jnp.tri(n), (3,), ["n"]),
    ("tril", lambda x, kk: jnp.tril(x, kk), (x, 1), ["kk"]),
    ("diag", lambda x, kk: jnp.diag(x, kk), (v, 1), ["kk"]),
    ("diagonal", lambda x, o: jnp.diagonal(x, o), (x, 1), ["o"]),
    ("repeat", lambda x, n: jnp.repeat(x, n), (v, 2), ["n"]),
    ("roll_axis", lambda x, axis: jnp.roll(x, 1, axis=axis), (x, 0), ["axis"]),
    ("flip", lambda x, axis: jnp.flip(x, axis), (x, 0), ["axis"]),
    ("rot90", lambda x, n: jnp.rot90(x, n), (x, 1), ["n"]),
    ("pad", lambda x, n: jnp.pad(x, n), (v, 2), ["n"]),
    ("pad_mode", lambda x, mode: jnp.pad(x, 2, mode=mode), (v, "edge"), ["mode"]),
    ("split_arr", lambda x, n: jnp.split(x, n), (v, 2), ["n"]),
    ("array_split", lambda x, n: jnp.array_split(x, n), (v, 4), ["n"]),
    ("take_axis", lambda x, axis: jnp.take(x, jnp.array([0]), axis=axis), (x, 0), ["axis"]),
    ("take_along", lambda x, axis: jnp.take_along_axis(x, jnp.zeros((3, 1), int), axis=axis), (x, 1), ["axis"]),
    ("unwrap", lambda x, axis: jnp.unwrap(x, axis=axis), (x, 1), ["axis"]),
    ("diff", lambda x, n: jnp.diff(x, n), (v, 2), ["n"]),
    ("gradient", lambda x, axis: jnp.gradient(x, axis=axis), (x, 0), ["axis"]),
    ("cross", lambda a, axis: jnp.cross(a, a, axis=axis), (jnp.ones((3, 3)), 0), ["axis"]),
    ("tensordot", lambda a, n: jnp.tensordot(a, a.T, axes=n), (x, 1), ["n"]),
    ("histogram", lambda x, bins: jnp.histogram(x, bins=bins)[0], (v, 4), ["bins"]),
    ("bincount", lambda i, n: jnp.bincount(i, length=n), (jnp.arange(3), 5), ["n"]),
    ("fft_n", lambda x, n: jnp.fft.fft(x, n), (v, 8), ["n"]),
    ("fft_axis", lambda x, axis: jnp.fft.fft(x, axis=axis), (x, 0), ["axis"]),
    ("fftfreq", lambda n: jnp.fft.fftfreq(n), (8,), ["n"]),
    ("vander", lambda x, n: jnp.vander(x, n), (v, 3), ["n"]),
    ("polyfit", lambda x, d: jnp.polyfit(x, x, d), (v, 2), ["d"]),
    ("round", lambda x, d: jnp.round(x, d), (v, 2), ["d"]),
    ("matrix_power", lambda a, n: jnp.linalg.matrix_power(a, n), (jnp.eye(3), 3), ["n"]),
    ("cond", lambda a, p: jnp.linalg.cond(a, p), (jnp.eye(3), 2), ["p"]),
    ("svd", lambda a, f: jnp.linalg.svd(a, full_matrices=f), (x, False), ["f"]),
    ("qr", lambda a, mode: jnp.linalg.qr(a, mode=mode), (x, "reduced"), ["mode"]),
    ("normal", lambda key, n: jax.random.normal(key, (n,)), (k, 3), ["n"]),
    ("uniform", lambda key, shape: jax.random.uniform(key, shape), (k, (3,)), ["shape"]),
    ("choice", lambda key, n: jax.random.choice(key, 10, (n,)), (k, 3), ["n"]),
    ("permutation_axis", lambda key, axis: jax.random.permutation(key, x, axis=axis), (k, 0), ["axis"]),
    ("bernoulli", lambda key, n: jax.random.bernoulli(key, 0.5, (n,)), (k, 3), ["n"]),
    ("bits", lambda key, n: jax.random.bits(key, (n,)), (k, 3), ["n"]),
    ("top_k", lambda x, n: jax.lax.top_k(x, n), (v, 2), ["n"]),
    ("iota", lambda n: jax.lax.iota(jnp.float32, n), (4,), ["n"]),
    ("scan_len", lambda x, n: jax.lax.scan(lambda c, _: (c * 2, c), x, None, length=n), (1.0, 3), ["n"]),
    ("dynslice", lambda x, n: jax.lax.dynamic_slice(x, (0,), (n,)), (v, 3), ["n"]),
    ("dynslice_in_dim", lambda x, n: jax.lax.dynamic_slice_in_dim(x, 0, n), (v, 3), ["n"]),
    ("slice_in_dim", lambda x, n: jax.lax.slice_in_dim(x, 0, n), (v, 3), ["n"]),
    ("segment_sum", lambda d, n: jax.ops.segment_sum(d, jnp.array([0, 0, 1, 1, 2, 2]), n), (v, 3), ["n"]),
    ("vmap_in", lambda x, n: jax.vmap(lambda r: jnp.zeros(n) + r.sum())(x), (x, 3), ["n"]),
    ("kth", lambda x, n: jnp.partition(x, n), (v, 2), ["n"]),
    ("ravel_order", lambda x, order: jnp.ravel(x, order=order), (x, "F"), ["order"]),
    ("astype", lambda x, dt: x.astype(dt), (v, "int32"), ["dt"]),
    ("einsum", lambda s, x: jnp.einsum(s, x, x), ("ij,ij->i", x), ["s"]),
    ("nanmean", lambda x, axis: jnp.nanmean(x, axis=axis), (x, 0), ["axis"]),
    ("ptp", lambda x, axis: jnp.ptp(x, axis=axis), (x, 0), ["axis"]),
    ("all", lambda x, axis: jnp.all(x > 1, axis=axis), (x, 0), ["axis"]),
    ("keepdims", lambda x, kd: jnp.sum(x, axis=0, keepdims=kd), (x, True), ["kd"]),
    ("glu", lambda x, axis: jax.nn.glu(x, axis), (x, 1), ["axis"]),
    ("convolve", lambda a, mode: jnp.convolve(a, a, mode=mode), (v, "same"), ["mode"]),
    ("meshgrid", lambda a, sp: jnp.meshgrid(a, a, sparse=sp), (v, True), ["sp"]),
    ("indices", lambda n: jnp.indices((n, 2)), (3,), ["n"]),
    ("unstack", lambda x, axis: jnp.unstack(x, axis=axis), (x, 0), ["axis"]),
    ("hanning", lambda n: jnp.hanning(n), (8,), ["n"]),
    ("map_coords", lambda im, o: jsp.ndimage.map_coordinates(im, [v, v], o), (x, 1), ["o"]),
    ("checknorm", lambda x, lower: jsp.linalg.cholesky(x, lower=lower), (jnp.eye(3), True), ["lower"]),
    (
        "solve_tri",
        lambda a, lower: jsp.linalg.solve_triangular(a, jnp.ones(3), lower=lower),
        (jnp.eye(3), True),
        ["lower"],
    ),
)


def test_there_are_a_hundred_calls() -> None:
    assert len({name for name, *_ in CALLS}) >= 100


@pytest.mark.parametrize(("fn", "args", "names"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_the_argument_is_named_and_made_static(fn: Callable[..., Any], args: tuple[Any, ...], names: list[str]) -> None:
    failure = pytest_jitcheck.check(fn, timing="off")(*args).failure
    assert failure is not None
    assert failure.fix is not None
    assert (list(failure.arguments), list(failure.fix.static_argnames), failure.fix.verified) == (names, names, True)
