package migrate

import (
	"context"
	_ "embed" // for the statement
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/policies.sql
	policiesSQL string

	policySQL = regexp.MustCompile(`(?ms)^(CREATE|DROP) POLICY (\w+) ON .*?;$`)
)

// policies returns the statements that make the policies of a schema of this version, by their names.
func policies(files fs.FS, version int) (map[string]string, error) {
	steps, err := listSteps(files)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, step := range steps[:min(version, len(steps))] {
		body, err := fs.ReadFile(files, step.Name+".sql")
		if err != nil {
			return nil, invalidHistory(step.Name + ".sql cannot be read")
		}
		up, _, _ := strings.Cut(string(body), separatorLine)
		for _, m := range policySQL.FindAllStringSubmatch(up, -1) {
			if delete(found, m[2]); m[1] == "CREATE" {
				found[m[2]] = m[0]
			}
		}
	}
	return found, nil
}

// restorePolicies creates again what policies were dropped, and returns their names. A table without its
// policy shows nothing once the walls are up.
func (s *session) restorePolicies(ctx context.Context, files fs.FS, version int) ([]string, error) {
	missing, err := policies(files, version)
	if err != nil {
		return nil, err
	}
	present, err := s.names(ctx, policiesSQL)
	if err != nil {
		return nil, err
	}
	for _, name := range present {
		delete(missing, name)
	}
	var restored []string
	for name, statement := range missing {
		if _, err := s.conn.Exec(ctx, statement); err != nil {
			return nil, s.failed(ctx, err)
		}
		restored = append(restored, name)
	}
	slices.Sort(restored)
	return restored, nil
}

func (s *session) names(ctx context.Context, query string) ([]string, error) {
	rows, _ := s.conn.Query(ctx, query) // CollectRows returns its error
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	return names, nil
}
