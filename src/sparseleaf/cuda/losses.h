// Gradient and hessian of the dense losses that have them in closed form, for the CPU and for GPUs.
//
// g is the derivative of the loss with respect to the score z, h the second derivative or a documented substitute. A
// loss whose hessian is constant, 1, leaves h alone. y: the target, NaN if unknown, when results are not used.
// parameter: the loss's, as in "quantile:0.9".
#pragma once

namespace sl::loss {

// Bound of exponentials: large enough for any rate, small enough that sums and products with weights are finite in
// float32.
constexpr float kLargestTerm = 1e30f;

// Squared error: ½ (z − y)².
SL_INLINE void mse(float z, float y, float, float& g, float&) { g = z - y; }

// Absolute error: |z − y|.
SL_INLINE void absolute(float z, float y, float, float& g, float&) {
    const float r = z - y;
    g = r > 0.0f ? 1.0f : r < 0.0f ? -1.0f : 0.0f;
}

// Huber's loss: ½ r² up to |r| = δ and δ (|r| − ½ δ) beyond, r = z − y.
SL_INLINE void huber(float z, float y, float delta, float& g, float&) {
    const float r = z - y;
    g = r > delta ? delta : r < -delta ? -delta : r;
}

// Quantile (pinball) loss at level α: max(α (y − z), (α − 1) (y − z)).
SL_INLINE void quantile(float z, float y, float level, float& g, float&) {
    g = z - y >= 0.0f ? 1.0f - level : -level;
}

// log cosh r, r = z − y: near ½ r² for small residuals, near |r| for large ones.
//
// h is tanh(r)/r, the second derivative of the parabola that touches the loss at r and at −r and lies above it
// everywhere else. A leaf's step is then a weighted mean of its residuals and never raises the loss. The second
// derivative, 1 − tanh² r, vanishes for large residuals, and steps with it overshoot without bound.
SL_INLINE void log_cosh(float z, float y, float, float& g, float& h) {
    const float r = z - y, size = size_of(r), square = r * r;
    const float u = exp_of(-2.0f * size);
    const float large = (1.0f - u) / (1.0f + u);
    // Taylor's polynomial of tanh(r)/r, where 1 − u would cancel
    const float small =
        1.0f +
        square * (-1.0f / 3.0f + square * (2.0f / 15.0f + square * (-17.0f / 315.0f + square * (62.0f / 2835.0f))));
    const bool near = size < 0.25f;
    g = near ? r * small : r < 0.0f ? -large : large;
    h = near ? small : large / size;
}

// Binary cross-entropy of every output: log(1 + e^z) − y z.
SL_INLINE void logistic(float z, float y, float, float& g, float& h) {
    const float p = sigmoid(z);
    g = p - y;
    h = p * (1.0f - p);
}

// Focal loss of every output: −q^γ log p, where p is the probability of the truth and q = 1 − p. With s = z for a true
// label and −z for a false one, p = σ(s) and
//   dloss/ds = q^γ (γ p log p − q),
//   d²loss/ds² = q^γ p ((1 + 2γ) q − γ² p log p + γ q log p).
// The last term is the only one that is negative; h leaves it out.
SL_INLINE void focal(float z, float y, float gamma, float& g, float& h) {
    const bool on = y > 0.5f;
    const bool right = on == (z >= 0.0f);
    const float size = least(size_of(z), 87.0f);  // where exp_of ends
    const float u = exp_of(-size), larger = 1.0f / (1.0f + u), smaller = u * larger;
    const float near = -log1p_of(u), far = near - size;  // logarithms of the two
    const float p = right ? larger : smaller, q = right ? smaller : larger;
    const float log_p = right ? near : far, log_q = right ? far : near;
    const float focus = exp_of(gamma * log_q);
    const float slope = focus * (gamma * p * log_p - q);
    g = on ? slope : -slope;
    h = focus * p * ((1.0f + 2.0f * gamma) * q - gamma * gamma * p * log_p);
}

// Poisson's negative log-likelihood of the rate e^z: e^z − y z.
SL_INLINE void poisson(float z, float y, float, float& g, float& h) {
    const float mean = exp_of(z);
    g = mean - y;
    h = mean;
}

// Gamma regression's negative log-likelihood of the mean e^z, but for factors and constants: y e^−z + z.
SL_INLINE void gamma(float z, float y, float, float& g, float& h) {
    const float ratio = least(y * exp_of(-z), kLargestTerm);
    g = 1.0f - ratio;
    h = ratio;
}

// Tweedie's negative log-likelihood of the mean e^z, but for a constant; variance power 1 < p < 2:
// y e^((1−p) z)/(p − 1) + e^((2−p) z)/(2 − p).
SL_INLINE void tweedie(float z, float y, float power, float& g, float& h) {
    const float falls = least(y * exp_of((1.0f - power) * z), kLargestTerm);
    const float rises = least(exp_of((2.0f - power) * z), kLargestTerm);
    g = rises - falls;
    h = (2.0f - power) * rises + (power - 1.0f) * falls;
}

// Cross-entropy of one class per row: log Σ e^z − z_class. Its hessian is a matrix, of which training takes the diagonal
// or (hessian="exact") all. Σ in eight fixed lanes, so that every clone adds in the same order.
SL_INLINE void softmax(const float* z, i64 label, i64 n, float* g, float* h) {
    constexpr int kWide = 8;
    float top = z[0];
    for (i64 j = 1; j < n; ++j) top = largest(top, z[j]);
    float lanes[kWide] = {};
    i64 j = 0;
    for (; j + kWide <= n; j += kWide)
        for (int l = 0; l < kWide; ++l) {
            g[j + l] = exp_of(z[j + l] - top);
            lanes[l] += g[j + l];
        }
    for (int l = 0; j < n; ++j, ++l) {
        g[j] = exp_of(z[j] - top);
        lanes[l] += g[j];
    }
    const float sum =
        ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    const float scale = 1.0f / sum;
    for (j = 0; j < n; ++j) {
        const float p = g[j] * scale;
        g[j] = p;
        h[j] = p * (1.0f - p);
    }
    g[label] -= 1.0f;
}

}  // namespace sl::loss

// The losses whose outputs are independent: function, name, whether the hessian is constant.
#define SL_PAIR_LOSSES(LOSS)             \
    LOSS(mse, "mse", true)               \
    LOSS(absolute, "absolute", true)     \
    LOSS(huber, "huber", true)           \
    LOSS(quantile, "quantile", true)     \
    LOSS(log_cosh, "log-cosh", false)    \
    LOSS(logistic, "logistic", false)    \
    LOSS(focal, "focal", false)          \
    LOSS(poisson, "poisson", false)      \
    LOSS(gamma, "gamma", false)          \
    LOSS(tweedie, "tweedie", false)
