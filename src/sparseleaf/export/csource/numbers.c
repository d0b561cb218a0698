#include "numbers.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* These powers of ten have no rounding error. */
enum { MOST_POWER = 22, MOST_DIGITS = 19, DIGITS = 9 };
static const double powers[MOST_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Digits as an integer, without a point; `power` is the number of them after it. NULL if it is no such number. */
static const char *read_digits(const char *at, uint64_t *digits, int *power)
{
    const char *begin = at;
    uint64_t number = 0;
    for (; *at >= '0' && *at <= '9'; ++at) number = 10 * number + (uint64_t)(*at - '0');
    int n = (int)(at - begin < 100 ? at - begin : 100);
    *power = 0;
    if (*at == '.') {
        begin = ++at;
        for (; *at >= '0' && *at <= '9'; ++at) number = 10 * number + (uint64_t)(*at - '0');
        *power = (int)(at - begin < 100 ? at - begin : 100);
        n += *power;
    }
    *digits = number;
    /* letters: an exponent, a hexadecimal number, infinity or NaN */
    const int ends = *at == '\0' || *at == ' ' || *at == '\t';
    return n > 0 && n <= MOST_DIGITS && ends ? at : NULL;
}

float read_float(const char *text, char **end)
{
    uint64_t digits;
    int power;
    const char *after = read_digits(text + (*text == '-'), &digits, &power);
    if (after) {
        /* two roundings, so that the quotient is at most two units of a double from the number: both ends of a wider
         * interval round to the same float unless the number is all but halfway between two */
        const double quotient = (double)digits / powers[power], error = quotient * 4.0 * DBL_EPSILON;
        const float low = (float)(quotient - error), high = (float)(quotient + error);
        if (low == high && (digits == 0 || (low >= FLT_MIN && low < FLT_MAX))) {
            *end = (char *)after;
            return *text == '-' ? -low : low;
        }
    }
    return strtof(text, end);
}

/* The digits of an integer of nine, at the given place of the point, without zeros at the end. */
static int write_digits(uint32_t digits, int exponent, char *text)
{
    char reversed[DIGITS], *at = text;
    int n = DIGITS;
    for (int i = 0; i < DIGITS; ++i, digits /= 10) reversed[DIGITS - 1 - i] = (char)('0' + digits % 10);
    while (n > 1 && reversed[n - 1] == '0') --n;
    if (exponent < 0) {
        *at++ = '0';
        *at++ = '.';
        for (int i = -1; i > exponent; --i) *at++ = '0';
    }
    for (int i = 0; i < n || i <= exponent; ++i) {
        if (i > 0 && i == exponent + 1) *at++ = '.';
        *at++ = i < n ? reversed[i] : '0';
    }
    *at = '\0';
    return (int)(at - text);
}

int write_float(float value, char text[NUMBER_SIZE])
{
    const double size = fabs((double)value);
    if (size >= 1e-4 && size < 1e8) {
        int exponent = size < 1.0 ? -1 : 0; /* of the first digit */
        while (size < 1.0 && size * powers[-exponent] < 1.0) --exponent;
        while (size >= 1.0 && size >= powers[exponent + 1]) ++exponent;
        /* one rounding, of at most 2^-24: the digits are right unless the rest is all but one half */
        const double scaled = size * powers[DIGITS - 1 - exponent], rest = scaled - floor(scaled);
        if (fabs(rest - 0.5) > 1e-6 && scaled >= 1e8 && scaled < 999999999.0) {
            *text = '-';
            const int sign = value < 0.0f;
            return sign + write_digits((uint32_t)(scaled + 0.5), exponent, text + sign);
        }
    }
    return snprintf(text, NUMBER_SIZE, "%.9g", (double)value);
}
