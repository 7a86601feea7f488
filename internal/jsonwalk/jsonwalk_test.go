package jsonwalk

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fourblocks2020/fencerow/internal/jsonwalk/walktest"
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
	if !IsObjectWithin(nested(7), 7) || IsObjectWithin(nested(8), 7) ||
		IsObjectWithin(nested(MaxDepth+1), 2*MaxDepth) {
		t.Error("a bound of one's own is not where it should be")
	}
}

// A document is an object exactly where encoding/json says so, and its members are those that encoding/json
// reads one after the other: names, values as they stand, order, duplicates, texts; so are those inside.
func FuzzMembersAgreeWithEncodingJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":-0.5e+10,"b":01}`, `{"a":"\ud800\u00e9\/"}`, `{"a":[1,]}`, `{"a":nul}`,
		"{\"a\":\"\x01\"}", `{"a":1.}`, `{"a":1e999999999,"b":-0,"c":12345678901234567890.12345}`,
		`{}`, `{"a":{"b":[1,2,{"c":"}"}]},"d":"\\"}`, `{"a":1,"a":2}`,
		"{\"\\u00e9\":-1e5 }", `{"a":"\\\"" , "b":[]}`,
		`{"z":{"y":"]"},"a":null,"z":{"y":"\ud83d\ude42"}}`, "{\"\xff\":\"\xed\xa0\x80\"}", "\ufeff{}", "{}{}",
		`{"a":"b`, `{"a":{"b":true},`, `{"a"`, " \t\r\n{ \"a\" :\n1 } ", "{\"a\":\"\x00\"}", "{\"a\":\"\x1f\"}",
		"{\"a\":\"\n\"}", "{\"a\":\"\x7f\"}",
		strings.Repeat(`{"a":[`, MaxDepth/2) + "0" + strings.Repeat("]}", MaxDepth/2),
		strings.Repeat(`{"a":[`, MaxDepth/2+1) + strings.Repeat("]}", MaxDepth/2+1),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) { compare(t, doc, 0) })
}

// compare looks at an object, and at those in it down to a level that keeps it cheap.
func compare(t *testing.T, doc []byte, level int) {
	want, isObject := walktest.Members(doc, MaxDepth)
	if got := IsObject(doc); got != isObject {
		t.Fatalf("IsObject of %q is %v, encoding/json says %v", doc, got, isObject)
	}
	if !isObject {
		return
	}
	for name, value := range Members(doc) {
		if len(want) == 0 {
			t.Fatalf("there is no member %q=%q", name, value)
		}
		if !bytes.Equal(value, want[0].Value) || utf8.Valid(name) && string(name) != want[0].Name {
			t.Fatalf("got %q=%q, want %q=%q", name, value, want[0].Name, want[0].Value)
		}
		var text string
		isText := value[0] == '"' && utf8.Valid(value) && json.Unmarshal(value, &text) == nil
		if got, ok := String(value); ok != isText || got != text {
			t.Fatalf("the text of %q is %q, %v", value, got, ok)
		}
		if IsNull(value) != (string(value) == "null") {
			t.Fatalf("%q is null: %v", value, IsNull(value))
		}
		if _, nested := walktest.Members(value, MaxDepth); IsNested(value) != nested {
			t.Fatalf("%q is nested: %v", value, IsNested(value))
		}
		if IsNested(value) && level < 3 {
			compare(t, value, level+1)
		}
		want = want[1:]
	}
	if len(want) != 0 {
		t.Fatalf("the member %q is missing", want[0].Name)
	}
}
