// Parts of this file are derived from go.starlark.net/syntax,
// Copyright 2017 The Bazel Authors. All rights reserved.
// Use of that source code is governed by a BSD-style license: see THIRD_PARTY_NOTICES.

package parse

import (
	"math/big"
	"strconv"
	"strings"

	"go.starlark.net/syntax"
)

// number scans a number, or a dot or three.
func (sc *scanner) number(val *tokenValue, c rune) syntax.Token {
	start := sc.pos
	if c == '.' && (len(sc.rest) < 2 || !isdigit(rune(sc.rest[1]))) {
		if strings.HasPrefix(sc.rest, "...") {
			sc.read(3)
			sc.endToken(val)
			return ellipsis
		}
		sc.readRune()
		sc.endToken(val)
		return syntax.DOT
	}
	if c == '0' && len(sc.rest) > 1 {
		switch sc.rest[1] {
		case 'x', 'X':
			return sc.based(val, "hex", isxdigit)
		case 'o', 'O':
			return sc.based(val, "octal", func(c rune) bool { return '0' <= c && c <= '7' })
		case 'b', 'B':
			return sc.based(val, "binary", func(c rune) bool { return c == '0' || c == '1' })
		}
	}
	sc.digits(isdigit)
	fraction := false
	if sc.peekRune() == '.' {
		fraction = true
		sc.readRune()
		sc.digits(isdigit)
	}
	if c := sc.peekRune(); c == 'e' || c == 'E' {
		fraction = true
		sc.readRune()
		if c := sc.peekRune(); c == '+' || c == '-' {
			sc.readRune()
		}
		if !isdigit(sc.peekRune()) {
			sc.error(sc.pos, "invalid float literal")
		}
		sc.digits(isdigit)
	}
	sc.endToken(val)
	text := strings.ReplaceAll(val.raw, "_", "")
	if fraction {
		var err error
		if val.float, err = strconv.ParseFloat(text, 64); err != nil {
			sc.error(sc.pos, "invalid float literal")
		}
		return syntax.FLOAT
	}
	if len(text) > 1 && text[0] == '0' && strings.Trim(text, "0") != "" {
		sc.error(sc.pos, "obsolete form of octal literal; use 0o%s", text[1:])
	}
	return sc.integer(val, start, text, 10)
}

// based scans an integer with a prefix.
func (sc *scanner) based(val *tokenValue, kind string, isDigit func(rune) bool) syntax.Token {
	start := sc.pos
	sc.read(2)
	if c := sc.peekRune(); !isDigit(c) && c != '_' {
		sc.error(start, "invalid %s literal", kind)
	}
	sc.digits(isDigit)
	sc.endToken(val)
	base := map[string]int{"hex": 16, "octal": 8, "binary": 2}[kind]
	return sc.integer(val, start, strings.ReplaceAll(val.raw[2:], "_", ""), base)
}

// digits skips digits, with single underscores between them.
func (sc *scanner) digits(isDigit func(rune) bool) {
	for {
		c := sc.peekRune()
		if c == '_' && len(sc.rest) > 1 && isDigit(rune(sc.rest[1])) {
			sc.readRune()
			continue
		}
		if !isDigit(c) {
			return
		}
		sc.readRune()
	}
}

func (sc *scanner) integer(val *tokenValue, start syntax.Position, text string, base int) syntax.Token {
	val.big = nil
	n, err := strconv.ParseInt(text, base, 64)
	if err != nil {
		var ok bool
		if val.big, ok = new(big.Int).SetString(text, base); !ok {
			sc.error(start, "invalid int literal")
		}
	}
	val.int = n
	return syntax.INT
}

func isxdigit(c rune) bool {
	return isdigit(c) || 'A' <= c && c <= 'F' || 'a' <= c && c <= 'f'
}
