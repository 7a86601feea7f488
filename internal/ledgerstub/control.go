package ledgerstub

import (
	"bufio"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// controlHandler serves what the Go API offers to other processes:
//
//	POST   /control/rules      a Rule; answers {"id": n}
//	GET    /control/rules      the rules in force, with their hits
//	DELETE /control/rules      clears them
//	POST   /control/release    ends the requests that hang
//	POST   /control/token      {"token": "..."} rotates the token; empty requires none
//	GET    /control/counters   Counters
//	GET    /control/balances   all Balances
//	GET    /control/journal    Records, one a line, by arrival; ?key= for one key
//	GET    /control/bookings   Bookings, one a line; ?key= for one key
//	GET    /control/booking    ?key=: the bytes that were booked, as they are, or 404
//	GET    /control/check      the Report; ?slack_ms=, ?zombie= (a fencing token, repeatable)
func (s *Stub) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /control/rules", func(w http.ResponseWriter, r *http.Request) {
		var rule Rule
		if !readControl(w, r, &rule) {
			return
		}
		id, err := s.AddRule(rule)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeControl(w, map[string]int64{"id": id})
	})
	mux.HandleFunc("GET /control/rules", func(w http.ResponseWriter, _ *http.Request) {
		writeControl(w, s.Rules())
	})
	mux.HandleFunc("DELETE /control/rules", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearRules()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /control/release", func(w http.ResponseWriter, _ *http.Request) {
		s.Release()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /control/token", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Token string `json:"token"`
		}
		if readControl(w, r, &body) {
			s.SetToken(body.Token)
			w.WriteHeader(http.StatusNoContent)
		}
	})
	mux.HandleFunc("GET /control/counters", func(w http.ResponseWriter, _ *http.Request) {
		writeControl(w, s.Counters())
	})
	mux.HandleFunc("GET /control/balances", func(w http.ResponseWriter, _ *http.Request) {
		writeControl(w, s.Balances())
	})
	mux.HandleFunc("GET /control/journal", s.controlJournal)
	mux.HandleFunc("GET /control/bookings", s.controlBookings)
	mux.HandleFunc("GET /control/booking", s.controlBooking)
	mux.HandleFunc("GET /control/check", s.controlCheck)
	return mux
}

func (s *Stub) controlJournal(w http.ResponseWriter, r *http.Request) {
	if key := r.FormValue("key"); key != "" {
		writeLines(w, s.Sends(key))
		return
	}
	writeLines(w, s.Journal())
}

func (s *Stub) controlBookings(w http.ResponseWriter, r *http.Request) {
	if key := r.FormValue("key"); key != "" {
		var found []Booking
		if b, ok := s.Booking(key); ok {
			found = append(found, b)
		}
		writeLines(w, found)
		return
	}
	all := s.Bookings()
	slices.SortFunc(all, func(a, b Booking) int { return cmp.Compare(a.Key, b.Key) })
	writeLines(w, all)
}

func (s *Stub) controlBooking(w http.ResponseWriter, r *http.Request) {
	b, ok := s.Booking(r.FormValue("key"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Write(b.Body) //nolint:errcheck // a client that has gone away is its own business
}

func (s *Stub) controlCheck(w http.ResponseWriter, r *http.Request) {
	var o CheckOptions
	if text := r.FormValue("slack_ms"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			http.Error(w, "slack_ms is not a number", http.StatusBadRequest)
			return
		}
		o.Slack = time.Duration(ms) * time.Millisecond
	}
	for _, text := range r.Form["zombie"] {
		epoch, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			http.Error(w, "zombie is not a number", http.StatusBadRequest)
			return
		}
		o.Zombies = append(o.Zombies, epoch)
	}
	writeControl(w, Check(s.Journal(), o))
}

func readControl(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func writeControl(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // a client that has gone away is its own business
}

func writeLines[T any](w http.ResponseWriter, all []T) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	b := bufio.NewWriterSize(w, 64<<10)
	e := json.NewEncoder(b)
	for i := range all {
		if e.Encode(&all[i]) != nil {
			return
		}
	}
	b.Flush() //nolint:errcheck // a client that has gone away is its own business
}
