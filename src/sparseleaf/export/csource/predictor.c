/* Models, sessions, and the stages of a prediction. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* for madvise() */
#include <sys/mman.h>
#endif

#include "predictor.h"

#include <math.h>
#include <stdio.h>

#include "memory.h"
#include "rerank.h"
#include "text.h"

enum scorer { BOOSTED_TREES, ROUTED_TREES, BLEND };
enum reranker { NO_RERANKER, BY_CENTROIDS, BY_EVIDENCE, BY_BOOSTED_EVIDENCE, BY_BAYES };
enum link { IDENTITY, LOG, LOGISTIC, SOFTMAX, ONE_VS_REST };
enum { MAX_MEMBERS = 1000, MEMBER_PLACES = 100, MOST_CELLS = 1 << 27 };

/* The stages of a model, or of a member of a blend. */
typedef struct model_stages {
    size_t n_features, n_labels, n_columns;
    enum scorer scorer;
    enum reranker reranker;
    size_t places; /* number of candidates for the re-ranker */
    bool has_projection, has_prior;
    projection_t projection;
    trees_t trees;
    routed_t routed;
    struct model_stages *members;
    size_t n_members;
    const float *member_weights;
    centroids_t centroids;
    evidence_t evidence;
    bayes_t bayes;
    const uint8_t *known; /* bits of the features of the training rows */
    const int32_t *prior_labels;
    const float *prior_scores;
    size_t n_prior;
} stages_t;

struct sparseleaf_model {
    void *owned; /* the bytes of the file, if they were read */
    stages_t stages;
    enum link link;
    bool takes_nan, has_text;
    text_t text;
    const uint8_t *names;
    const int64_t *name_starts; /* or NULL */
};

struct sparseleaf_session {
    const sparseleaf_model *model;
    float *columns; /* of the trees; those of features are 0 between rows */
    sums_t sums;
    float *outputs; /* (n_labels) */
    walk_t walk;
    scratch_t scratch;
    scored_t *best;         /* (members · MEMBER_PLACES) of a blend */
    float *components;      /* (candidates, members) */
    size_t row_capacity, n_training_rows;
    const stages_t *reached; /* whose trees a block of rows has gone through, as in `walk`, or NULL */
    size_t row_number;       /* of the present row in the block */
    bool failed;             /* memory is exhausted */
    text_work_t text;
};

/* --- reading */

static bool read_prior(stages_t *stages, const part_t *part)
{
    stages->has_prior = true;
    stages->n_prior = part_length(part, "labels");
    stages->known = part_array(part, "known", U8, (stages->n_features + 7) / 8);
    stages->prior_labels = part_array(part, "labels", I32, ANY);
    stages->prior_scores = part_array(part, "scores", F32, stages->n_prior);
    if (part->file->failed) return false;
    if (stages->n_prior > stages->n_labels) return part_fail(part, "labels", "too many labels");
    for (size_t i = 0; i < stages->n_prior; ++i)
        if (stages->prior_labels[i] < 0 || (size_t)stages->prior_labels[i] >= stages->n_labels)
            return part_fail(part, "labels", "a label that does not exist");
    return true;
}

static bool read_reranker(stages_t *stages, const part_t *part)
{
    switch (stages->reranker) {
        case NO_RERANKER: return true;
        case BY_CENTROIDS:
            return centroids_read(&stages->centroids, part, stages->n_features, stages->n_labels);
        case BY_BAYES: return bayes_read(&stages->bayes, part, stages->n_features, stages->n_labels);
        default:
            if (!evidence_read(&stages->evidence, part, stages->n_features, stages->n_labels,
                               stages->reranker == BY_BOOSTED_EVIDENCE))
                return false;
            return stages->places <= stages->evidence.places || part_fail(part, "shape", "too few places");
    }
}

static bool stages_read(stages_t *stages, const part_t *part, bool is_member);

static bool read_members(stages_t *stages, const part_t *part)
{
    const size_t n = part_length(part, "weights");
    stages->member_weights = part_array(part, "weights", F32, ANY);
    if (!stages->member_weights) return false;
    if (n < 1 || n > MAX_MEMBERS || !are_finite(stages->member_weights, n))
        return part_fail(part, "weights", "out of range");
    stages->members = calloc(n, sizeof *stages->members);
    if (!stages->members) return part_fail(part, "", "out of memory");
    stages->n_members = n;
    for (size_t i = 0; i < n; ++i) {
        char name[16];
        snprintf(name, sizeof name, "m%u.", (unsigned)i);
        const part_t member = part_of(part, name);
        if (!stages_read(stages->members + i, &member, true)) return false;
        if (stages->members[i].n_features != stages->n_features || stages->members[i].n_labels != stages->n_labels)
            return part_fail(&member, "header", "not the features and labels of the blend");
    }
    return true;
}

static bool read_scorer(stages_t *stages, const part_t *part)
{
    const part_t projection = part_of(part, "projection."), trees = part_of(part, "trees.");
    stages->n_columns = stages->n_features;
    switch (stages->scorer) {
        case BLEND: return read_members(stages, part);
        case ROUTED_TREES: return routed_read(&stages->routed, &trees, stages->n_features, stages->n_labels);
        default: break;
    }
    if (stages->has_projection) {
        if (!projection_read(&stages->projection, &projection, stages->n_features)) return false;
        stages->n_columns = projection_width(&stages->projection);
    }
    if (!trees_read(&stages->trees, &trees)) return false;
    return (stages->trees.n_columns == stages->n_columns && stages->trees.n_labels == stages->n_labels) ||
           part_fail(part, "trees.shape", "not the columns and labels of the model");
}

static bool stages_read(stages_t *stages, const part_t *part, bool is_member)
{
    /* features, labels, scorer, re-ranker, places, projection, prior */
    const int64_t *header = part_array(part, "header", I64, 7);
    if (!header) return false;
    if (header[0] < 0 || header[0] > INT32_MAX || header[1] < 1 || header[1] > INT32_MAX || header[2] < BOOSTED_TREES ||
        header[2] > (is_member ? ROUTED_TREES : BLEND) || header[3] < NO_RERANKER || header[3] > BY_BAYES ||
        header[4] < 0 || header[4] > INT32_MAX || (header[2] == BLEND && header[3] != NO_RERANKER))
        return part_fail(part, "header", "out of range");
    stages->n_features = (size_t)header[0];
    stages->n_labels = (size_t)header[1];
    stages->scorer = (enum scorer)header[2];
    stages->reranker = (enum reranker)header[3];
    stages->places = (size_t)header[4];
    stages->has_projection = header[5] != 0;
    const part_t rerank = part_of(part, "rerank."), empty = part_of(part, "empty.");
    return read_scorer(stages, part) && read_reranker(stages, &rerank) && (!header[6] || read_prior(stages, &empty));
}

static void stages_free(stages_t *stages)
{
    for (size_t i = 0; i < stages->n_members; ++i) stages_free(stages->members + i);
    free(stages->members);
    routed_free(&stages->routed);
    centroids_free(&stages->centroids);
    evidence_free(&stages->evidence);
}

static bool read_names(sparseleaf_model *model, const part_t *part)
{
    if (!part_has(part, "label_names")) return true;
    model->names = part_array(part, "label_names", U8, ANY);
    model->name_starts = part_array(part, "label_starts", I64, model->stages.n_labels + 1);
    if (part->file->failed) return false;
    return are_starts(model->name_starts, model->stages.n_labels, part_length(part, "label_names")) ||
           part_fail(part, "label_starts", "not increasing");
}

static bool model_read(sparseleaf_model *model, const part_t *part)
{
    const int64_t *settings = part_array(part, "model", I64, 3); /* link, takes_nan, text */
    if (!settings) return false;
    if (settings[0] < IDENTITY || settings[0] > ONE_VS_REST) return part_fail(part, "model", "out of range");
    model->link = (enum link)settings[0];
    model->takes_nan = settings[1] != 0;
    model->has_text = settings[2] != 0;
    const part_t text = part_of(part, "text.");
    return stages_read(&model->stages, part, false) && read_names(model, part) &&
           (!model->has_text || text_read(&model->text, &text, model->stages.n_features));
}

sparseleaf_model *sparseleaf_open_memory(const void *bytes, size_t size, char *error)
{
    file_t file;
    const part_t part = {&file, ""};
    if (!file_open(&file, bytes, size, error)) return NULL;
    sparseleaf_model *model = calloc(1, sizeof *model);
    if (!model) {
        file_fail(&file, "", "out of memory");
        return NULL;
    }
    if (model_read(model, &part) && !file.failed) return model;
    sparseleaf_close(model);
    return NULL;
}

/* Memory for a model. On Linux, in huge pages if they are available: every row reads a few bytes all over the model. */
static void *allocate_model(size_t size)
{
#if defined __linux__ && defined MADV_HUGEPAGE
    const size_t page = (size_t)1 << 21;
    void *memory = NULL;
    if (size < page) return malloc(size);
    if (posix_memalign(&memory, page, size) != 0) return NULL;
    madvise(memory, size, MADV_HUGEPAGE); /* a hint, which may fail */
    return memory;
#else
    return malloc(size);
#endif
}

/* The content of a file, or NULL. */
static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *bytes = NULL;
    long end = -1;
    if (fseek(file, 0, SEEK_END) == 0) end = ftell(file);
    if (end >= 0 && fseek(file, 0, SEEK_SET) == 0) bytes = allocate_model((size_t)end + 1);
    if (bytes && fread(bytes, 1, (size_t)end, file) != (size_t)end) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    *size = bytes ? (size_t)end : 0;
    return bytes;
}

sparseleaf_model *sparseleaf_open(const char *path, char *error)
{
    size_t size;
    void *bytes = read_file(path, &size);
    if (!bytes) {
        if (error) snprintf(error, SPARSELEAF_ERROR_SIZE, "the file cannot be read");
        return NULL;
    }
    sparseleaf_model *model = sparseleaf_open_memory(bytes, size, error);
    if (model)
        model->owned = bytes;
    else
        free(bytes);
    return model;
}

void sparseleaf_close(sparseleaf_model *model)
{
    if (!model) return;
    stages_free(&model->stages);
    text_free(&model->text);
    free(model->owned);
    free(model);
}

int64_t sparseleaf_n_features(const sparseleaf_model *model)
{
    return (int64_t)model->stages.n_features;
}

int64_t sparseleaf_n_labels(const sparseleaf_model *model)
{
    return (int64_t)model->stages.n_labels;
}

int64_t sparseleaf_n_fields(const sparseleaf_model *model)
{
    return model->has_text ? (int64_t)model->text.n_fields : 0;
}

int sparseleaf_has_outputs(const sparseleaf_model *model)
{
    return model->stages.reranker == NO_RERANKER && model->stages.trees.base != NULL;
}

const char *sparseleaf_label_name(const sparseleaf_model *model, int32_t label, size_t *size)
{
    if (!model->name_starts || label < 0 || (size_t)label >= model->stages.n_labels) return NULL;
    *size = (size_t)(model->name_starts[label + 1] - model->name_starts[label]);
    return (const char *)model->names + model->name_starts[label];
}

const char *sparseleaf_message(int status)
{
    switch (status) {
        case SPARSELEAF_OK: return "no error";
        case SPARSELEAF_NO_MEMORY: return "out of memory";
        case SPARSELEAF_BAD_FEATURES: return "features must increase and be below the number of features";
        case SPARSELEAF_BAD_VALUES: return "values must be finite (or NaN, if the model supports missing values)";
        case SPARSELEAF_BAD_TEXT: return "texts must be UTF-8";
        case SPARSELEAF_NO_TEXTS: return "the model takes features, or another number of texts";
        case SPARSELEAF_NO_OUTPUTS: return "the scores of the model are sparse";
        default: return "unknown status";
    }
}

/* --- sessions */

/* Whether blocks of rows go through the trees together. */
static bool is_wide(const stages_t *stages)
{
    return stages->scorer == ROUTED_TREES && !stages->routed.small;
}

/* What scratch memory must have room for. */
typedef struct {
    size_t features, labels, columns, nodes, list, training_rows, candidates, cells, relations, words, names, places,
        router_cells;
} sizes_t;

static void raise_to(size_t *size, size_t other)
{
    if (*size < other) *size = other;
}

static void add_sizes(const stages_t *stages, sizes_t *sizes)
{
    const evidence_t *evidence = &stages->evidence;
    raise_to(&sizes->features, stages->n_features);
    raise_to(&sizes->labels, stages->n_labels);
    if (stages->scorer == BOOSTED_TREES) raise_to(&sizes->columns, stages->n_columns);
    raise_to(&sizes->nodes, stages->routed.most_nodes);
    const size_t n_cells = stages->n_features * (size_t)stages->routed.arity;
    if (is_wide(stages) && n_cells <= MOST_CELLS) raise_to(&sizes->router_cells, n_cells);
    raise_to(&sizes->list, 2 * stages->n_labels);
    raise_to(&sizes->training_rows, evidence->n_rows);
    raise_to(&sizes->candidates, evidence->most_candidates);
    raise_to(&sizes->cells, evidence->most_candidates * evidence->n_columns);
    raise_to(&sizes->relations, evidence->most_relations);
    raise_to(&sizes->words, evidence->names.n_words);
    raise_to(&sizes->names, evidence->names.n_names);
    raise_to(&sizes->places, evidence->names.places);
    for (size_t i = 0; i < stages->n_members; ++i) add_sizes(stages->members + i, sizes);
}

/* Zeros, at least one. */
static bool make(void *pointer, size_t n, size_t item_size)
{
    void *data = calloc(n + 1, item_size);
    memcpy(pointer, &data, sizeof data);
    return data != NULL;
}

sparseleaf_session *sparseleaf_session_new(const sparseleaf_model *model)
{
    sizes_t sizes = {0};
    sparseleaf_session *session = calloc(1, sizeof *session);
    if (!session) return NULL;
    add_sizes(&model->stages, &sizes);
    scratch_t *scratch = &session->scratch;
    found_t *found = &scratch->found;
    const size_t n_members = model->stages.n_members, n_best = n_members * MEMBER_PLACES;
    session->model = model;
    session->n_training_rows = sizes.training_rows;
    const bool made =
        make(&session->columns, sizes.columns, sizeof(float)) &&
        make(&session->sums.values, sizes.labels, sizeof(float)) && make(&session->sums.seen, sizes.labels, 1) &&
        make(&session->sums.labels, sizes.labels, sizeof(int32_t)) &&
        make(&session->outputs, sizes.labels, sizeof(float)) &&
        make(&session->walk.stack, sizes.nodes, sizeof(visit_t)) &&
        make(&session->walk.spread, sizes.features, sizeof(float)) &&
        (sizes.router_cells == 0 || make(&session->walk.table, sizes.router_cells, sizeof(float))) &&
        make(&scratch->spread, sizes.features, sizeof(float)) &&
        make(&scratch->label_sums, sizes.labels, sizeof(float)) &&
        make(&scratch->place_of, sizes.labels, sizeof(int32_t)) &&
        make(&scratch->row_sums, sizes.training_rows, sizeof(float)) &&
        make(&scratch->maxima, sizes.training_rows / 64 + 1, sizeof(float)) &&
        make(&scratch->candidates, sizes.candidates, sizeof(candidate_t)) &&
        make(&scratch->relations, sizes.relations, sizeof(relation_t)) &&
        make(&scratch->table, sizes.cells, sizeof(float)) &&
        make(&scratch->results, sizes.candidates, sizeof(float)) &&
        make(&scratch->list, sizes.list, sizeof(scored_t)) &&
        make(&found->similarity, sizes.words, sizeof(float)) && make(&found->value, sizes.words, sizeof(float)) &&
        make(&found->words, sizes.words, sizeof(int32_t)) && make(&found->list, sizes.names, sizeof(scored_t)) &&
        make(&found->proposed, sizes.places, sizeof(int32_t)) && make(&session->best, n_best, sizeof(scored_t)) &&
        make(&session->components, n_best * n_members, sizeof(float)) &&
        (!model->has_text || text_work_new(&session->text, &model->text));
    if (made) return session;
    sparseleaf_session_free(session);
    return NULL;
}

void sparseleaf_session_free(sparseleaf_session *session)
{
    if (!session) return;
    scratch_t *scratch = &session->scratch;
    void *all[] = {session->columns,          session->sums.values,        session->sums.seen,
                   session->sums.labels,      session->outputs,            scratch->spread,
                   scratch->label_sums,       scratch->place_of,           scratch->row_sums,
                   scratch->maxima,           scratch->rows,               scratch->unit,
                   scratch->short_features,   scratch->short_values,       scratch->candidates,
                   scratch->relations,        scratch->table,              scratch->results,
                   scratch->list,             scratch->found.similarity,   scratch->found.value,
                   scratch->found.words,      scratch->found.list,         scratch->found.proposed,
                   session->best,             session->components};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
    walk_free(&session->walk);
    text_work_free(&session->text);
    free(session);
}

/* Room for a row of n entries. */
static bool reserve_row(sparseleaf_session *session, size_t n)
{
    scratch_t *scratch = &session->scratch;
    const size_t capacity = n < 64 ? 64 : 2 * n;
    if (n < session->row_capacity) return true;
    const size_t n_rows = session->n_training_rows > capacity ? session->n_training_rows : capacity;
    if (!resize(&scratch->unit, capacity, sizeof(float)) ||
        !resize(&scratch->short_features, capacity, sizeof(int32_t)) ||
        !resize(&scratch->short_values, capacity, sizeof(float)) ||
        !resize(&scratch->rows, n_rows, sizeof(scored_t)))
        return false;
    session->row_capacity = capacity;
    return true;
}

/* --- stages of a prediction */

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static bool is_empty(const stages_t *stages, row_t row)
{
    if (!stages->has_prior) return false;
    for (size_t e = 0; e < row.n; ++e) {
        const size_t feature = (size_t)row.features[e];
        if (row.values[e] != 0.0f && stages->known[feature / 8] >> (7 - feature % 8) & 1) return false;
    }
    return true;
}

/* The columns of the trees. clear_columns() must follow. */
static void make_columns(const stages_t *stages, row_t row, float *columns)
{
    if (stages->has_projection)
        projection_apply(&stages->projection, row, columns);
    else
        for (size_t e = 0; e < row.n; ++e) columns[row.features[e]] = row.values[e];
}

static void clear_columns(const stages_t *stages, row_t row, float *columns)
{
    if (stages->has_projection && !stages->projection.keep_raw) {
        memset(columns, 0, stages->n_columns * sizeof *columns);
        return;
    }
    const size_t first = stages->has_projection ? stages->projection.n_projected : 0;
    memset(columns, 0, first * sizeof *columns);
    for (size_t e = 0; e < row.n; ++e) columns[first + (size_t)row.features[e]] = 0.0f;
}

/* NaN, which sums of huge values may be, is the last in the ranking. */
static float rankable(float score)
{
    return score == score ? score : -INFINITY;
}

/* Adds the scores of a row, which goes through the trees now if it has not yet done so in a block. */
static bool add_routed(sparseleaf_session *session, const stages_t *stages, row_t row)
{
    const size_t starts[] = {0, row.n};
    const rows_t one = {starts, row.features, row.values, 1};
    const bool reached = session->reached == stages;
    if (!is_wide(stages)) return routed_sum(&stages->routed, row, &session->walk, &session->sums);
    if (!reached && !routed_reach(&stages->routed, one, &session->walk)) return false;
    routed_add(&stages->routed, &session->walk, reached ? session->row_number : 0, &session->sums);
    return true;
}

/* The scorer's k best labels, in scratch.list; returns their number. */
static size_t score_row(sparseleaf_session *session, const stages_t *stages, row_t row, size_t k)
{
    scored_t *list = session->scratch.list;
    size_t n;
    if (stages->scorer == ROUTED_TREES) {
        session->failed = session->failed || !add_routed(session, stages, row);
        n = sums_take(&session->sums, &stages->routed.leaves, list);
    } else {
        make_columns(stages, row, session->columns);
        if (stages->trees.base) {
            trees_dense(&stages->trees, session->columns, session->outputs);
            n = stages->n_labels;
            for (size_t label = 0; label < n; ++label)
                list[label] = (scored_t){rankable(session->outputs[label]), (int32_t)label};
        } else {
            trees_sum(&stages->trees, session->columns, &session->sums);
            n = sums_take(&session->sums, &stages->trees.leaves, list);
        }
        clear_columns(stages, row, session->columns);
    }
    return select_best(list, n, k);
}

static size_t rank_row(sparseleaf_session *session, const stages_t *stages, row_t row, size_t k);

/* A member's scores of its best labels relative to its highest; returns their number. */
static size_t rank_member(sparseleaf_session *session, const stages_t *member, row_t row)
{
    scored_t *list = session->scratch.list;
    const size_t n = rank_row(session, member, row, MEMBER_PLACES);
    const bool dense = member->trees.base && member->reranker == NO_RERANKER;
    float top = -INFINITY;
    for (size_t i = 0; i < n; ++i) {
        if (dense) list[i].score = sigmoid(list[i].score);
        if (top < list[i].score) top = list[i].score;
    }
    for (size_t i = 0; i < n; ++i) {
        const float relative = top > 0.0f ? list[i].score / top : 0.0f;
        list[i].score = relative < 0.0f ? 0.0f : 1.0f < relative ? 1.0f : relative;
    }
    return n;
}

/* Weighted mean of the members' relative scores, over the union of their best labels. */
static size_t rank_blend(sparseleaf_session *session, const stages_t *stages, row_t row, size_t k)
{
    int32_t *place_of = session->scratch.place_of;
    const size_t n_members = stages->n_members;
    size_t n = 0;
    for (size_t m = 0; m < n_members; ++m) {
        const size_t n_best = rank_member(session, stages->members + m, row);
        memcpy(session->best + m * MEMBER_PLACES, session->scratch.list, n_best * sizeof(scored_t));
        for (size_t i = n_best; i < MEMBER_PLACES; ++i) session->best[m * MEMBER_PLACES + i].label = -1;
    }
    scored_t *list = session->scratch.list;
    for (size_t i = 0; i < n_members * MEMBER_PLACES; ++i) {
        const scored_t one = session->best[i];
        if (one.label < 0) continue;
        if (!place_of[one.label]) {
            place_of[one.label] = (int32_t)(n + 1);
            memset(session->components + n * n_members, 0, n_members * sizeof(float));
            list[n++].label = one.label;
        }
        session->components[((size_t)place_of[one.label] - 1) * n_members + i / MEMBER_PLACES] = one.score;
    }
    for (size_t i = 0; i < n; ++i) {
        const float *components = session->components + i * n_members;
        float score = components[0] * stages->member_weights[0];
        for (size_t m = 1; m < n_members; ++m) score += components[m] * stages->member_weights[m];
        list[i].score = score;
        place_of[list[i].label] = 0;
    }
    return select_best(list, n, k);
}

/* The k best labels of a row, in scratch.list; returns their number. */
static size_t rank_row(sparseleaf_session *session, const stages_t *stages, row_t row, size_t k)
{
    scored_t *list = session->scratch.list;
    if (is_empty(stages, row)) {
        const size_t n = stages->n_prior < k ? stages->n_prior : k;
        for (size_t i = 0; i < n; ++i) list[i] = (scored_t){stages->prior_scores[i], stages->prior_labels[i]};
        return n;
    }
    if (stages->scorer == BLEND) return rank_blend(session, stages, row, k);
    if (stages->reranker == NO_RERANKER) return score_row(session, stages, row, k);
    const size_t n = score_row(session, stages, row, stages->places);
    for (size_t i = 0; stages->trees.base && i < n; ++i) list[i].score = sigmoid(list[i].score);
    switch (stages->reranker) {
        case BY_CENTROIDS:
            centroids_rescore(&stages->centroids, row, session->scratch.spread, list, n);
            return select_best(list, n, k);
        case BY_BAYES: return bayes_rank(&stages->bayes, row, &session->scratch, n, k);
        default: return evidence_rank(&stages->evidence, row, &session->scratch, n, k);
    }
}

static int check_row(const sparseleaf_model *model, row_t row)
{
    for (size_t e = 0; e < row.n; ++e) {
        if (row.features[e] < 0 || (size_t)row.features[e] >= model->stages.n_features ||
            (e > 0 && row.features[e - 1] >= row.features[e]))
            return SPARSELEAF_BAD_FEATURES;
        if (!isfinite(row.values[e]) && !(isnan(row.values[e]) && model->takes_nan)) return SPARSELEAF_BAD_VALUES;
    }
    return SPARSELEAF_OK;
}

static void write_best(const scored_t *list, size_t n, size_t k, int32_t *labels, float *scores)
{
    for (size_t i = 0; i < k; ++i) {
        labels[i] = i < n ? list[i].label : -1;
        scores[i] = i < n ? list[i].score : -INFINITY;
    }
}

static int rank_rows(sparseleaf_session *session, rows_t rows, size_t k, int32_t *labels, float *scores)
{
    const stages_t *stages = &session->model->stages;
    session->failed = false;
    session->reached = NULL;
    if (is_wide(stages)) {
        if (!routed_reach(&stages->routed, rows, &session->walk)) return SPARSELEAF_NO_MEMORY;
        session->reached = stages;
    }
    for (size_t i = 0; i < rows.n; ++i) {
        const size_t begin = rows.starts[i], n = rows.starts[i + 1] - begin;
        const row_t row = {rows.features + begin, rows.values + begin, n};
        if (!reserve_row(session, n)) return SPARSELEAF_NO_MEMORY;
        session->row_number = i;
        const size_t n_ranked = rank_row(session, stages, row, k);
        if (session->failed) return SPARSELEAF_NO_MEMORY;
        write_best(session->scratch.list, n_ranked, k, labels + i * k, scores + i * k);
    }
    return SPARSELEAF_OK;
}

int sparseleaf_topk_rows(sparseleaf_session *session, const size_t *starts, const int32_t *features,
                         const float *values, size_t n_rows, size_t k, int32_t *labels, float *scores, size_t *n_valid)
{
    int status = SPARSELEAF_OK;
    size_t n = 0;
    for (; n < n_rows; ++n) {
        const row_t row = {features + starts[n], values + starts[n], starts[n + 1] - starts[n]};
        status = check_row(session->model, row);
        if (status != SPARSELEAF_OK) break;
    }
    const rows_t rows = {starts, features, values, n};
    const int ranked = n > 0 ? rank_rows(session, rows, k, labels, scores) : SPARSELEAF_OK;
    *n_valid = ranked == SPARSELEAF_OK ? n : 0;
    return ranked == SPARSELEAF_OK ? status : ranked;
}

int sparseleaf_topk(sparseleaf_session *session, const int32_t *features, const float *values, size_t n, size_t k,
                    int32_t *labels, float *scores)
{
    const size_t starts[] = {0, n};
    size_t n_valid;
    return sparseleaf_topk_rows(session, starts, features, values, 1, k, labels, scores, &n_valid);
}

int sparseleaf_topk_text(sparseleaf_session *session, const char *const *texts, const size_t *sizes, size_t n_texts,
                         size_t k, int32_t *labels, float *scores)
{
    const sparseleaf_model *model = session->model;
    if (!model->has_text || n_texts != model->text.n_fields) return SPARSELEAF_NO_TEXTS;
    size_t n;
    const int status = text_row(&model->text, texts, sizes, &session->text, &n);
    if (status != SPARSELEAF_OK) return status;
    return sparseleaf_topk(session, session->text.features.data, session->text.values.data, n, k, labels, scores);
}

/* --- dense outputs */

static void apply_link(enum link link, float *scores, size_t n)
{
    float sum = 0.0f, highest = -INFINITY;
    for (size_t i = 0; i < n; ++i) highest = scores[i] > highest ? scores[i] : highest;
    for (size_t i = 0; i < n; ++i) {
        switch (link) {
            case LOG: scores[i] = expf(scores[i] < 88.0f ? scores[i] : 88.0f); break;
            case SOFTMAX: scores[i] = expf(scores[i] - highest); break;
            case LOGISTIC:
            case ONE_VS_REST: scores[i] = sigmoid(scores[i]); break;
            default: break;
        }
        sum += scores[i];
    }
    if ((link == SOFTMAX || link == ONE_VS_REST) && sum > 0.0f)
        for (size_t i = 0; i < n; ++i) scores[i] /= sum;
}

int sparseleaf_outputs(sparseleaf_session *session, const int32_t *features, const float *values, size_t n, int raw,
                       float *outputs)
{
    const stages_t *stages = &session->model->stages;
    const row_t row = {features, values, n};
    if (!sparseleaf_has_outputs(session->model)) return SPARSELEAF_NO_OUTPUTS;
    const int status = check_row(session->model, row);
    if (status != SPARSELEAF_OK) return status;
    if (is_empty(stages, row)) {
        memcpy(outputs, stages->trees.base, stages->n_labels * sizeof *outputs);
    } else {
        make_columns(stages, row, session->columns);
        trees_dense(&stages->trees, session->columns, outputs);
        clear_columns(stages, row, session->columns);
    }
    if (!raw) apply_link(session->model->link, outputs, stages->n_labels);
    return SPARSELEAF_OK;
}
