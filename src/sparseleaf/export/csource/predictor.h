/* Prediction with an exported sparseleaf model: see README.md.
 *
 *     char error[SPARSELEAF_ERROR_SIZE];
 *     sparseleaf_model *model = sparseleaf_open("model.bin", error);
 *     sparseleaf_session *session = sparseleaf_session_new(model);
 *     int32_t labels[5];
 *     float scores[5];
 *     int status = sparseleaf_topk(session, features, values, n, 5, labels, scores);
 *
 * A model is read-only: any number of threads may share it, each with a session, which is scratch memory.
 * Functions that return int return SPARSELEAF_OK, or a code below that sparseleaf_message() explains. */
#ifndef SPARSELEAF_PREDICTOR_H
#define SPARSELEAF_PREDICTOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPARSELEAF_ERROR_SIZE 128

enum sparseleaf_status {
    SPARSELEAF_OK = 0,
    SPARSELEAF_NO_MEMORY,    /* an allocation failed */
    SPARSELEAF_BAD_FEATURES, /* features must increase and be below sparseleaf_n_features() */
    SPARSELEAF_BAD_VALUES,   /* values must be finite, or NaN where the model supports missing values */
    SPARSELEAF_BAD_TEXT,     /* texts must be UTF-8, of at most 2^28 bytes */
    SPARSELEAF_NO_TEXTS,     /* the model was not trained on texts, or has another number of fields */
    SPARSELEAF_NO_OUTPUTS    /* the scores of the model are sparse: only sparseleaf_topk() applies */
};

typedef struct sparseleaf_model sparseleaf_model;
typedef struct sparseleaf_session sparseleaf_session;

/* Reads and validates a model. Returns NULL and writes the reason to `error` (SPARSELEAF_ERROR_SIZE bytes, or
 * NULL) if that fails. sparseleaf_open_memory() uses the bytes in place, such as those of a memory-mapped file:
 * they must be aligned to 8 bytes, stay valid until sparseleaf_close(), and not change. */
sparseleaf_model *sparseleaf_open(const char *path, char *error);
sparseleaf_model *sparseleaf_open_memory(const void *bytes, size_t size, char *error);
void sparseleaf_close(sparseleaf_model *model);

int64_t sparseleaf_n_features(const sparseleaf_model *model);
int64_t sparseleaf_n_labels(const sparseleaf_model *model);

/* Number of texts per row, one per text, numeric and categorical column, in this order; 0 if the model was trained on
 * features. */
int64_t sparseleaf_n_fields(const sparseleaf_model *model);

/* Whether sparseleaf_outputs() applies: regressors, rankers, and classifiers with dense scores. */
int sparseleaf_has_outputs(const sparseleaf_model *model);

/* Name of a label in UTF-8, not terminated by a zero; NULL if labels have no names. */
const char *sparseleaf_label_name(const sparseleaf_model *model, int32_t label, size_t *size);

/* NULL if memory is exhausted. */
sparseleaf_session *sparseleaf_session_new(const sparseleaf_model *model);
void sparseleaf_session_free(sparseleaf_session *session);

/* The k best labels of a sparse row, best first: n features, increasing, with their values. If fewer labels have a
 * score, the rest is -1, with score -infinity. */
int sparseleaf_topk(sparseleaf_session *session, const int32_t *features, const float *values, size_t n,
                    size_t k, int32_t *labels, float *scores);

/* The same for several rows: row i has the entries starts[i] to starts[i + 1] - 1, and starts[0] is 0. The best labels
 * of row i begin at labels[i * k]. Some hundred rows at once are faster for LdSM and other trees with large routers.
 * Rows are predicted up to the first that is invalid: *n_valid is the number of those with results. */
int sparseleaf_topk_rows(sparseleaf_session *session, const size_t *starts, const int32_t *features,
                         const float *values, size_t n_rows, size_t k, int32_t *labels, float *scores,
                         size_t *n_valid);

/* The same for a record: one text per field of the model, not terminated by zeros. Numbers are in decimal notation;
 * an empty one is missing, and so is NULL in numeric and categorical columns. */
int sparseleaf_topk_text(sparseleaf_session *session, const char *const *texts, const size_t *sizes,
                         size_t n_texts, size_t k, int32_t *labels, float *scores);

/* Predictions of all outputs, n_labels numbers: raw scores if `raw`, else after the link function. */
int sparseleaf_outputs(sparseleaf_session *session, const int32_t *features, const float *values, size_t n,
                       int raw, float *outputs);

const char *sparseleaf_message(int status);

#ifdef __cplusplus
}
#endif

#endif
