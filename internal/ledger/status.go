package ledger

import (
	"net/http"
	"slices"

	"github.com/fourblocks2020/fencerow"
)

// refusal reads an answer whose status is not a success.
func (h *HTTP) refusal(response *http.Response, body []byte) fencerow.Answer {
	status := response.StatusCode
	answer := statusAnswer(status)
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		if h.token != nil {
			h.token.refused()
		}
	case http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity:
		answer = byProblem(answer, status, problemOf(response, body))
	}
	wait := retryAfter(response.Header.Get("Retry-After"), h.now())
	if status == http.StatusRequestEntityTooLarge && wait > 0 {
		answer.Class = fencerow.AnswerRetryable
	}
	if answer.Class == fencerow.AnswerPermanent && slices.Contains(h.config.RetryableStatus, status) {
		answer.Class, answer.Reason = fencerow.AnswerRetryable, fencerow.ReasonRetryableStatus
	}
	if answer.Class == fencerow.AnswerRetryable {
		answer.RetryAfter = wait
	}
	return answer
}

// byProblem refines a 400, 409 or 422 by what its body says.
func byProblem(answer fencerow.Answer, status int, problem problemKind) fencerow.Answer {
	switch {
	case problem == problemStaleToken && status == http.StatusConflict:
		// The claim's own state decides whether this worker may still record anything.
		answer.Reason, answer.Resolve = fencerow.ReasonStaleFencingToken, false
	case problem == problemMismatch:
		answer.Class, answer.Reason = fencerow.AnswerConflict, fencerow.ReasonContentConflict
	}
	return answer
}

// statusAnswer is the table of statuses other than 2xx, before bodies and configuration have their say.
func statusAnswer(status int) fencerow.Answer {
	switch status {
	case 401, 403, 407:
		return target(fencerow.Answered, fencerow.ReasonCredentialsRefused)
	case 404, 405, 406, 410, 415, 501, 505:
		return target(fencerow.Answered, fencerow.ReasonEndpointRefused)
	case 421, 424:
		return target(fencerow.Unknown, fencerow.ReasonMisdirected)
	case 429:
		return target(fencerow.Answered, fencerow.ReasonThrottled)
	case 503:
		return target(fencerow.Answered, fencerow.ReasonLedgerUnavailable)
	case 408:
		return entry(fencerow.AnswerRetryable, fencerow.Unknown, fencerow.ReasonRequestTimeout)
	case 423, 425:
		return entry(fencerow.AnswerRetryable, fencerow.Answered, fencerow.ReasonNotReady)
	case 500:
		return entry(fencerow.AnswerRetryable, fencerow.Unknown, fencerow.ReasonLedgerError)
	case 400:
		return entry(fencerow.AnswerPermanent, fencerow.Answered, fencerow.ReasonBadRequest)
	case 413:
		return entry(fencerow.AnswerPermanent, fencerow.Answered, fencerow.ReasonTooLarge)
	case 422:
		return entry(fencerow.AnswerPermanent, fencerow.Answered, fencerow.ReasonContentRefused)
	case 409:
		a := entry(fencerow.AnswerRetryable, fencerow.Answered, fencerow.ReasonInFlight)
		a.Resolve = true
		return a
	}
	switch status / 100 {
	case 3:
		return target(fencerow.Answered, fencerow.ReasonRedirected)
	case 4:
		return entry(fencerow.AnswerPermanent, fencerow.Answered, fencerow.ReasonRequestRefused)
	case 5:
		return target(fencerow.Unknown, fencerow.ReasonLedgerUnavailable)
	}
	// 101 and statuses that HTTP does not have.
	return entry(fencerow.AnswerRetryable, fencerow.Unknown, fencerow.ReasonAnswerUnreadable)
}

// target is a failure that every other entry would meet too.
func target(certainty fencerow.Certainty, reason fencerow.ReasonCode) fencerow.Answer {
	return fencerow.Answer{
		Class: fencerow.AnswerRetryable, Certainty: certainty, Scope: fencerow.ScopeTarget, Reason: reason,
	}
}

func entry(class fencerow.AnswerClass, c fencerow.Certainty, reason fencerow.ReasonCode) fencerow.Answer {
	return fencerow.Answer{Class: class, Certainty: c, Scope: fencerow.ScopeEntry, Reason: reason}
}
