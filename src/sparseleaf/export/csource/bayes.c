/* Re-ranking by naive Bayes over the discriminative features of each label. */
#include <math.h>
#include <string.h>

#include "rerank.h"

static const float floor_of_scores = 0.01f, least_score = 1e-30f;

bool bayes_read(bayes_t *bayes, const part_t *part, size_t n_features, size_t n_labels)
{
    memset(bayes, 0, sizeof *bayes);
    const float *settings = part_array(part, "settings", F32, 3); /* weight, slope, offset */
    const int64_t *most = part_array(part, "most", I64, 1);
    const size_t n = part_length(part, "features"), n_entries = part_length(part, "labels");
    bayes->n_labels = n_labels;
    bayes->n_features = n;
    bayes->features = part_array(part, "features", I32, ANY);
    bayes->starts = part_array(part, "starts", I64, n + 1);
    bayes->labels = part_array(part, "labels", I32, ANY);
    bayes->weights = part_array(part, "weights", F32, n_entries);
    bayes->bias = part_array(part, "bias", F32, n_labels);
    if (part->file->failed) return false;
    if (*most < 0 || *most > INT32_MAX) return part_fail(part, "most", "out of range");
    bayes->most = (size_t)*most;
    if (!are_finite(settings, 3) || !are_finite(bayes->bias, n_labels))
        return part_fail(part, "settings", "not finite");
    bayes->weight = settings[0];
    bayes->slope = settings[1];
    bayes->offset = settings[2];
    if (!are_starts(bayes->starts, n, n_entries)) return part_fail(part, "starts", "not increasing");
    for (size_t i = 0; i < n; ++i)
        if (bayes->features[i] < 0 || (size_t)bayes->features[i] >= n_features ||
            (i > 0 && bayes->features[i - 1] >= bayes->features[i]))
            return part_fail(part, "features", "a feature that does not exist");
    for (size_t e = 0; e < n_entries; ++e) {
        if (bayes->labels[e] < 0 || (size_t)bayes->labels[e] >= n_labels)
            return part_fail(part, "labels", "a label that does not exist");
        if (!(bayes->weights[e] > 0.0f && isfinite(bayes->weights[e])))
            return part_fail(part, "weights", "not positive");
    }
    return true;
}

/* Position of a feature among the discriminative ones; n_features if it is none. */
static size_t find_feature(const bayes_t *bayes, int32_t feature)
{
    size_t low = 0, high = bayes->n_features;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (bayes->features[middle] < feature)
            low = middle + 1;
        else
            high = middle;
    }
    return low < bayes->n_features && bayes->features[low] == feature ? low : bayes->n_features;
}

static float margin(const bayes_t *bayes, float relative, float evidence)
{
    const float log_score = (float)log((double)(relative + floor_of_scores));
    return bayes->weight * log_score + (1.0f - bayes->weight) * evidence;
}

size_t bayes_rank(const bayes_t *bayes, row_t row, scratch_t *scratch, size_t n, size_t k)
{
    float *sums = scratch->label_sums;
    scored_t *list = scratch->list, *added = list + n;
    size_t n_touched = 0;
    for (size_t e = 0; e < row.n; ++e) {
        if (row.values[e] == 0.0f) continue;
        const size_t i = find_feature(bayes, row.features[e]);
        if (i == bayes->n_features) continue;
        for (int64_t p = bayes->starts[i]; p < bayes->starts[i + 1]; ++p) {
            const int32_t label = bayes->labels[p];
            if (sums[label] == 0.0f) added[n_touched++].label = label;
            sums[label] += bayes->weights[p];
        }
    }
    for (size_t i = 0; i < n_touched; ++i) added[i].score = bayes->bias[added[i].label] + sums[added[i].label];
    float highest = 0.0f;
    for (size_t i = 0; i < n; ++i) {
        scratch->place_of[list[i].label] = 1;
        if (highest < list[i].score) highest = list[i].score;
    }
    for (size_t i = 0; i < n; ++i) {
        const float share = highest > 0.0f ? list[i].score / highest : 0.0f;
        const int32_t label = list[i].label;
        list[i].score = margin(bayes, 0.0f < share ? share : 0.0f, bayes->bias[label] + sums[label]);
    }
    for (size_t i = 0; i < n_touched; ++i) sums[added[i].label] = 0.0f;
    const size_t n_added = select_best(added, n_touched, bayes->most);
    size_t total = n;
    for (size_t i = 0; i < n_added; ++i)
        if (!scratch->place_of[added[i].label])
            list[total++] = (scored_t){margin(bayes, 0.0f, added[i].score), added[i].label};
    for (size_t i = 0; i < n; ++i) scratch->place_of[list[i].label] = 0;
    const size_t kept = select_best(list, total, k);
    for (size_t i = 0; i < kept; ++i) {
        const float score = 1.0f / (1.0f + expf(-(bayes->slope * list[i].score + bayes->offset)));
        list[i].score = score < least_score ? least_score : score;
    }
    return kept;
}
