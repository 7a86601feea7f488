package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
)

// statementsLibrary is the extension that tells what the server's statements took, and the library it needs.
const statementsLibrary = "pg_stat_statements"

// profiler writes, for each sample of a drain or of enqueueing, the CPU profile of this process and what the
// server's statements took. A nil profiler does nothing.
type profiler struct {
	directory string
	admin     *pgx.Conn
	file      *os.File // of what is measured now, or was last and has no sample yet
}

// newProfiler needs a server that has statementsLibrary preloaded.
func newProfiler(ctx context.Context, directory string, admin *pgx.Conn) (*profiler, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	if _, err := admin.Exec(ctx, query("server", "create_statements")); err != nil {
		return nil, fmt.Errorf("-profile needs the server's extension %s: %w", statementsLibrary, err)
	}
	return &profiler{directory: directory, admin: admin}, nil
}

// The names of the files until the sample is known.
const (
	lastCPU        = "last.pprof"
	lastStatements = "last.txt"
)

func (p *profiler) start(ctx context.Context) (err error) {
	if p == nil {
		return nil
	}
	if _, err := p.admin.Exec(ctx, query("server", "reset_statements")); err != nil {
		return err
	}
	if p.file, err = os.Create(filepath.Join(p.directory, lastCPU)); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.file)
}

// stop may be called only after start.
func (p *profiler) stop(ctx context.Context, database string) error {
	if p == nil {
		return nil
	}
	pprof.StopCPUProfile()
	if err := p.file.Close(); err != nil {
		return err
	}
	text, err := p.statements(ctx, database)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.directory, lastStatements), text, 0o644)
}

// keep names the files of the last measurement by its sample. Not every sample comes from one.
func (p *profiler) keep(s *sample) error {
	if p == nil || p.file == nil {
		return nil
	}
	p.file = nil
	plain := strings.NewReplacer("/", "-", "=", "-", " ", "-").Replace(s.System)
	name := filepath.Join(p.directory, fmt.Sprintf("%s-%s-%d", s.Workload, plain, s.Round+1))
	return errors.Join(
		os.Rename(filepath.Join(p.directory, lastCPU), name+".pprof"),
		os.Rename(filepath.Join(p.directory, lastStatements), name+".txt"),
	)
}

// statements is a table of those that took longest in all.
func (p *profiler) statements(ctx context.Context, database string) ([]byte, error) {
	rows, err := p.admin.Query(ctx, query("server", "statements"), database)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ms in all\tcalls\trows\tms a call\tWAL B a call\t  statement")
	var (
		statement        string
		calls, read, wal int64
		ms               float64
	)
	_, err = pgx.ForEachRow(rows, []any{&statement, &calls, &read, &ms, &wal}, func() error {
		_, err := fmt.Fprintf(table, "%.0f\t%d\t%d\t%.3f\t%d\t  %s\n", ms, calls, read, ms/float64(calls),
			wal/calls, statement)
		return err
	})
	err = errors.Join(err, table.Flush())
	return text.Bytes(), err
}
