// Package jsonwalk reads the members of a JSON object in place: exact names, raw values, no intermediate
// tree. Payloads are checked with it. Answers of a ledger are read with it, because encoding/json matches
// names without regard to case, takes the last of two equal names and turns numbers into floats; each of
// these would let a doubtful answer pass as a clear one.
package jsonwalk

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// IsObject reports whether doc is valid JSON, nested at most [MaxDepth] deep, and an object. [Members]
// accepts only such a document.
func IsObject(doc []byte) bool { return IsObjectWithin(doc, MaxDepth) }

// IsObjectWithin is [IsObject] with a bound of its own, of at most [MaxDepth].
func IsObjectWithin(doc []byte, depth int) bool {
	i := skipSpace(doc, 0)
	return i < len(doc) && doc[i] == '{' && valid(doc, min(depth, MaxDepth))
}

// Members yields the name and the raw value of each member, in order, duplicates included. object must
// satisfy [IsObject] or be a value that Members yielded and that begins with '{'. Both slices alias object,
// but for a name that was written with escapes.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i := skipSpace(object, 0) + 1
		for {
			i = skipSpace(object, i)
			if object[i] == '}' {
				return
			}
			end := skipString(object, i)
			name := plainName(object[i:end])
			i = skipSpace(object, end) + 1 // the colon
			i = skipSpace(object, i)
			end = skipValue(object, i)
			if !yield(name, object[i:end]) {
				return
			}
			i = skipSpace(object, end)
			if object[i] == ',' {
				i++
			}
		}
	}
}

// String returns the text of a raw value, and whether it is a string of valid UTF-8.
func String(value []byte) (string, bool) {
	if value[0] != '"' || !utf8.Valid(value) {
		return "", false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), true
	}
	var s string
	err := json.Unmarshal(value, &s)
	return s, err == nil
}

// IsNull reports whether a raw value is null.
func IsNull(value []byte) bool { return value[0] == 'n' }

// IsNested reports whether a raw value is an object that [Members] accepts.
func IsNested(value []byte) bool { return value[0] == '{' }

func plainName(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		panic("jsonwalk: a name of valid JSON does not parse")
	}
	return []byte(s)
}

func skipSpace(doc []byte, i int) int {
	for i < len(doc) && (doc[i] == ' ' || doc[i] == '\t' || doc[i] == '\n' || doc[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at i.
func skipString(doc []byte, i int) int {
	for i++; doc[i] != '"'; i++ {
		if doc[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the index after the value that begins at i. It does not recurse: depth is the sender's
// choice.
func skipValue(doc []byte, i int) int {
	depth := 0
	for i < len(doc) {
		switch doc[i] {
		case '"':
			i = skipString(doc, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}
