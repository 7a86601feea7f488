package jsonwalk

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestMembersKeepNamesAndRawValues(t *testing.T) {
	doc := []byte("\n{ \"a\" : 1.50 ,\"A\":\"x\\\"}\", " +
		"\"a\":[{\"b\":\"]\"},2] , \"\\u0065\":{\"f\":null},\"g\":{} ,\"h\":true}\t")
	want := []string{"a=1.50", `A="x\"}"`, `a=[{"b":"]"},2]`, `e={"f":null}`, "g={}", "h=true"}
	if !IsObject(doc) {
		t.Fatal("a valid object is refused")
	}
	var got []string
	for name, value := range Members(doc) {
		got = append(got, string(name)+"="+string(value))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestOnlyValidObjectsAreObjects(t *testing.T) {
	for _, doc := range []string{"", " ", "[]", "1", `"{}"`, "{", "{}}", `{"a"}`, `{"a":1,}`, "{a:1}", "null",
		"{}x"} {
		if IsObject([]byte(doc)) {
			t.Errorf("%q is taken for an object", doc)
		}
	}
}

func TestStringRefusesInvalidUTF8AndOtherTypes(t *testing.T) {
	for _, value := range []string{"1", "null", "{}", "\"\xff\""} {
		if s, ok := String([]byte(value)); ok {
			t.Errorf("%q is taken for the string %q", value, s)
		}
	}
	if s, ok := String([]byte(`"a\u00e9\n"`)); !ok || s != "aé\n" {
		t.Errorf("got %q, %v", s, ok)
	}
}

func TestDepthIsBounded(t *testing.T) {
	nested := func(depth int) []byte {
		return []byte(strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1))
	}
	if !IsObject(nested(MaxDepth)) || IsObject(nested(MaxDepth+1)) ||
		IsObject(bytes.Repeat([]byte(`{"a":[`), 1<<16)) {
		t.Error("the bound is not where it should be")
	}
}

// The oracle is encoding/json decoding into a map, where the last of equal names wins.
func FuzzMembersAgreeWithEncodingJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":-0.5e+10,"b":01}`, `{"a":"\ud800\u00e9\/"}`, `{"a":[1,]}`, `{"a":nul}`,
		"{\"a\":\"\x01\"}", `{"a":1.}`,
		`{}`, `{"a":{"b":[1,2,{"c":"}"}]},"d":"\\"}`, `{"a":1,"a":2}`,
		"{\"\\u00e9\":-1e5 }", `{"a":"\\\"" , "b":[]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var want map[string]json.RawMessage
		isObject := json.Unmarshal(doc, &want) == nil && want != nil
		if bytes.Count(doc, []byte("["))+bytes.Count(doc, []byte("{")) > MaxDepth {
			return
		}
		if got := IsObject(doc); got != isObject {
			t.Fatalf("IsObject is %v, encoding/json says %v", got, isObject)
		}
		if !isObject {
			return
		}
		got := map[string]json.RawMessage{}
		for name, value := range Members(doc) {
			decoded := string(bytes.ToValidUTF8(name, []byte("\ufffd")))
			got[decoded] = value
			if len(value) == 0 {
				t.Fatal("an empty value")
			}
			String(value)
			if IsNested(value) {
				for range Members(value) {
				}
			}
		}
		if bytes.Equal(bytes.ToValidUTF8(doc, nil), doc) &&
			!maps.EqualFunc(got, want, func(a, b json.RawMessage) bool {
				return bytes.Equal(a, b)
			}) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
