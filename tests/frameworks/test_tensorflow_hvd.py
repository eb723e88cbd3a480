# SPDX-License-Identifier: Apache-2.0
"""sparkring.tensorflow: collectives and gradients, at once and in a ``tf.function``."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ranks import run

IMPORTED = ("tensorflow", "tf_keras")


def modes(tf, function):
    """Return the function as it is, and compiled."""
    return function, tf.function(function)


def check_values(tf, hvd):
    rank, size = hvd.rank(), hvd.size()

    def everything(x, rows):
        return {
            "average": hvd.allreduce(x),
            "sum": hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5),
            "half": hvd.allreduce(x, average=False, compression=hvd.Compression.bf16),
            "group": hvd.grouped_allreduce([x, tf.cast(x, tf.int32)], op=hvd.Max)[1],
            "gather": hvd.allgather(rows),
            "root": hvd.broadcast(x, 1),
            "scatter": hvd.reducescatter(tf.ones([3, 2]), op=hvd.Sum),
            "exchange": hvd.alltoall(rows, [1, rank]),
            "size": hvd.size_op(),
        }

    for call in modes(tf, everything):
        seen = call(tf.constant([1.0, 2.0]) * (rank + 1), tf.fill([rank + 1, 2], float(rank)))
        assert np.allclose(seen["average"], [1.5, 3])
        assert np.allclose(seen["sum"], [3, 6])
        assert np.allclose(seen["half"], [3, 6])
        assert seen["half"].dtype == tf.float32
        assert seen["group"].numpy().tolist() == [2, 4]
        assert seen["gather"].numpy().tolist() == [[0, 0], [1, 1], [1, 1]]
        assert seen["root"].numpy().tolist() == [2, 4]
        assert seen["scatter"].numpy().tolist() == [[2, 2]] * (2 - rank)
        received, counts = seen["exchange"]
        assert counts.numpy().tolist() == [1, 1] if rank == 0 else [0, 1]
        assert received.numpy().tolist() == [[[0, 0], [1, 1]], [[1, 1]]][rank]
        assert int(seen["size"]) == size


def check_gradients(tf, hvd):
    """Gradients of losses are averaged, as with Horovod and in PyTorch."""
    rank = hvd.rank()

    def gradient(operation, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(operation(x)) * (rank + 1.0)
        return tape.gradient(loss, x)

    operations = {
        "average": (hvd.allreduce, 1.5),
        "gather": (hvd.allgather, 1.5),
        "root": (lambda x: hvd.broadcast(x, 0), 1.5 if rank == 0 else 0),
        "scatter": (lambda x: hvd.reducescatter(x, op=hvd.Sum), [[2], [4]]),
        "mean": (hvd.reducescatter, [[1], [2]]),
        "exchange": (lambda x: hvd.alltoall(x), [[1], [2]]),
    }
    for name, (operation, expected) in operations.items():
        for call in modes(tf, lambda x, operation=operation: gradient(operation, x)):
            seen = call(tf.ones([2, 3])).numpy()
            assert np.allclose(seen, np.broadcast_to(expected, (2, 3))), (name, seen)


def check_tape(tf, hvd):
    """The tape averages dense and sparse gradients, and keeps the structure of the sources."""
    rank = hvd.rank()
    table = tf.Variable(tf.ones([3, 2]) * rank)
    weight, unused = tf.Variable([1.0 + rank]), tf.Variable(0.0)
    hvd.broadcast_variables([table, weight], root_rank=1)
    assert table.numpy().tolist() == [[1, 1]] * 3

    def gradients(sparse_as_dense):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [rank, 2])) * weight[0] + weight[0] * rank
        tape = hvd.DistributedGradientTape(tape, sparse_as_dense=sparse_as_dense)
        return tape.gradient(loss, {"table": table, "weight": weight, "none": unused})

    for call in modes(tf, gradients):
        for dense in (False, True):
            seen = call(dense)
            assert isinstance(seen["table"], tf.IndexedSlices) != dense
            total = tf.convert_to_tensor(seen["table"]).numpy().tolist()
            assert total == [[1, 1], [1, 1], [2, 2]]
            assert seen["weight"].numpy().tolist() == [4.5]
            assert seen["none"] is None


def check_slices(tf, hvd):
    """Averages of integers are those of the dense tensor: sums are divided, towards zero."""

    def average(values, **options):
        slices = tf.IndexedSlices(values, tf.constant([0, 2]), tf.constant([3, 1]))
        return tf.convert_to_tensor(hvd.allreduce(slices, **options))

    rank = hvd.rank()
    for call in modes(tf, average):
        assert call(tf.constant([[10 + rank], [-3 - 2 * rank]])).numpy().tolist() == [
            [10],
            [0],
            [-4],
        ]
        scaled = call(tf.constant([[10], [4]]), op=hvd.Sum, postscale_factor=0.75)
        assert scaled.numpy().tolist() == [[15], [0], [6]]
    assert hvd.allreduce(tf.constant([3]), op=hvd.Sum, prescale_factor=0.5).numpy() == [2]
    some = tf.IndexedSlices(tf.constant([1.0]), tf.constant([rank]))
    dense, both = hvd.grouped_allreduce([tf.constant(2.0), some], op=hvd.Sum)
    assert dense.numpy() == 4 and both.indices.numpy().tolist() == [0, 1]


def check_optimizers(tf, hvd):
    """Optimizers of Keras 3, tf_keras and TensorFlow 1 apply the average."""
    import keras
    import tf_keras

    rank = hvd.rank()
    weight = tf.Variable([1.0])
    ours = hvd.DistributedOptimizer(tf_keras.optimizers.SGD(1.0))
    tf.function(lambda: ours.apply_gradients([(tf.constant([1.0 + rank]), weight)]))()
    assert weight.numpy().tolist() == [-0.5]
    first = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0))
    first.minimize(lambda: weight * (1.0 + rank), var_list=[weight])
    assert weight.numpy().tolist() == [-2]

    variable = keras.Variable([1.0])
    twice = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=2)
    for _ in range(2):
        twice.apply([tf.constant([1.0 + rank])], [variable])
    assert variable.numpy().tolist() == [-2]


def check_outside(tf, hvd):
    """A rank outside the process set keeps its gradients."""
    import keras
    import tf_keras

    alone = hvd.add_process_set([0])
    rank = hvd.rank()
    weight, variable = tf.Variable([1.0]), keras.Variable([1.0])
    with tf.GradientTape() as tape:
        loss = weight * (1.0 + rank)
    tape = hvd.DistributedGradientTape(tape, process_set=alone)
    (gradient,) = tape.gradient(loss, [weight])
    assert gradient.numpy() == [1 + rank]
    ours = hvd.DistributedOptimizer(tf_keras.optimizers.SGD(1.0), process_set=alone)
    ours.apply_gradients([(gradient, weight)])
    other = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), process_set=alone)
    other.apply([gradient], [variable])
    assert weight.numpy().tolist() == variable.numpy().tolist() == [-rank]
    if rank == 1:
        with pytest.raises(ValueError, match="not in the process set"):
            hvd.allreduce(1.0, process_set=alone)
    assert hvd.remove_process_set(alone)


def check_errors(tf, hvd):
    """What ranks disagree on is an error on all of them, and later calls work."""
    import keras
    import tf_keras

    for call in modes(tf, lambda: hvd.allreduce(tf.ones([2 + hvd.rank()]), name="x")):
        with pytest.raises((hvd.HorovodInternalError, tf.errors.OpError)) as caught:
            call()
        assert "MismatchError" in str(caught.value)
        assert hvd.allreduce(1.0, op=hvd.Sum).numpy() == 2
    with pytest.raises(tf.errors.FailedPreconditionError, match="MismatchError") as caught:
        hvd.allgather(tf.ones([1, 2 + hvd.rank()]))
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), hvd.HorovodInternalError)
    with pytest.raises(hvd.HorovodInternalError, match=r"shapes \[2, 3\].*shapes \[3, 2\]"):
        hvd.allreduce(tf.ones([2, 3] if hvd.rank() == 0 else [3, 2]))
    sgd = tf_keras.optimizers.SGD(1.0)
    for call, text in (
        (lambda: hvd.DistributedGradientTape(3), "gradtape is of type int"),
        (lambda: hvd.DistributedOptimizer(sgd, compression="fp16"), "compression is 'fp16'"),
        (lambda: hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), compression="fp16"), "fp16'"),
        (lambda: hvd.allreduce(1.0, compression="fp16"), "compression is 'fp16'"),
        (lambda: hvd.allreduce(1.0, process_set="a"), "process_set is of type str"),
        (lambda: hvd.broadcast(1.0, "0"), "root_rank is '0'"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match=r"compresion is not an argument for .* SGD"):
        hvd.DistributedOptimizer(sgd, compresion=1)
    for wrong in (ValueError, tf.errors.InvalidArgumentError):
        with pytest.raises(wrong, match="3 rows, which 2 ranks cannot share equally"):
            hvd.alltoall(tf.ones([3]))
    first = hvd.rank() == 0
    one = tf.constant([1.0])
    slices = tf.IndexedSlices(one, tf.constant([0]), tf.constant([1]))
    wider = tf.IndexedSlices(one, tf.constant([0]), tf.constant([2]))
    for mine, text in (
        ([wider if first else slices], r"dense_shape \[2\], op=Average.*dense_shape \[1\]"),
        ([tf.constant([1]) if first else one], r"int32 counts \[1\].*float32 counts \[1\]"),
        ([one, slices if first else one], "gradients dense, sparse"),
        ([slices if first else None], "gradients sparse.*gradients none"),
    ):
        ours = hvd.DistributedOptimizer(tf_keras.optimizers.SGD(1.0), "differs")
        pairs = [(each, tf.Variable([1.0])) for each in mine]
        with pytest.raises(hvd.HorovodInternalError, match=f"MismatchError.*{text}"):
            ours.apply_gradients(pairs)
        assert hvd.allreduce(1.0, op=hvd.Sum).numpy() == 2
    passes = {"backward_passes_per_step": 2, "average_aggregated_gradients": True}
    ours = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **(passes if first else {}))
    weight = keras.Variable([1.0])
    with pytest.raises(hvd.HorovodInternalError, match=r"avg, backward_passes_per_step=2; .*avg"):
        for _ in range(1 + first):
            ours.apply([one], [weight])
    with pytest.raises(hvd.HorovodInternalError, match="barrier, 2 variables; "):
        hvd.broadcast_variables([tf.Variable(one)] * (1 + first), 0)


def check_order(tf, hvd):
    """Operations whose order may differ between ranks need names."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with pytest.raises(RuntimeError, match="a session of TensorFlow 1 needs a name"):
            hvd.allgather(tf.constant([1.0]))
        assert session.run(hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="session")) == 2
    numbers = tf.data.Dataset.range(2)
    with pytest.raises(RuntimeError, match=r"tf\.data\.Dataset needs a name"):
        numbers.map(hvd.allreduce, num_parallel_calls=2)
    named = numbers.map(lambda x: hvd.allreduce(x, op=hvd.Sum, name="map"))
    assert list(named.as_numpy_iterator()) == [0, 2]
    with pytest.raises(RuntimeError, match="pass jit_compile=False"):
        tf.function(lambda: hvd.allreduce(tf.ones(2)), jit_compile=True)()


def check():
    import sparkring.tensorflow as hvd
    import tensorflow as tf

    hvd.init(timeout=60)
    for each in (
        check_values,
        check_gradients,
        check_tape,
        check_slices,
        check_outside,
        check_optimizers,
        check_errors,
        check_order,
    ):
        each(tf, hvd)
    hvd.shutdown()


def test_two_ranks():
    run(2, check)
