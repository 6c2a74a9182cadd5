"""Each failure of the gallery, put right: another way of writing the function, or a static argument that was declared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gallery import (
    test_arguments as arguments,
    test_branches as branches,
    test_conversions as conversions,
    test_results as results,
    test_shapes as shapes,
    test_state as state,
)

X = jnp.array([3.0, -1.0, 2.0, -5.0, 0.5, -0.5])
SIGNAL = jnp.sin(jnp.linspace(0, 12, 64))
IMAGE = np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)
BYTES = np.arange(0, 256, 51, dtype=np.uint8)
ONE, TWO, HALF = jnp.float32(1), jnp.float32(2), jnp.float32(0.5)

REWRITTEN = [
    (branches.clip_gradient_fixed, X, 1.0),
    (branches.square_root_fixed, TWO, 1e-5),
    (branches.huber_fixed, HALF, 1.0),
    (branches.step_is_good_fixed, HALF, HALF, ONE),
    (branches.hinge_fixed, HALF),
    (branches.median_fixed, X[:3]),
    (branches.probabilities_fixed, jnp.arange(1.0, 5.0)),
    (shapes.get_negatives_fixed, X),
    (shapes.flatten_fixed, jnp.asarray(IMAGE)),
    (shapes.zero_crossings_fixed, SIGNAL),
    (shapes.number_of_labels_fixed, jnp.array([2, 0, 2, 1])),
    (shapes.frame_fixed, SIGNAL, 8),
    (shapes.mixture_fixed, X, jnp.array([0.5, 0.3, 0.2]), 1),
    (conversions.decibels_fixed, jnp.array([1.0, 10.0, 100.0])),
    (conversions.standardise_fixed, X),
    (conversions.log_loss_fixed, jnp.float32(12), 4),
    (conversions.octave_fixed, jnp.float32(880)),
    (conversions.monitored_loss_fixed, X, jnp.zeros(6)),
    (arguments.interpolator_fixed, X, X**2),
    (arguments.measure_fixed, X),
    (arguments.mixed, X, jnp.copy(X)),
    (state.without_border_fixed, IMAGE),
    (state.centred_fixed, IMAGE),
    (state.spectrum_fixed, SIGNAL),
    (state.augmented_fixed, jax.random.key(0), IMAGE),
    (state.mean_of_batch_fixed, jnp.ones(8)),
    (state.annealed_fixed, X, 1),
    (state.recorded_fixed, X),
    (results.phase_fixed, 0.3, 0.1),
    (results.blend_fixed, jnp.zeros(4), jnp.ones(4), 0.9999),
    (results.features_fixed, {"velocity": X, "position": 2 * X}),
    (results.brightness_fixed, BYTES),
    (results.as_column_fixed, np.ones(3, dtype=np.float32)),
    (results.bounds_fixed, X),
    (results.step_response_fixed, np.array([0.0, 0.5, 1.0], dtype=np.float32), 7),
]

DECLARED = [
    ("neg", branches.f, X, True),
    ("steps", branches.simulate, X, 5),
    ("size", shapes.one_sided_window, SIGNAL, 16),
    ("bins", shapes.histogram, SIGNAL, 4),
    ("axis", shapes.total, IMAGE, 1),
    ("n", shapes.first_samples, SIGNAL, 10),
    ("number", shapes.mixture, X, jnp.array([0.5, 0.3, 0.2]), 1),
    ("order", conversions.derivative, SIGNAL, 2),
    ("device", conversions.moved_to_fixed, X, jax.devices()[0]),
    ("seconds", conversions.elapsed_minutes, X, 90.0),
    ("taps", conversions.moving_average, SIGNAL, 4),
    ("width, mode", arguments.extend, SIGNAL, 4, "reflect"),
    ("activation", arguments.hidden_layer, X, jnp.ones((6, 2)), jnp.tanh),
    ("widths", arguments.decoder, X, (4, 2)),
    ("grid", arguments.integral, X, arguments.GridFixed(6, 0.5)),
    ("shape, seed", arguments.sample, 20_251_201_093_000, (3,)),
    ("shape", arguments.sample_fixed, jax.random.key(20_251_201), (3,)),
    ("k", results.best_fixed, np.array([3.0, 1.0, 2.0], dtype=np.float32), 2),
]

# Times are not the matter here, and half a hundred of them would hide those of the library.
pytestmark = pytest.mark.jitcheck(timing="off")


@pytest.mark.parametrize("case", REWRITTEN, ids=lambda case: case[0].__name__)
def test_rewritten(jitcheck, case):
    fn, *args = case
    jitcheck(fn)(*args)


@pytest.mark.parametrize("case", DECLARED, ids=lambda case: case[1].__name__)
def test_declared_static(jitcheck, case):
    static_argnames, fn, *args = case
    jitcheck(fn, static_argnames=static_argnames)(*args)
