package observe

import (
	"fmt"
	"log/slog"

	"github.com/fourblocks2020/fencerow"
)

const reasonRunOnceFailed = "ledger_writer_run_once_failed"

// LoopFailure logs an unexpected error of a poll: its innermost Go type and nothing of its text.
func (o *Observer) LoopFailure(err error) { o.loopFailure(fencerow.InnermostType(err)) }

// LoopPanic logs the value of a panic in a poll by its Go type; for an error, the innermost one.
func (o *Observer) LoopPanic(value any) {
	if err, ok := value.(error); ok {
		o.LoopFailure(err)
		return
	}
	o.loopFailure(fmt.Sprintf("%T", value))
}

func (o *Observer) loopFailure(excType string) {
	o.write(slog.LevelError, "poll failed",
		slog.String(keyReason, reasonRunOnceFailed), slog.String(keyExcType, safe(excType)))
}

// StoreBusy logs that several polls in a row could not claim, since another session held a lock, or every
// connection was in use. To be called on the change only.
func (o *Observer) StoreBusy() {
	o.write(slog.LevelWarn, "store busy", slog.String(keyReason, string(fencerow.ErrStoreBusy)))
}

// StoreFree logs that polls are answered again.
func (o *Observer) StoreFree() {
	o.write(slog.LevelInfo, "store free", slog.String(keyReason, string(fencerow.ErrStoreBusy)))
}

// Started logs that a daemon takes up its work, and the address that its ops listener is bound to; empty if
// there is none.
func (o *Observer) Started(worker fencerow.WorkerID, opsListen string) {
	attrs := []slog.Attr{slog.String(keyWorker, safe(worker))}
	if opsListen != "" {
		attrs = append(attrs, slog.String(keyOpsListen, safe(opsListen)))
	}
	o.write(slog.LevelInfo, "started", attrs...)
}

// Stopping logs that a daemon claims no more and lets its deliveries end.
func (o *Observer) Stopping(worker fencerow.WorkerID) {
	o.write(slog.LevelInfo, "stopping", slog.String(keyWorker, safe(worker)))
}

// Stopped logs that a daemon has ended.
func (o *Observer) Stopped(worker fencerow.WorkerID) {
	o.write(slog.LevelInfo, "stopped", slog.String(keyWorker, safe(worker)))
}

// Notice is something that an operator should put right. The vocabulary is closed.
type Notice string

// The notices.
const (
	// NoticeTokenFileReadable: others than its owner and group can read or change a token file.
	NoticeTokenFileReadable Notice = "token_file_readable_by_others"
	// NoticeNotReady: the database or its schema was not ready at start.
	NoticeNotReady Notice = "store_not_ready"
	// NoticeOpsFailed: the ops listener ended.
	NoticeOpsFailed Notice = "ops_listener_failed"
	// NoticeStopOverdue: stopping did not end within the grace period, so that the process leaves without
	// having given back all rows. They come back when their lease expires.
	NoticeStopOverdue Notice = "stop_overdue"
)

// RecordsDropped logs how many records were dropped since the start, since nobody read the log.
func (o *Observer) RecordsDropped(total int64) {
	o.write(slog.LevelWarn, "records dropped", slog.Int64(keyCount, total))
}

// Notify logs a notice as a warning.
func (o *Observer) Notify(n Notice) {
	o.write(slog.LevelWarn, "notice", slog.String(keyReason, safe(n)))
}
