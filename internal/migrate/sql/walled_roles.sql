SELECT count(DISTINCT role_name) FROM fencerow.ledger_role
