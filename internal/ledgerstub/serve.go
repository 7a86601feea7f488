package ledgerstub

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// graceful is how long requests in flight have to end when serving stops.
const graceful = time.Second

// Serve serves on l until ctx is done, then ends requests that hang, waits briefly for the others and returns
// nil. It closes l.
func (s *Stub) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // Cut connections are what it is for.
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.stop(server)
	})
	err := server.Serve(l)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *Stub) stop(server *http.Server) {
	defer s.ending()()
	//nolint:contextcheck // the caller's context is over
	ctx, cancel := context.WithTimeout(context.Background(), graceful)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close() //nolint:errcheck // nothing is left to do about it
	}
}
