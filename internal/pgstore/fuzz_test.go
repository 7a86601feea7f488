package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
)

// Whatever a connection string holds, and whatever the way to the server and the server itself make of it,
// an error is an operation and a code, in every form of print: no word of it depends on the string, so that
// none can be a part of it. Nothing leaves the process: names and connections are the test's own.
func FuzzDSNErrors(f *testing.F) {
	for _, s := range []string{
		"", " ", "\x00", "postgres://", "postgres://desk:9;Xq%25~Kv7@localhost:5433/book",
		"postgres://desk:9;Xq%~Kv7@localhost/book", "postgres://desk:9;Xq~Kv7@localhost:port/book",
		"postgresql://de%73k:%00%ff@[::1]:5433,localhost:1/book?target_session_attrs=read-write",
		"postgres://desk:Kv 7@localhost/book", "postgres://desk:Kv7@localhost/book?sslmode=Kv7",
		"postgres://desk:Kv7@localhost/book?connect_timeout=Kv7&pool_max_conns=Kv7",
		"postgres://[fe80::1%25en0]:1/",
		"host=localhost port=1 user=desk password='Kv\\'7 \\\\' dbname='the book'", "password='Kv7",
		"password=Kv7 =", "host=a,b,localhost port=1,2 user=desk password=Kv7 sslmode=verify-full",
		"host=/run/postgresql user=desk",
		"host=localhost,a port=1,2,3", "user=desk\npassword=Kv7\thost = localhost", "sslmode=require password=Kv7",
		"host=localhost password=Kv7 options='-c search_path=Kv7' default_query_exec_mode=Kv7",
		"host=\xff user=\xed", "host=localhost password=Kv7 min_protocol_version=3.2 max_protocol_version=3.0",
		"service=Kv7",
		"passfile=/Kv7", "host=localhost sslcert=/Kv7 sslkey=/Kv7", "postgres://desk:Kv7@localhost/book#Kv7",
		"mysql://desk:Kv7@localhost/",
		"host=localhost statement_cache_capacity=-1 target_session_attrs=Kv7 require_auth=Kv7 password=Kv7",
	} {
		for how := range howMany {
			f.Add(s, uint8(how))
		}
	}
	f.Fuzz(func(t *testing.T, dsn string, how uint8) {
		cfg := Config{DSN: fencerow.NewSecret(dsn), Timeout: time.Second}
		cfg.Current = func() (fencerow.Secret, error) { return cfg.DSN, nil }
		parsed, err := pgxpool.ParseConfig(dsn)
		if err == nil && (parsed.MinConns > 0 || parsed.MinIdleConns > 0) {
			return // it would connect before its connections are the test's own
		}
		store, err := Open(cfg)
		if err != nil {
			isACode(t, err)
			return
		}
		poolConfig := store.pool.Config()
		store.Close()
		poolConfig.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) {
			if how%howMany == unresolved {
				return nil, &net.DNSError{Err: dsn, Name: host, Server: dsn}
			}
			return []string{"127.0.0.1"}, nil
		}
		poolConfig.ConnConfig.DialFunc = func(_ context.Context, network, _ string) (net.Conn, error) {
			if how%howMany == unreachable {
				return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New(dsn)}
			}
			client, server := net.Pipe()
			go gossip(server, dsn, how)
			return client, nil
		}
		if store, err = open(poolConfig, cfg.Timeout); err != nil {
			isACode(t, err)
			return
		}
		defer store.Close()
		if _, err = store.Ready(t.Context()); err == nil {
			t.Fatal("a server that refuses everything is ready")
		}
		isACode(t, err)
	})
}

// What becomes of a connection.
const (
	unresolved  = iota // the name is not known
	unreachable        // nobody listens
	refused            // the server says no to whoever connects, and repeats what it heard
	asked              // it asks for the password first, and repeats that too
	babble             // it sends back what it got
	hangUp             // it ends the connection
	badTLS             // it agrees to TLS and speaks none
	howMany
)

// states are what the server gives as the reason for its no, among others that it does not have.
var states = []string{"28P01", "28000", "3D000", "53300", "57P03", "42704", "25006", "0A000", "XX000", "",
	"\x1b"}

// gossip is a server that repeats what it was told.
func gossip(conn net.Conn, dsn string, how uint8) {
	defer conn.Close()
	backend := pgproto3.NewBackend(conn, conn)
	if how%howMany == badTLS || how%howMany == babble {
		var heard [1 << 14]byte // a whole ClientHello
		n, _ := conn.Read(heard[:])
		const tlsRequest = 8 // its length, in bytes; what starts a session is longer
		if how%howMany == badTLS {
			if n != tlsRequest {
				return
			}
			conn.Write([]byte("S"))    //nolint:errcheck // the other end may be gone
			n, _ = conn.Read(heard[:]) // the beginning of TLS
		}
		conn.Write(heard[:n]) //nolint:errcheck // as above
		return
	}
	heard := dsn
	for {
		message, err := backend.ReceiveStartupMessage()
		if err != nil || how%howMany == hangUp {
			return
		}
		heard += fmt.Sprintf(" %+v", message)
		if _, plain := message.(*pgproto3.StartupMessage); plain {
			break
		}
		conn.Write([]byte("N")) //nolint:errcheck // as above
	}
	if how%howMany == asked {
		backend.Send(&pgproto3.AuthenticationCleartextPassword{})
		if backend.Flush() != nil || backend.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
			return
		}
		message, err := backend.Receive()
		if err != nil {
			return
		}
		heard += fmt.Sprintf(" %+v", message)
	}
	state := states[int(how/howMany)%len(states)]
	backend.Send(&pgproto3.NoticeResponse{Severity: "WARNING", Message: heard})
	backend.Send(&pgproto3.ErrorResponse{
		Severity: "FATAL", Code: state, Message: heard, Detail: heard, Hint: heard, Where: heard, File: heard,
	})
	backend.Flush() //nolint:errcheck // as above
}

var (
	errorText = regexp.MustCompile(`\A(?:parse the DSN|open the pool|check the schema version): ([a-z_]+)\z`)
	typeName  = regexp.MustCompile(`\A[*a-zA-Z0-9_./]*\z`)
)

// isACode demands that nothing can be printed of an error but a known operation and a known code.
func isACode(t *testing.T, err error) {
	t.Helper()
	if input, ok := errors.AsType[*fencerow.InputError](err); ok {
		if input.Field != "dsn" || input.Problem != "is missing; give a PostgreSQL connection string" {
			t.Fatalf("refused with %v", input)
		}
		return
	}
	own, ok := err.(*fencerow.Error) //nolint:errorlint // nothing may be wrapped around it
	if !ok {
		t.Fatalf("an error of type %T", err)
	}
	text := errorText.FindStringSubmatch(own.Error())
	if text == nil || !slices.Contains([]fencerow.Code{
		fencerow.ErrDSNInvalid, fencerow.ErrStoreBusy, fencerow.ErrStoreTimeout, fencerow.ErrStoreUnavailable,
		fencerow.ErrStoreCredentials, fencerow.ErrStorePermission, fencerow.ErrStoreSchema,
		fencerow.ErrStoreReadOnly, fencerow.ErrStoreStatement, fencerow.ErrStoreFull, fencerow.ErrStoreData,
		fencerow.ErrStoreConflict, fencerow.ErrStoreSetting, fencerow.ErrStoreFailed,
	}, fencerow.Code(text[1])) {
		t.Fatalf("the error says %q", own.Error())
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, err); got != text[0] {
			t.Errorf("%s is %q, and Error %q", verb, got, text[0])
		}
	}
	if got, err := json.Marshal(err); err != nil || string(got) != `"`+text[1]+`"` {
		t.Errorf("JSON is %s, %v", got, err)
	}
	var log bytes.Buffer
	record := slog.Record{Message: "x"}
	record.Add("err", err)
	if err := slog.NewTextHandler(&log, nil).Handle(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); got != "level=INFO msg=x err="+text[1]+"\n" {
		t.Errorf("the log says %q", got)
	}
	harmless := []error{nil, context.Canceled, context.DeadlineExceeded}
	if inner := own.Unwrap(); !slices.Contains(harmless, inner) || !typeName.MatchString(own.CauseType()) {
		t.Errorf("it wraps %v, made from %s", inner, own.CauseType())
	}
}
