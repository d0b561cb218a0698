"""Fuzz the XC text parser.

Valid files are corrupted with fixed seeds: bits flipped, pieces removed, duplicated or taken from another file, numbers
replaced by edge cases. The parser must accept or reject each of them: anything but a result or a ValueError stops the
run, and a crash leaves a traceback (faulthandler). Accepted arrays are validated, and three threads must return the
same as one.

    python benchmarks/fuzz_xc.py --count 20000
"""

from __future__ import annotations

import argparse
import faulthandler
import re
import time

import numpy as np

from sparseleaf import _kernels
from sparseleaf.data import make_xc

EDGE_CASES = (
    b"0 -0 1 -1 00 007 1.5 .5 5. 1e 1e5 1e-400 1e400 3.4028236e38 1e-46 nan -nan NaN nan(7) inf -inf "
    b"2147483647 2147483648 4294967296 9223372036854775807 9223372036854775808 18446744073709551616 "
    b"0x10 +3 _ 1_000 \xc2\xb2 \x00 : , :: ,, 1:2:3 - Infinity"
).split(b" ")
NUMBER = re.compile(rb"[0-9.eE+-]+")


def valid_files() -> list[bytes]:
    files = [b"0 0 0\n", b"1 1 1\n\n", b"2 3 3\r\n0,2 1:nan\r\n 2:1e-3\r\n"]
    for seed in range(5):
        X, Y = make_xc(30, 40, 20, 2.0, 6.0, seed=seed)
        rows = _kernels.xc_format(
            Y.indptr.astype(np.int64), Y.indices, X.indptr.astype(np.int64), X.indices, X.data, 0, 30, 1
        )
        files.append(b"30 40 20\n" + rows.tobytes())
    return files


def corrupt(rng: np.random.Generator, files: list[bytes]) -> bytes:
    text = bytearray(files[rng.integers(len(files))])
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(7)
        at, other = sorted(rng.integers(0, len(text) + 1, 2))
        if kind == 0 and text:
            text[rng.integers(len(text))] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del text[at:]
        elif kind == 2:
            del text[at : min(other, at + 20)]
        elif kind == 3:
            source = files[rng.integers(len(files))]
            begin = int(rng.integers(len(source)))
            text[at:at] = source[begin : begin + int(rng.integers(1, 60))]
        elif kind == 4:
            text[at:at] = text[at : min(other, at + 200)]
        elif kind == 5:
            text[at:at] = rng.bytes(int(rng.integers(1, 6)))
        else:
            numbers = list(NUMBER.finditer(text))
            if numbers:
                # the three numbers of the header determine the memory, so they are edited more often
                last = 3 if rng.random() < 0.3 else len(numbers)
                number = numbers[rng.integers(min(last, len(numbers)))]
                text[number.start() : number.end()] = EDGE_CASES[rng.integers(len(EDGE_CASES))]
    return bytes(text)


def parse(text: bytes, n_threads: int) -> tuple | str:
    try:
        return _kernels.xc_parse(text, n_threads)
    except ValueError as error:
        return str(error)


def check(text: bytes) -> bool:
    one, three = parse(text, 1), parse(text, 3)
    if isinstance(one, str):
        assert one == three, (text, one, three)
        assert re.match(r"line [0-9]+: ", one), (text, one)
        return False
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)
    n, d, k, label_indptr, labels, indptr, features, values = one
    for width, starts, ids in ((k, label_indptr, labels), (d, indptr, features)):
        assert starts.size == n + 1
        assert starts[0] == 0
        assert starts[-1] == ids.size
        rows = np.repeat(np.arange(n), np.diff(starts))
        assert (np.diff(rows * (1 << 31) + ids) > 0).all(), text
        assert ids.size == 0 or (ids.min() >= 0 and ids.max() < width), text
    assert not np.isinf(values).any()
    assert (values != 0).all()
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000, help="number of corrupted files")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    faulthandler.enable()
    files = valid_files()
    assert all(check(text) for text in files)
    begin = time.perf_counter()
    accepted = 0
    for number in range(arguments.count):
        # seeded by number, so that a failure can be reproduced alone
        accepted += check(corrupt(np.random.default_rng([arguments.seed, number]), files))
    seconds = time.perf_counter() - begin
    rejected = arguments.count - accepted
    print(f"{arguments.count} corrupted files: {accepted} accepted, {rejected} rejected, {seconds:.1f} s")


if __name__ == "__main__":
    main()
