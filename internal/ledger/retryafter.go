package ledger

import (
	"net/http"
	"strings"
	"time"
)

// maxRetryAfter caps what a ledger may ask for: a mistake in its header must not put an entry off for years.
const maxRetryAfter = time.Hour

// retryAfter reads a Retry-After header: a number of seconds or an HTTP date. Anything else, and what is not
// in the future, is 0.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.Trim(value, " \t")
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		return retrySeconds(value)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// retrySeconds cannot overflow: it stops at the cap, however many digits follow.
func retrySeconds(digits string) time.Duration {
	var d time.Duration
	for i := range len(digits) {
		d = d*10 + time.Duration(digits[i]-'0')*time.Second
		if d >= maxRetryAfter {
			return maxRetryAfter
		}
	}
	return d
}
