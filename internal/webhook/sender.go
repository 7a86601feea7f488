package webhook

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
)

const (
	// maxQueued bounds the alerts that wait for their turn. Alerts are one a cause and window, so that many are
	// not expected.
	maxQueued = 64
	// maxAttempts is after how many attempts an alert is given up.
	maxAttempts = 9
	// firstPause doubles up to lastPause between attempts: some three minutes in all, longer than a receiver
	// takes to restart.
	firstPause, lastPause = time.Second, time.Minute
	// cutShort is how much of the time for closing is kept for the end after requests were cancelled.
	cutShort = 100 * time.Millisecond
)

// Reporter is told what becomes of alerts, on the change only. An [*observe.Observer] is one.
type Reporter interface {
	WebhookFailed(why observe.WebhookFailure)
	WebhookRestored()
	AlertsDropped(total int64)
}

// Sender sends alerts, one after the other in their order. It is safe for concurrent use.
type Sender struct {
	url        fencerow.Secret
	secretFile string
	agent      string
	transport  http.RoundTripper

	queue   chan message
	closing chan struct{}
	ended   chan struct{}
	cutOff  bool            // requests had to be cancelled; set before ended
	gone    bool            // the receiver wants nothing more; only attempts have it
	life    context.Context // of requests
	endLife context.CancelFunc

	mu      sync.Mutex
	started bool
	closed  bool
	dropped int64 // alerts since the start
}

var _ observe.Alerter = (*Sender)(nil)

// New checks the configuration and reads the secret; nothing is sent. The error is an [*fencerow.InputError]
// that names the setting and never its value. Alerts are queued until the sender is started.
func New(cfg Config) (*Sender, error) {
	u, err := cfg.address()
	if err != nil {
		return nil, err
	}
	if cfg.SecretFile == "" {
		return nil, inputError("alert_webhook_secret_file", "is missing; the receiver checks the signature")
	}
	if _, ok := readKey(cfg.SecretFile); !ok {
		return nil, inputError("alert_webhook_secret_file",
			"cannot be read, or does not hold whsec_ and 24 to 64 bytes in base64")
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	s := &Sender{
		url: cfg.URL, secretFile: cfg.SecretFile, agent: "fencerow/" + cfg.Version,
		transport: newTransport(u.Scheme == "http" && !cfg.AllowInsecure),
		queue:     make(chan message, maxQueued), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	s.life, s.endLife = context.WithCancel(context.Background())
	return s, nil
}

// SecretFileExposed reports whether users other than the file's owner and group can read or change it, which
// an operator should be warned of.
func (s *Sender) SecretFileExposed() bool {
	return secretfile.Exposed(s.secretFile)
}

// Alert queues an alert, or drops it when the queue is full or closed. It does not block.
func (s *Sender) Alert(a observe.Alert) {
	m := newMessage(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		select {
		case s.queue <- m:
			return
		default:
		}
	}
	s.dropped++
}

// Start begins to send. It is called once; [Sender.Close] ends what it starts.
func (s *Sender) Start(r Reporter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	go (&worker{Sender: s, reporter: r}).run()
}

// Close sends what is queued, each alert once more, and reports whether that ended within the time given.
// Then requests in flight are cancelled, and what is left counts as dropped. It returns within the time.
func (s *Sender) Close(within time.Duration) bool {
	s.mu.Lock()
	again, started := s.closed, s.started
	s.closed = true
	s.mu.Unlock()
	if !again {
		close(s.closing)
	}
	if !started {
		s.endLife()
		return true
	}
	kept := min(within/4, cutShort)
	cut := time.AfterFunc(within-kept, s.endLife)
	defer cut.Stop()
	late := time.NewTimer(within)
	defer late.Stop()
	defer s.endLife()
	select {
	case <-s.ended:
		return !s.cutOff
	case <-late.C:
		return false
	}
}

// worker is the one goroutine that sends.
type worker struct {
	*Sender
	reporter Reporter
	failing  observe.WebhookFailure // what was reported; empty while alerts arrive
	reported int64                  // dropped alerts
}

func (w *worker) run() {
	defer close(w.ended)
	for open := true; open; {
		select {
		case m := <-w.queue:
			w.deliver(m)
		case <-w.closing:
			open = false
		}
	}
	for len(w.queue) > 0 { // nothing is added any more
		w.deliver(<-w.queue)
	}
	w.cutOff = w.life.Err() != nil
	w.tellDropped()
}

// deliver sends a message until it is taken or given up. While the sender closes there is one attempt.
func (w *worker) deliver(m message) {
	for attempt := 1; ; attempt++ {
		last := attempt == maxAttempts || w.isClosing()
		why := w.attempt(m)
		last = last || isFinal(why)
		if why == "" {
			if w.failing != "" {
				w.failing = ""
				w.reporter.WebhookRestored()
			}
			w.reportDropped()
			return
		}
		if why != w.failing && w.life.Err() == nil {
			w.failing = why
			w.reporter.WebhookFailed(why)
		}
		if last {
			w.drop()
			return
		}
		w.reportDropped()
		w.pause(attempt)
	}
}

func (w *worker) isClosing() bool {
	select {
	case <-w.closing:
		return true
	default:
		return false
	}
}

// pause waits before the next attempt, until the sender closes at most. It is jittered, since several daemons
// that met the same outage have the same receiver.
func (w *worker) pause(attempt int) {
	d := min(firstPause<<(attempt-1), lastPause)
	timer := time.NewTimer(d - rand.N(d/4)) //nolint:gosec // it spreads requests, and need not be unguessable
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.closing:
	}
}

// drop gives an alert up.
func (w *worker) drop() {
	w.mu.Lock()
	w.dropped++
	w.mu.Unlock()
	w.reportDropped()
}

// reportDropped tells how many were dropped if that changed. While the sender closes it is left to the end,
// which tells them once.
func (w *worker) reportDropped() {
	if !w.isClosing() {
		w.tellDropped()
	}
}

func (w *worker) tellDropped() {
	w.mu.Lock()
	total := w.dropped
	w.mu.Unlock()
	if total != w.reported {
		w.reported = total
		w.reporter.AlertsDropped(total)
	}
}
