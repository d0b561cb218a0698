"""Numbers of the C predictor: those of ``strtof`` and ``%.9g``, to the last bit and character."""

from __future__ import annotations

import subprocess

import pytest

from cpredictor import COMPILER, SOURCES, STRICT

DRIVER = r"""
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

static uint64_t state = 1;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static int reads(const char *text)
{
    char *end, *expected_end;
    const float value = read_float(text, &end), expected = strtof(text, &expected_end);
    if (end == expected_end && memcmp(&value, &expected, sizeof value) == 0) return 1;
    printf("read %s: %.9g instead of %.9g\n", text, (double)value, (double)expected);
    return 0;
}

static int writes(float value)
{
    char text[NUMBER_SIZE], expected[64];
    const int size = write_float(value, text);
    snprintf(expected, sizeof expected, "%.9g", (double)value);
    if (size == (int)strlen(expected) && memcmp(text, expected, (size_t)size) == 0) return 1;
    printf("wrote %.*s instead of %s\n", size, text, expected);
    return 0;
}

int main(int argc, char **argv)
{
    int same = 1;
    char text[128];
    for (int i = 1; i < argc; ++i) same &= reads(argv[i]);
    for (int i = 0; i < 50000; ++i) {
        const uint32_t bits = (uint32_t)(draw() >> 20);
        const float scaled = (float)((double)draw() / 18446744073709551616.0 * (i % 7 ? 1 : 1000000));
        float value;
        memcpy(&value, &bits, sizeof value);
        same &= writes(value) & writes(scaled) & writes(-scaled);
        for (int digits = 1; digits < 20; digits += 3) { /* also those halfway between two floats */
            const double half = ((double)scaled + (double)nextafterf(scaled, 2e6f)) / 2.0;
            snprintf(text, sizeof text, "%.*f", digits, i % 2 ? (double)scaled : half);
            same &= reads(text);
            snprintf(text, sizeof text, "%.*g ", digits, (double)value);
            same &= reads(text);
        }
    }
    return !same;
}
"""

WORDS = [
    "0",
    "-0.0",
    "1",
    "-1.5",
    ".5",
    "5.",
    ".",
    "-",
    "",
    "nan",
    "inf",
    "0x10",
    "1e5",
    "1e",
    "16777217",
    "16777219",
]
LONG = [
    "0.1000000014901161193847656250",
    "00000000000000000000001",
    "0.00000000000000000000001",
    "9999999999999999999",
]
HALFWAY = ["16777217.0", "0.500000029802322387", "1.00000005960464477539", "1.000000059604644775390625"]


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_numbers_are_those_of_the_standard_library(tmp_path):
    source, program = tmp_path / "driver.c", tmp_path / "driver"
    source.write_text(DRIVER)
    subprocess.run(
        [COMPILER, *STRICT, "-O1", f"-I{SOURCES}", "-o", program, source, SOURCES / "numbers.c", "-lm"],
        check=True,
    )
    done = subprocess.run([program, *WORDS, *LONG, *HALFWAY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[:2000]
