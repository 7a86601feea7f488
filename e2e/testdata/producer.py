"""A service in another language: its own row and a ledger entry in one plain transaction.

Reads a list of transactions as JSON on standard input and writes a list of what became of them. libpq's
variables say where the database is.
"""

import json
import sys

import psycopg2

CASTS = {"payload": "::json", "cash_delta": "::numeric", "skip": "::boolean"}


def book(connection, transaction):
    arguments = transaction["entry"]
    call = ", ".join(f"{name} => %({name})s{CASTS.get(name, '')}" for name in arguments)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO trade (trade_id) VALUES (%s)", (transaction["trade_id"],))
        cursor.execute(f"SELECT outbox_id, result FROM fencerow.enqueue({call})", arguments)
        return cursor.fetchone()


def run(connection, transaction):
    try:
        outbox_id, result = book(connection, transaction)
        if transaction["rollback"]:
            connection.rollback()
        else:
            connection.commit()
        return {"outbox_id": outbox_id, "result": result}
    except psycopg2.Error as error:
        connection.rollback()
        return {"sqlstate": error.pgcode, "message": error.diag.message_primary}


def main():
    connection = psycopg2.connect("")
    json.dump([run(connection, transaction) for transaction in json.load(sys.stdin)], sys.stdout)
    connection.close()


main()
