package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"

	"github.com/shopspring/decimal"
	"golang.org/x/sync/errgroup"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// runHTTP is workload b: the same drain through the HTTP adapter to the stub ledger, in a process of its own,
// beside a loop that posts the same bodies.
func runHTTP(ctx context.Context, b *bench) error {
	contestants := []string{"fencerow", "fencerow/default=true", "bare"}
	return b.rounds("b", contestants, func(i, round int) error {
		stub, err := startStub(ctx)
		if err != nil {
			return err
		}
		s := sample{Workload: "b", System: contestants[i], Round: round, Entries: b.n}
		if s.System == "bare" {
			s.Setting = fmt.Sprintf("net/http alone, %d requests at once, no database", writer.DefaultConcurrency)
			s.cost, err = b.postBare(ctx, stub.url)
		} else {
			q := atLargeBatches()
			if s.System != "fencerow" {
				q = asComes()
			}
			s.Setting = q.setting()
			s.cost, err = b.drainHTTP(ctx, q, stub.url)
		}
		if err == nil {
			err = stub.check(ctx, b.n)
		}
		if err := errors.Join(err, stub.stop()); err != nil {
			return fmt.Errorf("%s: %w", s.System, err)
		}
		b.add(s)
		return nil
	})
}

func (b *bench) drainHTTP(ctx context.Context, q *fencerowQueue, url string) (cost, error) {
	s, err := q.settings()
	if err != nil {
		return cost{}, err
	}
	client, err := ledger.New(ledger.Config{
		URL: url + ledgerstub.EntriesPath, Concurrency: s.Writer.Deliveries(),
	})
	if err != nil {
		return cost{}, err
	}
	defer client.Close()
	q.ledger = client
	return b.drain(ctx, q, b.n)
}

// entry is entry i as the SQL of the fill makes it.
func entry(i int) fencerow.NewEntry {
	return fencerow.NewEntry{
		CorrelationID: fencerow.CorrelationID("entry-" + strconv.Itoa(i)), EntryKind: "fill",
		SlotID: fencerow.SlotID("slot-" + strconv.Itoa(i%100)), Currency: "EUR",
		CashDelta: decimal.New(int64(i%1000), -2), Payload: payload(i),
	}
}

// document is the body that is posted for entry i.
func document(i int) []byte {
	e := entry(i)
	full := fencerow.Entry{
		Instance: instance, CorrelationID: e.CorrelationID, EntryKind: e.EntryKind, SlotID: e.SlotID,
		Currency: e.Currency, CashDelta: e.CashDelta, Payload: e.Payload,
	}
	return full.AppendDocument(nil)
}

// postBare posts the documents in a loop on each of as many goroutines as the writer delivers at once.
func (b *bench) postBare(ctx context.Context, url string) (c cost, err error) {
	db, err := b.server.createDatabase(ctx) // what the meter reads; nothing uses it
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	bodies := make([][]byte, b.n)
	for i := range bodies {
		bodies[i] = document(i + 1)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: writer.DefaultConcurrency}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	collectGarbage()
	m, err := startMeter(ctx, db, nil)
	if err != nil {
		return c, err
	}
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range writer.DefaultConcurrency {
		group.Go(func() error {
			for i := next.Add(1); i <= int64(b.n); i = next.Add(1) {
				if err := post(ctx, client, url, int(i), bodies[i-1]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return c, err
	}
	if err := m.stop(context.WithoutCancel(ctx)); err != nil {
		return c, err
	}
	return m.finish(context.WithoutCancel(ctx))
}

func post(ctx context.Context, client *http.Client, url string, i int, body []byte) error {
	target := url + ledgerstub.EntriesPath
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", string(instance)+":entry-"+strconv.Itoa(i))
	request.Header.Set("Fencerow-Fencing-Token", "1")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	err = errors.Join(err, response.Body.Close())
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("the stub ledger answered %s", response.Status)
	}
	return err
}

// stubVariable makes this program be the stub ledger.
const stubVariable = "FENCEROW_BENCH_STUB"

// serveStub prints the address and serves until the input ends.
func serveStub(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "http://%s\n", listener.Addr())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is all that matters
	}()
	return ledgerstub.New(ledgerstub.Options{Control: true}).Serve(ctx, listener)
}

// stubProcess is the stub ledger in a process of its own, as a real ledger is.
type stubProcess struct {
	url   string
	cmd   *exec.Cmd
	input io.Closer
}

func startStub(ctx context.Context) (*stubProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), stubVariable+"=1")
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the stub ledger did not start: %w", err), input.Close(), cmd.Wait())
	}
	return &stubProcess{url: line[:len(line)-1], cmd: cmd, input: input}, nil
}

// check fails unless the ledger booked n entries, each once.
func (s *stubProcess) check(ctx context.Context, n int) error {
	counters, err := (&ledgerstub.Client{Base: s.url}).Counters(ctx)
	if err == nil && (counters.Booked != int64(n) || counters.Requests != int64(n)) {
		err = fmt.Errorf("the ledger booked %d entries in %d requests, not %d",
			counters.Booked, counters.Requests, n)
	}
	return err
}

func (s *stubProcess) stop() error {
	return errors.Join(s.input.Close(), s.cmd.Wait())
}
