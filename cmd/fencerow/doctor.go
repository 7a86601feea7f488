package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

// What a check comes to.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// From where on doctor warns.
const (
	minServerVersion = 140000
	maxClockOffset   = time.Second
	maxDeadRows      = 100_000 // of one table, beyond as many as are alive
	maxHorizonHeld   = time.Minute
	maxHorizonAge    = 1_000_000 // transactions, for a holder without a beginning
	maxLag           = time.Minute
	maxPendingAge    = 10 * time.Minute // as long as the longest wait for an attempt, unless that is set
)

type doctorCmd struct {
	Own owned `embed:""`
}

// Help says what is looked at.
func (*doctorCmd) Help() string {
	return `Looks at the connection, the server's version and settings, the clock, vacuum, indexes, the
schema's version, the role's grants and the walls between instances, and at the instance's lag, blocked
entries and expired claims. Nothing is changed. Exit status: 0 nothing failed, warnings included; 1 a
check failed.`
}

// Run checks.
func (c *doctorCmd) Run(ctx context.Context, a *app) error {
	store, err := c.Own.Database.Open("fencerow")
	if err != nil {
		return err
	}
	defer store.Close()
	var x examination
	x.examine(ctx, store, c.Own.Instance.Key())
	doc := doctorDoc{Result: x.worst(), Checks: x.checks}
	err = a.print(doc, func(t *table) {
		for _, check := range doc.Checks {
			t.row(check.Result, check.Check, check.Detail)
			if check.Advice != "" {
				t.row(" ", " ", "> "+check.Advice)
			}
		}
	})
	if err == nil && doc.Result == checkFail {
		return failure("a check failed")
	}
	return err
}

// examination is a doctor at work.
type examination struct{ checks []checkDoc }

// note adds a check. The advice counts only if it is not ok.
func (x *examination) note(check, result, advice, detail string, args ...any) {
	if result == checkOK {
		advice = ""
	}
	x.checks = append(x.checks, checkDoc{check, result, fmt.Sprintf(detail, args...), advice})
}

func (x *examination) worst() string {
	worst := checkOK
	for _, check := range x.checks {
		if check.Result == checkFail || worst == checkOK {
			worst = check.Result
		}
		if worst == checkFail {
			return worst
		}
	}
	return worst
}

// when is the result of a check that is bad under a condition.
func when(bad bool, result string) string {
	if bad {
		return result
	}
	return checkOK
}

func (x *examination) examine(ctx context.Context, store *pgstore.Store, instance fencerow.InstanceKey) {
	d, err := store.Diagnose(ctx)
	if err != nil {
		x.unreachable(store.Obstacle(ctx), err)
		return
	}
	x.note("connection", checkOK, "", "answers in %s", showDuration(2*d.ClockError))
	x.server(d)
	x.upkeep(d)
	version, err := store.Ready(ctx)
	if err != nil {
		x.failed("schema", err)
		if errors.Is(err, fencerow.ErrStorePermission) {
			x.grants(d)
		}
		return
	}
	detail := fmt.Sprintf("version %d", version)
	if version > pgstore.MaxSchemaVersion {
		detail += fmt.Sprintf(", with which this program, built for %d, still works", pgstore.MaxSchemaVersion)
	}
	x.note("schema", checkOK, "", "%s", detail)
	x.grants(d)
	if walls, err := store.Walls(ctx, instance); err != nil {
		x.failed("walls", err)
	} else {
		x.walls(walls)
	}
	if err := x.entries(ctx, store, instance); err != nil {
		x.failed("entries", err)
	}
}

func (x *examination) failed(check string, err error) {
	x.note(check, checkFail, hintOf(err), "%s", textOf(err))
}

func (x *examination) server(d *pgstore.Diagnosis) {
	x.note("server_version", when(d.ServerVersion < minServerVersion, checkFail), "use PostgreSQL 14 or later",
		"%d.%d", d.ServerVersion/10000, d.ServerVersion%10000)
	x.note("encoding", when(!d.UTF8, checkFail), "create the database with ENCODING 'UTF8' TEMPLATE template0",
		"%s", choose(d.UTF8, "UTF8", "not UTF8"))
	x.note("writable", when(d.ReadOnly, checkFail), "connect to the primary server",
		"%s", choose(d.ReadOnly, "the server is read-only", "yes"))
	x.note("clock", when(d.ClockOffset.Abs()-d.ClockError > maxClockOffset, checkWarn),
		"set both clocks by NTP: leases follow the server's clock alone, but people and logs compare both",
		"the server is %s ahead, give or take %s", showDuration(d.ClockOffset), showDuration(d.ClockError))
	x.note("fsync", when(!d.Fsync, checkFail),
		"turn fsync on: a crash of the machine can lose entries that were committed",
		"%s", choose(d.Fsync, "on", "off"))
	x.note("synchronous_commit", when(!d.SynchronousCommit, checkWarn),
		"turn synchronous_commit on for this role: a claim lost in a crash lets a second worker in",
		"%s", choose(d.SynchronousCommit, "on", "off"))
}

func choose(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

// upkeep looks at what keeps the claim index small.
func (x *examination) upkeep(d *pgstore.Diagnosis) {
	off, dead := 0, 0
	for _, t := range d.Tables {
		if t.AutovacuumOff {
			off++
		}
		if t.DeadRows > t.LiveRows+maxDeadRows {
			dead++
		}
	}
	autovacuum := "on"
	switch {
	case !d.Autovacuum:
		autovacuum = "off"
	case off > 0:
		autovacuum = fmt.Sprintf("off for %d tables", off)
	}
	x.note("autovacuum", when(autovacuum != "on", checkWarn),
		"turn it on: finished entries leave dead rows behind, and claims slow down with them", "%s", autovacuum)
	x.note("dead_rows", when(dead > 0, checkWarn),
		"look for what holds them back (horizon), then VACUUM the tables of schema fencerow",
		"%d tables with more than %d above their live rows", dead, maxDeadRows)
	x.note("indexes", when(d.InvalidIndexes > 0, checkWarn),
		"an index build failed: drop the invalid index and create it again, as the migration that makes it does",
		"%d invalid", d.InvalidIndexes)
	x.horizon(d)
}

// horizon looks for what keeps dead rows from being removed.
func (x *examination) horizon(d *pgstore.Diagnosis) {
	long := 0
	var worst *pgstore.HorizonHolder
	for i := range d.Horizon {
		h := &d.Horizon[i]
		if h.Held > maxHorizonHeld || h.Held == 0 && h.Age > maxHorizonAge {
			if long++; worst == nil {
				worst = h
			}
		}
	}
	detail := "nothing holds it for long"
	if worst != nil {
		detail = fmt.Sprintf("%d hold it for long; the oldest is a %s", long, worst.Kind)
		if worst.PID != 0 {
			detail += fmt.Sprintf(" of pid %d", worst.PID)
		}
		if worst.Held > 0 {
			detail += " since " + showDuration(worst.Held)
		}
	}
	if d.HiddenSessions > 0 {
		detail += fmt.Sprintf("; %d sessions of other roles cannot be seen without pg_read_all_stats",
			d.HiddenSessions)
	}
	x.note("horizon", when(long > 0, checkWarn),
		"end the transaction or drop the slot: until then no dead row is removed, and claims slow down",
		"%s", detail)
}

// unreachable says what keeps this program from its database, as far as that can be told.
func (x *examination) unreachable(what pgstore.Obstacle, err error) {
	found, ok := obstacles[what]
	if !ok {
		x.failed("connection", err)
		return
	}
	x.note("connection", checkFail, found.advice, "%s: %s", textOf(err), found.detail)
}

// obstacles are told in words of our own: those of the server and the driver can hold names and addresses.
var obstacles = map[pgstore.Obstacle]struct{ detail, advice string }{
	pgstore.ObstacleNoDatabase: {"the server answers, and has no such database",
		"correct the database's name in FENCEROW_DSN, or create it"},
	pgstore.ObstaclePassword: {"the server refuses the password",
		"check the user and the password in FENCEROW_DSN"},
	pgstore.ObstacleLogin: {"the server does not let this user in",
		"check that the role exists and may log in, and that pg_hba.conf lets it in from this machine"},
	pgstore.ObstacleStarting: {"the server is starting or stopping", "wait for it"},
	pgstore.ObstacleTLSRefused: {"the server speaks no TLS, and FENCEROW_DSN asks for it",
		"turn TLS on at the server, or lower sslmode where the network can be trusted"},
	pgstore.ObstacleCertificate: {"the server's certificate is not trusted",
		"check sslrootcert, and sslmode against the server's name in FENCEROW_DSN"},
	pgstore.ObstacleName: {"the server's name does not resolve",
		"correct the host in FENCEROW_DSN, or look at the resolver"},
	pgstore.ObstacleNobody: {"nobody listens there",
		"start the server, or correct the host and the port in FENCEROW_DSN"},
}

// grants names what the role of a daemon needs and this one lacks.
func (x *examination) grants(d *pgstore.Diagnosis) {
	x.note("grants", when(len(d.MissingGrants) > 0, checkFail),
		"GRANT it to this role, as the owner of the schema: without it a daemon may send and not record",
		"%s", choose(len(d.MissingGrants) > 0, "missing: "+strings.Join(d.MissingGrants, "; "), "complete"))
}

// wallsAgain puts right what is wrong with the walls themselves.
const wallsAgain = "run \"fencerow migrate walls up\" again, as the owner of the tables"

// walls tells all that is wrong with the walls between the instances.
func (x *examination) walls(w pgstore.Walls) {
	result := checkOK
	var details, advice []string
	add := func(wrong bool, as, todo, detail string, args ...any) {
		if !wrong {
			return
		}
		if result != checkFail {
			result = as
		}
		details = append(details, fmt.Sprintf(detail, args...))
		if !slices.Contains(advice, todo) {
			advice = append(advice, todo)
		}
	}
	if w.Up == 0 {
		x.note("walls", checkOK, "", "down")
		return
	}
	add(w.Up < w.Tables, checkFail, wallsAgain, "up for %d of %d tables", w.Up, w.Tables)
	add(w.Unguarded > 0, checkFail, wallsAgain, "%d tables lack their policy and show nothing", w.Unguarded)
	add(w.Widened > 0, checkFail, "drop every policy in schema fencerow that fencerow did not make",
		"%d tables have another policy that lets more through", w.Widened)
	add(w.Unbound, checkWarn,
		"let daemons and producers use roles that do not own the tables and override no row security",
		"they do not bind this role; %d other roles may enqueue and have no instance", w.Strangers)
	add(!w.Unbound && !w.Mapped, checkFail,
		"give it the instance: INSERT INTO fencerow.ledger_role, as the owner",
		"this role does not work for this instance")
	details = append([]string{"up"}, details...)
	x.note("walls", result, strings.Join(advice, "; "), "%s", strings.Join(details, "; "))
}

func (x *examination) entries(
	ctx context.Context, store *pgstore.Store, instance fencerow.InstanceKey,
) error {
	unowned, err := store.LegacyCount(ctx)
	if err != nil {
		return err
	}
	counts, err := store.Counts(ctx, instance)
	if err != nil {
		return err
	}
	claims, err := store.Claims(ctx, instance)
	if err != nil {
		return err
	}
	x.note("unowned", when(unowned > 0, checkWarn),
		"decide about each: \"fencerow legacy export\" prints one for a re-enqueue under a key",
		"%d entries without an owner", unowned)
	held := "no"
	if counts.HeldSince != nil {
		held = "since " + showTime(*counts.HeldSince)
	}
	x.note("hold", when(counts.HeldSince != nil, checkWarn), "\"fencerow resume\" ends it", "%s", held)
	x.note("lag", when(counts.OldestDue > maxLag, checkWarn),
		"see that fencerowd runs for this instance and that its ledger answers",
		"%d due, the oldest for %s", counts.Due, showDuration(counts.OldestDue))
	x.note("oldest_pending", when(counts.OldestPending > maxPendingAge, checkWarn),
		"see with \"fencerow pending\" what it waits for, and whether the ledger answers",
		"%d pending, the oldest enqueued %s ago", counts.ByStatus[fencerow.StatusPending],
		showDuration(counts.OldestPending))
	var blocked int64
	for status, n := range counts.ByStatus {
		if status.Blocked() {
			blocked += n
		}
	}
	x.note("blocked", when(blocked > 0, checkWarn),
		"\"fencerow blocked\" lists them with why; \"fencerow requeue\" tries one again",
		"%d entries wait for an operator", blocked)
	expired := 0
	for i := range claims {
		if claims[i].Remaining <= 0 {
			expired++
		}
	}
	x.note("expired_claims", when(expired > 0, checkWarn),
		"no worker polls: the next poll of any worker of the instance takes them over",
		"%d of %d claims", expired, len(claims))
	return nil
}
