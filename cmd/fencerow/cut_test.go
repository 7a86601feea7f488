package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/badinput"
	"github.com/fourblocks2020/fencerow/internal/memstore"
)

// wholeLine has every member.
func wholeLine(id string) string {
	return `{"correlation_id":"` + id + `","entry_kind":"fill","slot_id":"slot-1","cash_delta":"-12.50",` +
		`"currency":"EUR","payload":{"id":"` + id + `\u0000","n":[1,-0.5e+10,null]},` +
		`"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","skip":true}` + "\n"
}

// A file that was cut anywhere but between two lines is refused whole: before anything is connected to, with
// the line that was cut.
func TestAFileOfEntriesCutAtAnyByteIsRefusedWhole(t *testing.T) {
	t.Parallel()
	address, connections := trap(t)
	folder := t.TempDir()
	dsn, file := filepath.Join(folder, "dsn"), filepath.Join(folder, "entries")
	writeFile(t, dsn, "postgres://u:"+badinput.Secret+"@"+address+"/db?sslmode=disable")
	var stdout, stderr bytes.Buffer
	p := newProgram(&stdout, &stderr)
	lines := []string{wholeLine("a"), wholeLine("b"), wholeLine("c")}
	cuts, whole := 0, 0
	for text := range badinput.Cuts(strings.Join(lines, "")) {
		writeFile(t, file, text)
		p.cli = commands{}
		stdout.Reset()
		stderr.Reset()
		status := p.run(t.Context(), []string{"enqueue", "--instance-key=" + desk, "--dsn-file=" + dsn, file}, nil)
		cut := 1 + strings.Count(text, "\n")
		if last := text[strings.LastIndexByte(text, '\n')+1:]; last == "" || json.Valid([]byte(last)) {
			whole++ // nothing is missing of the lines that there are: it goes on to the database
			if status != 1 || !strings.Contains(stderr.String(), "store_unavailable") {
				t.Errorf("%d bytes: status %d, %q", len(text), status, stderr.String())
			}
			continue
		}
		cuts++
		want := fmt.Sprintf("fencerow: line %d: the line is not a JSON object\n"+
			"fencerow: 1 of %d lines are no entries; nothing was enqueued\n", cut, cut)
		if status != 1 || stderr.String() != want || stdout.String() != "0 inserted, 0 duplicate, 0 in conflict\n" {
			t.Errorf("%d bytes: status %d, %q, %q", len(text), status, stdout.String(), stderr.String())
		}
	}
	if n := connections.Load(); n > int64(whole) {
		t.Errorf("%d connections for %d files that are whole", n, whole)
	}
	t.Logf("%d cut files refused whole, each with its line, and nothing connected to; %d cut between two lines",
		cuts, whole)
}

// From a pipe, the thousand of the cut line stays unwritten, the thousands before it stay written, and what
// is said tells which is which.
func TestALineCutAtAnyByteInAPipeLeavesTheThousandsBeforeIt(t *testing.T) {
	t.Parallel()
	var before bytes.Buffer
	for i := range chunkEntries + 1 {
		before.WriteString(line(fmt.Sprintf("id-%d", i)))
	}
	store := memstore.New(memstore.Options{})
	whole := strings.TrimSuffix(wholeLine("cut"), "\n")
	cuts := 0
	for text := range badinput.Cuts(whole) {
		if len(text)%4 != 3 {
			continue // a thousand lines are read before each cut; the file above is cut at every byte
		}
		cuts++
		var stderr bytes.Buffer
		e := enqueuer{app: &app{stdout: io.Discard, stderr: &stderr}, store: store, instance: desk}
		err := e.enqueueLines(t.Context(), io.MultiReader(bytes.NewReader(before.Bytes()),
			strings.NewReader(text+"\n"+line("late"))))
		status := e.app.exitStatus(e.app.finishEnqueue(e.doc, err))
		if status != 1 || e.doc.Inserted+e.doc.Duplicate != chunkEntries || !strings.Contains(stderr.String(),
			"line 1002: the line is not a JSON object") ||
			!strings.Contains(stderr.String(), "the lines before line 1001 are enqueued") {
			t.Errorf("%q: status %d, %+v, %q", text, status, e.doc, stderr.String())
		}
	}
	for _, id := range []string{"id-1000", "cut", "late"} {
		_, err := store.Show(t.Context(), fencerow.EntryParams{
			Instance: desk, CorrelationID: fencerow.CorrelationID(id),
		})
		if err == nil {
			t.Errorf("%s was enqueued", id)
		}
	}
	t.Logf("%d cut lines in a pipe: the thousand before is enqueued, their own is not", cuts)
}

// A line with one byte changed is refused, or is the entry that a plain reading finds in it.
func TestALineWithAnyByteChangedIsReadAsItStandsOrRefused(t *testing.T) {
	t.Parallel()
	const flips = 20_000
	whole, read := strings.TrimSuffix(wholeLine("a"), "\n"), 0
	for text := range badinput.Flips(whole, 5, flips) {
		e, err := parseEntryLine([]byte(text))
		if err != nil {
			if shown := visible(err.Error()); shown != err.Error() {
				t.Errorf("%q is refused with %q", text, err)
			}
			continue
		}
		read++
		var want struct {
			CorrelationID string          `json:"correlation_id"`
			EntryKind     string          `json:"entry_kind"`
			SlotID        *string         `json:"slot_id"`
			CashDelta     *string         `json:"cash_delta"`
			Currency      *string         `json:"currency"`
			Payload       json.RawMessage `json:"payload"`
			TraceParent   *string         `json:"traceparent"`
			Skip          bool            `json:"skip"`
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil {
			t.Errorf("%q is read, though %v", text, err)
			continue
		}
		delta, err := fencerow.ParseDecimal("cash_delta", *want.CashDelta)
		if err != nil || string(e.CorrelationID) != want.CorrelationID || e.EntryKind != want.EntryKind ||
			string(e.SlotID) != *want.SlotID || !e.CashDelta.Equal(delta) || e.Currency != *want.Currency ||
			!bytes.Equal(e.Payload, want.Payload) || e.TraceParent != *want.TraceParent || e.OpenSkip != want.Skip {
			t.Errorf("%q is read as %+v", text, e)
		}
	}
	t.Logf("%d lines with one byte changed, %d of them are entries", flips, read)
}

// A payload that is given as a flag or a file and was cut is refused before anything is connected to.
func TestAPayloadCutAtAnyByteIsRefusedBeforeAnyConnection(t *testing.T) {
	t.Parallel()
	address, connections := trap(t)
	folder := t.TempDir()
	dsn, file := filepath.Join(folder, "dsn"), filepath.Join(folder, "payload")
	writeFile(t, dsn, "postgres://u:"+badinput.Secret+"@"+address+"/db?sslmode=disable")
	var stdout, stderr bytes.Buffer
	p := newProgram(&stdout, &stderr)
	cuts := 0
	for payload := range badinput.Cuts(`{"id": "\u0000\"", "n": [1, -0.5e+10, true, null], "été": {"b": {}}}`) {
		writeFile(t, file, payload)
		for flag, named := range map[string]string{
			"--payload=" + payload:   "--payload (FENCEROW_ENQUEUE_PAYLOAD) ",
			"--payload-file=" + file: "--payload-file (FENCEROW_ENQUEUE_PAYLOAD_FILE) is ",
		} {
			cuts++
			p.cli = commands{}
			stderr.Reset()
			status := p.run(t.Context(), []string{"enqueue", "--instance-key=" + desk, "--dsn-file=" + dsn,
				"--correlation-id=a", "--entry-kind=fill", flag}, nil)
			if status != 80 || !strings.Contains(stderr.String(), named) || visible(stderr.String()) !=
				strings.ReplaceAll(stderr.String(), "\n", `\n`) {
				t.Errorf("%s: status %d, %q", flag, status, stderr.String())
			}
		}
	}
	if n := connections.Load(); n != 0 || stdout.Len() > 0 {
		t.Errorf("%d connections, standard output %q", n, stdout.String())
	}
	t.Logf("%d cut payloads refused, each by the name of its flag", cuts)
}
