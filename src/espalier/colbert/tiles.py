"""The inner loops of MaxSim: a few tokens times some query embeddings, held in vector registers.

Matrix products of general libraries leave half the speed of a modern core unused on so narrow a
matrix as a query, and write similarities out only to read them again. So this is written for the
vector unit itself, in LLVM's terms, which numba compiles for the machine at hand.
"""

from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

FEATURES = binding.get_host_cpu_features()

LANES = 16 if FEATURES.get("avx512f") else 8

CONVERTS = bool(FEATURES.get("f16c")) and config.CPU_NAME is None and config.CPU_FEATURES is None
"""Whether the processor that numba compiles for widens half precision by itself. Where it does not,
the compiler's call for it has no definition."""

VECTORS = 2
TOKENS = 6
"""The sums of so many tokens, and the operands beside them, fit in 16 registers. More tokens than
that gain nothing with 32."""

WIDTH = VECTORS * LANES
"""Query embeddings in a tile."""


@intrinsic  # type: ignore[untyped-decorator]
def raise_maxima(_: Any, tokens: Any, first: Any, query: Any, panel: Any, best: Any) -> Any:
    """Raise a panel's maxima to the largest product of TOKENS rows from `first` on.

    `tokens` float32[n, d], `query` float32[panels, d, WIDTH], `best` float32[panels, WIDTH]; all
    contiguous.
    """

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, index = ir.VectorType(ir.FloatType(), LANES), ir.IntType(64)
        rows, panels, every = (
            context.make_helper(builder, signature.args[i], args[i]) for i in (0, 2, 4)
        )
        dimensions = builder.extract_value(rows.shape, 1)
        start = builder.gep(rows.data, [builder.mul(args[1], dimensions)])
        own = builder.mul(args[3], index(WIDTH))
        queries, maxima = (
            builder.bitcast(builder.gep(array.data, [place]), vector.as_pointer())
            for array, place in ((panels, builder.mul(own, dimensions)), (every, own))
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

    return types.void(tokens, first, query, panel, best), lower


@intrinsic  # type: ignore[untyped-decorator]
def convert(_: Any, halves: Any, place: Any, numbers: Any, target: Any) -> Any:
    """LANES half-precision numbers from `place` on to `target` on, if CONVERTS.

    `halves` int16[n], their bits; `numbers` float32[m].
    """

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        narrow, wide = (ir.VectorType(kind, LANES) for kind in (ir.HalfType(), ir.FloatType()))
        source, sink = (
            builder.bitcast(
                builder.gep(
                    context.make_helper(builder, signature.args[i], args[i]).data, [args[i + 1]]
                ),
                kind.as_pointer(),
            )
            for i, kind in ((0, narrow), (2, wide))
        )
        given = builder.load(source)
        given.align = 2
        builder.store(builder.fpext(given, wide), sink).align = 4
        return context.get_dummy_value()

    return types.void(halves, place, numbers, target), lower


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_: Any, array: Any, place: Any) -> Any:
    """Ask for the memory of an array's element `place`, which need not be one of its own."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_helper(builder, signature.args[0], args[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        call = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, number, number, number]),
            "llvm.prefetch.p0",
        )
        # To be read, in the nearest cache, data.
        options = [number(0), number(3), number(1)]
        builder.call(call, [builder.bitcast(builder.gep(data, [args[1]]), byte), *options])
        return context.get_dummy_value()

    return types.void(array, place), lower
