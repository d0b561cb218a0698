"""The portable parser of numbers, which macOS needs, against std::from_chars."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

CPP = Path(__file__).parents[3] / "cpp"
PROGRAM = r"""
#include <cstdint>
#include <cstdio>
#include <iostream>
#include "parse_float.hpp"
template <typename T, typename Bits> void show(const std::string& text) {
    for (int portable = 0; portable < 2; ++portable) {
        T value = 7;
        const char* end = text.data() + text.size();
        const auto result = portable ? sparseleaf::parse_float_portably(text.data(), end, value)
                                     : std::from_chars(text.data(), end, value);
        Bits bits;
        std::memcpy(&bits, &value, sizeof bits);
        if (std::isnan(value)) bits = 0;
        std::printf("%d %d %llu%c", static_cast<int>(result.ec), static_cast<int>(result.ptr - text.data()),
                    static_cast<unsigned long long>(bits), portable ? '\n' : '|');
    }
}
int main() {
    for (std::string line; std::getline(std::cin, line);) { show<float, uint32_t>(line); show<double, uint64_t>(line); }
}
"""
CASES = """
0|-0|0.0|.5|5.|-.25|1e5|1E-5|1e+5|1e|1e+|1.5e-|.|-|+1|e5|-e5| 1|1 |1:2|0x10|--1|1..2|1.2.3
inf|-inf|INF|Infinity|infin|nan|-nan|NaN|nanx|infx|in|1e38|3.4028235e38|3.4028236e38|1e39|-1e39|1e400
1e-38|1e-45|1e-46|1.17549435e-38|1e-320|1e-400|0e999|-0e-999|0.000e5|0.1|0.3|16777217|9007199254740993|1e-1000000|00012
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_it_agrees_with_from_chars(tmp_path):
    (tmp_path / "parse.cpp").write_text(PROGRAM)
    build = ["c++", "-std=c++20", "-I", str(CPP), "-o", str(tmp_path / "parse"), str(tmp_path / "parse.cpp")]
    subprocess.run(build, check=True)
    rng = np.random.default_rng(0)
    texts = CASES.strip().replace("\n", "|").split("|")
    texts += [
        f"{value:.{rng.integers(1, 20)}g}"
        for value in rng.integers(0, 2**32, 300, np.uint32).view(np.float32)
    ]
    texts += [f"{value:.17g}" for value in rng.integers(0, 2**64, 300, np.uint64).view(np.float64)]
    texts += ["".join(rng.choice(list("0123456789.-+eE"), rng.integers(1, 12))) for _ in range(2000)]
    done = subprocess.run(
        [tmp_path / "parse"], input="\n".join(texts), capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * len(texts)
    for text, line in zip(np.repeat(texts, 2), lines, strict=True):
        standard, portable = line.split("|")
        assert standard == portable, text
