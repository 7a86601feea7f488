package observe

import (
	"strconv"
	"strings"

	"github.com/fourblocks2020/fencerow"
)

// maxShown bounds one string in a log record. It is above the longest correlation id.
const maxShown = 256

// safe returns s if it is printable ASCII without space, as every key, id and code is; otherwise its quoted
// form without the quotes, in which nothing ends a line or starts a terminal sequence.
func safe[T ~string](s T) string {
	if len(s) <= maxShown && graphic(string(s)) {
		return string(s)
	}
	quoted := strconv.QuoteToASCII(string(s[:min(len(s), maxShown)]))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], " ", `\x20`)
}

func graphic(s string) bool {
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}

// safeIDs returns ids as they are shown.
func safeIDs(ids []fencerow.CorrelationID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = safe(id)
	}
	return out
}

// reasonUnknown is shown in place of a reason that does not have the form of one.
const reasonUnknown = "unknown"

// reason returns r if it has the form of a code. Text that reached a reason by a mistake is not shown at all.
func reason(r fencerow.ReasonCode) string {
	if r.Valid() {
		return string(r)
	}
	return reasonUnknown
}
