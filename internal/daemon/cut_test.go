package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/badinput"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// counting is a writer that counts what it is asked to process.
func counting() (w *scripted, processed *atomic.Int64) {
	w, processed = newScripted(idle), &atomic.Int64{}
	w.targeted = func(_ context.Context, id fencerow.CorrelationID, _ bool) (writer.TargetedResult, error) {
		processed.Add(1)
		return writer.TargetedResult{
			CorrelationID: id, ClaimResult: observe.ResultClaimed, Outcome: fencerow.OutcomeCompleted,
		}, nil
	}
	return w, processed
}

// Whatever is sent as a body, whole, cut or changed: it is refused, and nothing is processed by half.
func TestARequestWithABodyIsRefusedAndNothingIsProcessed(t *testing.T) {
	w, processed := counting()
	s := serveOps(t, w, nil)
	const document = `{"correlation_id":"a","force_due":true,"instance_key":"instance-a","spy":true}`
	bodies := []string{document, "\x00", "\xff", strings.Repeat(" ", 4*maxOpsBody)}
	for body := range badinput.Cuts(document) {
		if body != "" {
			bodies = append(bodies, body)
		}
	}
	for _, target := range []struct{ method, path string }{
		{http.MethodPost, "/v1/process/a"}, {http.MethodGet, "/v1/slots"},
	} {
		for i, body := range bodies {
			status, answer := s.request(target.method, target.path, func(r *http.Request) {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
				if i%2 == 1 {
					r.ContentLength = -1 // in chunks
				}
			})
			var doc errorDocument
			if status != http.StatusBadRequest || json.Unmarshal([]byte(answer), &doc) != nil ||
				doc.Error != string(fencerow.ErrInvalidInput) || !strings.HasPrefix(doc.Message, "body must be empty") {
				t.Errorf("%s with the body %.100q: %d %q", target.path, body, status, answer)
			}
		}
	}
	equal(t, "entries processed", processed.Load(), 0)
	t.Logf("%d requests with a body refused, and nothing processed", 2*len(bodies))
}

// A query cut anywhere is refused, or asks for what is left of it; another instance is never taken for the
// own.
func TestAQueryCutAtAnyByteIsRefusedOrMeansWhatItSays(t *testing.T) {
	w, processed := counting()
	s := serveOps(t, w, nil)
	refused, taken := 0, 0
	for _, whole := range []string{
		"force_due=true&instance_key=instance-a", "instance_key=instance%2da&force_due=false",
	} {
		for query := range badinput.Cuts(whole) {
			values, err := url.ParseQuery(query)
			means := err == nil
			for name, given := range values {
				means = means && (name == "force_due" && (given[0] == "true" || given[0] == "false") ||
					name == "instance_key" && given[0] == string(self))
			}
			before := processed.Load()
			status, answer := s.request(http.MethodPost, "/v1/process/a?"+query, nil)
			switch {
			case means && status == http.StatusOK && processed.Load() == before+1:
				taken++
			case !means && processed.Load() == before && json.Valid([]byte(answer)) &&
				(status == http.StatusBadRequest || status == http.StatusMisdirectedRequest):
				refused++
			default:
				t.Errorf("%q: %d %s", query, status, answer)
			}
		}
	}
	t.Logf("%d cut queries refused, %d mean what is left of them", refused, taken)
}

// fakeDaemon answers every request but the one for liveness with a body, of which it may keep the end to
// itself.
func fakeDaemon(t *testing.T) (client *Client, answer func(body string, length int)) {
	t.Helper()
	type said struct {
		body   string
		length int
	}
	var next atomic.Pointer[said]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return
		}
		s := next.Load()
		w.Header().Set("Content-Length", strconv.Itoa(s.length))
		_, _ = io.WriteString(w, s.body)
		if s.length > len(s.body) {
			_ = http.NewResponseController(w).Flush() // else nothing of it would be sent
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	client, err := NewClient(server.URL, fencerow.Secret{})
	check(t, err)
	return client, func(body string, length int) { next.Store(&said{body, length}) }
}

func processDocument(t *testing.T) string {
	t.Helper()
	line, err := json.Marshal(ProcessResult{
		CorrelationID: "a", ClaimResult: string(observe.ResultClaimed), Outcome: fencerow.OutcomeCompleted,
	})
	check(t, err)
	return string(line)
}

func TestAnAnswerOfADaemonCutAtAnyByteIsNone(t *testing.T) {
	client, answer := fakeDaemon(t)
	whole := processDocument(t)
	answer(whole, len(whole))
	_, err := client.Process(t.Context(), self, "a", false)
	check(t, err)
	cuts := 0
	for body := range badinput.Cuts(whole) {
		for length, want := range map[int]error{len(body): ErrDaemonAnswer, len(whole): ErrDaemonUnreachable} {
			answer(body, length)
			cuts += 2
			if result, err := client.Process(t.Context(), self, "a", false); !errors.Is(err, want) {
				t.Errorf("%q of %d bytes is read as %+v, %v", body, length, result, err)
			}
			if _, err := client.Ready(t.Context()); !errors.Is(err, want) {
				t.Errorf("%q of %d bytes is read as readiness: %v", body, length, err)
			}
		}
	}
	t.Logf("%d cut answers, none of them is one", cuts)
}

// A result with one byte changed is a result that a daemon could have told, or none: what is no success is
// not read as one.
func TestAnAnswerOfADaemonWithAnyByteChangedPassesForNoOther(t *testing.T) {
	client, answer := fakeDaemon(t)
	const flips = 1000
	whole, read := processDocument(t), 0
	for body := range badinput.Flips(whole, 3, flips) {
		answer(body, len(body))
		result, err := client.Process(t.Context(), self, "a", false)
		if err != nil {
			if !errors.Is(err, ErrDaemonAnswer) {
				t.Errorf("%q: %v", body, err)
			}
			continue
		}
		read++
		if result.CorrelationID != "a" || result.ClaimResult != string(observe.ResultClaimed) ||
			result.Outcome != "" && result.Outcome != fencerow.OutcomeCompleted {
			t.Errorf("%q is read as %+v", body, result)
		}
	}
	t.Logf("%d answers with one byte changed, %d of them can be read", flips, read)
}
