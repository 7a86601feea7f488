SELECT EXISTS (SELECT FROM fencerow.ledger_outbox)
