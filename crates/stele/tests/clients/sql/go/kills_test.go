package sqlclients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestMain runs the tests, or the client program of kills.rs if CLIENTS_KILLS tells what it does.
func TestMain(m *testing.M) {
	action, of := os.LookupEnv("CLIENTS_KILLS")
	if !of {
		os.Exit(m.Run())
	}
	actions := map[string]func(context.Context) error{"create": createBank, "work": workInBank, "read": readBank}
	if err := actions[action](context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", action, err)
		os.Exit(1)
	}
}

// setting returns a number that kills.rs sets.
func setting(name string) int {
	value, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		panic(err)
	}
	return value
}

func createBank(ctx context.Context) error {
	connection, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	return pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		for _, statement := range []string{
			`CREATE SCHEMA bank`,
			`CREATE TABLE bank.accounts (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0),
				changes bigint NOT NULL DEFAULT 0)`,
			`CREATE TABLE bank.ledger (session int, number int, debit bigint NOT NULL REFERENCES bank.accounts,
				credit bigint NOT NULL REFERENCES bank.accounts, amount bigint NOT NULL CHECK (amount > 0),
				token text NOT NULL UNIQUE, PRIMARY KEY (session, number))`,
			`CREATE INDEX ledger_debit ON bank.ledger (debit)`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		rows := pgx.CopyFromSlice(setting("CLIENTS_ACCOUNTS"), func(row int) ([]any, error) {
			return []any{int64(row + 1), int64(setting("CLIENTS_BALANCE"))}, nil
		})
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"bank", "accounts"}, []string{"id", "balance"}, rows)
		return err
	})
}

// recorded is a session with its record.
type recorded struct {
	number  int
	options pgx.TxOptions
	record  *os.File
}

// note appends a line to the record.
func (session recorded) note(word string, number int, values ...int) error {
	line := fmt.Sprint(word, " ", number)
	for _, value := range values {
		line += fmt.Sprint(" ", value)
	}
	_, err := session.record.WriteString(line + "\n")
	return err
}

// last returns word and number of the last line.
func (session recorded) last() (word string, number int, err error) {
	text, err := os.ReadFile(session.record.Name())
	if err != nil || len(text) == 0 {
		return "done", 0, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	_, err = fmt.Sscan(lines[len(lines)-1], &word, &number)
	return word, number, err
}

// first returns the number of the next transfer, after a look at one without an answer.
func (session recorded) first(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	word, number, err := session.last()
	if err != nil || word != "begin" {
		return number + 1, err
	}
	var rows int
	look := "SELECT count(*) FROM bank.ledger WHERE session = $1 AND number = $2"
	if err := pool.QueryRow(ctx, look, session.number, number).Scan(&rows); err != nil {
		return 0, err
	}
	if rows == 1 {
		return number + 1, session.note("found", number)
	}
	return number, session.note("missing", number)
}

// transfer makes a transfer with as many tries as it takes, unless it is against a constraint.
func (session recorded) transfer(ctx context.Context, pool *pgxpool.Pool, number int) error {
	accounts := setting("CLIENTS_ACCOUNTS")
	debit := 1 + (7*session.number+3*number)%accounts
	credit := 1 + (debit+number%(accounts-1))%accounts
	amount := 1 + (13*number+session.number)%60
	change := "UPDATE bank.accounts SET balance = balance + $1, changes = changes + 1 WHERE id = $2"
	for {
		err := pgx.BeginTxFunc(ctx, pool, session.options, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, change, -amount, debit); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, change, amount, credit); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO bank.ledger VALUES ($1, $2, $3, $4, $5, $6)",
				session.number, number, debit, credit, amount, fmt.Sprintf("%d-%d", session.number, number))
			if err != nil {
				return err
			}
			return session.note("begin", number, debit, credit, amount)
		})
		switch code(err) {
		case "":
			if err == nil {
				err = session.note("done", number)
			}
			return err
		case "40001", "40P01":
			if err := session.note("refused", number); err != nil {
				return err
			}
		case "23514":
			return session.note("refused", number)
		default:
			return err
		}
	}
}

// work makes transfers until all are done or the connection is lost.
func (session recorded) work(ctx context.Context, pool *pgxpool.Pool) error {
	number, err := session.first(ctx, pool)
	for made := 0; err == nil && made < setting("CLIENTS_TRANSACTIONS"); made++ {
		err = session.transfer(ctx, pool, number)
		number++
	}
	var file *os.PathError
	if code(err) == "" && !errors.As(err, &file) {
		return nil
	}
	return err
}

func workInBank(ctx context.Context) error {
	sessions := setting("CLIENTS_SESSIONS")
	pool, err := pgxpool.New(ctx, fmt.Sprintf("%s?pool_max_conns=%d", address, sessions))
	if err != nil {
		return err
	}
	ends := make(chan error)
	for number := 1; number <= sessions; number++ {
		path := filepath.Join(os.Getenv("CLIENTS_DIR"), fmt.Sprintf("record-%d", number))
		record, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		session := recorded{number: number, record: record}
		if number%2 == 1 {
			session.options.IsoLevel = pgx.RepeatableRead
		}
		go func() { ends <- session.work(ctx, pool) }()
	}
	for range sessions {
		err = errors.Join(err, <-ends)
	}
	return err
}

func readBank(ctx context.Context) error {
	connection, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	var found strings.Builder
	// query notes the rows of a query under a word, and returns the last column of each.
	query := func(word, query string, arguments ...any) (last []any, err error) {
		rows, err := connection.Query(ctx, query, arguments...)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return nil, err
			}
			fmt.Fprintln(&found, append([]any{word}, values...)...)
			last = append(last, values[len(values)-1])
		}
		return last, rows.Err()
	}
	if _, err := query("account", "SELECT id, balance, changes FROM bank.accounts"); err != nil {
		return err
	}
	tokens, err := query("row", "SELECT * FROM bank.ledger")
	if err != nil {
		return err
	}
	for account := 1; account <= setting("CLIENTS_ACCOUNTS"); account++ {
		if _, err := query("debit", "SELECT * FROM bank.ledger WHERE debit = $1", account); err != nil {
			return err
		}
	}
	for _, token := range tokens {
		if _, err := query("token", "SELECT * FROM bank.ledger WHERE token = $1", token); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(os.Getenv("CLIENTS_DIR"), "read"), []byte(found.String()), 0o600)
}
