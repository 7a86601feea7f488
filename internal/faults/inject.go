package faults

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Happening is a fault as it came about.
type Happening struct {
	Fault
	From, To time.Time
	// Place is the daemon that it befell, empty if it befell everybody.
	Place string
	// Worker is the process that it befell, if it was one.
	Worker string
}

// inject does what a fault says, and returns when it is over.
func (r *run) inject(ctx context.Context, f Fault) {
	h := Happening{Fault: f, From: time.Now()}
	var d *daemon
	if f.Daemon >= 0 {
		d = r.daemons[f.Instance][f.Daemon]
		h.Place, h.Worker = d.name(), d.current().worker
	}
	var err error
	switch f.Kind {
	case KillDaemon:
		r.awaitBusy(ctx, h.Worker, f)
		h.From = time.Now()
		err = d.replace(ctx, syscall.SIGKILL, f.For)
	case DeployDaemon:
		err = d.replace(ctx, syscall.SIGTERM, 0)
	case StopDaemon:
		r.stop(ctx, d, f)
	case JumpClock:
		err = r.jump(ctx, d, f)
	case CutDatabaseLink, DelayDatabaseLink, StallDatabaseLink, LoseAnswers:
		fail(ctx, d.database, f, r.cfg.Lease/20)
	case CutLedgerLink, DelayLedgerLink, StallLedgerLink:
		fail(ctx, d.ledger, f, r.cfg.deliveryTimeout()/2)
	case LedgerCutsBefore, LedgerCutsAfter, LedgerFails, LedgerHangs:
		r.ledger.weather.Store(weatherOf(f.Kind, f.Strength, r.cfg.deliveryTimeout()))
		sleep(ctx, f.For)
		r.ledger.weather.Store(nil)
	case RotateToken:
		token := r.ledger.rotate()
		sleep(ctx, f.For)
		err = os.WriteFile(r.ledger.tokenFile, []byte(token), 0o600)
	default:
		err = r.injectDatabase(ctx, f)
	}
	h.To = time.Now()
	r.happened(h, err)
}

// injectDatabase does what befalls the database. What it changes is put back even if ctx has ended.
func (r *run) injectDatabase(ctx context.Context, f Fault) error {
	db, always := r.database, context.WithoutCancel(ctx)
	always, cancel := context.WithTimeout(always, patience)
	defer cancel()
	const terminate = `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '` + daemonRole + `'`
	switch f.Kind {
	case TerminateBackends:
		return db.insist(ctx, terminate)
	case RestartDatabase:
		if err := db.crash(); err != nil {
			return err
		}
		sleep(ctx, f.For)
		return db.start(always)
	case TurnReadOnly:
		err := db.insist(ctx, `ALTER ROLE `+daemonRole+` SET default_transaction_read_only = on`, terminate)
		sleep(ctx, f.For)
		_ = db.insist(always, `ALTER ROLE `+daemonRole+` RESET default_transaction_read_only`)
		return err
	case LimitConnections:
		limit := int(f.Strength * float64(r.cfg.Daemons))
		err := db.insist(ctx, fmt.Sprintf(`ALTER ROLE %s CONNECTION LIMIT %d`, daemonRole, limit), terminate)
		sleep(ctx, f.For)
		_ = db.insist(always, `ALTER ROLE `+daemonRole+` CONNECTION LIMIT -1`)
		return err
	case FillDisk:
		err := db.insist(ctx, `UPDATE audit.disk SET is_full = true`)
		sleep(ctx, f.For)
		_ = db.insist(always, `UPDATE audit.disk SET is_full = false`)
		return err
	case HoldLock:
		return r.hold(ctx, f, lockStatement(f))
	case ExhaustPool:
		go r.crowd(ctx, f)
		return r.hold(ctx, f, lockInstance(f.Instance))
	case HoldSnapshot:
		return r.hold(ctx, f, `
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT FROM fencerow.ledger_claim`)
	default:
		panic("faults: nothing is known of " + string(f.Kind))
	}
}

func lockInstance(instance int) string {
	return `SELECT FROM fencerow.ledger_instance WHERE instance_key = '` + instanceKey(instance) + `' FOR UPDATE`
}

// lockStatement picks what to lock by the strength.
func lockStatement(f Fault) string {
	statements := []string{
		lockInstance(f.Instance),
		`SELECT FROM fencerow.ledger_claim WHERE instance_key = '` + instanceKey(f.Instance) + `' FOR UPDATE`,
		`SELECT FROM fencerow.ledger_slot WHERE instance_key = '` + instanceKey(f.Instance) + `' FOR UPDATE`,
		`LOCK TABLE fencerow.ledger_outcome IN ACCESS EXCLUSIVE MODE`,
		`LOCK TABLE fencerow.ledger_pending IN SHARE MODE`,
	}
	return statements[min(int(f.Strength*float64(len(statements))), len(statements)-1)]
}

// hold keeps a transaction open that has run a statement.
func (r *run) hold(ctx context.Context, f Fault, statement string) error {
	conn, err := pgx.Connect(ctx, r.database.adminDSN)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // which ends the transaction
	timeout := fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d; ", r.cfg.Lease.Milliseconds())
	if _, err := conn.Exec(ctx, timeout+statement, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	sleep(ctx, f.For)
	return nil
}

// crowd asks each daemon of an instance for more entries at once than it has connections.
func (r *run) crowd(ctx context.Context, f Fault) {
	for i := range 12 {
		d := r.daemons[f.Instance][i%r.cfg.Daemons]
		n := max(0, int(r.enqueued[f.Instance].Load())-1-i)
		go r.operator.askFor(ctx, d, numbered(instanceKey(f.Instance), n, r.special).id(), true, false)
	}
}

// fail sets a link to fail for a while.
func fail(ctx context.Context, l *link, f Fault, delay time.Duration) {
	m := map[Kind]mode{
		CutDatabaseLink: cut, CutLedgerLink: cut, StallDatabaseLink: stall, StallLedgerLink: stall,
		DelayDatabaseLink: late, DelayLedgerLink: late, LoseAnswers: mute,
	}[f.Kind]
	l.set(m, time.Duration((0.5+f.Strength)*float64(delay)))
	sleep(ctx, f.For)
	l.set(pass, 0)
}

// stop stops a daemon past its lease. With half of the strengths it goes on the moment that another worker
// has taken over what it held, which is when a zombie can do the most harm.
func (r *run) stop(ctx context.Context, d *daemon, f Fault) {
	r.awaitBusy(ctx, d.current().worker, f)
	d.mu.Lock()
	d.busy = true
	p := d.process
	d.mu.Unlock()
	p.signal(syscall.SIGSTOP)
	if f.Strength < 0.5 {
		r.await(ctx, takenOverSQL, p.worker, f.For)
	} else {
		sleep(ctx, f.For)
	}
	p.signal(syscall.SIGCONT)
	d.mu.Lock()
	d.busy = false
	d.mu.Unlock()
}

const (
	busySQL      = `SELECT EXISTS (SELECT FROM fencerow.ledger_claim WHERE claimed_by = $1)`
	takenOverSQL = `
SELECT EXISTS (
    SELECT
    FROM audit.let_go l
    JOIN audit.claim c ON c.claim_epoch = l.claim_epoch AND l.outbox_id = ANY (c.outbox_ids)
    WHERE l.how = 'expired' AND l.at > now() - interval '10 s' AND c.claimed_by = $1
)`
)

// awaitBusy returns once the worker holds rows, or after a lease. One in five faults does not wait for it.
func (r *run) awaitBusy(ctx context.Context, worker string, f Fault) {
	if int(f.Strength*1000)%5 > 0 {
		r.await(ctx, busySQL, worker, r.cfg.Lease)
	}
}

// await returns once a query about the worker answers yes, or after the time given.
func (r *run) await(ctx context.Context, query, worker string, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := pgx.Connect(ctx, r.database.adminDSN)
	if err != nil {
		sleep(ctx, within)
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // only read
	for yes := false; !yes; {
		err := conn.QueryRow(ctx, query, worker).Scan(&yes)
		if err != nil || !yes && !sleep(ctx, glance/2) {
			sleep(ctx, within) // for what is left, if the server was restarted
			return
		}
	}
}

// jump sets the clock of a daemon's host ahead or back, and right again.
func (r *run) jump(ctx context.Context, d *daemon, f Fault) error {
	distance := time.Duration((f.Strength - 0.5) * 2 * float64(2*time.Hour))
	if f.Strength > 0.25 && f.Strength < 0.75 { // as likely as not no further than a lease or two
		distance = time.Duration((f.Strength - 0.5) * 8 * float64(r.cfg.Lease)).Truncate(time.Second)
	}
	if err := d.setClock(distance); err != nil {
		return err
	}
	sleep(ctx, f.For)
	return d.setClock(0)
}
