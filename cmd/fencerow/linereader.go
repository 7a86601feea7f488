package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/config"
)

const (
	// maxLine bounds a line, in bytes: a payload at its limit fits, with room for the rest.
	maxLine = 2 * fencerow.MaxPayload
	// maxReported is how many bad lines of a file are named.
	maxReported = 10
)

// lineReader reads entries from JSON lines. Memory use is bounded by maxLine.
type lineReader struct {
	in     *bufio.Reader
	number int   // of the line last read, from 1
	bytes  int64 // read so far
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, maxLine)}
}

// errBadLine marks a line that is no entry. The lines after it can be read.
var errBadLine = errors.New("bad line")

// next returns the entry of the next line that is not empty, or io.EOF. Another error is a [*statusError]
// that names the line, and final unless it is an errBadLine.
func (r *lineReader) next() (fencerow.NewEntry, error) {
	for {
		line, err := r.in.ReadSlice('\n')
		r.bytes += int64(len(line))
		r.number++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fencerow.NewEntry{}, failure("%sis longer than %d bytes", lineName(r.number), maxLine)
		case errors.Is(err, context.Canceled):
			return fencerow.NewEntry{}, err
		case err != nil && !errors.Is(err, io.EOF):
			return fencerow.NewEntry{}, failure("%scannot be read", lineName(r.number))
		}
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) > 0 {
			entry, err := parseEntryLine(trimmed)
			if err != nil {
				err = &statusError{config.ExitFailure, lineName(r.number) + err.Error(), errBadLine}
			}
			return entry, err
		}
		if err != nil {
			return fencerow.NewEntry{}, io.EOF
		}
	}
}

// openLines opens a file of lines, or standard input for "-". A regular file is checked whole first, so that
// a bad line refuses it before anything is written; its size is returned for those who wait. closeInput is
// never nil.
func (a *app) openLines(
	ctx context.Context, path string,
) (in io.Reader, size int64, closeInput func(), err error) {
	closeInput = func() {}
	in = a.stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, 0, closeInput, usage("<file>", "%s", unopened(err))
		}
		in, closeInput = file, func() { _ = file.Close() } // only read
		if info, err := file.Stat(); err != nil || info.IsDir() {
			closeInput()
			return nil, 0, func() {}, usage("<file>", "is a folder; give a file, or - for standard input")
		}
	}
	file, size := regularFile(in)
	if file == nil {
		return stoppable(ctx, in), 0, closeInput, nil
	}
	start, err := file.Seek(0, io.SeekCurrent)
	if err == nil {
		err = a.checkLines(file)
	}
	if err == nil {
		_, err = file.Seek(start, io.SeekStart)
	}
	if err != nil {
		closeInput()
		return nil, 0, func() {}, err
	}
	return in, size - start, closeInput, nil
}

// stoppable returns an input whose reads end with ctx: a terminal or a pipe may never give anything.
func stoppable(ctx context.Context, in io.Reader) io.Reader {
	read, write := io.Pipe()
	context.AfterFunc(ctx, func() { _ = write.CloseWithError(ctx.Err()) }) // always nil
	go func() {
		_, err := io.Copy(write, in)
		_ = write.CloseWithError(err) // always nil
	}()
	return read
}

// unopened says why a file cannot be opened, without its name: it may be a secret pasted into the wrong
// place.
func unopened(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "may not be read by this user"
	}
	return "cannot be opened"
}

// regularFile returns the file that in is and its size, or nil if it is something that can be read only once.
func regularFile(in io.Reader) (*os.File, int64) {
	file, ok := in.(*os.File)
	if !ok {
		return nil, 0
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0
	}
	return file, info.Size()
}

// checkLines reads all lines and names the bad ones.
func (a *app) checkLines(in io.Reader) error {
	lines := newLineReader(in)
	bad := 0
	for {
		_, err := lines.next()
		switch {
		case errors.Is(err, errBadLine):
			if bad++; bad <= maxReported {
				a.say("%v", err)
			}
		case errors.Is(err, io.EOF) && bad > 0:
			return failure("%d of %d lines are no entries; nothing was enqueued", bad, lines.number-1)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
