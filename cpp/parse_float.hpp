// Text to float32 or float64, rounded to nearest: std::from_chars where the standard library supports
// floating point, otherwise (libc++ before version 20) strtof and strtod in the C locale.
#pragma once

#include <locale.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <type_traits>

namespace sparseleaf {

// The end of the longest number at p by the rules of std::from_chars: no leading blanks or '+', no
// hexadecimal.
inline const char* float_end(const char* p, const char* end) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto starts_with = [end](const char* at, const char* word) {
        for (; *word; ++at, ++word)
            if (at == end || (*at | 0x20) != *word) return false;
        return true;
    };
    const char* begin = p;
    if (p < end && *p == '-') ++p;
    if (starts_with(p, "infinity")) return p + 8;
    if (starts_with(p, "inf")) return p + 3;
    if (starts_with(p, "nan")) return p + 3;
    const char* digits = p;
    while (p < end && is_digit(*p)) ++p;
    auto n_digits = p - digits;
    if (p < end && *p == '.') {
        const char* fraction = ++p;
        while (p < end && is_digit(*p)) ++p;
        n_digits += p - fraction;
    }
    if (n_digits == 0) return begin;
    if (p < end && (*p | 0x20) == 'e') {
        const char* exponent = p + 1;
        if (exponent < end && (*exponent == '+' || *exponent == '-')) ++exponent;
        if (exponent < end && is_digit(*exponent)) {
            while (exponent < end && is_digit(*exponent)) ++exponent;
            p = exponent;
        }
    }
    return p;
}

// As std::from_chars, except that a nan has no characters in parentheses.
template <typename T>
std::from_chars_result parse_float_portably(const char* p, const char* end, T& value) {
    static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
    const char* stop = float_end(p, end);
    if (stop == p) return {p, std::errc::invalid_argument};
    const std::string text(p, stop);  // strtof requires a terminating zero
    T parsed;
    if constexpr (std::is_same_v<T, float>) {
        parsed = strtof_l(text.c_str(), nullptr, c_locale);
    } else {
        parsed = strtod_l(text.c_str(), nullptr, c_locale);
    }
    const bool is_word = std::strpbrk(text.c_str(), "nN") != nullptr;  // inf, infinity or nan
    const char* mantissa_end = text.c_str() + std::strcspn(text.c_str(), "eE");
    const bool is_zero = std::strspn(text.c_str(), "-0.") >= static_cast<size_t>(mantissa_end - text.c_str());
    if (!is_word && (std::isinf(parsed) || (parsed == 0 && !is_zero))) {
        return {stop, std::errc::result_out_of_range};
    }
    value = parsed;
    return {stop, std::errc{}};
}

template <typename T>
std::from_chars_result parse_float(const char* p, const char* end, T& value) {
#if defined(__cpp_lib_to_chars)  // for integers alone, the macro is not defined
    return std::from_chars(p, end, value);
#else
    return parse_float_portably(p, end, value);
#endif
}

}  // namespace sparseleaf
