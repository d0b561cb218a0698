/* Numbers from and to text, as strtof() and printf("%.9g") do it, but faster for common ones. */
#ifndef SPARSELEAF_NUMBERS_H
#define SPARSELEAF_NUMBERS_H

enum { NUMBER_SIZE = 32 };

/* The float nearest to a decimal number; `end` is the first character after it, or `text` if there is none. */
float read_float(const char *text, char **end);

/* Nine significant digits, from which the float can be read back; returns the number of characters. */
int write_float(float value, char text[NUMBER_SIZE]);

#endif
