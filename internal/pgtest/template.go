package pgtest

import (
	"context"
	"fmt"
	"sync"
)

// Template describes how the databases of many tests begin. It is made once, when the first test asks for it,
// and copied for each. It is safe for concurrent use; keep it in a package variable.
type Template struct {
	build func(ctx context.Context, dsn string) error

	once sync.Once
	name string
	err  error
}

// NewTemplate returns a template that build fills: it is given the connection string of an empty database, as
// its owner, and must close its connections.
func NewTemplate(build func(ctx context.Context, dsn string) error) *Template {
	return &Template{build: build}
}

// on returns the name of the template's database on the shared server s.
func (tm *Template) on(s *server) (string, error) {
	tm.once.Do(func() {
		tm.name = s.newName()
		tm.err = tm.fill(s)
	})
	return tm.name, tm.err
}

func (tm *Template) fill(s *server) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	if err := s.exec(createEmpty(tm.name)); err != nil {
		return err
	}
	if err := tm.build(ctx, withSettings(s.dsn, setting{keyDatabase, tm.name})); err != nil {
		return fmt.Errorf("build the template database: %w", err)
	}
	// A copy needs a source without sessions, and a backend ends a little later than its client's Close returns.
	return s.exec(
		"ALTER DATABASE "+quote(tm.name)+" ALLOW_CONNECTIONS false",
		fmt.Sprintf("SELECT pg_terminate_backend(pid, %d) FROM pg_stat_activity WHERE datname = '%s'",
			terminateTimeout.Milliseconds(), tm.name),
	)
}

// createEmpty copies template0: template1 of a server in use may hold anything.
func createEmpty(name string) string {
	return "CREATE DATABASE " + quote(name) + " TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
}
