package canary

import (
	"crypto/tls"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// serverError is how a hostile PostgreSQL fails: with a SQLSTATE, and secrets in every field of its error.
type serverError struct {
	state string
	// atStart refuses the connection; otherwise each statement fails.
	atStart bool
	// tls is offered to who asks for it; nil is refused.
	tls *tls.Config
}

// newHostileServer serves it until the test ends and returns a DSN that leads to it.
func newHostileServer(t testing.TB, e serverError) (dsn string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				e.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	u := url.URL{Scheme: "postgres", Host: listener.Addr().String(), Path: "/" + string(dsnPart),
		User: url.UserPassword(string(account), password.asPassword()), RawQuery: "sslmode=disable"}
	return u.String()
}

func (e serverError) response() *pgproto3.ErrorResponse {
	text := hostileText(databaseText)
	return &pgproto3.ErrorResponse{
		Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: e.state, Message: text, Detail: text, Hint: text,
		InternalQuery: text, Where: text, SchemaName: text, TableName: text, ColumnName: text, DataTypeName: text,
		ConstraintName: text, File: text, Line: 1, Routine: text,
	}
}

// hostileText is a hostile text that the protocol can carry: it ends strings with NUL.
func hostileText(s secret) string {
	text := []byte(hostile(s))
	for i, c := range text {
		if c == 0 {
			text[i] = 1
		}
	}
	return string(text)
}

func (e serverError) serve(conn net.Conn) {
	b := pgproto3.NewBackend(conn, conn)
	first, err := b.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if _, asks := first.(*pgproto3.SSLRequest); asks {
		if e.tls == nil {
			_, _ = conn.Write([]byte("N"))
			return
		}
		if _, err := conn.Write([]byte("S")); err != nil {
			return
		}
		_ = tls.Server(conn, e.tls).Handshake() // the client does not trust it
		return
	}
	b.Send(&pgproto3.AuthenticationCleartextPassword{})
	if b.Flush() != nil || b.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
		return
	}
	if _, err := b.Receive(); err != nil {
		return
	}
	if e.atStart {
		b.Send(e.response())
		_ = b.Flush()
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "15.4"})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	b.Send(&pgproto3.NoticeResponse{Severity: "WARNING", Code: "01000", Message: hostileText(databaseText)})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for failed := false; b.Flush() == nil; {
		message, err := b.Receive()
		if err != nil {
			return
		}
		switch message.(type) {
		case *pgproto3.Terminate:
			return
		case *pgproto3.Sync:
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			failed = false
		case *pgproto3.Query:
			b.Send(e.response())
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		default:
			if !failed {
				b.Send(e.response())
				failed = true
			}
		}
	}
}
