package daemon

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/version"
)

const (
	// readyTimeout bounds what /readyz asks the database, in all.
	readyTimeout = 3 * time.Second
	// readyFresh is how long an answer of the database serves further requests: probes must not become load.
	readyFresh = time.Second
)

// Readiness is the document of /readyz. Its status is 200 if ready and 503 if not.
type Readiness struct {
	Ready bool `json:"ready"`
	// Reason is empty if ready: a code of the store, or one of the NotReady constants.
	Reason   string               `json:"reason"`
	Instance fencerow.InstanceKey `json:"instance_key"`
	Worker   fencerow.WorkerID    `json:"worker"`
	Version  string               `json:"version"`
	// SchemaVersion is 0 unless the database answered.
	SchemaVersion fencerow.SchemaVersion `json:"schema_version"`
	// FailedPolls is how many polls failed in a row, of the writer of which it is the most.
	FailedPolls int `json:"failed_polls"`
	// LastPollAgeSec is how long the last good poll lies back, of the writer of which it is the longest; null
	// before the first.
	LastPollAgeSec *float64 `json:"last_poll_age_sec"`
	// OldestDueAgeSec is how long the oldest due row that no active lease holds has been due, by the clock of
	// the database: 0 if none is, null if it did not say.
	OldestDueAgeSec *float64 `json:"oldest_due_age_sec"`
	// What follows is for information: none of it makes a daemon less ready.

	// TargetHeld is there while the ledger as a whole fails, so that deliveries are on hold but for probes.
	TargetHeld *TargetHeld `json:"target_held"`
	// InstanceHeld says that an operator has put the instance on hold, as the last poll that was answered found.
	InstanceHeld bool `json:"instance_held"`
	// NATSConnected is null if no NATS server is named.
	NATSConnected *bool `json:"nats_connected"`
}

// TargetHeld says why deliveries are on hold, and since when, by the clock of this machine.
type TargetHeld struct {
	Reason fencerow.ReasonCode `json:"reason"`
	Since  time.Time           `json:"since"`
}

// inform adds what makes a daemon no less ready.
func (d *Daemon) inform(doc *Readiness) {
	if hold, held := d.obs.TargetHold(); held {
		doc.TargetHeld = &TargetHeld{Reason: hold.Reason, Since: hold.Since.UTC()}
	}
	doc.InstanceHeld = d.state.instanceHeld()
	if d.cfg.Responder != nil {
		connected := d.cfg.Responder.Connected()
		doc.NATSConnected = &connected
	}
}

func (o *ops) readyz(w http.ResponseWriter, r *http.Request) {
	doc := Readiness{
		Instance: o.d.obs.Instance(), Worker: o.d.cfg.Worker, Version: version.String(),
	}
	var code string
	doc.SchemaVersion, code, doc.OldestDueAgeSec = o.ready.look(r.Context(), o.d)
	why, failed, since := o.d.polls()
	doc.FailedPolls = failed
	if since > 0 {
		doc.LastPollAgeSec = seconds(since)
	}
	// That it stops or has not yet started says more than what the database answered.
	switch {
	case why == NotReadyStopping || code == "":
		doc.Reason = why
	default:
		doc.Reason = code
	}
	doc.Ready = doc.Reason == ""
	o.d.inform(&doc)
	status := http.StatusOK
	if !doc.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, doc)
}

func seconds(d time.Duration) *float64 {
	s := max(d, 0).Round(time.Millisecond).Seconds()
	return &s
}

// readiness is what the database last said. Requests at the same time wait for one answer.
type readiness struct {
	mu      sync.Mutex
	asked   time.Time
	version fencerow.SchemaVersion
	code    string // empty if the database is as it should be
	age     *float64
}

// look returns what the database says, or said a moment ago.
func (c *readiness) look(ctx context.Context, d *Daemon) (fencerow.SchemaVersion, string, *float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked.IsZero() && time.Since(c.asked) < readyFresh {
		return c.version, c.code, c.age
	}
	// The answer is for others too, who have not gone away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	c.code, c.age = "", nil
	var err error
	if c.version, err = d.cfg.Store.Ready(ctx); err != nil {
		c.code = string(slots.CodeOf(err))
	} else {
		c.age = slots.OldestDueAge(ctx, d.cfg.Store, d.obs.Instance())
	}
	c.asked = time.Now()
	return c.version, c.code, c.age
}
