package main

import (
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func results(doc doctorDoc) map[string]checkDoc {
	byName := map[string]checkDoc{}
	for _, check := range doc.Checks {
		byName[check.Check] = check
	}
	return byName
}

func TestDoctorFindsAHealthyServerInOrder(t *testing.T) {
	t.Parallel()
	server := pgtest.StartPrivate(t, map[string]string{"fsync": "on", "synchronous_commit": "on"})
	db := server.NewDatabase(t, schema)
	doc := document[doctorDoc](t, at(db.DSN(), desk), 0, "doctor")
	if doc.Result != checkOK || len(doc.Checks) < 15 {
		t.Errorf("%+v", doc)
	}
	for _, check := range doc.Checks {
		if check.Result != checkOK || check.Advice != "" || check.Detail == "" {
			t.Errorf("%+v", check)
		}
	}
	db.Exec(t, "UPDATE fencerow.schema_version SET version = 1000")
	newer := results(document[doctorDoc](t, at(db.DSN(), desk), 0, "doctor"))["schema"]
	mustContain(t, newer.Result+" "+newer.Detail, "ok version 1000, with which this program")
}

func TestDoctorSeesEachTrouble(t *testing.T) {
	t.Parallel()
	server := pgtest.StartPrivate(t, map[string]string{
		"fsync": "off", "synchronous_commit": "off", "autovacuum": "off",
	})
	db := server.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	for _, statement := range []string{
		"ALTER TABLE fencerow.ledger_outbox DROP CONSTRAINT ledger_outbox_instance_key_present",
		insertLegacy + `('old', 'fill', NULL, 0, NULL, '{}')`,
		`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'fencerow.ledger_outbox_unowned'::regclass`,
	} {
		db.Exec(t, statement)
	}
	stub, url := startStub(t)
	addRule(t, stub, ledgerstub.Rule{Fault: status(422)})
	enqueue(t, c, "late", "expired")
	_, err := openTestStore(t, db.DSN()).ClaimOne(t.Context(), fencerow.ClaimOneParams{
		Instance: desk, Worker: "gone", Token: fencerow.NewClaimToken(), CorrelationID: "expired", Lease: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "UPDATE fencerow.ledger_pending SET next_retry_at = now() - interval '1 hour'")
	db.Exec(t, `UPDATE fencerow.ledger_claim
SET claimed_at = claimed_at - interval '2 hours', lease_expires_at = lease_expires_at - interval '2 hours'`)
	enqueue(t, c, "blocked")
	c.with("FENCEROW_LEDGER_URL="+url).want(t, exitNotCompleted, "process", "blocked")
	c.want(t, 0, "hold")

	doc := document[doctorDoc](t, c, 1, "doctor")
	if doc.Result != checkFail {
		t.Errorf("the worst is %s", doc.Result)
	}
	found := results(doc)
	for name, want := range map[string]string{
		"connection": checkOK, "server_version": checkOK, "encoding": checkOK, "writable": checkOK,
		"clock": checkOK,
		"fsync": checkFail, "synchronous_commit": checkWarn, "autovacuum": checkWarn, "indexes": checkWarn,
		"schema": checkOK, "unowned": checkWarn, "hold": checkWarn, "lag": checkWarn, "blocked": checkWarn,
		"expired_claims": checkWarn,
	} {
		check := found[name]
		if check.Result != want || (check.Advice == "") != (want == checkOK) {
			t.Errorf("%s: %+v, want %s", name, check, want)
		}
	}
	mustContain(t, c.want(t, 1, "doctor").stdout, "fail", "fsync", "> turn fsync on")
}

func TestDoctorWithoutASchemaSaysSo(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, nil)
	found := results(document[doctorDoc](t, at(db.DSN(), desk), 1, "doctor"))
	if found["schema"].Result != checkFail || found["connection"].Result != checkOK {
		t.Errorf("%+v", found)
	}
	mustContain(t, found["schema"].Advice, "fencerow migrate up")
	if _, ok := found["lag"]; ok {
		t.Error("looked at entries without their tables")
	}
}

func TestDoctorSeesAReadOnlyServer(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	db.Connect(t) // a session that the role may not look at
	role := db.NewRole(t, map[string]string{"default_transaction_read_only": "on"})
	db.Exec(t, `GRANT USAGE ON SCHEMA fencerow TO "`+role.Name+`"`)
	db.Exec(t, `GRANT SELECT ON ALL TABLES IN SCHEMA fencerow TO "`+role.Name+`"`)
	found := results(document[doctorDoc](t, at(db.DSN(pgtest.As(role)), desk), 1, "doctor"))
	if found["writable"].Result != checkFail {
		t.Errorf("%+v", found["writable"])
	}
	mustContain(t, found["horizon"].Detail, "cannot be seen without pg_read_all_stats")
}

// What takes long to bring about on a server is judged from what a server says.
func TestDoctorJudgesClockVersionAndHorizon(t *testing.T) {
	t.Parallel()
	healthy := func() *pgstore.Diagnosis {
		return &pgstore.Diagnosis{
			ServerVersion: 140000, UTF8: true, Fsync: true, SynchronousCommit: true, Autovacuum: true,
			ClockError: time.Millisecond,
		}
	}
	for name, c := range map[string]struct {
		check, want string
		change      func(d *pgstore.Diagnosis)
	}{
		"Healthy":      {"server_version", checkOK, func(*pgstore.Diagnosis) {}},
		"Thirteen":     {"server_version", checkFail, func(d *pgstore.Diagnosis) { d.ServerVersion = 130099 }},
		"Latin":        {"encoding", checkFail, func(d *pgstore.Diagnosis) { d.UTF8 = false }},
		"Ahead":        {"clock", checkWarn, func(d *pgstore.Diagnosis) { d.ClockOffset = time.Hour }},
		"Behind":       {"clock", checkWarn, func(d *pgstore.Diagnosis) { d.ClockOffset = -2 * time.Second }},
		"SlowAnswer":   {"clock", checkOK, func(d *pgstore.Diagnosis) { d.ClockOffset, d.ClockError = 3e9, 3e9 }},
		"ShortHorizon": {"horizon", checkOK, holder("transaction", 10, 30*time.Second)},
		"LongHorizon":  {"horizon", checkWarn, holder("transaction", 10, 2*time.Minute)},
		"Prepared":     {"horizon", checkWarn, holder("prepared_transaction", 10, time.Hour)},
		"OldSlot":      {"horizon", checkWarn, holder("replication_slot", 2_000_000, 0)},
		"FreshSlot":    {"horizon", checkOK, holder("replication_slot", 2_000, 0)},
		"Dead":         {"dead_rows", checkWarn, rows(1000, 200_000)},
		"ManyAlive":    {"dead_rows", checkOK, rows(200_000, 200_000)},
		"VacuumTableOff": {"autovacuum", checkWarn, func(d *pgstore.Diagnosis) {
			d.Tables = []pgstore.TableHealth{{Name: "ledger_claim", AutovacuumOff: true}}
		}},
	} {
		d := healthy()
		c.change(d)
		var x examination
		x.server(d)
		x.upkeep(d)
		if got := results(doctorDoc{Checks: x.checks})[c.check]; got.Result != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func holder(kind string, age int64, held time.Duration) func(*pgstore.Diagnosis) {
	return func(d *pgstore.Diagnosis) { d.Horizon = []pgstore.HorizonHolder{{Kind: kind, Age: age, Held: held}} }
}

func rows(live, dead int64) func(*pgstore.Diagnosis) {
	return func(d *pgstore.Diagnosis) {
		d.Tables = []pgstore.TableHealth{{Name: "ledger_pending", LiveRows: live, DeadRows: dead}}
	}
}

// The horizon is read from a real server too: a transaction left open is found.
func TestDiagnosisFindsAnOpenTransaction(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	conn := db.Connect(t)
	var pid int
	if _, err := conn.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
		t.Fatal(err)
	}
	err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid() FROM fencerow.schema_version").Scan(&pid)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openTestStore(t, db.DSN()).Diagnose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, h := range d.Horizon {
		found = found || h.PID == pid && h.Kind == "transaction" && h.Held > 0
	}
	if !found || len(d.Tables) < 7 || d.ClockError <= 0 {
		t.Errorf("%+v", d)
	}
}
