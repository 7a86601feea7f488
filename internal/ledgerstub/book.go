package ledgerstub

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/jsonwalk"
)

// entryDocument is what the ledger reads of a body. The raw values alias it.
type entryDocument struct {
	correlationID []byte // raw, with its quotes
	instance      string
	slot          string
	currency      string
	delta         decimal.Decimal
}

func parseEntry(body []byte, d *entryDocument) bool {
	if !jsonwalk.IsObject(body) {
		return false
	}
	for name, value := range jsonwalk.Members(body) {
		ok := true
		switch string(name) {
		case "correlation_id":
			d.correlationID, ok = value, value[0] == '"'
		case "instance_key":
			d.instance, ok = jsonwalk.String(value)
		case "slot_id":
			if !jsonwalk.IsNull(value) {
				d.slot, ok = jsonwalk.String(value)
			}
		case "currency":
			if !jsonwalk.IsNull(value) {
				d.currency, ok = jsonwalk.String(value)
			}
		case "cash_delta":
			d.delta, ok = parseDelta(value)
		}
		if !ok {
			return false
		}
	}
	return d.correlationID != nil
}

func parseDelta(value []byte) (decimal.Decimal, bool) {
	s, ok := jsonwalk.String(value)
	if !ok {
		return decimal.Decimal{}, false
	}
	d, err := fencerow.ParseDecimal("cash_delta", s)
	return d, err == nil
}

// accountKey names a balance. Instances are books of their own: the same slot id under two of them is two
// slots.
type accountKey struct{ instance, slot, currency string }

type account struct {
	mu      sync.Mutex
	balance decimal.Decimal
	version int64
}

type books struct {
	mu       sync.Mutex
	accounts map[accountKey]*account
}

func (b *books) account(k accountKey) *account {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[k]
	if a == nil {
		a = &account{}
		b.accounts[k] = a
	}
	return a
}

// Balance is what one slot of one instance has in one currency, and how many bookings made it so.
type Balance struct {
	Instance string          `json:"instance_key"`
	Slot     string          `json:"slot_id"`
	Currency string          `json:"currency"`
	Balance  decimal.Decimal `json:"cash_balance"`
	Version  int64           `json:"version"`
}

// Balances returns every balance, in no order.
func (s *Stub) Balances() []Balance {
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	out := make([]Balance, 0, len(s.books.accounts))
	for k, a := range s.books.accounts {
		a.mu.Lock()
		out = append(out, Balance{k.instance, k.slot, k.currency, a.balance, a.version})
		a.mu.Unlock()
	}
	return out
}

// book decides under the key's lock: a token lower than the highest seen is stale, other content under a
// booked key is a conflict, equal content a duplicate, and anything else is booked.
func (s *Stub) book(q *request, digest [32]byte) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	k := q.record.key
	switch {
	case q.epoch < k.epoch:
		q.refuse(VerdictStale, http.StatusConflict, "stale-fencing-token")
		return
	case k.booked && k.digest != digest:
		k.epoch = q.epoch
		q.refuse(VerdictConflict, http.StatusConflict, "content-conflict")
		return
	}
	k.epoch = q.epoch
	q.verdict, q.status = VerdictDuplicate, http.StatusOK
	result := "DUPLICATE_OK"
	if !k.booked {
		q.verdict, q.status, result = VerdictBooked, http.StatusCreated, "CREATED"
		k.booked, k.digest, k.bookedEpoch = true, digest, q.epoch
		k.body = q.shard.keep(q.body)
		k.ref = s.refs.Add(1)
		if q.doc.slot != "" && q.doc.currency != "" {
			k.slot, k.currency = q.doc.slot, q.doc.currency
			k.account = s.books.account(accountKey{q.doc.instance, k.slot, k.currency})
			k.account.mu.Lock()
			k.account.balance = k.account.balance.Add(q.doc.delta)
			k.account.version++
			k.account.mu.Unlock()
		}
	}
	q.answer = k.appendAnswer(make([]byte, 0, 512), result, q.doc.correlationID)
}

// appendAnswer writes the answer document for a booked key. The snapshot is the slot as it is now.
func (k *keyState) appendAnswer(b []byte, result string, correlationID []byte) []byte {
	b = append(b, '{')
	if result != "" {
		b = append(b, `"result":"`...)
		b = append(b, result...)
		b = append(b, `",`...)
	}
	b = append(b, `"correlation_id":`...)
	b = append(b, correlationID...)
	b = append(b, `,"ledger_ref":"stub-`...)
	b = strconv.AppendInt(b, k.ref, 10)
	b = append(b, `","content_digest":"`...)
	b = appendDigest(b, k.digest)
	b = append(b, '"')
	if k.account != nil {
		k.account.mu.Lock()
		balance, version := k.account.balance, k.account.version
		k.account.mu.Unlock()
		b = append(b, `,"snapshot":{"slot_id":`...)
		b = appendQuoted(b, k.slot)
		b = append(b, `,"currency":`...)
		b = appendQuoted(b, k.currency)
		b = append(b, `,"cash_balance":"`...)
		b = append(b, balance.String()...)
		b = append(b, `","version":`...)
		b = strconv.AppendInt(b, version, 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

// readBack answers with what is booked under a key.
func (s *Stub) readBack(w http.ResponseWriter, r *http.Request, key string) {
	s.readbacks.Add(1)
	q := request{key: key, shard: s.shard(key)}
	if !s.authorized(r) {
		writeProblem(w, http.StatusUnauthorized, "unauthorized")
		return
	}
	q.refuse(VerdictRefused, http.StatusNotFound, "not-found")
	q.shard.mu.Lock()
	if k := q.shard.keys[key]; k != nil && k.booked {
		var d entryDocument
		if !parseEntry(k.body, &d) {
			panic("ledgerstub: a booked entry does not parse")
		}
		q.status, q.answer = http.StatusOK, k.appendAnswer(make([]byte, 0, 512), "", bytes.Clone(d.correlationID))
	}
	q.shard.mu.Unlock()
	if fault := s.faults.match(&q, true); fault != nil {
		q.fail(w, fault)
		return
	}
	q.write(w)
}
