package main

import (
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
)

func TestLegacyEntryCanBeEnqueuedUnderAKey(t *testing.T) {
	t.Parallel()
	payload := `{"b":1,  "a":1e400,"a":"\u0000 é 🙂"}`
	db := withLegacy(t, insertLegacy+`('old', 'fill', 'slot-1', -12.500, 'EUR', '`+payload+`')`)
	c := at(db.DSN(), desk)
	r := c.want(t, 0, "legacy", "export", "old")
	if r.stderr != "" || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("exported %q, saying %q", r.stdout, r.stderr)
	}
	if again := c.want(t, 0, "--json", "legacy", "export", "old"); again.stdout != r.stdout {
		t.Errorf("with --json: %q", again.stdout)
	}
	if doc := document[enqueueDoc](t, c.reading(r.stdout), 0, "enqueue", "-"); doc != (enqueueDoc{Inserted: 1}) {
		t.Errorf("%+v", doc)
	}
	state := document[showDoc](t, c, 0, "show", "old")
	if state.CashDelta != "-12.5" || text(state.SlotID) != "slot-1" || state.Status != fencerow.StatusPending {
		t.Errorf("%+v", state)
	}
	conn := db.Connect(t)
	var same bool
	err := conn.QueryRow(t.Context(), `
SELECT count(DISTINCT payload::text) = 1 AND count(*) = 2 AND count(instance_key) = 1
FROM fencerow.ledger_outbox`).Scan(&same)
	if err != nil || !same {
		t.Errorf("the bytes differ, or the old row went: %v", err)
	}
	if n := document[legacyDoc](t, c, 0, "legacy").LegacyCount; n != 1 {
		t.Errorf("%d unowned entries", n)
	}
}

func TestSeveralLegacyEntriesOfOneIDAreToldApartByNumber(t *testing.T) {
	t.Parallel()
	db := withLegacy(t, insertLegacy+
		`('twin', 'fill', NULL, 1, 'EUR', '{}'), ('twin', 'fee', NULL, 2, 'EUR', '{}')`)
	c := at(db.DSN(), desk)
	r := c.want(t, exitNothingDone, "legacy", "export", "twin")
	mustContain(t, r.stderr, "2 unowned entries", "--outbox-id: 1, 2")
	if r.stdout != "" {
		t.Errorf("exported %q", r.stdout)
	}
	mustContain(t, c.want(t, 0, "legacy", "export", "twin", "--outbox-id", "2").stdout, `"entry_kind":"fee"`)
	c.want(t, exitNothingDone, "legacy", "export", "twin", "--outbox-id", "3")
	enqueue(t, c, "mine")
	c.want(t, exitNothingDone, "legacy", "export", "mine") // it has an owner
	c.want(t, exitNothingDone, "legacy", "export", "nobody")
}

func TestLegacyEntryThatNoNewOneMayBeIsExportedAndNamed(t *testing.T) {
	t.Parallel()
	db := withLegacy(t,
		insertLegacy+`(E'bad \x1b[31mid\u009b', 'Fill', '', 'NaN', 'eur', E'{\n"a":"\u009b31m"\n}')`,
		insertLegacy+`('array', 'fill', NULL, 0, NULL, '[1]')`,
		insertLegacy+`('', 'fill', NULL, 0, NULL, '{}')`)
	c := at(db.DSN(), desk)
	r := c.want(t, 0, "legacy", "export", "bad \x1b[31mid\u009b")
	if strings.ContainsFunc(r.stdout+r.stderr, func(r rune) bool { return (r < ' ' && r != '\n') || r > '~' }) {
		t.Errorf("a terminal could obey %q", r.stdout+r.stderr)
	}
	mustContain(t, r.stdout,
		`"correlation_id":"bad \u001b[31mid\u009b"`, `"cash_delta":"NaN"`, `"payload":{ "a":"\u009b31m" }`)
	mustContain(t, r.stderr,
		"its bytes are not those of the old entry", `"fencerow enqueue" refuses this line: `)
	c.reading(r.stdout).want(t, 1, "enqueue", "-")
	mustContain(t, c.want(t, 0, "legacy", "export", "array").stderr, "payload is not a JSON object")
	mustContain(t, c.want(t, 0, "legacy", "export", "").stderr, "correlation_id is missing")
}
