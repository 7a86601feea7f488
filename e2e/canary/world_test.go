// Package canary plants secrets in every place that holds one, drives every failure, and searches everything
// that is rendered meanwhile: what the programs write, what the daemon answers, what alerts carry, and every
// column of the database but the payload's own.
//
// What can fail is a table: each reason, error code and refusal of the code must be shown by one of its rows,
// so that a new one without a row fails. mutation_test.go takes redactions away and demands that the rows
// notice.
package canary

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const (
	patience = 60 * time.Second
	glance   = 5 * time.Millisecond
	desk     = "desk-1"
)

// programs is the directory that holds fencerow and fencerowd.
var programs string

// programsVariable names a directory with programs that were built already.
const programsVariable = "CANARY_PROGRAMS"

func TestMain(m *testing.M) { os.Exit(runWithPrograms(m)) }

func runWithPrograms(m *testing.M) int {
	if programs = os.Getenv(programsVariable); programs != "" {
		return m.Run()
	}
	directory, err := os.MkdirTemp("", "fencerow-canary-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(directory) //nolint:errcheck // a temporary directory
	programs = directory
	if out, err := goBuild("build", "-o", directory, "./cmd/fencerow", "./cmd/fencerowd"); err != nil {
		panic("build: " + out)
	}
	return m.Run()
}

// goBuild runs the go command in the module's root.
func goBuild(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until returns once is holds, and fails the test when it does not.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	again := time.NewTicker(glance)
	defer again.Stop()
	for late := time.After(patience); !is(); {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("%s did not come", what)
		}
	}
}

var schema = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn)
	return err
})

// world is a database whose password and user are secrets, and the means to run the programs on it. Its rows
// run one after the other.
type world struct {
	t        testing.TB // of the row that runs
	db       *pgtest.Database
	pool     *pgxpool.Pool
	role     pgtest.Role
	settings map[string]string
	daemons  []*process
	// mutants is the directory of mutated programs to use, and mutation what is in force; both empty as a rule.
	mutants, mutation string
	seeing            sync.Mutex      // guards rendered while a row asks from several goroutines
	rendered          strings.Builder // of the row that runs
}

// newWorld returns a world on a database with the newest schema. The programs connect as a role with the
// documented grants.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, db: pgtest.NewDatabase(t, schema)}
	w.role = w.db.NewRole(t, nil)
	w.role.Password = password.asPassword()
	quoted := strings.ReplaceAll(w.role.Password, "'", "''")
	w.db.Exec(t, fmt.Sprintf(`ALTER ROLE %q PASSWORD '%s'`, w.role.Name, quoted))
	w.db.Exec(t, fmt.Sprintf(`GRANT USAGE ON SCHEMA fencerow TO %q`, w.role.Name))
	w.db.Exec(t, fmt.Sprintf(
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fencerow TO %q`, w.role.Name))
	w.db.Exec(t, fmt.Sprintf(`GRANT USAGE ON ALL SEQUENCES IN SCHEMA fencerow TO %q`, w.role.Name))
	w.db.Exec(t, fmt.Sprintf(`GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fencerow TO %q`, w.role.Name))
	var err error
	w.pool, err = pgxpool.New(t.Context(), w.db.DSN())
	check(t, err)
	t.Cleanup(w.pool.Close)
	w.settings = map[string]string{
		"DSN": w.db.DSN(pgtest.As(w.role)), "INSTANCE_KEY": desk, "LOG_LEVEL": "debug", "LEASE": "10s",
		"DELIVERY_TIMEOUT": "2s",
	}
	return w
}

// asPassword is a password that has to be escaped wherever it is written.
func (s secret) asPassword() string { return string(s) + `%41 '"&/@:\` + string(s) }

// row begins a row of the table.
func (w *world) row(t testing.TB) {
	w.t = t
	w.rendered.Reset()
}

// see searches what was rendered somewhere, and keeps it as what this row has rendered.
func (w *world) see(where, text string, allowed ...secret) {
	w.t.Helper()
	w.seeing.Lock()
	w.rendered.WriteString(where + ":\n" + text + "\n")
	w.seeing.Unlock()
	w.search(where, text, allowed...)
}

func (w *world) search(where, text string, allowed ...secret) {
	w.t.Helper()
	for _, found := range shown(text, w.role.Name, w.db.Name) {
		if !slices.Contains(allowed, secret(found)) {
			w.t.Errorf("%s shows %s:\n%s", where, found, clip(text, found))
		}
	}
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c <= 0x9f {
			w.t.Errorf("%s holds the control character %U:\n%q", where, c, clip(text, string(c)))
			return
		}
	}
}

// clip is the neighbourhood of a find.
func clip(text, found string) string {
	at := max(strings.Index(strings.ToLower(text), strings.ToLower(found)), 0)
	return text[max(at-200, 0):min(at+300, len(text))]
}

func environment(t testing.TB, all map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	for _, name := range []string{mutationVariable, "GOCOVERDIR"} {
		env = append(env, name+"="+os.Getenv(name))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != "" {
			env = append(env, "FENCEROW_"+name+"="+all[name])
		}
	}
	return env
}

// command is a program in this world.
func (w *world) command(
	ctx context.Context, program string, settings map[string]string, args ...string,
) *exec.Cmd {
	w.t.Helper()
	directory := programs
	if w.mutants != "" {
		directory = w.mutants
	}
	cmd := exec.CommandContext(ctx, filepath.Join(directory, program), args...)
	cmd.Env = environment(w.t, w.with(settings))
	if w.mutation != "" {
		cmd.Env = append(cmd.Env, mutationVariable+"="+w.mutation)
	}
	return cmd
}

// with returns the world's settings and those given; an empty one takes the world's away.
func (w *world) with(settings map[string]string) map[string]string {
	all := maps.Clone(w.settings)
	maps.Copy(all, settings)
	return all
}

// run runs fencerow and searches what it writes. It returns the exit status.
func (w *world) run(settings map[string]string, args ...string) int {
	w.t.Helper()
	status, _ := w.runWith("fencerow", settings, nil, nil, args...)
	return status
}

// runWith is run of a program with standard input, and with secrets that it is asked to show.
func (w *world) runWith(
	program string, settings map[string]string, stdin io.Reader, allowed []secret, args ...string,
) (status int, stdout string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := w.command(ctx, program, settings, args...)
	cmd.Stdin = stdin
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		w.t.Fatalf("%s: %v", program, err)
	}
	name := program + " " + strings.Join(args, " ")
	w.see("standard output of "+name, out.String(), allowed...)
	w.see("standard error of "+name, errs.String())
	status = cmd.ProcessState.ExitCode()
	if status < 0 || strings.Contains(errs.String(), "goroutine ") {
		w.t.Errorf("%s: status %d\n%s", name, status, errs.String())
	}
	return status, out.String()
}

// tables searches every column of the database but the payload's own.
func (w *world) tables() {
	w.t.Helper()
	rows, err := w.pool.Query(context.Background(), `
SELECT table_name::text
FROM information_schema.tables
WHERE table_schema = 'fencerow'
    AND table_type = 'BASE TABLE'
ORDER BY table_name`)
	check(w.t, err)
	var names []string
	for rows.Next() {
		var name string
		check(w.t, rows.Scan(&name))
		names = append(names, name)
	}
	check(w.t, rows.Err())
	if len(names) < 8 {
		w.t.Fatalf("only %d tables: %v", len(names), names)
	}
	for _, name := range names {
		var text string
		check(w.t, w.pool.QueryRow(context.Background(), `
SELECT coalesce(string_agg((to_jsonb(r) - 'payload')::text, E'\n'), '')
FROM fencerow.`+name+` r`).Scan(&text))
		w.search("the table "+name, text, reference)
	}
}

// enqueue enqueues an entry whose payload holds secrets, in a slot and with an open skip.
func (w *world) enqueue(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		_, err := w.pool.Exec(context.Background(), `
SELECT fencerow.enqueue(
    $1, $2, 'fill', $3::json, slot_id => 'slot-1', cash_delta => 1, currency => 'EUR', skip => true
)`,
			w.settings["INSTANCE_KEY"], id, fmt.Sprintf(`{"account":%q,"memo":%q}`, account, payload))
		check(w.t, err)
	}
}

// as runs what is to be done for another instance.
func (w *world) as(instance string, do func()) {
	defer func(before string) { w.settings["INSTANCE_KEY"] = before }(w.settings["INSTANCE_KEY"])
	w.settings["INSTANCE_KEY"] = instance
	do()
}

// process is a running fencerowd, all of whose output is searched.
type process struct {
	w      *world
	name   string
	cmd    *exec.Cmd
	ended  chan struct{}
	mu     sync.Mutex
	unseen bytes.Buffer
	all    bytes.Buffer
}

// start starts a daemon with settings of its own.
func (w *world) start(settings map[string]string) *process {
	w.t.Helper()
	d := &process{w: w, ended: make(chan struct{}), name: "the daemon's output"}
	d.cmd = w.command(context.Background(), "fencerowd", settings)
	read, write, err := os.Pipe()
	check(w.t, err)
	d.cmd.Stdout, d.cmd.Stderr = write, write
	check(w.t, d.cmd.Start())
	check(w.t, write.Close())
	go func() {
		defer close(d.ended)
		defer read.Close()
		lines := bufio.NewReader(read)
		for {
			line, err := lines.ReadBytes('\n')
			d.mu.Lock()
			d.unseen.Write(line)
			d.all.Write(line)
			d.mu.Unlock()
			if err != nil {
				break
			}
		}
		_ = d.cmd.Wait() // the status is read from its state
	}()
	w.daemons = append(w.daemons, d)
	return d
}

// text is all that it has written so far.
func (d *process) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all.String()
}

// await waits until it has written a text.
func (d *process) await(text string) {
	d.w.t.Helper()
	until(d.w.t, "in a daemon's log: "+text, func() bool { return strings.Contains(d.text(), text) })
}

var opsAddress = "127.0.0.1:"

// opsURL is the address of its ops listener.
func (d *process) opsURL() string {
	d.w.t.Helper()
	d.await("started")
	_, rest, _ := strings.Cut(d.text(), opsAddress)
	port := rest[:strings.IndexAny(rest+" ", " \"\n")]
	return "http://" + opsAddress + port
}

// look searches what it has written since the last look.
func (d *process) look() {
	d.w.t.Helper()
	d.mu.Lock()
	text := d.unseen.String()
	d.unseen.Reset()
	d.mu.Unlock()
	d.w.see(d.name, text)
}

// stop ends it in order and searches what it has written.
func (d *process) stop() {
	d.w.t.Helper()
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	late := time.AfterFunc(patience, func() { _ = d.cmd.Process.Kill() })
	<-d.ended
	late.Stop()
	d.look()
}

// sweep searches the database, what the daemons have written, and what they answer.
func (w *world) sweep() {
	w.t.Helper()
	if w.pool != nil {
		w.tables()
	}
	for _, d := range w.daemons {
		d.look()
		select {
		case <-d.ended:
			continue
		default:
		}
		for _, path := range []string{"/healthz", "/readyz", "/v1/slots?spy=true", "/v1/slots", "/nothing"} {
			w.ask(http.MethodGet, d.opsURL()+path, nil)
		}
	}
}

// ask searches an answer of a daemon, headers included.
func (w *world) ask(method, address string, header http.Header) {
	w.t.Helper()
	request, err := http.NewRequest(method, address, nil)
	check(w.t, err)
	request.Header = header
	request.Host = header.Get("Host")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return // a daemon that stops meanwhile
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(w.t, err)
	var headers strings.Builder
	check(w.t, response.Header.Write(&headers))
	w.see("the answer to "+address, strings.ReplaceAll(headers.String(), "\r", "")+string(body))
}

func (w *world) end() {
	for _, d := range w.daemons {
		d.stop()
	}
}
