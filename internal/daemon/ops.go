package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/loopback"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

// ErrOpsListen says that the ops listener's address cannot be had.
const ErrOpsListen fencerow.Code = "ops_listen_failed"

// Bounds of the ops listener.
const (
	opsTimeout     = 10 * time.Second // of reading a request, and of writing its answer
	opsIdle        = time.Minute
	maxOpsHeader   = 16 << 10 // bytes
	maxOpsBody     = 1 << 10  // bytes; no request needs one
	maxOpsRequests = 16       // processed at once
	maxOpsSlots    = 8        // answers about slots at once, until they are read: up to 8 MiB each
	// maxOpsConnections is how many are open at once, idle ones included.
	maxOpsConnections = 256
)

// ops answers operators and their tools.
type ops struct {
	d        *Daemon
	listen   func(context.Context) (net.Listener, error)
	tokens   *bearer // nil if no token is required
	server   *http.Server
	ready    readiness
	requests chan struct{} // as many as are processed at once
	asked    chan struct{} // as many as are told about slots at once
}

func newOps(d *Daemon) (*ops, error) {
	host, _, err := net.SplitHostPort(d.cfg.OpsListen)
	if err != nil {
		return nil, &fencerow.InputError{Field: "ops_listen", Problem: "is not HOST:PORT, such as 127.0.0.1:8311"}
	}
	o := &ops{d: d, requests: make(chan struct{}, maxOpsRequests), asked: make(chan struct{}, maxOpsSlots)}
	switch {
	case d.cfg.OpsTokenFile != "":
		if o.tokens, err = newBearer(d.cfg.OpsTokenFile, d.obs); err != nil {
			return nil, err
		}
	case !loopback.Names(host):
		return nil, errOpsExposed
	}
	o.listen = o.bind
	o.server = &http.Server{
		Handler:           o.handler(),
		ReadHeaderTimeout: opsTimeout,
		ReadTimeout:       opsTimeout,
		WriteTimeout:      opsTimeout,
		IdleTimeout:       opsIdle,
		MaxHeaderBytes:    maxOpsHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // It would print what clients send.
	}
	return o, nil
}

var errOpsExposed = &fencerow.InputError{
	Field: "ops_listen", Problem: "is not on loopback; that needs an ops token file",
}

// bind binds the address. A name can mean anything, so what was bound is looked at again.
func (o *ops) bind(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.d.cfg.OpsListen)
	if err != nil {
		return nil, fencerow.NewError("open the ops listener", ErrOpsListen, err)
	}
	if bound, ok := listener.Addr().(*net.TCPAddr); o.tokens == nil && (!ok || !bound.IP.IsLoopback()) {
		_ = listener.Close() // nothing was served
		return nil, errOpsExposed
	}
	return listener, nil
}

func (o *ops) serve(listener net.Listener) {
	bounded := &roomy{Listener: listener, room: make(chan struct{}, maxOpsConnections)}
	if err := o.server.Serve(bounded); !errors.Is(err, http.ErrServerClosed) {
		o.d.obs.Notify(observe.NoticeOpsFailed)
	}
}

// shutdown lets requests in flight end for a moment, then cuts them.
func (o *ops) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), opsGrace)
	defer cancel()
	if o.server.Shutdown(ctx) != nil {
		_ = o.server.Close() // whatever it says, they are closed
	}
}

// handler is what the listener serves. Liveness needs no token: it says nothing.
func (o *ops) handler() http.Handler {
	guarded := http.NewServeMux()
	guarded.HandleFunc("GET /healthz", o.healthz) // for what it says to other methods
	guarded.HandleFunc("GET /readyz", o.readyz)
	guarded.HandleFunc("GET /v1/slots", o.slots)
	guarded.HandleFunc("POST /v1/process/{correlation_id}", o.process)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", o.healthz)
	mux.Handle("/", o.admit(documented(guarded)))
	return o.contain(http.MaxBytesHandler(mux, maxOpsBody))
}

// documented gives refusals of the mux itself, which are text, the form of all others.
func documented(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refusal, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		s := statusOnly{header: w.Header()}
		refusal.ServeHTTP(&s, r)
		if s.status == http.StatusMethodNotAllowed { // The header says which are allowed.
			writeError(w, http.StatusMethodNotAllowed, codeMethod)
			return
		}
		writeError(w, http.StatusNotFound, codeNotFound)
	})
}

// statusOnly takes an answer's status and headers, and not its body.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }

// contain turns a panic into an answer and a record; net/http would print it with its stack.
func (o *ops) contain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				o.d.obs.RequestPanicked(v)
				writeError(w, http.StatusInternalServerError, codeInternal)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (o *ops) healthz(w http.ResponseWriter, _ *http.Request) {
	if !o.d.alive() {
		writeError(w, http.StatusServiceUnavailable, codeStuck)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// Codes of refusals by the ops listener.
const (
	codeInternal      = "internal"
	codeStuck         = "polls_stuck"
	codeTokenRefused  = "token_refused"
	codeHostRefused   = "host_refused"
	codeOriginRefused = "origin_refused"
	codeNotFound      = "not_found"
	codeMethod        = "method_not_allowed"
	codeTooMany       = "too_many_requests"
	codeOtherInstance = "other_instance"
)

// errorDocument is the body of an answer that is no result.
type errorDocument struct {
	Error   string `json:"error"`
	Message string `json:"message,omitempty"`
}

func writeError(w http.ResponseWriter, status int, code string) {
	writeJSON(w, status, errorDocument{Error: code})
}

func writeJSON(w http.ResponseWriter, status int, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		panic("daemon: a document of plain fields does not marshal")
	}
	writeLine(w, status, append(body, '\n'))
}

func writeLine(w http.ResponseWriter, status int, line []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(line) // a client that has gone away is its own business
}
