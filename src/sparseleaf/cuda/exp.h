// e^x in basic operations, so that loops are vectorised and all machines, GPUs included, get the same bits:
// x = n·ln 2 + r with |r| <= ln 2 / 2, a polynomial for e^r, and n added to the exponent.
#pragma once

namespace sl {

// Relative error below 2e-7. Inputs are clamped to the range of normal float32 results.
SL_INLINE float exp_of(float x) {
    x = least(largest(x, -87.0f), 88.0f);
    const float n = nearest(x * 1.44269504f);
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    const float p =
        1.0f + r * (1.0f + r * (0.5f + r * (0.166666667f + r * (0.0416666667f +
                                                                r * (0.00833333333f + r * 0.00138888889f)))));
    return p * float_of_bits(static_cast<i32>(static_cast<unsigned>(static_cast<i32>(n) + 127) << 23));
}

SL_INLINE float sigmoid(float z) { return 1.0f / (1.0f + exp_of(-z)); }

// log(1 + u) for 0 <= u <= 1, as 2 artanh(u/(2 + u)): precise for small u as well.
SL_INLINE float log1p_of(float u) {
    const float t = u / (2.0f + u), s = t * t;
    const float series =
        1.0f +
        s * (1.0f / 3 +
             s * (1.0f / 5 + s * (1.0f / 7 + s * (1.0f / 9 + s * (1.0f / 11 + s * (1.0f / 13 + s / 15))))));
    return 2.0f * t * series;
}

}  // namespace sl
