package daemon

import (
	"net/http"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

// slots answers as over NATS, with the same bytes.
func (o *ops) slots(w http.ResponseWriter, r *http.Request) {
	spy, ok := o.question(w, r, paramSpy)
	if !ok {
		return
	}
	select {
	case o.asked <- struct{}{}:
		defer func() { <-o.asked }()
	default:
		writeError(w, http.StatusTooManyRequests, codeTooMany)
		return
	}
	line, refused := o.d.cfg.Slots.Answer(r.Context(), spy)
	writeLine(w, statusOf(refused), line)
}

// statusOf returns the status of an answer about slots; no code means that it is one.
func statusOf(refused fencerow.Code) int {
	switch refused {
	case "":
		return http.StatusOK
	case slots.ErrTooMany:
		return http.StatusTooManyRequests
	case slots.ErrInternal, slots.ErrAnswerTooLarge:
		return http.StatusInternalServerError
	default: // a code of the store
		return http.StatusServiceUnavailable
	}
}
