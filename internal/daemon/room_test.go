package daemon

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

func (s *served) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	check(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	check(s.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return conn
}

func TestConnectionsThatAreTooManyAreRefusedUntilOthersEnd(t *testing.T) {
	s := serveOps(t, answers(), nil)
	var all []net.Conn
	for range maxOpsConnections {
		all = append(all, s.dial())
	}
	refused, err := io.ReadAll(s.dial())
	check(t, err)
	if want := `{"error":"too_many_requests"}`; !strings.HasPrefix(string(refused), "HTTP/1.1 429 ") ||
		!strings.Contains(string(refused), want) {
		t.Errorf("got %q", refused)
	}
	check(t, all[0].Close())
	for began := time.Now(); ; { // The daemon may not have seen its end yet.
		conn := s.dial()
		_, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if line, _ := bufio.NewReader(conn).ReadString('\n'); err == nil && strings.Contains(line, " 200 ") {
			return
		} else if time.Since(began) > 20*time.Second {
			t.Fatalf("no room again: %q, %v", line, err)
		}
	}
}

// An answer is kept until it is read, so that readers who do not read must be few.
func TestAnswersThatNobodyReadsAreFew(t *testing.T) {
	many := make([]fencerow.Slot, 40000) // far more than the buffers of a connection take
	for i := range many {
		many[i].SlotID = "slot"
	}
	s := serveOps(t, answers(), func(cfg *Config) {
		store := slotStore{newBreakable(), func() ([]fencerow.Slot, error) { return many, nil }}
		cfg.Slots = slots.NewBuilder(store, self, worker, nil)
	})
	for range maxOpsSlots {
		conn := s.dial()
		_, err := io.WriteString(conn, "GET /v1/slots HTTP/1.1\r\nHost: localhost\r\n\r\n")
		check(t, err)
		if _, err := conn.Read(make([]byte, 1)); err != nil { // It is being written.
			t.Fatal(err)
		}
	}
	status, body := s.request(http.MethodGet, "/v1/slots", nil)
	equal(t, "status", status, http.StatusTooManyRequests)
	equal(t, "body", body, `{"error":"too_many_requests"}`+"\n")
	status, _ = s.request(http.MethodGet, "/healthz", nil)
	equal(t, "liveness", status, http.StatusOK)
}
