package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow/internal/db"
)

// Diagnosis is what a server says about itself, for `fencerow doctor`. It judges nothing.
type Diagnosis struct {
	// ServerVersion is PostgreSQL's server_version_num, 150004 for 15.4.
	ServerVersion int
	UTF8          bool
	// ReadOnly says that the server is a standby or refuses writes by default.
	ReadOnly bool
	Fsync    bool
	// SynchronousCommit says that a commit is at least on this server's disk before it is acknowledged.
	SynchronousCommit bool
	Autovacuum        bool
	// ClockOffset is how far the server's clock is ahead of this machine's, give or take ClockError.
	ClockOffset, ClockError time.Duration
	InvalidIndexes          int
	Tables                  []TableHealth
	// Horizon are the holders of the xmin horizon, the oldest first, at most 100.
	Horizon []HorizonHolder
	// MissingGrants are what a daemon needs of this schema and the role lacks, as GRANT writes them.
	MissingGrants []string
	// HiddenSessions is how many sessions the role may not look at: any of them may hold the horizon.
	HiddenSessions int
}

// TableHealth is how one of fencerow's tables is kept. The numbers are the server's estimates.
type TableHealth struct {
	Name               string
	LiveRows, DeadRows int64
	AutovacuumOff      bool
}

// HorizonHolder keeps dead rows from being removed.
type HorizonHolder struct {
	// Kind is "transaction", "prepared_transaction" or "replication_slot".
	Kind string
	// PID is the backend's, or zero.
	PID int
	// Age is how many transactions began since; Held how long ago it began, zero if the server does not know.
	Age  int64
	Held time.Duration
}

// Diagnose looks at the server and the state of the schema's tables. It changes nothing and works on a
// database without the schema.
func (s *Store) Diagnose(ctx context.Context) (*Diagnosis, error) {
	const op = "diagnose"
	d := &Diagnosis{}
	if err := s.readClock(ctx, op, d); err != nil {
		return nil, err
	}
	var server db.DoctorServerRow
	var tables []db.DoctorTablesRow
	var horizon []db.DoctorHorizonRow
	var invalid, hidden int64
	err := s.view(ctx, op,
		reads(&server, (*db.Queries).DoctorServer),
		reads(&tables, (*db.Queries).DoctorTables),
		reads(&invalid, (*db.Queries).DoctorInvalidIndexes),
		reads(&horizon, (*db.Queries).DoctorHorizon),
		reads(&hidden, (*db.Queries).DoctorHiddenSessions),
		reads(&d.MissingGrants, (*db.Queries).DoctorGrants),
	)
	if err != nil {
		return nil, err
	}
	d.ServerVersion, d.UTF8, d.ReadOnly = int(server.Version), server.Utf8, server.ReadOnly
	d.Fsync, d.SynchronousCommit, d.Autovacuum = server.Fsync, server.SynchronousCommit, server.Autovacuum
	d.InvalidIndexes, d.HiddenSessions = int(invalid), int(hidden)
	for _, t := range tables {
		d.Tables = append(d.Tables, TableHealth(t))
	}
	for _, h := range horizon {
		d.Horizon = append(d.Horizon, HorizonHolder{Kind: h.Kind, PID: int(h.Pid), Age: h.Age, Held: h.Held})
	}
	return d, nil
}

// reads is a call whose answer goes into the given place.
func reads[T any](into *T, query func(*db.Queries, context.Context) (T, error)) call {
	return func(ctx context.Context, q *db.Queries) error {
		var err error
		*into, err = query(q, ctx)
		return err
	}
}

// readClock compares the clocks. The first answer also pays for connecting, so the best of three counts.
func (s *Store) readClock(ctx context.Context, op string, d *Diagnosis) error {
	for i := range 3 {
		err := s.run(ctx, op, s.timeout, func(ctx context.Context, conn *pgx.Conn) error {
			sent := time.Now()
			now, err := s.queries(conn).DoctorClock(ctx)
			half := time.Since(sent) / 2
			if err == nil && (i == 0 || half < d.ClockError) {
				d.ClockOffset, d.ClockError = now.Sub(sent.Add(half)), half
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
