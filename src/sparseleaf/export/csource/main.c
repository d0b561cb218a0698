/* predict: labels of rows on standard input. See usage() below and README.md. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "predictor.h"

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
    int as_text, as_outputs, raw, base; /* base: the number of the first feature */
    line_t line;
    entry_t *entries;
    int32_t *features;
    float *values;
    size_t capacity;
    int32_t *labels;
    float *scores;
    const char **texts;
    size_t *sizes;
} program_t;

static const char usage[] =
    "usage: predict [-k N] [-t] [-o] [-r] [-1] MODEL < ROWS\n"
    "\n"
    "Writes the best labels of every row, as LABEL:SCORE separated by tabs.\n"
    "A row is a line of FEATURE:VALUE, separated by blanks. What comes before them, such as labels, is ignored, and\n"
    "so is a first line of three numbers (the header of XC files).\n"
    "\n"
    "  -k N  number of labels per row (5)\n"
    "  -t    rows are texts; several fields are separated by tabs\n"
    "  -o    write all outputs of a regressor, a ranker or a classifier with dense scores, separated by tabs\n"
    "  -r    with -o: raw scores instead of predictions\n"
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

static int reserve_entries(program_t *program, size_t n)
{
    if (n < program->capacity) return 1;
    const size_t capacity = 2 * n + 64;
    entry_t *entries = realloc(program->entries, capacity * sizeof *entries);
    if (entries) program->entries = entries;
    int32_t *features = realloc(program->features, capacity * sizeof *features);
    if (features) program->features = features;
    float *values = realloc(program->values, capacity * sizeof *values);
    if (values) program->values = values;
    if (!entries || !features || !values) return 0;
    program->capacity = capacity;
    return 1;
}

static int by_feature(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;
    return (x->feature > y->feature) - (x->feature < y->feature);
}

/* Reads FEATURE:VALUE; words without a colon are skipped. Returns a message if the line is invalid. */
static const char *parse_row(program_t *program, size_t *n)
{
    int sorted = 1;
    *n = 0;
    for (char *word = strtok(program->line.data, " \t"); word; word = strtok(NULL, " \t")) {
        char *colon = strchr(word, ':'), *end;
        if (!colon) continue;
        errno = 0;
        const long feature = strtol(word, &end, 10) - program->base;
        if (end != colon || errno || feature < 0 || feature > INT32_MAX) return "not FEATURE:VALUE";
        const float value = strtof(colon + 1, &end);
        if (end == colon + 1 || *end) return "not FEATURE:VALUE";
        if (!reserve_entries(program, *n + 1)) return "out of memory";
        program->entries[*n] = (entry_t){(int32_t)feature, value};
        sorted = sorted && (*n == 0 || program->entries[*n - 1].feature < (int32_t)feature);
        ++*n;
    }
    if (!reserve_entries(program, *n)) return "out of memory";
    if (!sorted) qsort(program->entries, *n, sizeof *program->entries, by_feature);
    for (size_t i = 0; i < *n; ++i) {
        program->features[i] = program->entries[i].feature;
        program->values[i] = program->entries[i].value;
    }
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

static const char *predict_row(program_t *program)
{
    size_t n;
    const char *problem = parse_row(program, &n);
    if (problem) return problem;
    const int status = program->as_outputs
                           ? sparseleaf_outputs(program->session, program->features, program->values, n, program->raw,
                                                program->scores)
                           : sparseleaf_topk(program->session, program->features, program->values, n, program->k,
                                             program->labels, program->scores);
    return status == SPARSELEAF_OK ? NULL : sparseleaf_message(status);
}

static void write_row(const program_t *program)
{
    const size_t n = program->as_outputs ? (size_t)sparseleaf_n_labels(program->model) : program->k;
    for (size_t i = 0; i < n && (program->as_outputs || program->labels[i] >= 0); ++i) {
        if (i > 0) putchar('\t');
        if (!program->as_outputs) {
            write_label(program->model, program->labels[i]);
            putchar(':');
        }
        printf("%.9g", (double)program->scores[i]);
    }
    putchar('\n');
}

/* Whether a line is the header of an XC file: numbers of rows, features and labels. */
static int is_header(const char *line)
{
    long rows, features, labels;
    char rest;
    return sscanf(line, "%ld %ld %ld %c", &rows, &features, &labels, &rest) == 3;
}

static int run(program_t *program)
{
    for (size_t number = 1;; ++number) {
        const int more = read_line(&program->line);
        if (more == 0) break;
        if (more > 0 && number == 1 && !program->as_text && is_header(program->line.data)) continue;
        const char *problem = more < 0           ? "out of memory"
                              : program->as_text ? predict_text(program)
                                                 : predict_row(program);
        if (problem) {
            fprintf(stderr, "predict: line %lu: %s\n", (unsigned long)number, problem);
            return 1;
        }
        write_row(program);
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
    program->labels = malloc(n * sizeof *program->labels);
    program->scores = malloc(n * sizeof *program->scores);
    program->texts = malloc((n_fields + 1) * sizeof *program->texts);
    program->sizes = malloc((n_fields + 1) * sizeof *program->sizes);
    if (!program->session || !program->labels || !program->scores || !program->texts || !program->sizes)
        return fail(path, sparseleaf_message(SPARSELEAF_NO_MEMORY));
    return run(program);
}

static void close_program(program_t *program)
{
    free(program->line.data);
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
