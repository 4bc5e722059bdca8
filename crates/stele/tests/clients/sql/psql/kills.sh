#!/bin/sh
# psql and a shell as the client program of `kills.rs`, which tells the program what to do.
#
# Each session is a psql that reads a script without end from its standard input and writes its record to
# standard output. After an error of a statement psql stops, and the shell starts another one.
set -eu

run() {
    "$CLIENTS_PSQL" -X -q -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate "$@" "$CLIENTS_SQL"
}

create() {
    run -v balance="$CLIENTS_BALANCE" -v accounts="$CLIENTS_ACCOUNTS" <<'SQL'
CREATE SCHEMA bank;
BEGIN;
CREATE TABLE bank.accounts (
    id bigint PRIMARY KEY,
    balance bigint NOT NULL CHECK (balance >= 0),
    changes bigint NOT NULL DEFAULT 0
);
CREATE TABLE bank.ledger (
    session int,
    number int,
    debit bigint NOT NULL REFERENCES bank.accounts,
    credit bigint NOT NULL REFERENCES bank.accounts,
    amount bigint NOT NULL CHECK (amount > 0),
    token text NOT NULL UNIQUE,
    PRIMARY KEY (session, number)
);
CREATE INDEX ledger_debit ON bank.ledger (debit);
INSERT INTO bank.accounts SELECT id, :balance FROM generate_series(1, :accounts) AS id;
COMMIT;
SQL
}

# Prints the transfers of a session from one number to another.
transfers() {
    awk -v session="$1" -v number="$2" -v last="$3" -v accounts="$CLIENTS_ACCOUNTS" 'BEGIN {
        begin = session % 2 ? "BEGIN ISOLATION LEVEL REPEATABLE READ" : "BEGIN"
        change = "UPDATE bank.accounts SET balance = balance + %d, changes = changes + 1 WHERE id = %d;\n"
        for (; number <= last; number++) {
            debit = 1 + (7 * session + 3 * number) % accounts
            credit = 1 + (debit + number % (accounts - 1)) % accounts
            amount = 1 + (13 * number + session) % 60
            print begin ";"
            printf change, -amount, debit
            printf change, amount, credit
            printf "INSERT INTO bank.ledger VALUES (%d, %d, %d, %d, %d, '\''%d-%d'\'');\n",
                session, number, debit, credit, amount, session, number
            print "\\echo begin", number, debit, credit, amount
            print "COMMIT;"
            print "\\echo done", number
        }
    }'
}

# Prints the number of the last line of a record with one of these words, or 0.
last() {
    awk -v words="$2" 'index(words, $1) { number = $2 } END { print number + 0 }' "$1"
}

# Works as one session. Fails if the server refuses what it may not refuse.
session() {
    record=$CLIENTS_DIR/record-$1 errors=$CLIENTS_DIR/errors-$1
    touch "$record"
    number=$(last "$record" 'begin done refused found missing')
    case $(tail -n 1 "$record") in
    begin*)
        rows=$(run -A -t -c "SELECT count(*) FROM bank.ledger WHERE session = $1 AND number = $number")
        [ "$rows" = 1 ] && answer=found || answer=missing
        echo "$answer $number" >>"$record"
        ;;
    esac
    case $(tail -n 1 "$record") in
    missing*) ;;
    *) number=$((number + 1)) ;;
    esac
    end=$((number + CLIENTS_TRANSACTIONS - 1))
    while [ "$number" -le "$end" ]; do
        status=0
        transfers "$1" "$number" "$end" | run >>"$record" 2>"$errors" || status=$?
        done=$(last "$record" done)
        [ "$done" -lt "$number" ] || number=$((done + 1))
        case $status in
        0 | 2) return ;; # all is done, or the connection was lost
        3) refused "$number" ;;
        *) cat "$errors" && return 1 ;;
        esac
    done
}

# Notes that the server refused a transaction, and goes on to the next one if another try is in vain.
refused() {
    echo "refused $1" >>"$record"
    case $(sed -n 's/^ERROR: *//p' "$errors") in
    40001 | 40P01) ;;
    23514) number=$(($1 + 1)) ;;
    *) cat "$errors" && return 1 ;;
    esac
}

work() {
    running=
    session=1
    while [ "$session" -le "$CLIENTS_SESSIONS" ]; do
        session "$session" &
        running="$running $!"
        session=$((session + 1))
    done
    for child in $running; do wait "$child"; done
}

read_all() {
    run -A -t -F ' ' <<'SQL'
SELECT 'account', id, balance, changes FROM bank.accounts;
SELECT 'row', * FROM bank.ledger;
SELECT 'SELECT ''debit'', * FROM bank.ledger WHERE debit = ' || id FROM bank.accounts \gexec
SELECT 'SELECT ''token'', * FROM bank.ledger WHERE token = ' || quote_literal(token) FROM bank.ledger \gexec
SQL
}

case $CLIENTS_KILLS in
create) create ;;
work) work ;;
read) read_all >"$CLIENTS_DIR/read" ;;
esac
