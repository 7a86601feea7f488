package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

// app is what a command has of its process: the streams, and how data is to be shown.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	json           bool
}

// say tells a person something; it is no data.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.stderr, "fencerow: "+visible(fmt.Sprintf(format, args...)))
}

// print writes a command's data: the document, or for people what table makes of it.
func (a *app) print(document any, forPeople func(t *table)) error {
	if a.json {
		line, err := marshalLine(document)
		if err != nil {
			return err
		}
		return a.write(line)
	}
	var out bytes.Buffer
	t := &table{tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)}
	forPeople(t)
	if err := t.w.Flush(); err != nil {
		return err
	}
	return a.write(trimLines(out.Bytes()))
}

// write writes data to standard output; data that did not arrive is a failure.
func (a *app) write(data []byte) error {
	if _, err := a.stdout.Write(data); err != nil {
		return failure("standard output cannot be written to")
	}
	return nil
}

// trimLines takes away the blanks that tabwriter leaves at the ends of lines.
func trimLines(b []byte) []byte {
	lines := bytes.Split(b, []byte("\n"))
	for i := range lines {
		lines[i] = bytes.TrimRight(lines[i], " ")
	}
	return bytes.Join(lines, []byte("\n"))
}

// table writes cells in columns.
type table struct{ w *tabwriter.Writer }

// row writes one line. A nil cell, or an empty one, is shown as a dash.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		if texts[i] = visible(fmt.Sprint(cell)); cell == nil || texts[i] == "" {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// line writes a line that is no row.
func (t *table) line(format string, args ...any) {
	fmt.Fprintln(t.w, visible(fmt.Sprintf(format, args...)))
}

// marshalLine renders a document as one line of JSON without characters that a terminal would obey.
func marshalLine(document any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		return nil, fmt.Errorf("render the document: %w", err)
	}
	return escapeControls(b.Bytes()), nil
}

// escapeControls escapes DEL and the C1 controls, which may stand in JSON as they are. They can only be
// inside strings, where the escape means the same.
func escapeControls(text []byte) []byte {
	clean := func(r rune) bool { return r != 0x7f && (r < 0x80 || r > 0x9f) }
	if bytes.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		if clean(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// openStore opens the store and checks that its schema is one that this program works with.
func openStore(ctx context.Context, database *config.Database) (*pgstore.Store, error) {
	store, err := database.Open("fencerow")
	if err != nil {
		return nil, err
	}
	if _, err := store.Ready(ctx); err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

// owned is what every command about an instance's own entries is given.
type owned struct {
	Instance config.Instance `embed:""`
	Database config.Database `embed:""`
}
