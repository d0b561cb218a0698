/* predict: labels of rows on standard input. See usage() below and README.md. */
#include <errno.h>
#include <stdio.h>

#include "memory.h"
#include "numbers.h"
#include "predictor.h"

/* Limits of a block of rows. */
enum { MOST_ROWS = 1024, MOST_ENTRIES = 1 << 20, MOST_RESULTS = 1 << 20 };

typedef struct {
    char *data;
    size_t size, capacity;
} line_t;

typedef struct {
    int32_t feature;
    float value;
} entry_t;

typedef struct {
    sparseleaf_model *model;
    sparseleaf_session *session;
    size_t k;
    int as_text, as_outputs, raw, at_once, base; /* base: the number of the first feature */
    line_t line;
    size_t *starts; /* of the rows of a block */
    int32_t *features;
    float *values;
    entry_t *entries; /* of a row, to sort them */
    size_t n_rows, most_rows, feature_capacity, value_capacity, entry_capacity;
    int32_t *labels;
    float *scores;
    const char **texts;
    size_t *sizes;
} program_t;

static const char usage[] =
    "usage: predict [-k N] [-t] [-o] [-r] [-u] [-1] MODEL < ROWS\n"
    "\n"
    "Writes the best labels of every row, as LABEL:SCORE separated by tabs.\n"
    "A row is a line of FEATURE:VALUE, separated by blanks. What comes before them, such as labels, is ignored, and\n"
    "so is a first line of three numbers (the header of XC files).\n"
    "\n"
    "  -k N  number of labels per row (5)\n"
    "  -t    rows are texts; several fields are separated by tabs\n"
    "  -o    write all outputs of a regressor, a ranker or a classifier with dense scores, separated by tabs\n"
    "  -r    with -o: raw scores instead of predictions\n"
    "  -u    answer every row at once, for a conversation through pipes; rows are otherwise predicted in blocks\n"
    "  -1    features are numbered from 1, as in svmlight files\n";

/* Reads a line without its end; 0 at the end of the input, -1 if memory is exhausted. */
static int read_line(line_t *line)
{
    int c;
    line->size = 0;
    while ((c = getc(stdin)) != EOF) {
        if (line->size + 1 >= line->capacity) {
            const size_t capacity = line->capacity ? 2 * line->capacity : 4096;
            char *data = realloc(line->data, capacity);
            if (!data) return -1;
            line->data = data;
            line->capacity = capacity;
        }
        if (c == '\n') break;
        line->data[line->size++] = (char)c;
    }
    if (c == EOF && line->size == 0) return 0;
    if (line->size > 0 && line->data[line->size - 1] == '\r') --line->size;
    line->data[line->size] = '\0';
    return 1;
}

static int by_feature(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;
    return (x->feature > y->feature) - (x->feature < y->feature);
}

static int is_end(char c)
{
    return c == ' ' || c == '\t' || c == '\0';
}

/* Reads a number and its colon; returns where the value begins, or NULL. */
static const char *read_feature(const char *word, long *feature)
{
    const char *at = word;
    char *end;
    for (*feature = 0; *at >= '0' && *at <= '9' && at - word < 9; ++at) *feature = 10 * *feature + (*at - '0');
    if (*at == ':' && at > word) return at + 1;
    errno = 0;
    *feature = strtol(word, &end, 10);
    return end > word && *end == ':' && !errno ? end + 1 : NULL;
}

static int sort_row(program_t *program, size_t begin, size_t n)
{
    if (!reserve(&program->entries, &program->entry_capacity, n, sizeof *program->entries)) return 0;
    for (size_t i = 0; i < n; ++i)
        program->entries[i] = (entry_t){program->features[begin + i], program->values[begin + i]};
    qsort(program->entries, n, sizeof *program->entries, by_feature);
    for (size_t i = 0; i < n; ++i) {
        program->features[begin + i] = program->entries[i].feature;
        program->values[begin + i] = program->entries[i].value;
    }
    return 1;
}

/* Adds a row of FEATURE:VALUE to the block; words without a colon are skipped. Returns a message if it is invalid. */
static const char *add_row(program_t *program)
{
    const size_t begin = program->starts[program->n_rows];
    size_t n = begin;
    int sorted = 1;
    for (const char *at = program->line.data; *at; ++at) {
        if (is_end(*at)) continue;
        const char *word = at;
        while (!is_end(*at) && *at != ':') ++at;
        if (*at == ':') {
            long feature;
            const char *value = read_feature(word, &feature);
            char *end;
            feature -= program->base;
            if (value != at + 1 || feature < 0 || feature > INT32_MAX || is_end(*value)) return "not FEATURE:VALUE";
            if (!reserve(&program->features, &program->feature_capacity, n + 1, sizeof *program->features) ||
                !reserve(&program->values, &program->value_capacity, n + 1, sizeof *program->values))
                return "out of memory";
            program->values[n] = read_float(value, &end);
            if (end == value || !is_end(*end)) return "not FEATURE:VALUE";
            sorted = sorted && (n == begin || program->features[n - 1] < (int32_t)feature);
            program->features[n++] = (int32_t)feature;
            at = end;
        }
        if (!*at) break;
    }
    if (!sorted && !sort_row(program, begin, n - begin)) return "out of memory";
    program->starts[++program->n_rows] = n;
    return NULL;
}

static void write_label(const sparseleaf_model *model, int32_t label)
{
    size_t size;
    const char *name = sparseleaf_label_name(model, label, &size);
    if (!name) {
        printf("%ld", (long)label);
        return;
    }
    for (size_t i = 0; i < size; ++i) putchar(name[i] == '\t' || name[i] == '\n' ? ' ' : name[i]);
}

static const char *predict_text(program_t *program)
{
    const size_t n_fields = (size_t)sparseleaf_n_fields(program->model);
    const char *at = program->line.data, *end = at + program->line.size;
    for (size_t field = 0; field < n_fields; ++field) { /* missing fields are empty, the last takes the rest */
        const char *tab = field + 1 < n_fields ? memchr(at, '\t', (size_t)(end - at)) : NULL;
        program->texts[field] = at;
        program->sizes[field] = (size_t)((tab ? tab : end) - at);
        at = tab ? tab + 1 : end;
    }
    const int status = sparseleaf_topk_text(program->session, program->texts, program->sizes, n_fields, program->k,
                                            program->labels, program->scores);
    return status == SPARSELEAF_OK ? NULL : sparseleaf_message(status);
}

static const char *predict_outputs(program_t *program)
{
    const char *problem = add_row(program);
    if (problem) return problem;
    const int status = sparseleaf_outputs(program->session, program->features, program->values, program->starts[1],
                                          program->raw, program->scores);
    program->n_rows = 0;
    return status == SPARSELEAF_OK ? NULL : sparseleaf_message(status);
}

/* Writes labels and scores, or outputs. */
static void write_row(const program_t *program, const int32_t *labels, const float *scores)
{
    const size_t n = program->as_outputs ? (size_t)sparseleaf_n_labels(program->model) : program->k;
    char number[NUMBER_SIZE];
    for (size_t i = 0; i < n && (program->as_outputs || labels[i] >= 0); ++i) {
        if (i > 0) putchar('\t');
        if (!program->as_outputs) {
            write_label(program->model, labels[i]);
            putchar(':');
        }
        fwrite(number, 1, (size_t)write_float(scores[i], number), stdout);
    }
    putchar('\n');
}

/* Predicts and writes the rows of the block, up to the first that is invalid; *n_valid is their number. */
static const char *predict_block(program_t *program, size_t *n_valid)
{
    const int status = sparseleaf_topk_rows(program->session, program->starts, program->features, program->values,
                                            program->n_rows, program->k, program->labels, program->scores, n_valid);
    for (size_t i = 0; i < *n_valid; ++i)
        write_row(program, program->labels + i * program->k, program->scores + i * program->k);
    program->n_rows = 0;
    return status == SPARSELEAF_OK ? NULL : sparseleaf_message(status);
}

static const char *predict_line(program_t *program)
{
    const char *problem = program->as_text ? predict_text(program) : predict_outputs(program);
    if (!problem) write_row(program, program->labels, program->scores);
    return problem;
}

/* Whether a line is the header of an XC file: numbers of rows, features and labels. */
static int is_header(const char *line)
{
    long rows, features, labels;
    char rest;
    return sscanf(line, "%ld %ld %ld %c", &rows, &features, &labels, &rest) == 3;
}

static int fail_at(size_t line, const char *problem)
{
    fprintf(stderr, "predict: line %lu: %s\n", (unsigned long)line, problem);
    return 1;
}

static int run(program_t *program)
{
    const int in_blocks = !program->as_text && !program->as_outputs;
    int more = 1;
    for (size_t number = 1; more; ++number) {
        more = read_line(&program->line);
        if (more > 0 && number == 1 && !program->as_text && is_header(program->line.data)) continue;
        const char *problem = more < 0    ? "out of memory"
                              : more == 0 ? NULL
                              : in_blocks ? add_row(program)
                                          : predict_line(program);
        const size_t n_rows = program->n_rows;
        const int is_full = n_rows == program->most_rows || (n_rows > 0 && program->starts[n_rows] > MOST_ENTRIES);
        if (n_rows > 0 && (problem || !more || is_full)) {
            const size_t first = number - n_rows + (!problem && more);
            size_t n_valid;
            const char *invalid = predict_block(program, &n_valid);
            if (invalid) return fail_at(first + n_valid, invalid);
        }
        if (problem) return fail_at(number, problem);
        if (program->at_once) fflush(stdout);
    }
    return fflush(stdout) == 0 && !ferror(stdin) ? 0 : 1;
}

static int fail(const char *path, const char *problem)
{
    fprintf(stderr, "predict: %s: %s\n", path, problem);
    return 1;
}

static int open_and_run(program_t *program, const char *path)
{
    char error[SPARSELEAF_ERROR_SIZE];
    program->model = sparseleaf_open(path, error);
    if (!program->model) return fail(path, error);
    program->session = sparseleaf_session_new(program->model);
    const size_t n_fields = (size_t)sparseleaf_n_fields(program->model);
    const size_t n = program->as_outputs ? (size_t)sparseleaf_n_labels(program->model) : program->k;
    if (program->as_text && n_fields == 0) return fail(path, sparseleaf_message(SPARSELEAF_NO_TEXTS));
    if (program->as_outputs && !sparseleaf_has_outputs(program->model))
        return fail(path, sparseleaf_message(SPARSELEAF_NO_OUTPUTS));
    const int by_row = program->as_text || program->as_outputs || program->at_once;
    program->most_rows = !by_row && n < MOST_RESULTS / MOST_ROWS ? MOST_ROWS : 1;
    program->labels = malloc(program->most_rows * n * sizeof *program->labels);
    program->scores = malloc(program->most_rows * n * sizeof *program->scores);
    program->starts = calloc(program->most_rows + 1, sizeof *program->starts);
    program->texts = malloc((n_fields + 1) * sizeof *program->texts);
    program->sizes = malloc((n_fields + 1) * sizeof *program->sizes);
    if (!program->session || !program->labels || !program->scores || !program->starts || !program->texts ||
        !program->sizes)
        return fail(path, sparseleaf_message(SPARSELEAF_NO_MEMORY));
    return run(program);
}

static void close_program(program_t *program)
{
    free(program->line.data);
    free(program->starts);
    free(program->entries);
    free(program->features);
    free(program->values);
    free(program->labels);
    free(program->scores);
    free(program->texts);
    free(program->sizes);
    sparseleaf_session_free(program->session);
    sparseleaf_close(program->model);
}

int main(int argc, char **argv)
{
    program_t program = {0};
    const char *path = NULL;
    program.k = 5;
    for (int i = 1; i < argc; ++i) {
        char *end = NULL;
        if (strcmp(argv[i], "-k") == 0 && i + 1 < argc) {
            const long k = strtol(argv[++i], &end, 10);
            if (*end || k < 1 || k > 1000000) return fail("-k", "must be a number from 1 to 1000000");
            program.k = (size_t)k;
        } else if (strcmp(argv[i], "-t") == 0) {
            program.as_text = 1;
        } else if (strcmp(argv[i], "-o") == 0) {
            program.as_outputs = 1;
        } else if (strcmp(argv[i], "-r") == 0) {
            program.raw = 1;
        } else if (strcmp(argv[i], "-u") == 0) {
            program.at_once = 1;
        } else if (strcmp(argv[i], "-1") == 0) {
            program.base = 1;
        } else if (argv[i][0] != '-' && !path) {
            path = argv[i];
        } else {
            fputs(usage, stderr);
            return 2;
        }
    }
    if (!path) {
        fputs(usage, stderr);
        return 2;
    }
    const int status = open_and_run(&program, path);
    close_program(&program);
    return status;
}
