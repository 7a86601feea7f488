package fencerow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

const secret = "postgres://user:p%40ss@host/db payload-sentinel"

// leaky is an error whose every print form shows what must not be shown.
type leaky struct{ Text string }

func (l *leaky) Error() string    { return l.Text }
func (l *leaky) GoString() string { return l.Text }
func (l *leaky) String() string   { return l.Text }

func TestErrorHidesItsCauseInEveryPrintForm(t *testing.T) {
	t.Parallel()
	err := NewError("claim batch", ErrStoreTimeout, fmt.Errorf("query: %w", &leaky{secret}))
	forms := map[string]string{"Error": err.Error()}
	for name, value := range map[string]any{
		"pointer": err, "value": *err, "wrapped": fmt.Errorf("run: %w", err), "joined": errors.Join(err, io.EOF),
		"field": struct{ Err error }{err}, "typed": struct{ Err *Error }{err}, "hidden": struct{ err *Error }{err},
	} {
		for form, got := range renderings(t, value) {
			forms[form+" of "+name] = got
		}
	}
	for form, got := range forms {
		if strings.Contains(got, "sentinel") || strings.Contains(got, "p%40ss") {
			t.Errorf("%s shows the cause: %s", form, got)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := forms[verb+" of pointer"]; got != "claim batch: store_timeout" {
			t.Errorf("%s is %q, want the operation and the code", verb, got)
		}
	}
	if got := forms["JSON field of pointer"]; got != `{"Value":"store_timeout"}<nil>` {
		t.Errorf("JSON is %s, want the code", got)
	}
}

func TestErrorIsItsCodeAndNoOther(t *testing.T) {
	t.Parallel()
	cause := &leaky{secret}
	err := fmt.Errorf("run: %w", NewError("record", ErrStoreBusy, cause))
	if !errors.Is(err, ErrStoreBusy) || errors.Is(err, ErrStoreTimeout) {
		t.Errorf("%v is not store_busy alone", err)
	}
	if errors.Is(err, cause) {
		t.Errorf("the cause can be reached")
	}
	typed, ok := errors.AsType[*Error](err)
	if !ok || typed.Code() != ErrStoreBusy || typed.CauseType() != "*fencerow.leaky" {
		t.Errorf("got %v, want the code and the type of the cause", typed)
	}
}

func TestErrorKeepsTheEndOfAContext(t *testing.T) {
	t.Parallel()
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		err := NewError("show", ErrStoreUnavailable, fmt.Errorf("%s: %w", secret, ended))
		if !errors.Is(err, ended) {
			t.Errorf("%v is not %v", err, ended)
		}
		if strings.Contains(fmt.Sprintf("%+v", err.Unwrap()), "sentinel") {
			t.Errorf("what is unwrapped shows the cause")
		}
	}
	if err := NewError("show", ErrStoreUnavailable, io.EOF); err.Unwrap() != nil {
		t.Errorf("unwrapped %v", err.Unwrap())
	}
}

func TestInnermostTypeNamesTheDeepestError(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"none", nil, ""},
		{"plain", errors.New(secret), "*errors.errorString"},
		{"wrapped twice", fmt.Errorf("a: %w", fmt.Errorf("b: %w", &leaky{secret})), "*fencerow.leaky"},
		{"side by side", errors.Join(&leaky{secret}, io.EOF), "*fencerow.leaky"},
		{"joined inside", fmt.Errorf("a %w b %w", &InputError{}, io.EOF), "*fencerow.InputError"},
		{"code", ErrNotFound, "fencerow.Code"},
		{"made from another", fmt.Errorf("a: %w", NewError("op", ErrStoreFailed, &leaky{secret})),
			"*fencerow.leaky"},
		{"made from none", fmt.Errorf("a: %w", NewError("op", ErrInstanceHeld, nil)), "*fencerow.Error"},
		{"wraps nothing", wrapsNothingError{}, "fencerow.wrapsNothingError"},
	} {
		if got := InnermostType(tc.err); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

type wrapsNothingError struct{}

func (wrapsNothingError) Error() string   { return secret }
func (wrapsNothingError) Unwrap() []error { return nil }

func TestTypedErrorsAreTheirCodes(t *testing.T) {
	t.Parallel()
	all := []Code{ErrInvalidInput, ErrEnqueueConflict, ErrForeignInstance, ErrUnavailable, ErrWrongStatus,
		ErrNotFound, ErrInstanceHeld}
	for _, tc := range []struct {
		err  error
		want Code
		text string
	}{
		{&InputError{Field: "lease", Problem: "is too long"}, ErrInvalidInput, "lease is too long"},
		{&EnqueueConflictError{CorrelationID: "a", OutboxID: 7}, ErrEnqueueConflict,
			"correlation_id a is already enqueued with other content"},
		{&ClaimRefusedError{Why: RefusedForeign}, ErrForeignInstance, "claim refused: foreign_instance"},
		{&ClaimRefusedError{Why: RefusedLeased}, ErrUnavailable, "claim refused: leased"},
		{&ClaimRefusedError{Why: RefusedNotDue}, ErrUnavailable, "claim refused: not_due"},
		{&ClaimRefusedError{Why: RefusedFinished}, ErrUnavailable, "claim refused: finished"},
		{&ClaimRefusedError{Why: RefusedUnknown}, ErrUnavailable, "claim refused: unknown"},
		{&ClaimRefusedError{Why: RefusedHeld}, ErrUnavailable, "claim refused: instance_held"},
		{&WrongStatusError{Status: StatusCompleted}, ErrWrongStatus, "the entry is completed"},
	} {
		if tc.err.Error() != tc.text {
			t.Errorf("text %q, want %q", tc.err, tc.text)
		}
		for _, code := range all {
			if got := errors.Is(fmt.Errorf("x: %w", tc.err), code); got != (code == tc.want) {
				t.Errorf("%v is %s: %v", tc.err, code, got)
			}
		}
	}
}
