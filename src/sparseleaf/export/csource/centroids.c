/* Re-ranking by the similarity of a row to the centroids of labels. */
#include <math.h>
#include <string.h>

#include "rerank.h"

bool centroids_read(centroids_t *centroids, const part_t *part, size_t n_features, size_t n_labels)
{
    memset(centroids, 0, sizeof *centroids);
    centroids->n_features = n_features;
    const float *settings = part_array(part, "settings", F32, 3); /* mix, weight, scale */
    centroids->squared_norms = part_array(part, "squared_norms", F32, n_labels);
    const part_t vectors = part_of(part, "vectors.");
    if (!settings || !centroids->squared_norms || !vectors_read(&centroids->vectors, &vectors, n_labels, n_features) ||
        !vectors_map(&centroids->vectors, &vectors, n_features))
        return false;
    if (!are_finite(settings, 3) || !(settings[0] >= 0 && settings[0] <= 2))
        return part_fail(part, "settings", "out of range");
    for (size_t label = 0; label < n_labels; ++label)
        if (!(centroids->squared_norms[label] >= 0.0f && isfinite(centroids->squared_norms[label])))
            return part_fail(part, "squared_norms", "out of range");
    centroids->mix = (mix_t)settings[0];
    centroids->weight = settings[1];
    centroids->scale = settings[2];
    if (part_has(part, "feature_weights")) {
        centroids->feature_weights = part_array(part, "feature_weights", F32, n_features);
        if (!centroids->feature_weights || !are_finite(centroids->feature_weights, n_features))
            return part_fail(part, "feature_weights", "not finite");
    }
    return true;
}

void centroids_free(centroids_t *centroids)
{
    lists_free(&centroids->vectors);
}

float centroids_spread(const centroids_t *centroids, row_t row, float *spread)
{
    float norm = 0.0f;
    for (size_t e = 0; e < row.n; ++e) {
        const int32_t feature = row.features[e];
        const float value = centroids->feature_weights ? row.values[e] * centroids->feature_weights[feature]
                                                       : row.values[e];
        spread[feature] = value;
        norm += value * value;
    }
    return norm;
}

static float clamped(float value, float low, float high)
{
    return value < low ? low : high < value ? high : value;
}

float centroids_cosine(const centroids_t *centroids, size_t label, spread_t spread, float squared_norm)
{
    const float lengths = sqrtf(squared_norm) * sqrtf(centroids->squared_norms[label]);
    if (!(lengths > 0.0f)) return 0.0f;
    return clamped(vector_product(&centroids->vectors, label, spread) / lengths, -1.0f, 1.0f);
}

/* overflow means no similarity */
static float finite_or_zero(float value)
{
    return isfinite(value) ? value : 0.0f;
}

static float mixed(const centroids_t *centroids, float score, size_t label, spread_t spread, float norm)
{
    const float weight = centroids->weight, scale = centroids->scale;
    if (centroids->mix == BY_DISTANCE) {
        const float product = vector_product(&centroids->vectors, label, spread);
        const float squared = norm + centroids->squared_norms[label] - 2.0f * product;
        const float distance = 0.0f < squared ? squared : 0.0f;
        return finite_or_zero(weight * score + (1.0f - weight) / (1.0f + expf(scale * distance / 2.0f)));
    }
    const float cosine = centroids_cosine(centroids, label, spread, norm);
    if (centroids->mix == BY_COSINE) return finite_or_zero(weight * score + (1.0f - weight) * cosine);
    const float least = 1e-6f, positive = score < least ? least : score;
    return finite_or_zero(powf(positive, weight) * expf((1.0f - weight) * scale * (cosine - 1.0f)));
}

void centroids_rescore(const centroids_t *centroids, row_t row, float *spread, scored_t *list, size_t n)
{
    const float norm = centroids_spread(centroids, row, spread);
    const spread_t point = {row.features, row.n, spread};
    for (size_t i = 0; i < n; ++i) {
        if (i + 1 < n) vector_prefetch(&centroids->vectors, (size_t)list[i + 1].label);
        list[i].score = mixed(centroids, list[i].score, (size_t)list[i].label, point, norm);
    }
    for (size_t e = 0; e < row.n; ++e) spread[row.features[e]] = 0.0f;
}
