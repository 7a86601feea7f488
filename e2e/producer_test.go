package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/outbox"
)

// args are the arguments of fencerow.enqueue by name, as text; nil is NULL, and what is absent has its
// default.
type args map[string]*string

// with returns a copy with an argument changed.
func (a args) with(name, value string) args {
	b := args{name: &value}
	for n, v := range a {
		if n != name {
			b[n] = v
		}
	}
	return b
}

func (a args) null(name string) args {
	b := a.with(name, "")
	b[name] = nil
	return b
}

func (a args) get(name string) string {
	if a[name] == nil {
		return ""
	}
	return *a[name]
}

// sale is a transaction of a service: its own row, and an entry.
type sale struct {
	TradeID  string `json:"trade_id"`
	Entry    args   `json:"entry"`
	Rollback bool   `json:"rollback"`
}

// booked is what became of a sale.
type booked struct {
	OutboxID int64  `json:"outbox_id"`
	Result   string `json:"result"`
	SQLState string `json:"sqlstate"` // or the code, in Go
	Message  string `json:"message"`
}

// producer is a way in which services enqueue.
type producer struct {
	name string
	sell func(w *world, sales []sale) []booked
}

func producers() []producer {
	return []producer{{"Go", sellInGo}, {"Psql", sellInPsql}, {"Python", sellInPython}}
}

// libpq is an environment that leads libpq to the database.
func (w *world) libpq() []string {
	w.t.Helper()
	c, err := pgx.ParseConfig(w.db.DSN())
	check(w.t, err)
	return append(os.Environ(), "PGHOST="+c.Host, "PGPORT="+strconv.Itoa(int(c.Port)), "PGUSER="+c.User,
		"PGPASSWORD="+c.Password, "PGDATABASE="+c.Database, "PGCLIENTENCODING=UTF8")
}

// sellInGo is a service in Go: package outbox on its own transaction.
func sellInGo(w *world, sales []sale) []booked {
	w.t.Helper()
	var out []booked
	for _, s := range sales {
		var b booked
		undo := errors.New("rolled back")
		err := pgx.BeginFunc(w.t.Context(), w.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(w.t.Context(), "INSERT INTO trade (trade_id) VALUES ($1)", s.TradeID); err != nil {
				return err
			}
			enqueued, err := outbox.Enqueue(w.t.Context(), tx, fencerow.InstanceKey(s.Entry.get("instance_key")),
				goEntry(w.t, s.Entry))
			if err != nil {
				return err
			}
			b.OutboxID, b.Result = int64(enqueued.OutboxID), string(enqueued.Result)
			if s.Rollback {
				return undo
			}
			return nil
		})
		if err != nil && !errors.Is(err, undo) {
			b = booked{Message: err.Error(), SQLState: "?"}
			for _, code := range []fencerow.Code{fencerow.ErrInvalidInput, fencerow.ErrEnqueueConflict} {
				if errors.Is(err, code) {
					b.SQLState = string(code)
				}
			}
		}
		out = append(out, b)
	}
	return out
}

func goEntry(t testing.TB, a args) fencerow.NewEntry {
	e := fencerow.NewEntry{
		CorrelationID: fencerow.CorrelationID(a.get("correlation_id")), EntryKind: a.get("entry_kind"),
		SlotID: fencerow.SlotID(a.get("slot_id")), Currency: a.get("currency"),
		Payload: json.RawMessage(a.get("payload")), TraceParent: a.get("traceparent"),
		OpenSkip: a.get("skip") == "true",
	}
	if text := a.get("cash_delta"); text != "" {
		var err error
		e.CashDelta, err = decimal.NewFromString(text)
		check(t, err)
	}
	return e
}

// sellInPsql is a person, or a script, at psql.
func sellInPsql(w *world, sales []sale) []booked {
	w.t.Helper()
	var out []booked
	for _, s := range sales {
		quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
		var call []string
		for name, value := range s.Entry {
			if value == nil {
				call = append(call, name+" => NULL")
			} else {
				call = append(call, name+" => "+quote(*value))
			}
		}
		end := "COMMIT"
		if s.Rollback {
			end = "ROLLBACK"
		}
		cmd := exec.CommandContext(w.t.Context(), "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
			"-v", "VERBOSITY=verbose")
		cmd.Env = w.libpq()
		cmd.Stdin = strings.NewReader(fmt.Sprintf("BEGIN;\nINSERT INTO trade (trade_id) VALUES (%s);\n"+
			"SELECT row_to_json(e) FROM fencerow.enqueue(%s) e;\n%s;\n",
			quote(s.TradeID), strings.Join(call, ", "), end))
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		var b booked
		if err := cmd.Run(); err == nil {
			check(w.t, json.Unmarshal(stdout.Bytes(), &b))
		} else {
			if _, exited := errors.AsType[*exec.ExitError](err); !exited {
				w.t.Fatal(err)
			}
			// "ERROR:  22023: fencerow: currency must ..."
			_, text, _ := strings.Cut(stderr.String(), "ERROR:  ")
			b.SQLState, text, _ = strings.Cut(text, ": ")
			b.Message, _, _ = strings.Cut(text, "\n")
		}
		out = append(out, b)
	}
	return out
}

// sellInPython is a service in another language, with its usual driver.
func sellInPython(w *world, sales []sale) []booked {
	w.t.Helper()
	in, err := json.Marshal(sales)
	check(w.t, err)
	python := "python3"
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		python = "/usr/bin/python3" // the one for which packages of the system are installed
	}
	cmd := exec.CommandContext(w.t.Context(), python, "testdata/producer.py")
	cmd.Env = w.libpq()
	cmd.Stdin = bytes.NewReader(in)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("producer.py: %v\n%s", err, stderr.String())
	}
	var out []booked
	check(w.t, json.Unmarshal(stdout.Bytes(), &out))
	return out
}

// newTradeWorld returns a world with a service's own table.
func newTradeWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.db.Exec(t, `CREATE TABLE trade (trade_id text PRIMARY KEY)`)
	return w
}

// has reports whether a trade and its entry are there; half of them is a failure.
func (w *world) has(id string) bool {
	w.t.Helper()
	trade := one[int](w, `SELECT count(*) FROM trade WHERE trade_id = $1`, id)
	entry := one[int](w, `SELECT count(*) FROM fencerow.ledger_outbox WHERE correlation_id = $1`, id)
	pending := one[int](w, `
SELECT count(*)
FROM fencerow.ledger_pending p
JOIN fencerow.ledger_outbox o ON o.outbox_id = p.outbox_id
WHERE o.correlation_id = $1`, id)
	if entry != trade || pending != trade {
		w.t.Errorf("%s: %d trades, %d entries, %d pending rows", id, trade, entry, pending)
	}
	return trade == 1
}

// oddPayloads come out of any JSON parser other than they went in.
func oddPayloads() map[string]string {
	long := `{"pad": "` + strings.Repeat("x", 256<<10-11) + `"}`
	return map[string]string{
		"order":     `{"z": 1, "a": 2,   "m": 3}`,
		"duplicate": `{"a": 1, "a": 2, "a": 1}`,
		"numbers":   `{"n": 12345678901234567890123456789.00000000000000000001e-7, "z": 1.0, "e": 1E400}`,
		"nul":       `{"nul": "\u0000", "surrogate": "\ud83d\ude00", "slash": "\/"}`,
		"emoji":     `{"emoji": "😀 é 日本語", "quote": "it''s \"quoted\" %s %(x)s $1 \\"}`,
		"space":     "{\n\t\"a\" :\r\n [ ] }",
		"largest":   long,
	}
}

func TestAnEntryIsCommittedAndRolledBackWithItsProducersOwnRowAndDeliveredByteForByte(t *testing.T) {
	t.Parallel()
	w := newTradeWorld(t)
	key := "desk-1"
	payloads := map[string]string{} // by correlation id
	for _, p := range producers() {
		var sales []sale
		odd := oddPayloads()
		for _, name := range slices.Sorted(maps.Keys(odd)) {
			payload := odd[name]
			id := strings.ToLower(p.name) + "-" + name
			kind, slot, delta, currency, skip := "fill", "slot-1", "-12.50", "EUR", "true"
			a := args{"instance_key": &key, "correlation_id": &id, "entry_kind": &kind, "payload": &payload,
				"slot_id": &slot, "cash_delta": &delta, "currency": &currency, "skip": &skip}
			payloads[id] = payload
			undone := "undone-" + id
			sales = append(sales, sale{TradeID: id, Entry: a},
				sale{TradeID: undone, Entry: a.with("correlation_id", undone), Rollback: true})
		}
		for i, b := range p.sell(w, sales) {
			s := sales[i]
			if b.Result != "inserted" || b.OutboxID == 0 {
				t.Fatalf("%s %s: %+v", p.name, s.TradeID, b)
			}
			equal(t, p.name+": "+s.TradeID+" is there", w.has(s.TradeID), !s.Rollback)
		}

		// The same again is a duplicate, which commits; other content is a conflict, which does not.
		first := sales[0].Entry
		again := []sale{
			{TradeID: p.name + "-again", Entry: first},
			{TradeID: p.name + "-other", Entry: first.with("cash_delta", "-12.51")},
			{TradeID: p.name + "-space", Entry: first.with("payload", *first["payload"]+" ")},
		}
		results := p.sell(w, again)
		number := one[int64](w, `SELECT outbox_id FROM fencerow.ledger_outbox WHERE correlation_id = $1`,
			*first["correlation_id"])
		equal(t, p.name+": a duplicate", results[0], booked{OutboxID: number, Result: "duplicate"})
		for _, b := range results[1:] {
			if !slices.Contains([]string{"FR001", "enqueue_conflict"}, b.SQLState) ||
				!strings.Contains(b.Message, "already enqueued with other content") {
				t.Errorf("%s: a conflict is %+v", p.name, b)
			}
		}
		equal(t, "trades committed", fmt.Sprint(column[string](w, `
SELECT trade_id FROM trade WHERE trade_id LIKE $1 || '-%' ORDER BY trade_id`, p.name)), "["+p.name+"-again]")
	}
	openSkips := func() int {
		return one[int](w, `SELECT count(*) FROM fencerow.ledger_skip WHERE resolved_at IS NULL`)
	}
	equal(t, "open skips", openSkips(), len(payloads))

	d := w.start("desk-1", nil)
	w.awaitDrained(patience, "desk-1")
	d.stop()
	equal(t, "requests", len(w.stub.Journal()), len(payloads))
	equal(t, "open skips", openSkips(), 0)
	for id, payload := range payloads {
		b, _ := w.stub.Booking("desk-1:" + id)
		sent := `{"instance_key":"desk-1","correlation_id":"` + id + `","entry_kind":"fill","slot_id":"slot-1",` +
			`"currency":"EUR","cash_delta":"-12.5","payload":` + payload + `}`
		if string(b.Body) != sent {
			t.Errorf("%s: booked %.200q, want %.200q", id, b.Body, sent)
		}
	}
	t.Logf("%d entries from Go, psql and Python, each with its producer's own row, as many rolled back with "+
		"it; each booked once, byte for byte, the largest 256 KiB", len(payloads))
}
