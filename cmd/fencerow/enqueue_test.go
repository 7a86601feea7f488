package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func stored(t testing.TB, db *pgtest.Database) map[string]string {
	t.Helper()
	conn := db.Connect(t)
	rows, err := conn.Query(t.Context(), "SELECT correlation_id, payload::text FROM fencerow.ledger_outbox")
	if err != nil {
		t.Fatal(err)
	}
	payloads := map[string]string{}
	var id, payload string
	_, err = pgx.ForEachRow(rows, []any{&id, &payload}, func() error { payloads[id] = payload; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return payloads
}

func TestEnqueueOneFromFlags(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	args := []string{"enqueue", "--correlation-id", "a", "--entry-kind", "fee", "--slot-id", "slot-1",
		"--cash-delta=-0.10", "--currency", "EUR", "--payload", `{"a": 1,  "a":2}`, "--skip",
		"--traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	if doc := document[enqueueDoc](t, c, 0, args...); doc != (enqueueDoc{Inserted: 1}) {
		t.Errorf("first: %+v", doc)
	}
	if doc := document[enqueueDoc](t, c, 0, args...); doc != (enqueueDoc{Duplicate: 1}) {
		t.Errorf("again: %+v", doc)
	}
	args[4] = "fill"
	if doc := document[enqueueDoc](t, c, 1, args...); doc != (enqueueDoc{Conflict: 1}) {
		t.Errorf("changed: %+v", doc)
	}
	mustContain(t, c.want(t, 1, args...).stderr, "correlation_id a is already enqueued with other content")
	if payload := stored(t, db)["a"]; payload != `{"a": 1,  "a":2}` {
		t.Errorf("stored %s", payload)
	}
	shown := document[showDoc](t, c, 0, "show", "a")
	if shown.CashDelta != "-0.1" || shown.EntryKind != "fee" || shown.Skip == nil || shown.TraceParent == nil {
		t.Errorf("%+v", shown)
	}
}

// A pipe whose other end stays silent does not keep the command from ending.
func TestEnqueueThatWaitsForInputCanBeInterrupted(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	for name, args := range map[string][]string{
		"Lines":   {"enqueue", "-"},
		"Payload": {"enqueue", "--correlation-id", "a", "--entry-kind", "fill", "--payload-file", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer write.Close()
			c := at(db.DSN(), desk)
			c.pipe = read
			cmd, stdout, stderr := c.start(t, args...)
			if err := read.Close(); err != nil {
				t.Fatal(err)
			}
			// More than a pipe holds: once it is written, the command reads.
			if _, err := write.WriteString(strings.Repeat("\n", 200_000)); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), stderr)
			}
			mustContain(t, stderr.String(), "interrupted")
			if name == "Lines" {
				mustContain(t, stdout.String(), "0 inserted")
			}
		})
	}
	if left := stored(t, db); len(left) > 0 {
		t.Errorf("stored %v", left)
	}
}

// The document is promised also when an error ends the command; wrong usage is refused before there is one.
func TestEnqueuePrintsItsDocumentAlsoWhenAnErrorEndsIt(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte(line("a")+"no entry\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if doc := document[enqueueDoc](t, c, 1, "enqueue", file); doc != (enqueueDoc{}) {
		t.Errorf("%+v", doc)
	}
	nowhere := at("postgres://u:p@127.0.0.1:1/db", desk)
	if doc := document[enqueueDoc](t, nowhere.reading(line("a")), 1, "enqueue", "-"); doc != (enqueueDoc{}) {
		t.Errorf("%+v", doc)
	}
	for _, w := range []struct{ arg, says string }{
		{"/nonexistent/file", "<file> does not exist"},
		{"--payload-file=/nonexistent/file", "--payload-file (FENCEROW_ENQUEUE_PAYLOAD_FILE) does not exist"},
	} {
		args := []string{"--json", "enqueue", w.arg}
		if strings.HasPrefix(w.arg, "--") {
			args = append(args, "--correlation-id=a", "--entry-kind=fill")
		}
		r := c.want(t, 80, args...)
		mustContain(t, r.stderr, w.says)
		if r.stdout != "" {
			t.Errorf("%s: %q", w.arg, r.stdout)
		}
	}
}

func TestEnqueueReadsThePayloadFromAFile(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	file := filepath.Join(t.TempDir(), "payload.json")
	payload := "{\n  \"text\": \"\\u0000 é 🙂\"\n}"
	if err := os.WriteFile(file, []byte(payload+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := at(db.DSN(), desk).with("FENCEROW_ENQUEUE_ENTRY_KIND=fill")
	c.want(t, 0, "enqueue", "--correlation-id", "file", "--payload-file", file)
	c.reading(payload+"\n").want(t, 0, "enqueue", "--correlation-id", "stdin", "--payload-file", "-")
	if got := stored(t, db); got["file"] != payload || got["stdin"] != payload {
		t.Errorf("stored %q", got)
	}
	large := `{"a":"` + strings.Repeat("x", fencerow.MaxPayload) + `"}`
	r := c.reading(large).want(t, 80, "enqueue", "--correlation-id", "large", "--payload-file", "-")
	mustContain(t, r.stderr, "--payload-file (FENCEROW_ENQUEUE_PAYLOAD_FILE) is larger than 262144 bytes")
}

func TestEnqueueKeepsPayloadsByteForByte(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	payloads := map[string]string{
		"reordered":  `{"b":1,"a":2}`,
		"duplicates": `{"a":1,"a":2,"payload":3}`,
		"numbers":    `{"n":123456789012345678901234567890.1000,"e":1E400}`,
		"spaces":     `{  "a" :	1 }`,
		"text":       `{"a":"\u0000\"\\ é 🙂 ` + "\u2028\u009b" + `"}`,
		"limit":      `{"a":"` + strings.Repeat("x", fencerow.MaxPayload-8) + `"}`,
	}
	var lines strings.Builder
	for id, payload := range payloads {
		fmt.Fprintf(&lines, `{"payload":%s,"correlation_id":%q,"entry_kind":"fill"}`+"\r\n\n", payload, id)
	}
	doc := document[enqueueDoc](t, at(db.DSN(), desk).reading(lines.String()), 0, "enqueue", "-")
	if doc != (enqueueDoc{Inserted: len(payloads)}) {
		t.Errorf("%+v", doc)
	}
	for id, payload := range stored(t, db) {
		if payload != payloads[id] {
			t.Errorf("%s was stored as %.200q", id, payload)
		}
	}
}

func TestEnqueueManyNamesConflictsAndGoesOn(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	lines := line("a") + line("b") + strings.Replace(line("a"), "fill", "fee", 1) + line("a") + line("c")
	r := c.reading(lines).want(t, 1, "--json", "enqueue", "-")
	if want := `{"inserted":3,"duplicate":1,"conflict":1}` + "\n"; r.stdout != want {
		t.Errorf("%s, want %s", r.stdout, want)
	}
	mustContain(t, r.stderr, "line 3: correlation_id a is already enqueued with other content")
	if n := len(stored(t, db)); n != 3 {
		t.Errorf("%d entries", n)
	}
}

func TestBadLineIsNamedAndAFileIsThenRefusedWhole(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	const begun = `{"correlation_id":"a","entry_kind":"fill",`
	for name, bad := range map[string]struct{ line, says string }{
		"NotJSON":        {`{"correlation_id":`, "the line is not a JSON object"},
		"Array":          {`[]`, "the line is not a JSON object"},
		"Two":            {`{} {}`, "the line is not a JSON object"},
		"UnknownMember":  {`{"correlation_id":"a","instance_key":"desk-2"}`, "has a member that is none of"},
		"OtherCase":      {`{"Correlation_ID":"a"}`, "has a member that is none of"},
		"Twice":          {`{"entry_kind":"fill","entry_kind":"fee"}`, "entry_kind is given twice"},
		"NumberAsText":   {`{"cash_delta":-12.5}`, "cash_delta must be a string"},
		"Exponent":       {`{"cash_delta":"1e3"}`, "cash_delta is not a plain decimal number"},
		"NoPayload":      {begun + `"slot_id":null}`, "payload is missing"},
		"NullPayload":    {begun + `"payload":null}`, "payload is not a JSON object"},
		"NoID":           {`{"entry_kind":"fill","payload":{}}`, "correlation_id is missing"},
		"EscapedControl": {`{"correlation_id":"a\u001b[31m"}`, "correlation_id holds"},
		"InvalidUTF8":    {begun + "\"payload\":{\"a\":\"\xff\"}}", "payload is not valid UTF-8"},
		"Skip":           {`{"skip":1}`, "skip must be true or false"},
		"TooLong":        {begun + strings.Repeat(" ", maxLine) + "}", "is longer than 524288 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := line("good-"+name) + "\n" + bad.line + "\n" + line("late-"+name)
			r := c.reading(lines).want(t, 1, "enqueue", "-")
			mustContain(t, r.stderr, "line 3: ", bad.says, "nothing was enqueued")
			file := filepath.Join(t.TempDir(), "entries.ndjson")
			if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
				t.Fatal(err)
			}
			r = c.want(t, 1, "enqueue", file)
			mustContain(t, r.stderr, "line 3: ", bad.says)
			if strings.Contains(r.stderr, "\x1b") || strings.Contains(r.stderr, "desk-2") {
				t.Errorf("the line's content is shown: %q", r.stderr)
			}
			if got := stored(t, db); got["good-"+name] != "" || got["late-"+name] != "" {
				t.Error("something was written")
			}
		})
	}
}

func TestEveryBadLineOfAFileIsNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "entries.ndjson")
	if err := os.WriteFile(file, []byte(line("a")+"{}\n"+line("b")+"[]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// No database is needed to say so.
	r := at("postgres://127.0.0.1:1/none", desk).want(t, 1, "enqueue", file)
	mustContain(t, r.stderr, "line 2: ", "line 4: ", "2 of 4 lines are no entries; nothing was enqueued")
}

func TestEnqueueOfThousandsIsChunkedAndCanBeRunAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	const all = 2*chunkEntries + 500
	var lines strings.Builder
	for i := range all {
		lines.WriteString(line(fmt.Sprintf("id-%d", i)))
	}
	c := at(db.DSN(), desk)
	// From a pipe, a bad line in the third chunk leaves the first two.
	r := c.reading(lines.String()+"{}\n").want(t, 1, "--json", "enqueue", "-")
	mustContain(t, r.stderr, "line 2501: correlation_id is missing", "the lines before line 2001 are enqueued")
	if want := `{"inserted":2000,"duplicate":0}` + "\n"; r.stdout != want {
		t.Errorf("%s, want %s", r.stdout, want)
	}
	file := filepath.Join(t.TempDir(), "entries.ndjson")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	doc := document[enqueueDoc](t, c, 0, "enqueue", file)
	if doc != (enqueueDoc{Inserted: 500, Duplicate: 2 * chunkEntries}) {
		t.Errorf("%+v", doc)
	}
	if n := len(stored(t, db)); n != all {
		t.Errorf("%d entries", n)
	}
}

// An empty text is most likely a variable of a script that was not set: nothing is booked by mistake.
func TestEnqueueTakesNoEmptyTextForAnAbsentOne(t *testing.T) {
	t.Parallel()
	address, connections := trap(t)
	c := at("postgres://u:p@"+address+"/db?sslmode=disable", desk)
	good := []string{"enqueue", "--correlation-id=a", "--entry-kind=fee", "--payload={}"}
	for flag, says := range map[string]string{
		"--cash-delta": "--cash-delta (FENCEROW_ENQUEUE_CASH_DELTA) is not a plain decimal number",
		"--slot-id":    "--slot-id (FENCEROW_ENQUEUE_SLOT_ID) must not be empty; leave it out",
		"--currency":   "must not be empty; leave it out", "--traceparent": "must not be empty; leave it out",
		"--payload": "must not be empty; leave it out", "--payload-file": "must not be empty; leave it out",
		"--correlation-id": "must not be empty", "--entry-kind": "must not be empty",
	} {
		mustContain(t, c.want(t, 80, append(good[:4:4], flag+"=")...).stderr, says)
		variable := "FENCEROW_ENQUEUE_" + strings.ToUpper(strings.ReplaceAll(flag[2:], "-", "_"))
		if flag != "--payload" && flag != "--correlation-id" && flag != "--entry-kind" { // The flag given wins.
			mustContain(t, c.with(variable+"=").want(t, 80, good...).stderr, says)
		}
		c.with(variable+"=").want(t, 80, "enqueue", "-")
	}
	for _, member := range []string{"cash_delta", "slot_id", "currency", "traceparent"} {
		rest := `,"entry_kind":"fill","payload":{},"correlation_id":"a"}`
		if _, err := parseEntryLine([]byte(`{"` + member + `":""` + rest)); err == nil ||
			!strings.Contains(err.Error(), member+" must not be empty") {
			t.Errorf("an empty %s: %v", member, err)
		}
		if _, err := parseEntryLine([]byte(`{"` + member + `":null` + rest)); err != nil {
			t.Errorf("a null %s: %v", member, err)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were opened", n)
	}
}

func TestEnqueueNeedsTheGrantsOfAProducerOnly(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	role := db.NewRole(t, nil)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "interfaces.md"))
	check(t, err)
	grants := regexp.MustCompile(`(?m)^GRANT .* TO producer;$`).FindAllString(string(page), -1)
	if len(grants) < 4 {
		t.Fatalf("the grants are gone from the page: %q", grants)
	}
	for _, grant := range grants {
		db.Exec(t, strings.Replace(grant, "TO producer", `TO "`+role.Name+`"`, 1))
	}
	c := at(db.DSN(pgtest.As(role)), desk)
	args := []string{
		"enqueue", "--correlation-id=a", "--entry-kind=fee", "--payload={}", "--slot-id=s", "--skip",
	}
	if doc := document[enqueueDoc](t, c, 0, args...); doc != (enqueueDoc{Inserted: 1}) {
		t.Errorf("one: %+v", doc)
	}
	if doc := document[enqueueDoc](t, c.reading(line("a2")+line("b")), 0, "enqueue", "-"); doc.Inserted != 2 {
		t.Errorf("lines: %+v", doc)
	}
	none := at(pgtest.NewDatabase(t, nil).DSN(), desk)
	mustContain(t, none.want(t, 1, args...).stderr, "store_schema_mismatch", "migrate up")
}
