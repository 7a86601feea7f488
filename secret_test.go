package fencerow

import (
	"bytes"
	"encoding"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// verbs are those that package fmt knows, and some that it does not, with flags, widths and precisions.
var verbs = []string{
	"%v", "%+v", "%#v", "%s", "%+s", "%q", "%+q", "%#q", "%x", "%X", "% x", "%#x", "%d", "%b", "%o", "%c", "%U",
	"%e", "%g", "%t", "%p", "%T", "%w", "%z", "%40v", "%-40v|", "%.3v", "%.2s", "%+40.5v", "%[1]*v",
}

// renderings returns every way that I know of to turn a value, or something that holds it, into text.
func renderings(t *testing.T, value any) map[string]string {
	t.Helper()
	type hidden struct{ value any }
	forms := map[string]string{"Sprint": fmt.Sprint(value), "Sprintln": fmt.Sprintln(value)}
	for _, verb := range verbs {
		forms[verb] = fmt.Sprintf(verb, value)
		forms[verb+" of a field"] = fmt.Sprintf(verb, struct{ Value any }{value})
		forms[verb+" of a hidden field"] = fmt.Sprintf(verb, hidden{value})
		forms[verb+" of a pointer to a hidden field"] = fmt.Sprintf(verb, &hidden{value})
		forms[verb+" of a slice"] = fmt.Sprintf(verb, []any{value})
		forms[verb+" of a map"] = fmt.Sprintf(verb, map[string]any{"key": value})
	}
	if err, ok := value.(error); ok {
		forms["wrapped"] = fmt.Errorf("run: %w", err).Error()
		forms["joined"] = errors.Join(err, errors.New("other")).Error()
	}
	if m, ok := value.(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		forms["MarshalText"] = fmt.Sprint(string(text), err)
	}
	for name, held := range map[string]any{
		"alone": value, "field": struct{ Value any }{value}, "hidden": hidden{value}, "list": []any{value},
	} {
		text, err := json.Marshal(held)
		forms["JSON "+name] = fmt.Sprint(string(text), err)
		text, err = xml.Marshal(held)
		forms["XML "+name] = fmt.Sprint(string(text), err)
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
		record := slog.NewRecord(time.Time{}, slog.LevelError, "failed", 0)
		record.Add("value", value, "field", struct{ Value any }{value}, "hidden", hidden{value},
			"group", slog.GroupValue(slog.Any("value", value)))
		if err := h.WithAttrs([]slog.Attr{slog.Any("with", value)}).Handle(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	forms["slog"] = log.String()
	return forms
}

func TestASecretShowsAConstantInEveryPrintForm(t *testing.T) {
	t.Parallel()
	s := NewSecret(secret)
	type settings struct {
		Shown  Secret
		hidden Secret
	}
	held := settings{s, s}
	_ = held.hidden // it is looked at by reflection
	for name, value := range map[string]any{
		"value": s, "pointer": &s, "struct": held, "pointer to a struct": &held, "list": []Secret{s},
		"map": map[string]Secret{"key": s}, "array of hidden": [1]settings{held},
	} {
		for form, got := range renderings(t, value) {
			// Numbers show what a search for the text would miss.
			for _, shown := range []string{"sentinel", "p%40ss", fmt.Sprintf("%x", "sentinel"),
				fmt.Sprintf("%X", "sentinel"), fmt.Sprintf("% x", "sentinel"), "115 101 110 116 105 110 101 108"} {
				if strings.Contains(got, shown) {
					t.Errorf("%s of a %s shows it: %s", form, name, got)
				}
			}
		}
	}
	unasked := []string{"%T", "%p", "%w", "%[1]*v"} // package fmt answers these without asking the value
	for form, got := range renderings(t, s) {
		asked := slices.Contains(verbs, form) && !slices.Contains(unasked, form)
		if asked && !strings.Contains(got, "[secret]") {
			t.Errorf("%s is %q, want the constant", form, got)
		}
	}
	if got, err := json.Marshal(map[string]any{"dsn": s}); string(got) != `{"dsn":"[secret]"}` || err != nil {
		t.Errorf("JSON is %s, %v", got, err)
	}
}

func TestASecretIsRevealedByItsAccessorOnly(t *testing.T) {
	t.Parallel()
	var read Secret
	if err := read.UnmarshalText([]byte(secret)); err != nil {
		t.Fatal(err)
	}
	if NewSecret(secret).Reveal() != secret || read.Reveal() != secret {
		t.Error("what was put in does not come out")
	}
	if none := NewSecret(""); !none.IsZero() || none.Reveal() != "" || none != (Secret{}) ||
		NewSecret("x").IsZero() {
		t.Error("an empty secret is one, or another is none")
	}
}

// A token is an array, since it is compared and a key of maps, so that a field that package fmt does not ask
// shows its bytes. It is no credential; that it is in no log is kept by what internal/observe takes.
func TestAClaimTokenShowsAConstantWhereverItIsAsked(t *testing.T) {
	t.Parallel()
	token := NewClaimToken()
	claim := Claim{Token: token, Epoch: 7}
	digits := strings.ReplaceAll(token.UUID(), "-", "")
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
		record := slog.NewRecord(time.Time{}, slog.LevelError, "failed", 0)
		record.Add("token", token, "claim", claim, "pointer", &claim)
		if err := h.Handle(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	looked := map[string]string{"slog": log.String()}
	for name, value := range map[string]any{"value": token, "pointer": &token, "claim": claim} {
		for form, got := range renderings(t, value) {
			unasked := strings.HasPrefix(form, "%p") || strings.HasPrefix(form, "%w") ||
				strings.Contains(form, "hidden") || form == "slog"
			if !unasked {
				looked[form+" of "+name] = got
			}
		}
	}
	for form, got := range looked {
		squeezed := strings.NewReplacer("-", "", " ", "", "0x", "", ",", "").Replace(strings.ToLower(got))
		if strings.Contains(squeezed, digits) || strings.Contains(got, fmt.Sprint([16]byte(token))) {
			t.Errorf("%s shows it: %s", form, got)
		}
	}
	if len(looked) < 100 || fmt.Sprint(token) != "[claim token]" {
		t.Errorf("%d forms were looked at; it is shown as %v", len(looked), token)
	}
}

// What the other errors hold is a code or a field's name: no text of anybody else ever gets in.
func TestCodesAndInputErrorsShowWhatTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	input := &InputError{Field: "lease", Problem: "is too long"}
	for _, form := range []string{"%v", "%+v", "%s"} {
		if got := fmt.Sprintf(form, ErrStoreBusy); got != "store_busy" {
			t.Errorf("%s of a code is %q", form, got)
		}
		if got := fmt.Sprintf(form, input); got != "lease is too long" {
			t.Errorf("%s of an input error is %q", form, got)
		}
	}
	got, err := json.Marshal(struct{ Err error }{ErrStoreBusy})
	if string(got) != `{"Err":"store_busy"}` || err != nil {
		t.Errorf("JSON of a code is %s, %v", got, err)
	}
}
