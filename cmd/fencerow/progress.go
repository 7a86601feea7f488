package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	barWidth     = 30
	redrawPause  = 100 * time.Millisecond
	clearTheLine = "\r\x1b[K"
)

// progress shows on a terminal how far long work is, in one line that is drawn again and again. Elsewhere it
// shows nothing. It is also the writer for what else goes to that terminal meanwhile. Safe for concurrent
// use.
type progress struct {
	w     io.Writer
	shown bool // w is a terminal

	mu    sync.Mutex
	line  string
	drawn time.Time
}

func newProgress(w io.Writer) *progress {
	file, ok := w.(*os.File)
	if !ok {
		return &progress{w: w}
	}
	info, err := file.Stat()
	return &progress{w: w, shown: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// update draws done of total, or done alone if the total is not known.
func (p *progress) update(done, total int64, unit string) {
	if !p.shown {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = fmt.Sprintf("%d %s", done, unit)
	if total > 0 {
		part := min(float64(done)/float64(total), 1)
		filled := int(part * barWidth)
		bar := strings.Repeat("=", filled) + strings.Repeat(" ", barWidth-filled)
		p.line = fmt.Sprintf("[%s] %3.0f%%  %s", bar, part*100, p.line)
	}
	if time.Since(p.drawn) >= redrawPause {
		p.drawn = time.Now()
		fmt.Fprint(p.w, clearTheLine+p.line)
	}
}

// Write writes above the line.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != "" {
		fmt.Fprint(p.w, clearTheLine)
		p.drawn = time.Time{}
	}
	return p.w.Write(b)
}

// end takes the line away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != "" {
		fmt.Fprint(p.w, clearTheLine)
		p.line = ""
	}
}
