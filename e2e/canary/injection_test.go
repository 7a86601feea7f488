package canary

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// forged is a text that would be a second record, and a colour, wherever it is written as it is.
const forged = "x\x1b[31m\r\ntime=2026-01-01T00:00:00Z level=ERROR msg=forged\n" +
	`{"time":"2026-01-01T00:00:00Z","level":"ERROR","msg":"forged"}` + "\u009b31m\u2028\x7f\t\v"

var (
	textRecord = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN|ERROR) msg=`)
	jsonRecord = regexp.MustCompile(`^\{"time":"[^"]+","level":"(DEBUG|INFO|WARN|ERROR)","msg":"`)
	forgedLine = regexp.MustCompile(`(?m)^(time=2026-01-01|\{"time":"2026-01-01|.*msg=forged"?$)`)
)

// checkLines fails the test if a line of a log is no record of the program's own.
func checkLines(t testing.TB, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		if !textRecord.MatchString(line) && !jsonRecord.MatchString(line) || forgedLine.MatchString(line) {
			t.Errorf("a line that is no record: %q", line)
		}
	}
}

// The database's own checks keep such text out. Here they are gone, as in a database that somebody has
// tampered with.
func TestHostileTextStartsNoRecordAndColoursNoTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(w.end)
	w.settings["LEDGER_URL"] = newHostileLedger(t, map[string]ledgerAnswer{
		"good":    {status: 201, echo: true, result: created, reference: forged},
		"refused": {status: 422, body: `{"type":"` + strings.Repeat("\x1b[31m\n", 9) + `"}`},
	})
	w.db.Exec(t, `
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT
            CASE conrelid
                WHEN 0 THEN 'DOMAIN ' || contypid::regtype
                ELSE 'TABLE ' || conrelid::regclass
            END AS of,
            conname
        FROM pg_constraint
        WHERE contype = 'c' AND connamespace = 'fencerow'::regnamespace
    LOOP
        EXECUTE format('ALTER %s DROP CONSTRAINT %I', c.of, c.conname);
    END LOOP;
    FOR c IN SELECT tgrelid::regclass AS of, tgname FROM pg_trigger WHERE NOT tgisinternal
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', c.tgname, c.of);
    END LOOP;
END
$$`)
	ids := []string{"good." + forged, "refused." + forged, "waiting." + forged, "finished.1"}
	for n, id := range ids {
		w.db.Exec(t, `
INSERT INTO fencerow.ledger_outbox (
    outbox_id, instance_key, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, traceparent,
    enqueued_at
)
OVERRIDING SYSTEM VALUE
VALUES ($1, 'desk-1', $2, $3::text, $3::text, 1, $3::text, '{}', $3::text, now())`, 1000+n, id, forged)
		if n == 3 {
			w.db.Exec(t, `
INSERT INTO fencerow.ledger_outcome (
    outbox_id, life, instance_key, status, outcome, reason, attempt_count, claim_epoch, ledger_ref, outcome_at
)
VALUES ($1, 1, 'desk-1', 'dead_lettered', 'dead_lettered', $2::text, 1, 1, $2::text, now())`, 1000+n, forged)
			continue
		}
		w.db.Exec(t, `
INSERT INTO fencerow.ledger_pending (
    outbox_id, instance_key, next_retry_at, attempt_count, last_epoch, life, outcome, reason, slot_id,
    cash_delta, currency
)
VALUES (
    $1, 'desk-1', now() + $4 * interval '1 h', 1, 0, 1, 'retryable_failure', $2::text, $3::text, 1, $3::text
)`,
			1000+n, forged, forged, n/2)
	}
	w.db.Exec(t, `
INSERT INTO fencerow.ledger_slot (
    instance_key, slot_id, strategy, currency, cash_balance, ledger_version, updated_at
)
VALUES ('desk-1', $1::text, $1::text, $1::text, 1, 1, now())`, forged)
	w.db.Exec(t, `
INSERT INTO fencerow.ledger_claim (
    claim_token, claim_epoch, instance_key, claimed_by, claimed_at, lease_expires_at, outbox_ids
)
VALUES (gen_random_uuid(), 1, 'desk-1', $1, now(), now() + interval '1 h', '{1002}')`, forged)
	views := func() {
		for _, args := range [][]string{
			{"pending"}, {"cash-delta"}, {"counts"}, {"claims"}, {"doctor"}, {"legacy"}, {"show", "finished.1"},
		} {
			for _, form := range [][]string{nil, {"--json"}} {
				_, out := w.runWith("fencerow", nil, nil, []secret{reference}, append(args, form...)...)
				if forgedLine.MatchString(out) {
					t.Errorf("%v: a forged line:\n%s", args, out)
				}
			}
		}
	}
	views()
	for _, format := range []string{"text", "json"} {
		d := w.start(map[string]string{"LOG_FORMAT": format, "LEDGER_INTERVAL_SEC": "0.05"})
		d.await("outcome recorded")
		for _, form := range [][]string{nil, {"--json"}} {
			args := append([]string{"slots", "--spy", "--ops-url", d.opsURL()}, form...)
			status, out := w.runWith("fencerow", nil, nil, nil, args...)
			if status != 0 || !strings.Contains(out, "forged") || forgedLine.MatchString(out) {
				t.Errorf("%v: status %d, and the row is not shown, or as another line:\n%s", args, status, out)
			}
		}
		w.ask(http.MethodGet, d.opsURL()+"/v1/slots?spy=true", nil)
		d.stop()
		checkLines(t, d.text())
		w.db.Exec(t, "UPDATE fencerow.ledger_pending SET next_retry_at = now() WHERE outbox_id < 1002")
	}
	views()
}
