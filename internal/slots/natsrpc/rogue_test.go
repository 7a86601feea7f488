package natsrpc

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

// rogue is a server of NATS that lets everybody in, and then says something wrong.
type rogue struct {
	info   string      // members of its first line, beside what it must say
	secure *tls.Config // nil for none
	// say is called once for each connection, when something is subscribed to or asked. Nothing more is read
	// before it returns. w is what the client reads.
	say func(w io.Writer)
}

// start runs it until the test ends.
func (r *rogue) start(t *testing.T) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return "nats://" + listener.Addr().String()
}

func (r *rogue) serve(conn net.Conn) {
	defer conn.Close()
	const info = `INFO {"server_id":"X","proto":1,"headers":true,"max_payload":1048576%s}`
	_, _ = fmt.Fprintf(conn, info+"\r\n", r.info)
	if r.secure != nil {
		conn = tls.Server(conn, r.secure)
		defer conn.Close()
	}
	subscribed, asked, said := false, false, false
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		word, _, _ := strings.Cut(lines.Text(), " ")
		subscribed, asked = subscribed || word == "SUB", asked || word == "PUB"
		if word == "PING" {
			_, _ = io.WriteString(conn, "PONG\r\n")
		}
		if !said && (asked || subscribed && word == "PING") {
			said = true
			r.say(conn)
		}
	}
}

// flood sends a beginning and then the same letter without end.
func flood(beginning string) func(io.Writer) {
	return func(w io.Writer) {
		_, err := io.WriteString(w, beginning)
		for letters := []byte(strings.Repeat("A", 1<<20)); err == nil; {
			_, err = w.Write(letters)
		}
	}
}

func say(text string) func(io.Writer) {
	return func(w io.Writer) { _, _ = io.WriteString(w, text) }
}

// wrong is what no server sends, and what would end a process that believes it.
func wrong() map[string]func(io.Writer) {
	return map[string]func(io.Writer){
		"SizeBeyondAllMemory":    say("MSG trex.slots.req 1 r 9000000000000000000\r\nabc"),
		"SizeBeyondThisMemory":   say("MSG trex.slots.req 1 r 99999999999\r\nabc"),
		"SizeWithoutReply":       say("MSG trex.slots.req 1 99999999999\r\nabc"),
		"SizeInLowerCase":        say("msg trex.slots.req 1 r 99999999999\r\nabc"),
		"SizeAfterAnEmptyLine":   say("MSG \r\nx 1 99999999999\r\nabc"),
		"SizeAfterAnOddEnd":      say("MSG trex.slots.req 1 r 1\r\na\nMSG trex.slots.req 1 r 99999999999\r\nabc"),
		"SizeAfterTabs":          say("MSG\ttrex.slots.req\t1\tr\t99999999999\r\nabc"),
		"SizeWithHeaders":        say("HMSG trex.slots.req 1 r 12 99999999999\r\nabc"),
		"HeadersBeyondAllMemory": say("HMSG trex.slots.req 1 r 9000000000000000000 9000000000000000001\r\nabc"),
		"HeadersBeyondTheSize":   say("HMSG trex.slots.req 1 r 13 12\r\nabc"),
		"MessageWithoutEnd":      flood("MSG "),
		"ErrorWithoutEnd":        flood("-ERR '"),
		"InfoWithoutEnd":         flood("INFO {\"server_id\":\""),
		"Rubbish":                flood("\x00\xff\r\n"),
	}
}

// heap returns how many bytes are allocated in all since the process began.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestADaemonOutlivesAServerThatSendsTooMuch(t *testing.T) {
	for name, say := range wrong() {
		t.Run(name, func(t *testing.T) {
			before := heap()
			d := run(t, Config{URL: (&rogue{say: say}).start(t)}, self, oneSlot, time.Minute)
			got := d.log.await(t, 1)
			if got[0] == "nats connected" { // both connections were, before the first one heard it
				got = d.log.await(t, 2)[1:]
			}
			if got[0] != "nats disconnected nats_protocol_refused" {
				t.Errorf("it logs %q", got)
			}
			d.stop()
			if took := heap() - before; took > 64<<20 {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
}

func TestWhoAsksOutlivesAServerThatSendsTooMuch(t *testing.T) {
	for name, say := range wrong() {
		t.Run(name, func(t *testing.T) {
			before := heap()
			cfg := Config{URL: (&rogue{say: say}).start(t)}
			if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self}); !errors.Is(err, ErrProtocol) {
				t.Errorf("got %v", err)
			}
			if took := heap() - before; took > 64<<20 {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
}

// Whatever is announced above TLS is looked at, too, also where only the server asks for TLS.
func TestTLSHidesNothingFromTheBounds(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler())
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	r := &rogue{
		info:   `,"tls_required":true`,
		secure: &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12},
		say:    say("MSG trex.slots.req 1 r 99999999999\r\nabc"),
	}
	cfg := Config{URL: r.start(t), TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self}); !errors.Is(err, ErrProtocol) {
		t.Errorf("got %v", err)
	}
	cfg.TLS = nil
	if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self}); !errors.Is(err, ErrTLS) {
		t.Errorf("without TLS of our own: got %v", err)
	}
}

// What comes in the clear together with the first line must not be read as if it had come by TLS.
func TestNothingInTheClearIsReadAsTLS(t *testing.T) {
	r := &rogue{info: `,"tls_required":true}` + "\r\nPONG\r\nINFO {\"a\":1", say: say("")}
	cfg := Config{URL: r.start(t), TLS: &tls.Config{MinVersion: tls.VersionTLS12}}
	if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self}); !errors.Is(err, ErrProtocol) {
		t.Errorf("got %v", err)
	}
}

// A first line that is none, or has no end, is no server's.
func TestWhatIsNoServerIsToldSo(t *testing.T) {
	for _, begin := range []string{"HTTP/1.1 400 Bad Request\r\n", "INFO rubbish\r\n", "INFO {", "A"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		defer listener.Close()
		go func() {
			if conn, err := listener.Accept(); err == nil {
				flood(begin)(conn)
				_ = conn.Close()
			}
		}()
		cfg := Config{URL: "nats://" + listener.Addr().String()}
		if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self}); !errors.Is(err, ErrProtocol) {
			t.Errorf("%q: got %v", begin, err)
		}
	}
}

// A large cluster's list of servers, a reply subject of any bytes, a question of the largest size that is not
// refused: none of them ends the connection.
func TestWhatAServerMaySendIsHeard(t *testing.T) {
	servers := slices.Repeat([]string{`"192.168.100.100:4222"`}, 1000)
	question := string(slots.Request{Instance: self}.Document())
	answered := make(chan struct{})
	r := &rogue{info: `,"connect_urls":[` + strings.Join(servers, ",") + `]`, say: func(w io.Writer) {
		say("+OK\r\nPING\r\n-ERR 'Permissions Violation for Publish to \"x\"'\r\n")(w)
		say("INFO {\"server_id\":\"X\"} \r\n")(w)
		say("MSG trex.slots.req 1 " + strconv.Itoa(len(question)) + "\r\n" + question + "\r\n")(w)
		say("MSG trex.slots.req 1 0\r\n\r\nHMSG trex.slots.req 1 12 12\r\nNATS/1.0\r\n\r\n\r\n")(w)
		largest := strings.Repeat("x", maxMessage)
		say("MSG trex.slots.req 1 " + strconv.Itoa(len(largest)) + "\r\n" + largest + "\r\n")(w)
		say("MSG trex.slots.req 1 r\x01\v\xff " + strconv.Itoa(len(question)) + "\r\n" + question + "\r\n")(w)
	}}
	d := run(t, Config{URL: r.start(t)}, self, func(ctx context.Context) ([]fencerow.Slot, error) {
		close(answered)
		return oneSlot(ctx)
	}, time.Minute)
	select {
	case <-answered:
	case <-time.After(patience):
		t.Error("the question was not heard")
	}
	d.stop()
	got := d.log.events(t)
	slices.Sort(got) // both come from goroutines of their own
	if want := []string{"nats connected", "notice nats_answer_refused"}; !slices.Equal(got, want) {
		t.Errorf("it logs %q", got)
	}
}

// What is written to such a server waits in the buffers of the connection, until they are full.
func TestStoppingDoesNotWaitForAServerThatDoesNotRead(t *testing.T) {
	const grace = 2 * time.Second
	question := string(slots.Request{Instance: self}.Document())
	full := make([]fencerow.Slot, 6000) // nearly as large as the server takes
	for i := range full {
		full[i].SlotID = "slot"
	}
	r := &rogue{say: func(w io.Writer) {
		for range 50 {
			say("MSG trex.slots.req 1 r " + strconv.Itoa(len(question)) + "\r\n" + question + "\r\n")(w)
		}
		<-t.Context().Done()
	}}
	looks := make(chan struct{}, 50)
	d := run(t, Config{URL: r.start(t)}, self, func(context.Context) ([]fencerow.Slot, error) {
		looks <- struct{}{}
		return full, nil
	}, grace)
	for range 6 {
		<-looks
	}
	began := time.Now()
	d.stop()
	if took := time.Since(began); took > grace/2 {
		t.Errorf("stopping took %s", took)
	}
}
