"""The inner loop of MaxSim: a few tokens times some query embeddings, held in vector registers.

Matrix products of general libraries leave half the speed of a modern core unused on so narrow a
matrix as a query, and write similarities out only to read them again. So this is written for the
vector unit itself, in LLVM's terms, which numba compiles for the machine at hand.
"""

from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16 if binding.get_host_cpu_features().get("avx512f") else 8
VECTORS = 2
TOKENS = 6
"""The sums of so many tokens, and the operands beside them, fit in 16 registers. More tokens than
that gain nothing with 32."""

WIDTH = VECTORS * LANES
"""Query embeddings in a tile."""


@intrinsic  # type: ignore[untyped-decorator]
def raise_maxima(_: Any, tokens: Any, first: Any, query: Any, best: Any) -> Any:
    """Raise best float32[WIDTH] to the largest product of TOKENS rows from `first` on.

    `tokens` float32[n, d], `query` float32[d, WIDTH]; both, and `best`, contiguous.
    """

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, index = ir.VectorType(ir.FloatType(), LANES), ir.IntType(64)
        arrays = [
            context.make_helper(builder, kind, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, args, strict=True)
        ]
        dimensions = builder.extract_value(arrays[0].shape, 1)
        start = builder.gep(arrays[0].data, [builder.mul(args[1], dimensions)])
        queries, maxima = (
            builder.bitcast(array.data, vector.as_pointer()) for array in (arrays[2], arrays[3])
        )
        # One instruction where the processor has it, else two.
        fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{LANES}f32"
        )

        def load(pointer: Any, place: Any) -> Any:
            value = builder.load(builder.gep(pointer, [place]))
            value.align = 4
            return value

        def larger(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        before, loop, after = (
            builder.block,
            *(builder.append_basic_block(name) for name in ("dimension", "reduce")),
        )
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(index)
        k.add_incoming(index(0), before)
        sums = [[builder.phi(vector) for _ in range(VECTORS)] for _ in range(TOKENS)]
        operands = [
            load(queries, builder.add(builder.mul(k, index(VECTORS)), index(v)))
            for v in range(VECTORS)
        ]
        totals = []
        for t, row in enumerate(sums):
            place = builder.add(builder.mul(dimensions, index(t)), k)
            one = builder.load(builder.gep(start, [place]))
            empty = ir.Constant(vector, ir.Undefined)
            spread = builder.shuffle_vector(
                builder.insert_element(empty, one, ir.IntType(32)(0)),
                empty,
                ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES),
            )
            totals.append(
                [builder.call(fma, [spread, q, s]) for q, s in zip(operands, row, strict=True)]
            )
            for s, total in zip(row, totals[-1], strict=True):
                s.add_incoming(ir.Constant(vector, [0.0] * LANES), before)
                s.add_incoming(total, loop)
        following = builder.add(k, index(1))
        k.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, dimensions), loop, after)
        builder.position_at_end(after)
        for v in range(VECTORS):
            largest = load(maxima, index(v))
            for row in totals:
                largest = larger(row[v], largest)
            builder.store(largest, builder.gep(maxima, [index(v)])).align = 4
        return context.get_dummy_value()

    return types.void(tokens, first, query, best), lower
