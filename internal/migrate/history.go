package migrate

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Lines that tern reads. Anything that only resembles them would be a comment, and the migration another one.
const (
	separatorLine = "---- create above / drop below ----"
	noTxLine      = "---- tern: disable-tx ----"
	// noWayBack begins the line, below the separator's place, in which a migration without a down part states
	// its reason.
	noWayBack = "-- No way back: "
	// oldestProgram begins the line, above the separator, in which a migration states the oldest program that
	// can work with the schema it leads to. The schema says the same by fencerow.oldest_program().
	oldestProgram = "-- Oldest program: "
	// oldestCame is the migration from which on each states it.
	oldestCame = 6
)

var (
	fileName  = regexp.MustCompile(`^(\d{3})_[a-z][a-z0-9_]*\.sql$`)
	magicLike = regexp.MustCompile(`(?i)tern\s*:|create\s+above|drop\s+below`)
	noTxSQL   = regexp.MustCompile(`(?im)^[^-\n]*\bCONCURRENTLY\b`)
)

// listSteps returns the migrations in order.
func listSteps(files fs.FS) ([]Step, error) {
	names, err := fs.Glob(files, "[0-9]*.sql")
	if err != nil || len(names) == 0 {
		return nil, invalidHistory("there are no migrations")
	}
	slices.Sort(names)
	steps := make([]Step, len(names))
	for i, name := range names {
		number, _ := strconv.Atoi(name[:strings.IndexFunc(name, notDigit)]) // its glob begins with a digit
		if number != i+1 {
			return nil, invalidHistory(fmt.Sprintf("%s stands where number %03d is expected", name, i+1))
		}
		steps[i] = Step{Number: number, Name: strings.TrimSuffix(name, path.Ext(name))}
	}
	return steps, nil
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// checkHistory returns what is wrong with the files, and where they differ from the list of hashes.
func checkHistory(files fs.FS, hashes string) []string {
	steps, err := listSteps(files)
	if err != nil {
		return []string{err.Error()}
	}
	listed, problems := parseHashes(hashes)
	oldest := 0
	for _, step := range steps {
		file := step.Name + ".sql"
		body, err := fs.ReadFile(files, file)
		if err != nil {
			problems = append(problems, file+" cannot be read")
			continue
		}
		for _, problem := range checkMigration(file, string(body)) {
			problems = append(problems, file+" "+problem)
		}
		if step.Number >= oldestCame {
			was := oldest
			if oldest = statedOldest(string(body)); oldest < max(was, 1) || oldest > step.Number {
				problems = append(problems,
					file+" does not state its oldest program, from that of the migration before up to its own number")
			}
		}
		switch hash, ok := listed[file]; {
		case !ok:
			problems = append(problems, file+" is not in the list of hashes")
		case hash != hashOf(body):
			problems = append(problems, file+" was edited after its hash was listed")
		}
		delete(listed, file)
	}
	for file := range listed {
		problems = append(problems, file+" is in the list of hashes, but is gone")
	}
	slices.Sort(problems)
	return problems
}

// checkMigration returns what is wrong with one file.
func checkMigration(file, body string) (problems []string) {
	if !fileName.MatchString(file) {
		problems = append(problems, "is not named NNN_verb_noun.sql")
	}
	if strings.Contains(body, "{{") {
		problems = append(problems, "holds {{, which tern would run as a template")
	}
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if magicLike.MatchString(line) && line != separatorLine && line != noTxLine {
			problems = append(problems, "has a line that resembles one of tern's")
		}
	}
	parts := strings.Split(body, separatorLine)
	switch {
	case len(parts) > 2:
		problems = append(problems, "has more than one down part")
	case len(parts) == 1 && !slices.ContainsFunc(strings.Split(body, "\n"), statesReason):
		problems = append(problems, "has neither a down part nor a stated reason for having none")
	}
	for i, part := range parts {
		problems = append(problems, checkPart([]string{"up", "down"}[min(i, 1)], part)...)
	}
	return problems
}

func statesReason(line string) bool {
	reason, found := strings.CutPrefix(line, noWayBack)
	return found && strings.TrimSpace(reason) != ""
}

// statedOldest returns the oldest program that a migration states, and 0 if it does not do so just once.
func statedOldest(body string) (oldest int) {
	up, _, _ := strings.Cut(body, separatorLine)
	for line := range strings.Lines(up) {
		stated, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), oldestProgram)
		if !found {
			continue
		}
		number, err := strconv.Atoi(stated)
		if err != nil || oldest != 0 {
			return 0
		}
		oldest = number
	}
	return oldest
}

// checkPart returns what is wrong with the up or the down part of a file. tern looks for the line that turns
// its transaction off in each part by itself.
func checkPart(name, part string) (problems []string) {
	noTx := slices.Contains(strings.Split(part, "\n"), noTxLine)
	lockTimeout := "\nSET LOCAL lock_timeout = '"
	if noTx {
		lockTimeout = "\nSET lock_timeout = '" // SET LOCAL does nothing outside a transaction
	}
	if !strings.Contains("\n"+part, lockTimeout) {
		problems = append(problems, "sets no lock_timeout in its "+name+" part")
	}
	if noTxSQL.MatchString(part) != noTx {
		problems = append(problems,
			"must turn tern's transaction off in its "+name+" part if, and only if, it says CONCURRENTLY")
	}
	return problems
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// parseHashes reads lines as sha256sum prints them.
func parseHashes(list string) (hashes map[string]string, problems []string) {
	hashes = make(map[string]string)
	lines := bufio.NewScanner(strings.NewReader(list))
	for lines.Scan() {
		hash, file, found := strings.Cut(lines.Text(), "  ")
		if _, twice := hashes[file]; !found || twice {
			problems = append(problems, "the list of hashes has a line that is malformed or repeated")
			continue
		}
		hashes[file] = hash
	}
	return hashes, problems
}

// formatHashes returns the list for files as they are.
func formatHashes(files fs.FS) (string, error) {
	steps, err := listSteps(files)
	if err != nil {
		return "", err
	}
	var list strings.Builder
	for _, step := range steps {
		body, err := fs.ReadFile(files, step.Name+".sql")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&list, "%s  %s.sql\n", hashOf(body), step.Name)
	}
	return list.String(), nil
}
