/* Re-ranking by evidence for every candidate: the trees, nearest training rows, centroids, linear models and label
 * names, combined by a weighted mean or by boosted trees. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rerank.h"

static const float steepness = 3.0f, least_score = 1e-30f, no_parts = -1.0f;

enum { STRIDE = 64, COMPONENTS = 4, AHEAD = 4 };

enum column { SCORE, RELATIVE, PLACE, VOTES, SHARP, RELATIVE_SHARP, NEAREST, VOTERS, COSINE, MARGIN, LOG_ROWS };

static size_t longest(const lists_t *lists)
{
    int64_t most = 0;
    for (size_t i = 0; i < lists->n_lists; ++i)
        if (lists->starts[i + 1] - lists->starts[i] > most) most = lists->starts[i + 1] - lists->starts[i];
    return (size_t)most;
}

static bool read_neighbours(evidence_t *evidence, const part_t *part, const int64_t *shape)
{
    const part_t postings = part_of(part, "postings."), labels = part_of(part, "row_labels.");
    const size_t n_starts = part_length(&labels, "starts");
    if (n_starts == 0 || n_starts > INT32_MAX) return part_fail(part, "row_labels.starts", "out of range");
    evidence->n_rows = n_starts - 1;
    evidence->n_neighbours = (size_t)shape[1];
    evidence->query_features = (size_t)shape[2];
    return vectors_read(&evidence->postings, &postings, evidence->n_features, evidence->n_rows) &&
           lists_read(&evidence->row_labels, &labels, evidence->n_rows, evidence->n_labels);
}

static bool read_parts(evidence_t *evidence, const part_t *part, size_t n_parts)
{
    const part_t lists = part_of(part, "parts."), models = part_of(part, "part_models.");
    evidence->has_parts = true;
    evidence->n_columns += PART_COLUMNS;
    evidence->part_bias = part_array(part, "part_bias", F32, n_parts);
    if (!evidence->part_bias || !are_finite(evidence->part_bias, n_parts))
        return part_fail(part, "part_bias", "not finite");
    return lists_read(&evidence->parts, &lists, evidence->n_labels, n_parts) &&
           vectors_read(&evidence->part_models, &models, n_parts, evidence->n_features) &&
           vectors_map(&evidence->part_models, &models, evidence->n_features);
}

bool evidence_read(evidence_t *evidence, const part_t *part, size_t n_features, size_t n_labels, bool boosted)
{
    memset(evidence, 0, sizeof *evidence);
    evidence->n_features = n_features;
    evidence->n_labels = n_labels;
    /* places, neighbours, features to look up a row by, whether there are neighbours, names, a hierarchy; parts */
    const int64_t *shape = part_array(part, "shape", I64, 7);
    if (!shape) return false;
    for (int i = 0; i < 7; ++i)
        if (shape[i] < 0 || shape[i] > INT32_MAX) return part_fail(part, "shape", "out of range");
    const part_t centroids = part_of(part, "centroids."), models = part_of(part, "models.");
    evidence->places = (size_t)shape[0];
    evidence->bias = part_array(part, "bias", F32, n_labels);
    if (!evidence->bias || !are_finite(evidence->bias, n_labels)) return part_fail(part, "bias", "not finite");
    if (!centroids_read(&evidence->centroids, &centroids, n_features, n_labels) ||
        !vectors_read(&evidence->models, &models, n_labels, n_features) ||
        !vectors_map(&evidence->models, &models, n_features))
        return false;
    evidence->has_neighbours = shape[3] != 0;
    if (evidence->has_neighbours && !read_neighbours(evidence, part, shape)) return false;
    evidence->n_columns = BASE_COLUMNS;
    evidence->most_candidates = evidence->places + evidence->n_neighbours * longest(&evidence->row_labels);
    if (!boosted) {
        if (evidence->most_candidates > n_labels) evidence->most_candidates = n_labels;
        evidence->weights = part_array(part, "weights", F32, COMPONENTS);
        return evidence->weights && (are_finite(evidence->weights, COMPONENTS) ||
                                     part_fail(part, "weights", "not finite"));
    }
    evidence->log_rows = part_array(part, "log_rows", F32, n_labels);
    if (!evidence->log_rows) return false;
    if (shape[4]) {
        const part_t names = part_of(part, "names.");
        evidence->has_names = true;
        if (!names_read(&evidence->names, &names, n_features, n_labels)) return false;
        evidence->n_columns += NAME_COLUMNS;
        evidence->most_candidates += evidence->names.places;
    }
    if (evidence->most_candidates > n_labels) evidence->most_candidates = n_labels;
    if (shape[5]) {
        const part_t broader = part_of(part, "broader.");
        evidence->has_hierarchy = true;
        if (!lists_read(&evidence->broader, &broader, n_labels, (uint64_t)1 << 31)) return false;
        evidence->n_columns += RELATED_COLUMNS;
        evidence->most_relations = evidence->most_candidates * longest(&evidence->broader);
    }
    if (shape[6] && !read_parts(evidence, part, (size_t)shape[6])) return false;
    const part_t booster = part_of(part, "booster.");
    if (!trees_read(&evidence->booster, &booster)) return false;
    if (evidence->booster.n_labels != 1 || evidence->booster.n_columns != evidence->n_columns)
        return part_fail(part, "booster.shape", "not the columns of evidence");
    return trees_pack(&evidence->booster) || part_fail(part, "booster.", "out of memory");
}

void evidence_free(evidence_t *evidence)
{
    centroids_free(&evidence->centroids);
    lists_free(&evidence->models);
    lists_free(&evidence->postings);
    lists_free(&evidence->row_labels);
    names_free(&evidence->names);
    lists_free(&evidence->broader);
    lists_free(&evidence->parts);
    lists_free(&evidence->part_models);
    trees_free(&evidence->booster);
}

/* Weights the row and scales it to unit length, in double precision. */
static row_t unit_row(const evidence_t *evidence, row_t row, float *unit)
{
    const float *weights = evidence->centroids.feature_weights;
    double squares = 0.0;
    for (size_t e = 0; e < row.n; ++e) {
        const double value = (double)row.values[e] * (weights ? (double)weights[row.features[e]] : 1.0);
        squares += value * value;
    }
    const double length = squares > 0.0 ? sqrt(squares) : 1.0;
    for (size_t e = 0; e < row.n; ++e) {
        const double value = (double)row.values[e] * (weights ? (double)weights[row.features[e]] : 1.0);
        unit[e] = (float)(value / length);
    }
    return (row_t){row.features, unit, row.n};
}

static int by_position(const void *a, const void *b)
{
    const scored_t *x = a, *y = b;
    return (x->label > y->label) - (x->label < y->label);
}

/* The entries of largest magnitude, by increasing feature. */
static row_t shortened(row_t row, size_t most, scratch_t *scratch)
{
    if (row.n <= most) return row;
    for (size_t e = 0; e < row.n; ++e) scratch->rows[e] = (scored_t){fabsf(row.values[e]), (int32_t)e};
    const size_t kept = select_best(scratch->rows, row.n, most);
    qsort(scratch->rows, kept, sizeof *scratch->rows, by_position);
    for (size_t i = 0; i < kept; ++i) {
        scratch->short_features[i] = row.features[scratch->rows[i].label];
        scratch->short_values[i] = row.values[scratch->rows[i].label];
    }
    return (row_t){scratch->short_features, scratch->short_values, kept};
}

/* Largest of each block of sums. */
static size_t block_maxima(const float *sums, size_t n, float *maxima)
{
    enum { WIDTH = 16 };
    size_t n_blocks = 0;
    for (size_t begin = 0; begin < n; begin += STRIDE, ++n_blocks) {
        const size_t size = n - begin < STRIDE ? n - begin : STRIDE;
        float most[WIDTH] = {0}, highest = 0.0f;
        size_t i = 0;
        for (; i + WIDTH <= size; i += WIDTH)
            for (size_t j = 0; j < WIDTH; ++j) {
                const float value = sums[begin + i + j];
                most[j] = value > most[j] ? value : most[j];
            }
        for (; i < size; ++i) most[0] = sums[begin + i] > most[0] ? sums[begin + i] : most[0];
        for (size_t j = 0; j < WIDTH; ++j) highest = most[j] > highest ? most[j] : highest;
        maxima[n_blocks] = highest;
    }
    return n_blocks;
}

/* The training rows of largest inner product, nearest first, in scratch->rows; returns their number. */
static size_t nearest_rows(const evidence_t *evidence, row_t query, scratch_t *scratch)
{
    const size_t k = evidence->n_neighbours, n = evidence->n_rows;
    float *sums = scratch->row_sums;
    scored_t *list = scratch->rows;
    memset(sums, 0, n * sizeof *sums);
    for (size_t e = 0; e < query.n; ++e) {
        if (e + 1 < query.n) vector_prefetch(&evidence->postings, (size_t)query.features[e + 1]);
        vector_add(&evidence->postings, (size_t)query.features[e], query.values[e], sums);
    }
    /* most rows are far: the k-th largest of the blocks' maxima is at most the k-th largest product */
    const size_t n_blocks = block_maxima(sums, n, scratch->maxima);
    float least = 0.0f;
    if (n_blocks >= k && k > 0) {
        for (size_t b = 0; b < n_blocks; ++b) list[b] = (scored_t){scratch->maxima[b], (int32_t)b};
        least = list[select_best(list, n_blocks, k) - 1].score;
    }
    size_t n_list = 0;
    for (size_t b = 0; b < n_blocks; ++b) {
        if (!(scratch->maxima[b] >= least && scratch->maxima[b] > 0.0f)) continue;
        const size_t end = (b + 1) * STRIDE < n ? (b + 1) * STRIDE : n;
        for (size_t row = b * STRIDE; row < end; ++row)
            if (sums[row] >= least && sums[row] > 0.0f) list[n_list++] = (scored_t){sums[row], (int32_t)row};
    }
    return select_best(list, n_list, k);
}

/* The candidate of a label, a new one if there is none yet. */
static candidate_t *candidate_of(scratch_t *scratch, size_t *n, int32_t label, size_t place)
{
    if (!scratch->place_of[label]) {
        scratch->candidates[*n] = (candidate_t){label, (int32_t)place, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        scratch->place_of[label] = (int32_t)++*n;
    }
    return scratch->candidates + scratch->place_of[label] - 1;
}

/* The union of the trees' labels, the neighbours' and those found by name. */
static size_t collect(const evidence_t *evidence, scratch_t *scratch, size_t n_trees, size_t n_rows)
{
    size_t n = 0;
    for (size_t i = 0; i < n_trees; ++i)
        candidate_of(scratch, &n, scratch->list[i].label, i)->score = scratch->list[i].score;
    for (size_t i = 0; i < n_rows; ++i) {
        const float cosine = scratch->rows[i].score;
        cursor_t cursor = lists_begin(&evidence->row_labels, (size_t)scratch->rows[i].label);
        while (lists_next(&evidence->row_labels, &cursor)) {
            candidate_t *c = candidate_of(scratch, &n, (int32_t)cursor.index, evidence->places);
            c->votes += cosine;
            c->sharp += cosine * cosine * cosine;
            if (c->nearest < cosine) c->nearest = cosine;
            c->voters += 1.0f;
        }
    }
    for (size_t i = 0; evidence->has_names && i < evidence->names.places; ++i)
        if (scratch->found.proposed[i] >= 0) candidate_of(scratch, &n, scratch->found.proposed[i], evidence->places);
    return n;
}

static float share(float value, float low, float high)
{
    return value < low ? low : high < value ? high : value;
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static void prefetch_candidate(const evidence_t *evidence, const scratch_t *scratch, size_t i, size_t n)
{
    if (i + AHEAD < n) {
        vector_prefetch_start(&evidence->centroids.vectors, (size_t)scratch->candidates[i + AHEAD].label);
        vector_prefetch_start(&evidence->models, (size_t)scratch->candidates[i + AHEAD].label);
    }
    if (i >= n) return;
    vector_prefetch(&evidence->centroids.vectors, (size_t)scratch->candidates[i].label);
    vector_prefetch(&evidence->models, (size_t)scratch->candidates[i].label);
}

/* Weighted mean of four components from 0 to 1. */
static void score_linear(const evidence_t *evidence, row_t unit, scratch_t *scratch, size_t n, float highest,
                         float sharpest)
{
    const float *weights = evidence->weights;
    const spread_t spread = {unit.features, unit.n, scratch->spread};
    float norm = 0.0f;
    for (size_t e = 0; e < unit.n; ++e) {
        scratch->spread[unit.features[e]] = unit.values[e];
        norm += unit.values[e] * unit.values[e];
    }
    for (size_t i = 0; i < n; ++i) {
        const candidate_t *c = scratch->candidates + i;
        const size_t label = (size_t)c->label;
        prefetch_candidate(evidence, scratch, i + 1, n);
        const float trees = highest > 0.0f ? share(c->score / highest, 0.0f, 1.0f) : 0.0f;
        const float cosine = share(centroids_cosine(&evidence->centroids, label, spread, norm), 0.0f, 1.0f);
        const float margin = vector_product(&evidence->models, label, spread) + evidence->bias[label];
        const float votes = sharpest > 0.0f ? c->sharp / sharpest : 0.0f;
        const float mean = weights[0] * trees + weights[1] * cosine +
                           weights[2] / (1.0f + expf(-steepness * margin)) + weights[3] * votes;
        scratch->list[i] = (scored_t){isfinite(mean) ? mean : 0.0f, c->label};
    }
    for (size_t e = 0; e < unit.n; ++e) scratch->spread[unit.features[e]] = 0.0f;
}

/* The table of evidence: a line of columns per candidate. */
static void fill_table(const evidence_t *evidence, row_t row, row_t unit, scratch_t *scratch, size_t n, float highest,
                       float sharpest)
{
    const size_t width = evidence->n_columns;
    const spread_t spread = {row.features, row.n, scratch->spread};
    const float norm = centroids_spread(&evidence->centroids, row, scratch->spread);
    for (size_t i = 0; i < n; ++i) {
        const candidate_t *c = scratch->candidates + i;
        float *line = scratch->table + i * width;
        if (i + AHEAD < n) vector_prefetch_start(&evidence->centroids.vectors, (size_t)c[AHEAD].label);
        if (i + 1 < n) vector_prefetch(&evidence->centroids.vectors, (size_t)c[1].label);
        line[SCORE] = c->score;
        line[RELATIVE] = highest > 0.0f ? c->score / highest : 0.0f;
        line[PLACE] = log1pf((float)c->place);
        line[VOTES] = c->votes;
        line[SHARP] = c->sharp;
        line[RELATIVE_SHARP] = sharpest > 0.0f ? c->sharp / sharpest : 0.0f;
        line[NEAREST] = c->nearest;
        line[VOTERS] = c->voters;
        const float cosine = centroids_cosine(&evidence->centroids, (size_t)c->label, spread, norm);
        line[COSINE] = isfinite(cosine) ? cosine : 0.0f;
        line[LOG_ROWS] = evidence->log_rows[c->label];
    }
    for (size_t e = 0; e < unit.n; ++e) scratch->spread[unit.features[e]] = unit.values[e];
    for (size_t i = 0; i < n; ++i) {
        const size_t label = (size_t)scratch->candidates[i].label;
        if (i + AHEAD < n) vector_prefetch_start(&evidence->models, (size_t)scratch->candidates[i + AHEAD].label);
        if (i + 1 < n) vector_prefetch(&evidence->models, (size_t)scratch->candidates[i + 1].label);
        scratch->table[i * width + MARGIN] =
            vector_product(&evidence->models, label, spread) + evidence->bias[label];
    }
    for (size_t e = 0; e < unit.n; ++e) scratch->spread[unit.features[e]] = 0.0f;
}

static int by_parent(const void *a, const void *b)
{
    const relation_t *x = a, *y = b;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    return (x->candidate > y->candidate) - (x->candidate < y->candidate);
}

static void raise_to(float *value, float other)
{
    if (*value < other) *value = other;
}

/* The largest mean component of the candidates that are broader, narrower, or have a broader term in common. */
static void fill_related(const evidence_t *evidence, scratch_t *scratch, size_t n, float *columns)
{
    const size_t width = evidence->n_columns;
    relation_t *relations = scratch->relations;
    float *values = scratch->results;
    size_t n_relations = 0;
    for (size_t i = 0; i < n; ++i) {
        const float *line = scratch->table + i * width;
        const float sum = share(line[RELATIVE], 0.0f, 1.0f) + share(line[COSINE], 0.0f, 1.0f) +
                          sigmoid(steepness * line[MARGIN]) + line[RELATIVE_SHARP];
        values[i] = sum / (float)COMPONENTS;
        for (int j = 0; j < RELATED_COLUMNS; ++j) columns[i * width + (size_t)j] = 0.0f;
        cursor_t cursor = lists_begin(&evidence->broader, (size_t)scratch->candidates[i].label);
        while (lists_next(&evidence->broader, &cursor)) relations[n_relations++] = (relation_t){cursor.index, i};
    }
    qsort(relations, n_relations, sizeof *relations, by_parent);
    for (size_t begin = 0, end = 0; begin < n_relations; begin = end) {
        const uint64_t parent = relations[begin].parent;
        float best = 0.0f, second = 0.0f;
        for (end = begin; end < n_relations && relations[end].parent == parent; ++end) {
            const float value = values[relations[end].candidate];
            raise_to(&second, value < best ? value : best);
            raise_to(&best, value);
        }
        const size_t place = parent < evidence->n_labels ? (size_t)scratch->place_of[parent] : 0; /* from 1 */
        if (place) columns[(place - 1) * width + 1] = best;
        for (size_t r = begin; r < end; ++r) {
            float *line = columns + relations[r].candidate * width;
            if (place) raise_to(line, values[place - 1]);
            raise_to(line + 2, values[relations[r].candidate] == best ? second : best);
        }
    }
}

/* Mean, least and largest margin of the parts of every candidate. */
static void fill_parts(const evidence_t *evidence, row_t unit, scratch_t *scratch, size_t n, float *columns)
{
    const size_t width = evidence->n_columns;
    const spread_t spread = {unit.features, unit.n, scratch->spread};
    for (size_t e = 0; e < unit.n; ++e) scratch->spread[unit.features[e]] = unit.values[e];
    for (size_t i = 0; i < n; ++i) {
        float *line = columns + i * width;
        float sum = 0.0f, count = 0.0f, least = no_parts, largest = no_parts;
        cursor_t cursor = lists_begin(&evidence->parts, (size_t)scratch->candidates[i].label);
        while (lists_next(&evidence->parts, &cursor)) {
            const size_t part = (size_t)cursor.index;
            const float margin = vector_product(&evidence->part_models, part, spread) + evidence->part_bias[part];
            if (count == 0.0f || margin < least) least = margin;
            if (count == 0.0f || margin > largest) largest = margin;
            sum += margin;
            count += 1.0f;
        }
        line[0] = count == 0.0f ? no_parts : sum / count;
        line[1] = least;
        line[2] = largest;
    }
    for (size_t e = 0; e < unit.n; ++e) scratch->spread[unit.features[e]] = 0.0f;
}

static void score_boosted(const evidence_t *evidence, row_t row, row_t unit, scratch_t *scratch, size_t n,
                          float highest, float sharpest)
{
    const size_t width = evidence->n_columns;
    fill_table(evidence, row, unit, scratch, n, highest, sharpest);
    float *more = scratch->table + BASE_COLUMNS;
    if (evidence->has_names) {
        for (size_t i = 0; i < n; ++i)
            names_evidence(&evidence->names, &scratch->found, (size_t)scratch->candidates[i].label, more + i * width);
        more += NAME_COLUMNS;
    }
    if (evidence->has_hierarchy) {
        fill_related(evidence, scratch, n, more);
        more += RELATED_COLUMNS;
    }
    if (evidence->has_parts) fill_parts(evidence, unit, scratch, n, more);
    trees_single(&evidence->booster, scratch->table, n, scratch->results);
    for (size_t i = 0; i < n; ++i) {
        const float score = sigmoid(scratch->results[i]);
        scratch->list[i] = (scored_t){score < least_score ? least_score : score, scratch->candidates[i].label};
    }
}

size_t evidence_rank(const evidence_t *evidence, row_t row, scratch_t *scratch, size_t n, size_t k)
{
    const row_t unit = unit_row(evidence, row, scratch->unit);
    size_t n_rows = 0;
    if (evidence->has_neighbours)
        n_rows = nearest_rows(evidence, shortened(unit, evidence->query_features, scratch), scratch);
    if (evidence->has_names) {
        names_find(&evidence->names, unit, &scratch->found);
        names_propose(&evidence->names, &scratch->found);
    }
    const size_t n_candidates = collect(evidence, scratch, n, n_rows);
    float highest = 0.0f, sharpest = 0.0f;
    for (size_t i = 0; i < n_candidates; ++i) {
        raise_to(&highest, scratch->candidates[i].score);
        raise_to(&sharpest, scratch->candidates[i].sharp);
    }
    if (evidence->weights)
        score_linear(evidence, unit, scratch, n_candidates, highest, sharpest);
    else
        score_boosted(evidence, row, unit, scratch, n_candidates, highest, sharpest);
    for (size_t i = 0; i < n_candidates; ++i) scratch->place_of[scratch->candidates[i].label] = 0;
    if (evidence->has_names) names_clear(&scratch->found);
    return select_best(scratch->list, n_candidates, k);
}
