package slots

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/jsonwalk/walktest"
)

func TestRequestsAreReadStrictly(t *testing.T) {
	longest := fencerow.InstanceKey(strings.Repeat("k", fencerow.MaxInstanceKey))
	escaped := `{"instance_key":"` + strings.Repeat(`\u006b`, fencerow.MaxInstanceKey) + `","spy":true}`
	tests := []struct {
		name, document string
		want           Request
		ok             bool
	}{
		{"Both", `{"instance_key":"a","spy":true}`, Request{"a", true}, true},
		{"OtherOrderAndSpace", " {\n\"spy\": false ,\t\"instance_key\":\"a\"}\n", Request{"a", false}, true},
		{"NoSpyIsFalse", `{"instance_key":"a"}`, Request{"a", false}, true},
		{"KeyWithMeaningInNATS", `{"instance_key":"a.*.>"}`, Request{"a.*.>", false}, true},
		{"LongestKeyInEscapes", escaped, Request{longest, true}, true},
		{"Empty", ``, Request{}, false},
		{"NoObject", `["a"]`, Request{}, false},
		{"NoKey", `{"spy":true}`, Request{}, false},
		{"EmptyKey", `{"instance_key":"","spy":true}`, Request{}, false},
		{"KeyOfAnotherType", `{"instance_key":1,"spy":true}`, Request{}, false},
		{"NullKey", `{"instance_key":null,"spy":true}`, Request{}, false},
		{"KeyWithSpace", `{"instance_key":"a b","spy":true}`, Request{}, false},
		{"KeyTooLong", `{"instance_key":"` + string(longest) + `k"}`, Request{}, false},
		{"KeyWithAnEscapeSequence", `{"instance_key":"a\u001b[31m"}`, Request{}, false},
		{"NullSpy", `{"instance_key":"a","spy":null}`, Request{}, false},
		{"SpyInQuotes", `{"instance_key":"a","spy":"true"}`, Request{}, false},
		{"SpyAsNumber", `{"instance_key":"a","spy":1}`, Request{}, false},
		{"OtherCase", `{"Instance_Key":"a"}`, Request{}, false},
		{"Twice", `{"instance_key":"a","instance_key":"b"}`, Request{}, false},
		{"TwiceByEscape", `{"instance_key":"a","instance\u005fkey":"b"}`, Request{}, false},
		{"Unknown", `{"instance_key":"a","depth":3}`, Request{}, false},
		{"TwoDocuments", `{"instance_key":"a"}{"instance_key":"a"}`, Request{}, false},
		{"Truncated", `{"instance_key":"a"`, Request{}, false},
		{"InvalidUTF8", "{\"instance_key\":\"\xff\"}", Request{}, false},
		{"TooLarge", `{"instance_key":"a"` + strings.Repeat(" ", MaxRequest) + `}`, Request{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseRequest([]byte(tt.document))
			switch {
			case tt.ok && (err != nil || got != tt.want):
				t.Errorf("got %+v, %v", got, err)
			case !tt.ok && !errors.Is(err, fencerow.ErrInvalidInput):
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestARequestThatIsSentCanBeRead(t *testing.T) {
	for _, want := range []Request{{`a"\<&>`, true}, {"a", false}} {
		if got, err := ParseRequest(want.Document()); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

// What is accepted is what a strict reading by encoding/json accepts, and it says the same.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"instance_key":"a","spy":true}`, `{"instance_key":"a"}`, `{"spy":false}`, `{"instance_key":"\ud800"}`,
		`{"instance_key":"a","spy":"x"}`, `{}`, `null`, `{"a":{"instance_key":"b"}}`, "{\"instance_key\":\"\x00\"}",
		`{"instance_key":"desk\u002d9","spy":false}`, `{"instance_key":"a","instance_key":"b"}`,
		`{"instance_key":"a","instance\u005fkey":"b"}`, `{"Instance_key":"a"}`, `{"instance_key":"a","spy":null}`,
		`{"instance_key":null}`, `{"instance_key":1e999}`, `{"instance_key":["a"]}`, "{\"instance_key\":\"\xff\"}",
		`{"instance_key":"a","spy":true`, `{"instance_key":"a"}{"spy":true}`, `{"instance_key":"a b"}`,
		`{"instance_key":"a.*.>","spy":true}`,
		`{"spy":{"a":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `}}`,
		`{"instance_key":"` + strings.Repeat("k", fencerow.MaxInstanceKey) + `"}`,
		`{"instance_key":"` + strings.Repeat("k", fencerow.MaxInstanceKey+1) + `"}`,
		`{"instance_key":"a"` + strings.Repeat(" ", MaxRequest) + `}`, "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		got, err := ParseRequest(document)
		want, ok := plainRequest(document)
		if (err == nil) != ok || ok && got != want {
			t.Fatalf("%q: got %+v, %v, want %+v, %v", document, got, err, want, ok)
		}
		if err != nil && !errors.Is(err, fencerow.ErrInvalidInput) {
			t.Fatalf("%q: %v", document, err)
		}
	})
}

var plainKey = regexp.MustCompile(`\A[!-~]{1,128}\z`)

// plainRequest reads a request member by member, with encoding/json alone.
func plainRequest(document []byte) (r Request, ok bool) {
	members, ok := walktest.Members(document, MaxRequest)
	if !ok || len(document) > MaxRequest {
		return r, false
	}
	seen := map[string]bool{}
	for _, m := range members {
		if seen[m.Name] {
			return r, false
		}
		seen[m.Name] = true
		var value any
		if json.Unmarshal(m.Value, &value) != nil {
			return r, false
		}
		switch m.Name {
		case "instance_key":
			key, isText := value.(string)
			if !isText || !utf8.Valid(m.Value) {
				return r, false
			}
			r.Instance = fencerow.InstanceKey(key)
		case "spy":
			spy, isBool := value.(bool)
			if !isBool {
				return r, false
			}
			r.Spy = spy
		default:
			return r, false
		}
	}
	return r, plainKey.MatchString(string(r.Instance))
}
