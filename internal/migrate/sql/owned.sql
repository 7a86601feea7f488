SELECT EXISTS (SELECT FROM fencerow.ledger_outbox WHERE instance_key IS NOT NULL)
