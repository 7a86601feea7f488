package ledger

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/jsonwalk"
)

// The words of an answer's result.
const (
	resultCreated   = "CREATED"
	resultDuplicate = "DUPLICATE_OK"
	resultConflict  = "CONFLICT"
)

// document is an answer document:
//
//	{"result": "CREATED" | "DUPLICATE_OK", "correlation_id", "ledger_ref", "content_digest",
//	 "snapshot": {"slot_id", "currency", "cash_balance", "version"}}
//
// Every member is optional and empty if absent or null; members of other names are ignored.
type document struct {
	result        string
	correlationID string
	digest        string // as sent: an RFC 9530 dictionary
	ref           string // empty unless it may be stored
	snapshot      *fencerow.Snapshot
}

// parseDocument reads an answer and reports whether it is one: a JSON object in which no known member is
// given twice and result and the echoes have the right types. A snapshot that cannot be read becomes
// [refusedSnapshot]; the rest of the answer stands.
func parseDocument(body []byte) (document, bool) {
	var d document
	if !jsonwalk.IsObject(body) {
		return d, false
	}
	var seen [5]bool
	once := func(i int) bool { first := !seen[i]; seen[i] = true; return first }
	ok := true
	for name, value := range jsonwalk.Members(body) {
		switch string(name) {
		case "result":
			ok = once(0) && text(value, &d.result) && knownResult(d.result)
		case "correlation_id":
			ok = once(1) && text(value, &d.correlationID)
		case "content_digest":
			ok = once(2) && text(value, &d.digest)
		case "ledger_ref":
			ok = once(3)
			if text(value, &d.ref) && !fencerow.ValidLedgerRef(d.ref) {
				d.ref = ""
			}
		case "snapshot":
			ok = once(4)
			if !jsonwalk.IsNull(value) {
				d.snapshot = parseSnapshot(value)
			}
		}
		if !ok {
			return document{}, false
		}
	}
	return d, true
}

func knownResult(s string) bool {
	return s == "" || s == resultCreated || s == resultDuplicate || s == resultConflict
}

// text reads a string or null into s and reports whether the value is one of them.
func text(value []byte, s *string) bool {
	if jsonwalk.IsNull(value) {
		return true
	}
	var ok bool
	*s, ok = jsonwalk.String(value)
	return ok
}

// refusedSnapshot stands for one that was given and is no good. No entry accepts it, so the store says that
// it was refused and leaves the skip open, while nothing that the ledger wrote goes any further.
func refusedSnapshot() *fencerow.Snapshot { return &fencerow.Snapshot{Version: -1} }

// snapshotFor returns the snapshot if it is e's own, nil if there is none.
func (d *document) snapshotFor(e *fencerow.Entry) *fencerow.Snapshot {
	if d.snapshot != nil && !e.CheckSnapshot(d.snapshot) {
		return refusedSnapshot()
	}
	return d.snapshot
}

// parseSnapshot is strict: strings, a plain decimal in a string, an integer without sign, point or exponent,
// nothing twice. Numbers are not read as floats anywhere.
func parseSnapshot(value []byte) *fencerow.Snapshot {
	if !jsonwalk.IsNested(value) {
		return refusedSnapshot()
	}
	s := &fencerow.Snapshot{}
	var seen [4]bool
	once := func(i int) bool { first := !seen[i]; seen[i] = true; return first }
	for name, value := range jsonwalk.Members(value) {
		ok := true
		switch string(name) {
		case "slot_id":
			var slot string
			slot, ok = jsonwalk.String(value)
			s.SlotID, ok = fencerow.SlotID(slot), ok && once(0)
		case "currency":
			s.Currency, ok = jsonwalk.String(value)
			ok = ok && once(1)
		case "cash_balance":
			ok = balance(value, s) && once(2)
		case "version":
			version, err := strconv.ParseUint(string(value), 10, 63)
			s.Version, ok = int64(version), err == nil && once(3)
		}
		if !ok {
			return refusedSnapshot()
		}
	}
	if seen != [4]bool{true, true, true, true} {
		return refusedSnapshot()
	}
	return s
}

func balance(value []byte, s *fencerow.Snapshot) bool {
	plain, ok := jsonwalk.String(value)
	if !ok {
		return false
	}
	d, err := fencerow.ParseDecimal("cash_balance", plain)
	s.CashBalance = d
	return err == nil
}

// echo is what an answer says about what it answers.
type echo int

const (
	echoAbsent echo = iota
	// echoID: it repeats the correlation id and says nothing about the content.
	echoID
	// echoContent: it repeats the content's digest and contradicts nothing.
	echoContent
	// echoBoth: it repeats both.
	echoBoth
	// echoContradicts: it is about something else.
	echoContradicts
)

func (d *document) echo(correlationID, digest string) echo {
	e := echoAbsent
	if d.correlationID != "" {
		if d.correlationID != correlationID {
			return echoContradicts
		}
		e = echoID
	}
	if said := sha256Member(d.digest); said != "" {
		if said != digest {
			return echoContradicts
		}
		e += echoContent
	}
	return e
}

// sha256Member returns the sha-256 member of a Content-Digest dictionary, or "" if it has none: a digest of
// another kind neither agrees nor contradicts.
func sha256Member(digests string) string {
	for member := range strings.SplitSeq(digests, ",") {
		if member = strings.Trim(member, " \t"); strings.HasPrefix(member, "sha-256=") {
			return member
		}
	}
	return ""
}

// isJSON reports whether a body may be read as JSON. An absent type is no objection; a wrong one is: a
// captive portal answers 200 with text/html.
func isJSON(header http.Header) bool {
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return false
	}
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	media = strings.ToLower(strings.Trim(media, " \t"))
	return media == "" || media == "application/json" ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}
