package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// operator does what a person does at night: has single entries processed, by a daemon and by a command, and
// requeues what was parked.
type operator struct {
	r      *run
	client http.Client
	calls  atomic.Int64 // numbers the commands
}

func newOperator(r *run) *operator {
	return &operator{r: r, client: http.Client{
		Timeout: 2 * r.cfg.Lease, Transport: &http.Transport{DisableKeepAlives: true},
	}}
}

// pick returns an entry to ask for: mostly a recent one of the instance, now and then one that is another
// instance's, nobody's, or unknown.
func (o *operator) pick(random *rand.Rand, instance int) (id string, foreign bool) {
	switch random.IntN(12) {
	case 0:
		return fmt.Sprintf("foreign-%d", random.IntN(40)*2+1), true
	case 1:
		return fmt.Sprintf("legacy-%d", random.IntN(200)), true
	case 2:
		return "nobody-knows", false
	}
	enqueued := int(o.r.enqueued[instance].Load())
	if enqueued == 0 {
		return "nobody-knows", false
	}
	n := max(0, enqueued-1-random.IntN(200))
	return numbered(instanceKey(instance), n, o.r.special).id(), false
}

// claimResults are the results that a targeted claim may have.
var claimResults = []string{"claimed", "unavailable", "foreign_instance", "lost"}

// ask has daemons process entries until ctx ends.
func (o *operator) ask(ctx context.Context, random *rand.Rand) {
	for sleep(ctx, 50*time.Millisecond+time.Duration(random.Int64N(int64(200*time.Millisecond)))) {
		instance := random.IntN(o.r.cfg.Instances)
		d := o.r.daemons[instance][random.IntN(o.r.cfg.Daemons)]
		id, foreign := o.pick(random, instance)
		o.askFor(ctx, d, id, random.IntN(2) == 0, foreign)
	}
}

func (o *operator) askFor(ctx context.Context, d *daemon, id string, force, foreign bool) {
	address := d.current().opsAddress()
	if address == "" {
		return
	}
	url := fmt.Sprintf("http://%s/v1/process/%s?force_due=%t&instance_key=%s", address, id, force,
		instanceKey(d.instance))
	status, body, err := o.exchange(ctx, http.MethodPost, url)
	if err != nil || status != http.StatusOK {
		o.r.asked.Add(1) // The daemon was killed, or cannot ask its database.
		return
	}
	o.r.answered.Add(1)
	var doc struct {
		ClaimResult string `json:"claim_result"`
	}
	if json.Unmarshal(body, &doc) != nil || !slices.Contains(claimResults, doc.ClaimResult) ||
		foreign != (doc.ClaimResult == "foreign_instance") {
		o.r.violate(RuleOperator, "%s was asked for %s and answered %s", d.name(), id, body)
	}
}

func (o *operator) exchange(ctx context.Context, method, url string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := o.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err = io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, body, err
}

// command runs fencerow for an instance, and returns its exit status and what it printed.
func (o *operator) command(instance int, args ...string) (status int, doc []byte) {
	worker := fmt.Sprintf("command/%d/%d", instance, o.calls.Add(1))
	settings := o.r.cfg.settings()
	for _, name := range []string{"LEDGER_INTERVAL_SEC"} {
		delete(settings, name)
	}
	settings["INSTANCE_KEY"], settings["WORKER"] = instanceKey(instance), worker
	settings["DSN"] = o.r.database.daemonDSN(o.r.database.address)
	settings["LEDGER_URL"] = ledgerURL(o.r.ledger.address)
	settings["LEDGER_TOKEN_FILE"] = o.r.ledger.tokenFile
	p, err := o.r.programs.start("fencerow", worker, environment(settings), args...)
	if err != nil {
		o.r.note("fencerow: %v", err)
		return 1, nil
	}
	if !p.over(4*o.r.cfg.Lease + stopWithin) {
		o.r.violate(RuleStop, "fencerow %v did not end", args)
	}
	o.r.commanded(p)
	status = p.cmd.ProcessState.ExitCode()
	if status < 0 || status > 5 {
		o.r.violate(RuleOperator, "fencerow %v ended with status %d\n%s", args, status, p.tail)
	}
	return status, p.doc
}

// process runs `fencerow process` until ctx ends.
func (o *operator) process(ctx context.Context, random *rand.Rand) {
	for sleep(ctx, time.Second+time.Duration(random.Int64N(int64(time.Second)))) {
		instance := random.IntN(o.r.cfg.Instances)
		id, foreign := o.pick(random, instance)
		status, _ := o.command(instance, "process", "--json", "--force-due", id)
		if foreign != (status == 3) && status != 1 {
			o.r.violate(RuleOperator, "fencerow process %s ended with status %d", id, status)
		}
	}
}

// parkedSQL finds entries that were parked and that an operator can do something about.
const parkedSQL = `
SELECT o.correlation_id || ' ' || f.status
FROM fencerow.ledger_outcome f
JOIN fencerow.ledger_outbox o ON o.outbox_id = f.outbox_id
WHERE f.instance_key = $1
    AND f.status <> 'completed'
    AND (o.correlation_id LIKE '%-repaired' OR o.correlation_id LIKE '%-locked')
    AND NOT EXISTS (SELECT FROM fencerow.ledger_pending p WHERE p.outbox_id = f.outbox_id)
    AND NOT EXISTS (SELECT FROM fencerow.ledger_outcome l WHERE l.outbox_id = f.outbox_id AND l.life > f.life)
ORDER BY f.outcome_at
LIMIT 10`

// requeue sees to parked entries until ctx ends.
func (o *operator) requeue(ctx context.Context, random *rand.Rand) {
	for instance := 0; sleep(ctx, 300*time.Millisecond); instance = (instance + 1) % o.r.cfg.Instances {
		parked, err := o.r.database.texts(ctx, parkedSQL, instanceKey(instance))
		if err != nil {
			continue
		}
		for _, line := range parked {
			var id, status string
			if _, err := fmt.Sscan(line, &id, &status); err != nil || ctx.Err() != nil {
				break
			}
			o.requeueOne(ctx, random, instance, id, status)
		}
	}
}

// requeueOne puts right at the ledger what it had against an entry, and requeues the entry. Now and then it
// is not put right, and the entry comes back.
func (o *operator) requeueOne(ctx context.Context, random *rand.Rand, instance int, id, status string) {
	if random.IntN(4) > 0 {
		o.r.ledger.repaired.Store(instanceKey(instance)+":"+id, true)
	}
	code, doc := o.command(instance, "requeue", "--json", "--from", status, id)
	switch code {
	case 0:
		o.r.requeued.Add(1)
	case 1, 2: // The database was away, or an answer was lost: it is pending already.
	default:
		o.r.violate(RuleOperator, "fencerow requeue %s --from %s ended with status %d: %s", id, status, code, doc)
	}
	if random.IntN(5) == 0 {
		// Nobody can requeue it from a status that it does not have.
		wrong := string(fencerow.StatusConflictBlocked)
		if again, _ := o.command(instance, "requeue", "--json", "--from", wrong, id); again == 0 {
			o.r.violate(RuleOperator, "%s was requeued from %s", id, wrong)
		}
	}
	_ = ctx
}
