package pgstore

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// planned are the statements that must stay cheap beside any number of other instances' rows.
var planned = map[string]string{
	"ClaimDue": db.ClaimDue, "ClaimBatch": db.ClaimBatch, "ClaimOne": db.ClaimOne,
	"ClaimEntries": db.ClaimEntries, "ClaimLock": db.ClaimLock,
	"ClaimRecord": db.ClaimRecord, "ClaimRelease": db.ClaimRelease,
	"ClaimForget": db.ClaimForget, "ClaimLostReasons": db.ClaimLostReasons, "ClaimList": db.ClaimList,
	"InstanceLock": db.InstanceLock, "EntryShow": db.EntryShow, "OutcomeList": db.OutcomeList,
	"OutcomeRequeue": db.OutcomeRequeue, "OutcomeBlocked": db.OutcomeBlocked,
	"PendingList": db.PendingList, "PendingCounts": db.PendingCounts,
	"PendingCashDelta": db.PendingCashDelta,
}

// Behind the walls each statement reaches each table by the same index, with the same conditions, as without
// them: a policy filters, and leads nowhere.
func TestWallsChangeNoWayToATable(t *testing.T) {
	t.Parallel()
	without := pgtest.NewDatabase(t, schema)
	behind, role := behindWalls(t, nil, "i")
	connections := map[string]*pgx.Conn{
		"without": without.Connect(t), "behind": behind.Connect(t, pgtest.As(role)),
	}
	for _, database := range []*pgtest.Database{without, behind} {
		populate(t, database)
	}
	for name, sql := range planned {
		t.Run(name, func(t *testing.T) {
			ways := map[string][]string{}
			for side, conn := range connections {
				ways[side] = waysToTables(t, conn, sql)
			}
			if !slices.Equal(ways["without"], ways["behind"]) {
				t.Errorf("without walls:\n  %s\nbehind walls:\n  %s",
					strings.Join(ways["without"], "\n  "), strings.Join(ways["behind"], "\n  "))
			}
		})
	}
}

// populate fills the tables with twenty instances, so that the planner has something to choose between.
func populate(t *testing.T, database *pgtest.Database) {
	t.Helper()
	store := openOn(t, database)
	for n := range 19 {
		instance := fencerow.InstanceKey(fmt.Sprint("other-", n))
		enqueue(t, store, instance, 1000)
		record(t, store, claim(t, store, instance, 500))
		claim(t, store, instance, 100)
	}
	enqueue(t, store, "i", 1000)
	record(t, store, claim(t, store, "i", 500))
	claim(t, store, "i", 100)
	database.Exec(t, "VACUUM ANALYZE")
}

// waysToTables lists how the generic plan of a statement gets at rows, without the table of the roles.
func waysToTables(t *testing.T, conn *pgx.Conn, sql string) []string {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // nothing to keep
	if _, err := db.New(tx).TransactionBounds(t.Context(), db.TransactionBoundsParams{
		StatementTimeout: "10s", LockTimeout: "10s", IdleTimeout: "10s",
	}); err != nil {
		t.Fatal(err)
	}
	results, err := conn.PgConn().Exec(t.Context(), `
		SET LOCAL plan_cache_mode = force_generic_plan;
		PREPARE way AS `+strings.TrimRight(sql, "; \n")+`;
		EXPLAIN (FORMAT json) EXECUTE way (`+anyArguments(sql)+`);
		DEALLOCATE way`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var plan []map[string]any
	for _, r := range results {
		for _, row := range r.Rows {
			if err := json.Unmarshal(row[0], &plan); err != nil {
				t.Fatal(err)
			}
		}
	}
	var ways []string
	collectWays(plan[0]["Plan"], &ways)
	slices.Sort(ways)
	if len(ways) == 0 {
		t.Fatal("the plan reaches no table")
	}
	return ways
}

// collectWays walks a plan. Parameters, subplans and aliases have other numbers where the walls add some.
func collectWays(node any, ways *[]string) {
	n, ok := node.(map[string]any)
	if !ok {
		return
	}
	condition := regexp.MustCompile(`\$\d+|SubPlan \d+`).ReplaceAllString(fmt.Sprint(n["Index Cond"]), "?")
	condition = regexp.MustCompile(`_\d+\.`).ReplaceAllString(condition, ".") // the number of an alias
	// What the policies add: the roles, and the look at the entry of an outcome.
	added := n["Relation Name"] == "ledger_role" || condition == "(outbox_id = ledger_outcome.outbox_id)"
	if table, ok := n["Relation Name"]; ok && !added && n["Node Type"] != "ModifyTable" {
		// A comparison of rows leads no index behind the walls; the one of its first column goes on.
		condition = regexp.MustCompile(` AND \(ROW\(.*\)$`).ReplaceAllString(condition, ")")
		*ways = append(*ways, fmt.Sprint(n["Node Type"], " ", table, " ", n["Index Name"], " ", condition))
	}
	children, _ := n["Plans"].([]any)
	for _, child := range children {
		collectWays(child, ways)
	}
}

// anyArguments makes an argument for each parameter of a statement by its type.
func anyArguments(sql string) string {
	values := map[string]string{
		"text": `'i'`, "boolean": "false", "timestamptz": "now()", "integer": "100", "bigint": "1",
		"uuid": "gen_random_uuid()", "interval": "'1 minute'",
	}
	types := map[string]string{}
	for _, m := range regexp.MustCompile(`\$(\d+)::(\w+(?:\[\])?)`).FindAllStringSubmatch(sql, -1) {
		types[m[1]] = m[2]
	}
	list := make([]string, len(types))
	for i := range list {
		name := types[fmt.Sprint(i+1)]
		if strings.HasSuffix(name, "[]") {
			list[i] = "'{}'"
		} else {
			list[i] = values[name]
		}
	}
	return strings.Join(list, ", ")
}
