package ledger

import (
	"encoding/hex"
	"strings"
)

const traceParentLen = 55 // 00-<32 hex>-<16 hex>-<2 hex>

// childTraceParent returns the trace context of one attempt: the trace and flags of the enqueuer, a span of
// its own. It returns "" for anything but a version 00 trace context, which is then not sent.
func childTraceParent(parent string, span [8]byte) string {
	if len(parent) != traceParentLen || parent[:3] != "00-" || parent[35] != '-' || parent[52] != '-' {
		return ""
	}
	trace, flags := parent[3:35], parent[53:]
	const digits = "0123456789abcdef"
	if strings.Trim(trace, digits) != "" || strings.Trim(flags, digits) != "" || strings.Trim(trace, "0") == "" {
		return ""
	}
	if span == [8]byte{} {
		span[7] = 1 // A span of zeros is invalid.
	}
	out := make([]byte, 0, traceParentLen)
	out = append(out, parent[:36]...)
	out = hex.AppendEncode(out, span[:])
	return string(append(out, parent[52:]...))
}
