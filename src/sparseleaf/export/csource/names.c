/* Label names as evidence: names whose words occur in a row. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rerank.h"

static const float exact = 0.999f;    /* similarity of equal words, after quantisation to 8 bits */
static const float least_share = 0.5f; /* fraction of a name's weight that must be found */

/* Numbers of names by their heaviest word. */
static bool index_names(names_t *names, const part_t *part, size_t n_labels)
{
    int32_t *heaviest = malloc((names->n_names + 1) * sizeof *heaviest);
    names->totals = calloc(names->n_names + 1, sizeof *names->totals);
    names->headed_starts = calloc(names->n_words + 2, sizeof *names->headed_starts);
    names->headed = malloc((names->n_names + 1) * sizeof *names->headed);
    names->label_of = calloc(names->n_names + 1, sizeof *names->label_of);
    names->alike = calloc(names->n_names + 1, sizeof *names->alike);
    if (!heaviest || !names->totals || !names->headed_starts || !names->headed || !names->label_of || !names->alike) {
        free(heaviest);
        return part_fail(part, "", "out of memory");
    }
    bool finite = true;
    for (size_t name = 0; name < names->n_names; ++name) {
        float most = 0.0f;
        heaviest[name] = -1;
        cursor_t cursor = lists_begin(&names->names, name);
        while (lists_next(&names->names, &cursor)) {
            const float weight = names->weights[cursor.index];
            names->totals[name] += weight;
            if (weight > most) {
                most = weight;
                heaviest[name] = (int32_t)cursor.index;
            }
        }
        finite = finite && isfinite(names->totals[name]);
        if (heaviest[name] >= 0) ++names->headed_starts[heaviest[name] + 1];
    }
    for (size_t word = 0; word < names->n_words; ++word)
        names->headed_starts[word + 1] += names->headed_starts[word];
    for (size_t name = names->n_names; name-- > 0;) { /* backwards: starts become ends and starts again */
        const int32_t word = heaviest[name];
        if (word >= 0) names->alike[name] = (int32_t)(names->headed_starts[word + 1] - names->headed_starts[word]);
    }
    int64_t *next = malloc((names->n_words + 1) * sizeof *next);
    if (!next) {
        free(heaviest);
        return part_fail(part, "", "out of memory");
    }
    memcpy(next, names->headed_starts, (names->n_words + 1) * sizeof *next);
    for (size_t name = 0; name < names->n_names; ++name)
        if (heaviest[name] >= 0) names->headed[next[heaviest[name]]++] = (int32_t)name;
    for (size_t label = 0; label < n_labels; ++label)
        for (int64_t name = names->starts[label]; name < names->starts[label + 1]; ++name)
            names->label_of[name] = (int32_t)label;
    free(next);
    free(heaviest);
    return finite || part_fail(part, "weights", "not finite");
}

bool names_read(names_t *names, const part_t *part, size_t n_features, size_t n_labels)
{
    memset(names, 0, sizeof *names);
    const int64_t *places = part_array(part, "places", I64, 1);
    const part_t similar = part_of(part, "similar."), lists = part_of(part, "names.");
    names->n_words = part_length(part, "weights");
    names->weights = part_array(part, "weights", F32, ANY);
    names->starts = part_array(part, "starts", I64, n_labels + 1);
    const size_t n_starts = part_length(&lists, "starts");
    if (part->file->failed) return false;
    if (n_starts == 0 || n_starts > INT32_MAX) return part_fail(part, "names.starts", "out of range");
    if (*places < 0 || *places > INT32_MAX) return part_fail(part, "places", "out of range");
    names->n_names = n_starts - 1;
    names->places = (size_t)*places;
    for (size_t word = 0; word < names->n_words; ++word)
        if (!(names->weights[word] > 0.0f && isfinite(names->weights[word])))
            return part_fail(part, "weights", "not positive");
    if (!are_starts(names->starts, n_labels, names->n_names)) return part_fail(part, "starts", "not increasing");
    return vectors_read(&names->similar, &similar, n_features, names->n_words) &&
           lists_read(&names->names, &lists, names->n_names, names->n_words) && index_names(names, part, n_labels);
}

void names_free(names_t *names)
{
    lists_free(&names->similar);
    lists_free(&names->names);
    free(names->totals);
    free(names->headed_starts);
    free(names->headed);
    free(names->label_of);
    free(names->alike);
}

/* A word is found by its most similar feature. */
void names_find(const names_t *names, row_t row, found_t *found)
{
    for (size_t e = 0; e < row.n; ++e) {
        const size_t feature = (size_t)row.features[e];
        const float value = row.values[e] < 0.0f ? 0.0f : row.values[e];
        cursor_t cursor = lists_begin(&names->similar, feature);
        while (lists_next(&names->similar, &cursor)) {
            float similarity = vector_value(&names->similar, feature, cursor.at - 1);
            if (1.0f < similarity) similarity = 1.0f;
            if (!(similarity > 0.0f)) continue;
            const size_t word = (size_t)cursor.index;
            if (found->similarity[word] == 0.0f) found->words[found->n_words++] = (int32_t)word;
            if (similarity > found->similarity[word]) found->similarity[word] = similarity;
            if (found->value[word] < similarity * value) found->value[word] = similarity * value;
        }
    }
}

void names_clear(found_t *found)
{
    for (size_t i = 0; i < found->n_words; ++i)
        found->similarity[found->words[i]] = found->value[found->words[i]] = 0.0f;
    found->n_words = 0;
}

typedef struct {
    int64_t name;
    float share, equal, mass, words;
} match_t;

static match_t match_name(const names_t *names, const found_t *found, size_t name)
{
    match_t match = {(int64_t)name, 0.0f, 0.0f, 0.0f, 0.0f};
    cursor_t cursor = lists_begin(&names->names, name);
    while (lists_next(&names->names, &cursor)) {
        const float similarity = found->similarity[cursor.index], weight = names->weights[cursor.index];
        match.words += 1.0f;
        match.share += weight * similarity;
        if (similarity >= exact) match.equal += weight;
        match.mass += found->value[cursor.index];
    }
    if (names->totals[name] > 0.0f) {
        match.share /= names->totals[name];
        match.equal /= names->totals[name];
    }
    return match;
}

static int by_label(const void *a, const void *b)
{
    const scored_t *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    return (x->score < y->score) - (x->score > y->score);
}

/* The labels whose names are found best. The heaviest word of a name must be found. */
void names_propose(const names_t *names, found_t *found)
{
    scored_t *list = found->list;
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < found->n_words; ++i)
        for (int64_t h = names->headed_starts[found->words[i]]; h < names->headed_starts[found->words[i] + 1]; ++h) {
            const match_t match = match_name(names, found, (size_t)names->headed[h]);
            if (match.share >= least_share)
                list[n++] = (scored_t){match.share * match.share * match.mass, names->label_of[names->headed[h]]};
        }
    qsort(list, n, sizeof *list, by_label); /* of several names of a label, the best */
    for (size_t i = 0; i < n; ++i)
        if (kept == 0 || list[kept - 1].label != list[i].label) list[kept++] = list[i];
    kept = select_best(list, kept, names->places);
    for (size_t i = 0; i < names->places; ++i) found->proposed[i] = i < kept ? list[i].label : -1;
}

/* The name of largest share, then mass. */
void names_evidence(const names_t *names, const found_t *found, size_t label, float *columns)
{
    match_t best = {-1, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int64_t name = names->starts[label]; name < names->starts[label + 1]; ++name) {
        const match_t match = match_name(names, found, (size_t)name);
        if (best.name < 0 || match.share > best.share || (match.share == best.share && match.mass > best.mass))
            best = match;
    }
    size_t place = 0;
    while (place < names->places && found->proposed[place] != (int32_t)label) ++place;
    columns[0] = best.share;
    columns[1] = best.equal;
    columns[2] = best.mass;
    columns[3] = best.words;
    columns[4] = best.name < 0 ? 0.0f : names->totals[best.name];
    columns[5] = best.name < 0 ? 0.0f : log1pf((float)names->alike[best.name]);
    columns[6] = log1pf((float)place);
}
