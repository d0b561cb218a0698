#include "maps.h"

#include <stdlib.h>

/* Counting bits is one instruction on all but the oldest x86-64 processors: glibc chooses at the start. */
#if defined __GNUC__ && !defined __clang__ && defined __x86_64__ && defined __GLIBC__ && !defined __POPCNT__ && \
    !defined __SANITIZE_ADDRESS__
#define COUNTS_BITS __attribute__((target_clones("popcnt", "default")))
#define HAS_POPCOUNT 1
#else
#define COUNTS_BITS
#if defined __GNUC__ && (defined __POPCNT__ || !defined __x86_64__)
#define HAS_POPCOUNT 1
#endif
#endif

static inline uint32_t count_bits(uint64_t bits)
{
#ifdef HAS_POPCOUNT
    return (uint32_t)__builtin_popcountll(bits);
#else
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (uint32_t)(bits * 0x0101010101010101u >> 56);
#endif
}

bool maps_new(maps_t *maps, const int64_t *starts, size_t n_vectors, size_t width, size_t density)
{
    size_t n_maps = 0;
    maps->n_words = (width + 63) / 64;
    maps->first = malloc((n_vectors + 1) * sizeof *maps->first);
    if (!maps->first) return false;
    for (size_t i = 0; i < n_vectors; ++i) {
        const size_t n = (size_t)(starts[i + 1] - starts[i]);
        const bool mapped = n > 0 && n / density >= maps->n_words;
        maps->first[i] = mapped ? (int64_t)(n_maps++ * maps->n_words) : -1;
    }
    maps->words = calloc(n_maps * maps->n_words + 1, sizeof *maps->words);
    return maps->words != NULL;
}

void maps_count(maps_t *maps, size_t n_vectors)
{
    for (size_t i = 0; i < n_vectors; ++i) {
        if (maps->first[i] < 0) continue;
        word_t *words = maps->words + maps->first[i];
        for (size_t w = 1; w < maps->n_words; ++w)
            words[w].before = words[w - 1].before + count_bits(words[w - 1].bits);
    }
}

void maps_free(maps_t *maps)
{
    free(maps->words);
    free(maps->first);
}

/* First without branches, which no processor could predict; then for the few that are in common. */
COUNTS_BITS
void map_collect(const word_t *words, const int32_t *features, size_t n, common_t *common)
{
    size_t kept = 0;
    for (size_t e = 0; e < n; ++e) {
        const uint32_t feature = (uint32_t)features[e];
        common->in_row[kept] = (uint32_t)e;
        kept += words[feature / 64].bits >> feature % 64 & 1;
    }
    for (size_t i = 0; i < kept; ++i) {
        const uint32_t feature = (uint32_t)features[common->in_row[i]];
        const word_t word = words[feature / 64];
        common->in_vector[i] = word.before + count_bits(word.bits & (((uint64_t)1 << feature % 64) - 1));
    }
    common->n = kept;
}
