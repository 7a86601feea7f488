package writer

import "time"

// paceWeight is how many recent deliveries the pace of one remembers.
const paceWeight = 64

// foldRate takes what some deliveries took together into the pace.
func (w *Writer) foldRate(busy time.Duration, deliveries int) {
	if deliveries == 0 {
		return
	}
	mean := busy / time.Duration(deliveries)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pace == 0 {
		w.pace = mean
		return
	}
	weight := min(float64(deliveries)/paceWeight, 1)
	w.pace += time.Duration(weight * float64(mean-w.pace))
}

// startableLocked returns how many deliveries can start within one trust window at the recent pace.
func (w *Writer) startableLocked() int {
	startBy := w.cfg.startWindow()
	if w.pace <= 0 {
		return w.cfg.Budget
	}
	return int(min(float64(w.cfg.Concurrency)*float64(startBy)/float64(w.pace), float64(w.cfg.Budget)))
}

// roomLocked returns how many rows a poll may claim: what the budget leaves, and what can start in the window
// behind the rows that wait already. With nothing in flight it is at least one row, however slow the ledger
// is.
func (w *Writer) roomLocked() int {
	waiting := w.reserved
	for b := range w.active {
		n, _ := b.unfinished()
		waiting += n
	}
	room := min(w.cfg.BatchLimit, w.cfg.Budget-w.inFlight, w.startableLocked()-waiting)
	if w.inFlight == 0 {
		room = max(room, 1)
	}
	return max(room, 0)
}

// worthWhileLocked returns from how much room on a poll between the ticks is worth it: many small claims cost
// more than a few large.
func (w *Writer) worthWhileLocked() int {
	return max(1, min(w.cfg.BatchLimit, w.cfg.Budget/2, w.startableLocked()/2))
}

// reserve takes room for up to limit rows and says whether they are a probe, or why there is none.
func (w *Writer) reserve(limit int) (rows int, probe bool, skip SkipReason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.more, w.moreOf = false, nil
	why, mayProbe := w.health.hold(time.Now())
	if !mayProbe {
		return 0, false, SkippedTargetHeld
	}
	rows = min(limit, w.roomLocked())
	if rows == 0 {
		// There may well be more; the rows in flight make room for it.
		w.more = why == ""
		return 0, false, SkippedNoRoom
	}
	if why != "" {
		rows = 1
	}
	w.inFlight += rows
	w.reserved += rows
	return rows, why != "", ""
}

// reserveOne takes a place for a targeted claim, which no budget refuses.
func (w *Writer) reserveOne() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight++
	w.reserved++
}

// unreserve gives back what a claim did not use.
func (w *Writer) unreserve(rows, claimed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reserved -= rows
	w.inFlight -= rows - claimed
	w.announceLocked()
}

// begun notes that the first delivery of a claim has started.
func (w *Writer) begun() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked()
}
