package ledgerstub

import (
	"cmp"
	"slices"
	"time"
)

// CheckOptions say what [Check] tolerates.
type CheckOptions struct {
	// Slack is how much two requests for one key may overlap. A client that gives up is seen to be gone only a
	// little later, when it may have sent again.
	Slack time.Duration
	// Zombies are fencing tokens of claims that are known to have been lost while their holder went on: their
	// requests may come late and may overlap others.
	Zombies []int64
}

// Report is what the journal shows.
type Report struct {
	Requests int `json:"requests"`
	Keys     int `json:"keys"`
	// Booked is how many keys were booked, as far as the journal has the verdict.
	Booked int `json:"booked"`
	// Repeated has the number of requests of each key that was sent more than once.
	Repeated map[string]int `json:"repeated"`
	// BookedTwice are keys with more than one verdict of booked, which would be a fault of the ledger itself.
	BookedTwice []string `json:"booked_twice"`
	// Falls are requests whose fencing token was lower than an earlier one's for the key.
	Falls []Pair `json:"falls"`
	// Overlaps are requests that arrived before an earlier one for the key had ended.
	Overlaps []Pair `json:"overlaps"`
	// Changed are requests whose body was not that of the key's first.
	Changed []Pair `json:"changed"`
}

// Pair is a request and the earlier one that it clashes with.
type Pair struct {
	Earlier Record `json:"earlier"`
	Later   Record `json:"later"`
}

// Extra is how many requests there were beyond one for each key.
func (r *Report) Extra() int { return r.Requests - r.Keys }

// Check reads a journal. A request that is still open overlaps everything that comes after it.
func Check(journal []Record, o CheckOptions) Report {
	byKey := map[string][]Record{}
	for _, r := range journal {
		byKey[r.Key] = append(byKey[r.Key], r)
	}
	report := Report{Requests: len(journal), Keys: len(byKey), Repeated: map[string]int{}}
	zombie := map[int64]bool{}
	for _, epoch := range o.Zombies {
		zombie[epoch] = true
	}
	for key, sends := range byKey {
		if len(sends) > 1 {
			report.Repeated[key] = len(sends)
		}
		slices.SortFunc(sends, byArrival)
		report.addBookings(key, sends)
		report.addClashes(sends, zombie, o.Slack)
	}
	return report
}

func (r *Report) addBookings(key string, sends []Record) {
	booked := 0
	for _, s := range sends {
		if s.Verdict == VerdictBooked {
			booked++
		}
	}
	r.Booked += min(booked, 1)
	if booked > 1 {
		r.BookedTwice = append(r.BookedTwice, key)
	}
}

// addClashes looks at the requests of one key, by arrival. Zombies may clash with anyone.
func (r *Report) addClashes(sends []Record, zombie map[int64]bool, slack time.Duration) {
	var highest, latest, first *Record
	for i := range sends {
		s := &sends[i]
		if s.Digest != (Digest{}) {
			if first != nil && first.Digest != s.Digest {
				r.Changed = append(r.Changed, Pair{*first, *s})
			}
			first = cmp.Or(first, s)
		}
		if zombie[s.Epoch] {
			continue
		}
		if highest != nil && s.Epoch < highest.Epoch {
			r.Falls = append(r.Falls, Pair{*highest, *s})
		} else {
			highest = s
		}
		if latest != nil && (latest.End == 0 || s.Arrival < latest.End-slack) {
			r.Overlaps = append(r.Overlaps, Pair{*latest, *s})
		}
		if latest == nil || latest.End != 0 && (s.End == 0 || s.End > latest.End) {
			latest = s
		}
	}
}
