package observe

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a reader of a log that takes nothing before it is opened.
type gate struct {
	open chan struct{}
	took bytes.Buffer
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.took.Write(p)
}

// longRecord is a record of which a quarter of the queue's bound holds 64.
var longRecord = []byte(strings.Repeat("x", maxQueued/256-1) + "\n")

func TestAQueueKeepsTheOrderOfItsRecords(t *testing.T) {
	var took, want bytes.Buffer
	q := NewQueue(&took, func(int64) { t.Error("it reports drops") })
	for i := range 10_000 {
		record := fmt.Appendf(nil, "record %d\n", i)
		want.Write(record)
		if n, err := q.Write(record); n != len(record) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if !q.Close(time.Minute) {
		t.Fatal("it does not end")
	}
	if took.String() != want.String() {
		t.Error("the records are not those written, in their order")
	}
}

func TestAQueueWhoseReaderDoesNotReadDropsWhatFindsNoRoomAndReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var q *Queue
		q = NewQueue(g, func(dropped int64) { fmt.Fprintf(q, "dropped %d\n", dropped) })
		fmt.Fprintln(q, "first")
		synctest.Wait() // it is being written
		for range 256 + 3 {
			_, _ = q.Write(longRecord) // it never fails
		}
		close(g.open)
		synctest.Wait()
		fmt.Fprintln(q, "last")
		if !q.Close(time.Second) {
			t.Fatal("it does not end")
		}
		want := "first\n" + strings.Repeat(string(longRecord), 256) + "dropped 3\nlast\n"
		if got := g.took.String(); got != want {
			t.Errorf("got %d bytes that end with %q, want %d", len(got), got[max(0, len(got)-30):], len(want))
		}
	})
}

func TestClosingAQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := NewQueue(g, nil)
		fmt.Fprintln(q, "first")
		began := time.Now()
		if q.Close(time.Second) {
			t.Error("it says that all was written")
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		fmt.Fprintln(q, "late")
		close(g.open)
		synctest.Wait()
		if got := g.took.String(); got != "first\n" {
			t.Errorf("got %q", got)
		}
	})
}
