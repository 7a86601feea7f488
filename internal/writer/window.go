package writer

import "time"

// window is how long a claim is trusted for sending. It opens just before the claim is requested, so that it
// ends before the lease does however long the store's answer took. Both clocks are read, and the one that
// went further counts: the monotonic clock stands still while a machine is suspended, and the wall clock can
// be set back.
type window struct {
	opened, openedWall time.Time
	startBy            time.Duration // since opening: no delivery starts at or after this
	ends               time.Duration // since opening: nothing is sent, asked or recorded again at or after this
}

// instant is one moment on both clocks.
type instant struct{ mono, wall time.Time }

func (w *Writer) now() instant {
	now := time.Now()
	if w.cfg.wallNow != nil {
		return instant{mono: now, wall: w.cfg.wallNow()}
	}
	return instant{mono: now, wall: now.Round(0)} // Round strips the monotonic reading
}

func (w *Writer) openWindow() window {
	now, margin := w.now(), Margin(w.cfg.Lease)
	return window{
		opened:     now.mono,
		openedWall: now.wall,
		startBy:    w.cfg.startWindow(),
		ends:       w.cfg.Lease - margin,
	}
}

func (x window) elapsed(now instant) time.Duration {
	return max(now.mono.Sub(x.opened), now.wall.Sub(x.openedWall))
}

// maySend reports whether a delivery that starts now ends inside the window, however long it takes.
func (x window) maySend(now instant) bool { return x.elapsed(now) < x.startBy }

// left returns what is left of the window; negative once it has ended.
func (x window) left(now instant) time.Duration { return x.ends - x.elapsed(now) }

// watchWindow ends the deliveries of b if its window has ended by either clock.
func (w *Writer) watchWindow(b *batch) {
	if b.window.left(w.now()) <= 0 {
		b.expire()
	}
}
