package pgstore

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// However wrong the statistics are, the ids held are looked up in a hash: unhashed, a claim costs a thousand
// times as much. They are as wrong as they get after tens of thousands of claims whose rows are dead and not
// yet vacuumed.
func TestClaimStaysHashedWithStaleStatistics(t *testing.T) {
	t.Parallel()
	t.Run("without walls", func(t *testing.T) {
		t.Parallel()
		staysHashed(t, pgtest.NewDatabase(t, schema))
	})
	t.Run("behind walls", func(t *testing.T) {
		t.Parallel()
		database, role := behindWalls(t, nil, "i")
		staysHashed(t, database, pgtest.As(role))
	})
}

func staysHashed(t *testing.T, database *pgtest.Database, role ...pgtest.DSNOption) {
	t.Helper()
	store := openOn(t, database, role...)
	enqueue(t, store, "i", 5000)
	conn := database.Connect(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`ALTER TABLE fencerow.ledger_claim SET (autovacuum_enabled = off)`)
	exec(`ALTER TABLE fencerow.ledger_pending SET (autovacuum_enabled = off)`)
	exec(`
		INSERT INTO fencerow.ledger_claim (
			claim_token, claim_epoch, claimed_at, lease_expires_at, instance_key, claimed_by, outbox_ids
		)
		SELECT gen_random_uuid(), 1, now(), now() + interval '1 hour', 'i', 'w', array_fill(g, ARRAY[100])
		FROM generate_series(10000001, 10040000) g`)
	exec(`ANALYZE fencerow.ledger_claim`)
	exec(`DELETE FROM fencerow.ledger_claim`)
	claim(t, store, "i", 1000)

	conn = database.Connect(t, role...)
	values := map[string]string{
		"text": `'i'`, "boolean": "true", "timestamptz": "'-infinity'", "integer": "1000", "bigint": "1",
		"uuid": "'" + fencerow.NewClaimToken().UUID() + "'", "interval": "'1 minute'",
	}
	for name, sql := range map[string]string{
		"ClaimBatch": db.ClaimBatch, "PendingList": db.PendingList, "PendingCounts": db.PendingCounts,
	} {
		t.Run(name, func(t *testing.T) {
			plan := explain(t, conn, genericPlan, sql, values)
			if regexp.MustCompile(`NOT \(SubPlan|\(NOT \(ANY`).MatchString(plan) ||
				!strings.Contains(plan, "hashed SubPlan") {
				t.Errorf("the plan of %s is not hashed:\n%s", name, plan)
			}
		})
	}
}

const (
	genericPlan = "force_generic_plan"
	customPlan  = "force_custom_plan"
)

// explain is explainWith where the arguments are given by their types.
func explain(t *testing.T, conn *pgx.Conn, mode, sql string, values map[string]string) string {
	t.Helper()
	return explainWith(t, conn, mode, sql, arguments(sql, values))
}

// explainWith returns the plan of a statement, generic or made for its arguments, under the settings of the
// store's transactions, running it in a transaction that is rolled back.
func explainWith(t *testing.T, conn *pgx.Conn, mode, sql, arguments string) string {
	t.Helper()
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // nothing to keep
	q := db.New(tx)
	if _, err := q.TransactionBounds(t.Context(), db.TransactionBoundsParams{
		StatementTimeout: "10s", LockTimeout: "10s", IdleTimeout: "10s",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.InstanceLock(t.Context(), instanceLock("i")); err != nil {
		t.Fatal(err)
	}
	results, err := tx.Conn().PgConn().Exec(t.Context(), `
		SET LOCAL plan_cache_mode = `+mode+`;
		PREPARE explained AS `+strings.TrimRight(sql, "; \n")+`;
		EXPLAIN (ANALYZE, TIMING off) EXECUTE explained (`+arguments+`);
		DEALLOCATE explained`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for _, r := range results {
		for _, row := range r.Rows {
			fmt.Fprintf(&plan, "%s\n", row[0])
		}
	}
	return plan.String()
}

// arguments makes one argument for each parameter of a statement, by the type that the statement gives it.
func arguments(sql string, values map[string]string) string {
	types := map[string]string{}
	for _, m := range regexp.MustCompile(`\$(\d+)::(\w+(?:\[\])?)`).FindAllStringSubmatch(sql, -1) {
		types[m[1]] = m[2]
	}
	list := make([]string, len(types))
	for number, name := range types {
		var i int
		fmt.Sscan(number, &i) //nolint:errcheck // digits by the expression above
		list[i-1] = values[name]
	}
	return strings.Join(list, ", ")
}

// Rows that are looked up by id are found by the primary key, also by statistics from when their instance, or
// everybody, had nothing pending: by those, reading a whole index for each id looks cheaper, or the same.
func TestRowsAreFoundByTheirIDsWhateverTheStatisticsSay(t *testing.T) {
	t.Parallel()
	for when, analyzed := range map[string]string{
		"none of its own": `ANALYZE fencerow.ledger_pending`,
		"none at all":     `DELETE FROM fencerow.ledger_pending; ANALYZE fencerow.ledger_pending`,
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			findsByID(t, pgtest.NewDatabase(t, schema), analyzed)
		})
		t.Run(when+", behind walls", func(t *testing.T) {
			t.Parallel()
			database, role := behindWalls(t, nil, "i", "other")
			findsByID(t, database, analyzed, pgtest.As(role))
		})
	}
}

func findsByID(t *testing.T, database *pgtest.Database, analyzed string, role ...pgtest.DSNOption) {
	t.Helper()
	store := openOn(t, database, role...)
	database.Exec(t, `ALTER TABLE fencerow.ledger_pending SET (autovacuum_enabled = off)`)
	enqueue(t, store, "other", 3000)
	database.Exec(t, analyzed)
	enqueue(t, store, "i", 3000)
	c := claim(t, store, "i", 100)
	ids := make([]string, len(c.Entries))
	for i := range c.Entries {
		ids[i] = fmt.Sprint(c.Entries[i].OutboxID)
	}
	list := "'{" + strings.Join(ids, ",") + "}'"
	conn := database.Connect(t, role...)
	for name, statement := range map[string]struct{ sql, index string }{
		"ClaimEntries":     {db.ClaimEntries, "ledger_outbox_pkey"},
		"ClaimRecord":      {db.ClaimRecord, "ledger_pending_pkey"},
		"ClaimRelease":     {db.ClaimRelease, "ledger_pending_pkey"},
		"ClaimForget":      {db.ClaimForget, "ledger_pending_pkey"},
		"ClaimLostReasons": {db.ClaimLostReasons, "ledger_pending_pkey"},
	} {
		for _, mode := range []string{genericPlan, customPlan} {
			plan := explain(t, conn, mode, statement.sql, map[string]string{
				"uuid": "'" + c.Token.UUID() + "'", "text": "'i'", "boolean": "false", "bigint[]": list,
				"text[]":  "array_fill('dead_lettered'::text, ARRAY[100])",
				"integer": "100", "integer[]": "array_fill(1, ARRAY[100])",
				"boolean[]": "array_fill(false, ARRAY[100])",
			})
			if strings.Contains(plan, "ledger_pending_due") || !strings.Contains(plan, statement.index) ||
				strings.Contains(plan, "Seq Scan on ledger_pending") ||
				strings.Contains(plan, "Seq Scan on ledger_outbox") {
				t.Errorf("%s of %s does not look up the ids:\n%s", mode, name, plan)
			}
		}
	}
}

// While somebody holds an old snapshot, what is left of finished claims stays in the table and its indexes. A
// claim reads it once, whatever the statistics say: expired claims are looked up by their tokens after that.
func TestClaimReadsWhatIsLeftOfFinishedClaimsOnce(t *testing.T) {
	t.Parallel()
	const finished = `INSERT INTO fencerow.ledger_claim (
			claim_token, claim_epoch, claimed_at, lease_expires_at, instance_key, claimed_by, outbox_ids
		)
		SELECT gen_random_uuid(), 1, now(), now() + interval '1 hour', 'i', 'w', array_fill(g, ARRAY[100])
		FROM generate_series(10000001, 10002000) g;
		DELETE FROM fencerow.ledger_claim`
	for when, statements := range map[string][]string{
		"never analysed":  {finished},
		"analysed before": {`ANALYZE fencerow.ledger_claim`, finished},
		"analysed after":  {finished, `ANALYZE fencerow.ledger_claim`},
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			database := pgtest.NewDatabase(t, schema)
			database.Exec(t, `ALTER TABLE fencerow.ledger_claim SET (autovacuum_enabled = off)`)
			enqueue(t, openOn(t, database), "i", 10)
			for _, sql := range statements {
				database.Exec(t, sql)
			}
			conn := database.Connect(t)
			for name, sql := range map[string]string{"ClaimBatch": db.ClaimBatch, "ClaimDue": db.ClaimDue} {
				for _, mode := range []string{genericPlan, customPlan} {
					plan := explain(t, conn, mode, sql, map[string]string{
						"text": `'i'`, "boolean": "true", "timestamptz": "'-infinity'", "integer": "10", "bigint": "1",
						"uuid": "'" + fencerow.NewClaimToken().UUID() + "'", "interval": "'1 minute'",
					})
					scans := regexp.MustCompile(`Scan (using \S+ )?on ledger_claim\b.*\n(.*)`).FindAllString(plan, -1)
					scans = slices.DeleteFunc(scans, func(scan string) bool {
						return strings.Contains(scan, "Index Cond: (claim_token = ANY")
					})
					if len(scans) != 1 || !strings.Contains(scans[0], "Index Cond: (instance_key = ") {
						t.Errorf("%s of %s reads the claims by %q:\n%s", mode, name, scans, plan)
					}
				}
			}
		})
	}
}

// The floor is used while a store drains full batches: a row that comes to lie below it is passed over until
// what lies above no longer fills a claim, or a second is over. That is what spares the entries of finished
// rows.
func TestFloorPassesOverWhatLiesBelowItAndLosesNothing(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	store.floorAge = time.Hour
	enqueue(t, store, "i", 35)
	record(t, store, claim(t, store, "i", 10))
	database.Exec(t, `UPDATE fencerow.ledger_pending SET next_retry_at = '2020-01-01'
		WHERE outbox_id = (SELECT max(outbox_id) FROM fencerow.ledger_pending)`)
	for _, want := range []struct {
		rows int
		low  bool
	}{{10, false}, {10, false}, {5, true}} {
		c := claim(t, store, "i", 10)
		low := slices.ContainsFunc(
			c.Entries,
			func(e fencerow.ClaimedEntry) bool { return e.CorrelationID == "c-34" },
		)
		if len(c.Entries) != want.rows || low != want.low {
			t.Fatalf("claimed %d rows, the one below the floor among them: %t; want %+v", len(c.Entries), low, want)
		}
		record(t, store, c)
	}
}

// Open skips pile up while a ledger is down. Recording does not read them: a group costs what it costs
// without them, whatever the statistics say.
func TestRecordDoesNotReadTheOpenSkips(t *testing.T) {
	t.Parallel()
	t.Run("without walls", func(t *testing.T) {
		t.Parallel()
		readsNoSkips(t, pgtest.NewDatabase(t, schema))
	})
	t.Run("behind walls", func(t *testing.T) {
		t.Parallel()
		database, role := behindWalls(t, nil, "i")
		readsNoSkips(t, database, pgtest.As(role))
	})
}

func readsNoSkips(t *testing.T, database *pgtest.Database, role ...pgtest.DSNOption) {
	t.Helper()
	store := openOn(t, database, role...)
	database.Exec(t, `
		INSERT INTO fencerow.ledger_skip (instance_key, correlation_id, outbox_id, slot_id, opened_at)
		SELECT 'i', 'elsewhere-' || n, 1000000 + n, 'slot-1', now() FROM generate_series(1, 100000) n`)
	entries := make([]fencerow.NewEntry, 100)
	for i := range entries {
		entries[i] = fencerow.NewEntry{
			CorrelationID: fencerow.CorrelationID(fmt.Sprint("c-", i)), EntryKind: "fill", SlotID: "slot-1",
			Payload: []byte(`{}`), OpenSkip: true,
		}
	}
	if _, err := store.EnqueueMany(
		t.Context(),
		fencerow.EnqueueParams{Instance: "i", Entries: entries},
	); err != nil {
		t.Fatal(err)
	}
	c := claim(t, store, "i", 100)
	p := recordParams("i", c.Token, completed(c))
	plan := explainWith(t, database.Connect(t, role...), genericPlan, db.ClaimRecord,
		fmt.Sprintf("100, '%s', 'i', '{%d}', '{%d}'%s",
			c.Token.UUID(), p.FinishedLows[0], p.FinishedHighs[0], strings.Repeat(", NULL", 14)))
	// The skip of each success is read once, and once more to resolve it.
	if read := rowsRead(t, plan, "ledger_skip"); read < 200 || read > 1000 {
		t.Errorf("recording 100 rows reads %g skips:\n%s", read, plan)
	}
	if n := applied(record(t, store, c)); n != 100 {
		t.Fatalf("%d rows recorded", n)
	}
}

// rowsRead sums the rows of a table that an analyzed plan has read, kept or not.
func rowsRead(t *testing.T, plan, table string) (read float64) {
	t.Helper()
	counts := regexp.MustCompile(`actual rows=([\d.]+) loops=(\d+)`)
	removed := regexp.MustCompile(`Rows Removed by [\w ]+: (\d+)`)
	number := func(s string) float64 {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	loops := 0.0 // of the scan whose lines follow; 0 in any other node
	for line := range strings.Lines(plan) {
		switch {
		case strings.Contains(line, "->"):
			loops = 0
			if m := counts.FindStringSubmatch(line); m != nil && strings.Contains(line, " on "+table+" ") {
				loops = number(m[2])
				read += loops * number(m[1])
			}
		case loops > 0:
			if m := removed.FindStringSubmatch(line); m != nil {
				read += loops * number(m[1])
			}
		}
	}
	return read
}

func TestClaimSortsNothingUnlessSomethingWasFreed(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	enqueue(t, openOn(t, database), "i", 200)
	conn := database.Connect(t)
	sorted := regexp.MustCompile(`Sort .*actual rows=[1-9]`)
	for _, fromStart := range []string{"true", "false"} {
		for _, mode := range []string{genericPlan, customPlan} {
			plan := explain(t, conn, mode, db.ClaimBatch, map[string]string{
				"text": `'i'`, "boolean": fromStart, "timestamptz": "'-infinity'", "integer": "100", "bigint": "1",
				"uuid": "'" + fencerow.NewClaimToken().UUID() + "'", "interval": "'1 minute'",
			})
			if lines := sorted.FindAllString(plan, -1); len(lines) > 0 || !strings.Contains(plan, "rows=100 ") {
				t.Errorf("%s, from the start %s: sorted %q of 100 rows that an index has in order:\n%s",
					mode, fromStart, lines, plan)
			}
		}
	}
}
