package daemon

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// Query parameters of requests.
const (
	paramForceDue = "force_due"
	paramSpy      = "spy"
	paramInstance = "instance_key"
)

// ProcessResult is the document of a processed entry, of the ops listener and of `fencerow process`. A field
// that does not apply is empty.
type ProcessResult struct {
	CorrelationID fencerow.CorrelationID `json:"correlation_id"`
	ClaimResult   string                 `json:"claim_result"`
	Outcome       fencerow.OutcomeKind   `json:"outcome"`
	Reason        string                 `json:"reason"`
}

// NewProcessResult makes the document of a writer's result.
func NewProcessResult(r writer.TargetedResult) ProcessResult {
	return ProcessResult{
		CorrelationID: r.CorrelationID, ClaimResult: string(r.ClaimResult), Outcome: r.Outcome, Reason: r.Reason,
	}
}

// told reports whether a daemon could have said this. An answer that was changed on its way must not pass for
// a success.
func (r ProcessResult) told() bool {
	switch observe.ClaimResult(r.ClaimResult) {
	case observe.ResultClaimed:
		if r.Outcome != "" && !slices.Contains(fencerow.OutcomeKinds(), r.Outcome) {
			return false
		}
	case observe.ResultUnavailable, observe.ResultForeign, observe.ResultLost:
		if r.Outcome != "" {
			return false
		}
	default:
		return false
	}
	return r.Reason == "" || fencerow.ReasonCode(r.Reason).Valid()
}

// process claims, delivers and records one entry by a writer of the daemon. Every result of it is status 200.
func (o *ops) process(w http.ResponseWriter, r *http.Request) {
	force, ok := o.question(w, r, paramForceDue)
	if !ok {
		return
	}
	id, err := fencerow.ParseCorrelationID(r.PathValue("correlation_id"))
	if err != nil {
		writeInputError(w, err)
		return
	}
	select {
	case o.requests <- struct{}{}:
		defer func() { <-o.requests }()
	default:
		writeError(w, http.StatusTooManyRequests, codeTooMany)
		return
	}
	// A delivery may take longer than any other request. The writer bounds it, by its lease; a deadline of the
	// connection would look to the server as if the client had gone away.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Time{})
	_ = connection.SetWriteDeadline(time.Time{})

	// Any writer will do: a targeted claim needs no room among the rows that one has in flight.
	result, err := o.d.cfg.Writers[0].RunTargeted(r.Context(), id, force)
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, NewProcessResult(result))
	case errors.Is(err, fencerow.ErrInvalidInput):
		writeInputError(w, err)
	default:
		writeError(w, http.StatusServiceUnavailable, string(slots.CodeOf(err)))
	}
}

// question reads a query of one yes or no, absent meaning no, and of the instance that is meant, which must
// be the daemon's own. It has answered what it refuses.
func (o *ops) question(w http.ResponseWriter, r *http.Request, name string) (yes, ok bool) {
	query, err := parameters(r, name, paramInstance)
	if err != nil {
		writeInputError(w, err)
		return false, false
	}
	if query.Has(paramInstance) {
		key := fencerow.InstanceKey(query.Get(paramInstance))
		if err := key.Validate(); err != nil {
			writeInputError(w, err)
			return false, false
		}
		if key != o.d.obs.Instance() {
			writeError(w, http.StatusMisdirectedRequest, codeOtherInstance)
			return false, false
		}
	}
	text := query.Get(name)
	if query.Has(name) && text != "true" && text != "false" {
		writeInputError(w, &fencerow.InputError{Field: name, Problem: "must be true or false"})
		return false, false
	}
	return text == "true", true
}

// parameters reads a query that has each of these names at most once, and nothing else, of a request without
// a body: one that is misunderstood could have another instance's entry processed, or one too early.
func parameters(r *http.Request, names ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &fencerow.InputError{Field: "query", Problem: "is malformed"}
	}
	if n, err := r.Body.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return nil, &fencerow.InputError{Field: "body",
			Problem: "must be empty: what a request can say stands in its address"}
	}
	for name, values := range query {
		switch {
		case !slices.Contains(names, name):
			return nil, &fencerow.InputError{Field: "query",
				Problem: "has a parameter other than " + strings.Join(names, " and ")}
		case len(values) > 1:
			return nil, &fencerow.InputError{Field: name, Problem: "is given more than once"}
		}
	}
	return query, nil
}

func writeInputError(w http.ResponseWriter, err error) {
	writeJSON(w, http.StatusBadRequest, errorDocument{Error: string(fencerow.ErrInvalidInput),
		Message: err.Error()})
}
