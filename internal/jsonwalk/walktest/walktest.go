// Package walktest reads the members of a JSON object with encoding/json alone. It is the rule that fuzz
// targets hold package jsonwalk, and whoever reads with it, to.
package walktest

import (
	"bytes"
	"encoding/json"
	"io"
)

// Member is a member of an object: its name as encoding/json decodes it, and its value as it stands.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members returns the members of an object in their order, duplicates included, and whether doc is one JSON
// object in which objects and arrays are nested at most depth deep.
func Members(doc []byte, depth int) ([]Member, bool) {
	if !json.Valid(doc) || deepest(doc) > depth {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(doc))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	var members []Member
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || decoder.Decode(&value) != nil {
			return nil, false
		}
		members = append(members, Member{name, value})
	}
	return members, true
}

// deepest returns how deep valid JSON nests objects and arrays.
func deepest(doc []byte) int {
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	most, depth := 0, 0
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return most
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		most = max(most, depth)
	}
}
