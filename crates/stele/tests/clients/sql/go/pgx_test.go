package sqlclients

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"math/big"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// code returns the SQLSTATE of an error.
func code(err error) string {
	var told *pgconn.PgError
	if errors.As(err, &told) {
		return told.Code
	}
	return ""
}

func number(text string) pgtype.Numeric {
	var number pgtype.Numeric
	if err := number.Scan(text); err != nil {
		panic(err)
	}
	return number
}

var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

func TestValuesComeBackInEveryMode(t *testing.T) {
	pool, ctx := newPool(t), within(t)
	moment := time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)
	values := []struct {
		name  string
		value any
	}{
		{"bool", true}, {"int2", int16(-5)}, {"int4", int32(1 << 30)}, {"int8", int64(-1 << 63)},
		{"float4", float32(1.5)}, {"float8", 0.1}, {"text", "it's \\ €"}, {"varchar", ""},
		{"bytea", []byte{0, 1, 255}}, {"timestamptz", moment}, {"date", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{"timestamp", moment},
		{"uuid", [16]byte{1, 2, 3}}, {"int4[]", []int32{1, 2, 3}}, {"text[]", []string{"a", "b\"c,{}", ""}},
		{"jsonb", map[string]any{"a": []any{1.0, nil}}},
	}
	_, err := pool.Exec(ctx, "CREATE TABLE v (id serial PRIMARY KEY)")
	must(t, err)
	for _, mode := range modes {
		untyped := mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol
		for _, one := range values {
			// Without a type the client encodes neither of these.
			if untyped && (one.name == "uuid" || one.name == "jsonb") {
				continue
			}
			got := reflect.New(reflect.TypeOf(one.value))
			row := pool.QueryRow(ctx, "SELECT $1::"+one.name, mode, one.value)
			if err := row.Scan(got.Interface()); err != nil {
				t.Errorf("%v %s: %v", mode, one.name, err)
				continue
			}
			if value := got.Elem().Interface(); !reflect.DeepEqual(normal(value), normal(one.value)) {
				t.Errorf("%v %s: %v is %v", mode, one.name, one.value, value)
			}
			var null any
			must(t, pool.QueryRow(ctx, "SELECT $1::"+one.name, mode, nil).Scan(&null))
			if null != nil {
				t.Errorf("%v %s: NULL is %v", mode, one.name, null)
			}
		}
		for _, text := range []string{"0", "-12345678901234567890.123456789", "100000000000000000000", "0.00001"} {
			var got pgtype.Numeric
			must(t, pool.QueryRow(ctx, "SELECT $1::numeric", mode, number(text)).Scan(&got))
			left, right := rational(got), rational(number(text))
			if left.Cmp(right) != 0 {
				t.Errorf("%v: %s is %v", mode, text, left)
			}
		}
		var span pgtype.Interval
		must(t, pool.QueryRow(ctx, "SELECT $1::interval", mode, "1 mon -2 days 03:04:05.6").Scan(&span))
		if span.Months != 1 || span.Days != -2 || span.Microseconds != 11045600000 {
			t.Errorf("%v: %+v", mode, span)
		}
	}
}

// normal returns a value in a form that compares.
func normal(value any) any {
	if moment, ok := value.(time.Time); ok {
		return moment.UTC()
	}
	return value
}

func rational(number pgtype.Numeric) *big.Rat {
	out := new(big.Rat).SetInt(number.Int)
	ten := new(big.Rat).SetInt64(10)
	for exp := number.Exp; exp > 0; exp-- {
		out.Mul(out, ten)
	}
	for exp := number.Exp; exp < 0; exp++ {
		out.Quo(out, ten)
	}
	return out
}

func TestTransactionsAndErrors(t *testing.T) {
	pool, ctx := newPool(t), within(t)
	_, err := pool.Exec(ctx, "CREATE TABLE t (a int PRIMARY KEY, b int CONSTRAINT positive CHECK (b > 0))")
	must(t, err)
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO t VALUES ($1, $2)", 1, 1); err != nil {
			return err
		}
		inner, err := tx.Begin(ctx)
		must(t, err)
		_, err = inner.Exec(ctx, "INSERT INTO t VALUES (1, 1)")
		var told *pgconn.PgError
		if !errors.As(err, &told) || told.Code != "23505" || told.ConstraintName != "t_pkey" || told.TableName != "t" {
			t.Errorf("%+v", told)
		}
		must(t, inner.Rollback(ctx))
		_, err = tx.Exec(ctx, "INSERT INTO t VALUES (2, 2)")
		return err
	})
	must(t, err)
	_, err = pool.Exec(ctx, "UPDATE t SET b = -b")
	if code(err) != "23514" {
		t.Error(err)
	}
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	must(t, err)
	_, err = tx.Exec(ctx, "DELETE FROM t")
	if code(err) != "25006" {
		t.Error(err)
	}
	must(t, tx.Rollback(ctx))
	tx, err = pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, DeferrableMode: pgx.NotDeferrable})
	must(t, err)
	must(t, tx.Commit(ctx))
	var count int
	must(t, pool.QueryRow(ctx, "SELECT count(*) FROM t").Scan(&count))
	if count != 2 {
		t.Error(count)
	}
}

func TestBatchesAndNamedArguments(t *testing.T) {
	pool, ctx := newPool(t), within(t)
	_, err := pool.Exec(ctx, "CREATE TABLE t (a int PRIMARY KEY, b text)")
	must(t, err)
	batch := &pgx.Batch{}
	for n := range 100 {
		batch.Queue("INSERT INTO t VALUES (@a, @b)", pgx.NamedArgs{"a": n, "b": "x"})
	}
	batch.Queue("SELECT count(*) FROM t").QueryRow(func(row pgx.Row) error {
		var count int
		err := row.Scan(&count)
		if count != 100 {
			t.Error(count)
		}
		return err
	})
	must(t, pool.SendBatch(ctx, batch).Close())
	failing := &pgx.Batch{}
	failing.Queue("INSERT INTO t VALUES (1000, 'y')")
	failing.Queue("INSERT INTO t VALUES (1, 'y')")
	if err := pool.SendBatch(ctx, failing).Close(); code(err) != "23505" {
		t.Error(err)
	}
	rows, _ := pool.Query(ctx, "SELECT a, b FROM t WHERE a = ANY($1) ORDER BY a", []int{1, 2, 1000})
	type pair struct {
		A int
		B string
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByName[pair])
	must(t, err)
	if !reflect.DeepEqual(got, []pair{{1, "x"}, {2, "x"}}) {
		t.Error(got)
	}
}

func TestCopyInAndOut(t *testing.T) {
	pool, ctx := newPool(t), within(t)
	_, err := pool.Exec(ctx, `CREATE TABLE t (a int PRIMARY KEY, b text, c numeric, d timestamptz, e bytea,
		f text[], g jsonb, h uuid)`)
	must(t, err)
	rows := make([][]any, 1000)
	for n := range rows {
		rows[n] = []any{int32(n), nil, number("12.5"), time.Unix(int64(n), 0), []byte{byte(n)}, []string{"x", "y"},
			map[string]any{"n": n}, [16]byte{byte(n)}}
		if n%3 == 0 {
			rows[n][1] = "text"
		}
	}
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	count, err := pool.CopyFrom(ctx, pgx.Identifier{"t"}, names, pgx.CopyFromRows(rows))
	must(t, err)
	if count != 1000 {
		t.Error(count)
	}
	connection, err := pool.Acquire(ctx)
	must(t, err)
	defer connection.Release()
	var out bytes.Buffer
	_, err = connection.Conn().PgConn().CopyTo(ctx, &out, "COPY (SELECT a, b FROM t WHERE a < 3 ORDER BY a) TO STDOUT")
	must(t, err)
	if out.String() != "0\ttext\n1\t\\N\n2\t\\N\n" {
		t.Errorf("%q", out.String())
	}
	in := strings.NewReader("5000,\"x\"\"y\"\n")
	tag, err := connection.Conn().PgConn().CopyFrom(ctx, in, "COPY t (a, b) FROM STDIN WITH (FORMAT csv)")
	must(t, err)
	if tag.RowsAffected() != 1 {
		t.Error(tag)
	}
	_, err = pool.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"a"}, pgx.CopyFromRows([][]any{{int32(1)}}))
	if code(err) != "23505" {
		t.Error(err)
	}
}

func TestLargeResultsAreRead(t *testing.T) {
	pool, ctx := newPool(t), within(t)
	rows, err := pool.Query(ctx, "SELECT g, repeat('x', 50) FROM generate_series(1, $1) AS g", 50000)
	must(t, err)
	var sum, g int64
	var text string
	_, err = pgx.ForEachRow(rows, []any{&g, &text}, func() error {
		sum += g
		return nil
	})
	must(t, err)
	if sum != 50000*50001/2 {
		t.Error(sum)
	}
}

func TestAContextEndsAStatement(t *testing.T) {
	pool, ctx := newPool(t), within(t)
	connection, err := pool.Acquire(ctx)
	must(t, err)
	defer connection.Release()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	started := time.Now()
	if _, err := connection.Exec(short, "SELECT pg_sleep(60)"); err == nil || time.Since(started) > 20*time.Second {
		t.Error(err)
	}
	other, err := pool.Acquire(ctx)
	must(t, err)
	defer other.Release()
	_, err = other.Exec(ctx, "SET statement_timeout = 200")
	must(t, err)
	if _, err := other.Exec(ctx, "SELECT pg_sleep(60)"); code(err) != "57014" {
		t.Error(err)
	}
}

func TestStatementsOutliveChangesOfTheSchema(t *testing.T) {
	pool, ctx := newPool(t), within(t)
	connection, err := pool.Acquire(ctx)
	must(t, err)
	defer connection.Release()
	_, err = connection.Exec(ctx, "CREATE TABLE t (a int PRIMARY KEY, b text)")
	must(t, err)
	_, err = connection.Exec(ctx, "INSERT INTO t VALUES ($1, $2)", 1, "x")
	must(t, err)
	_, err = connection.Conn().Prepare(ctx, "all", "SELECT * FROM t WHERE a = $1")
	must(t, err)
	_, err = connection.Conn().Prepare(ctx, "one", "SELECT b FROM t WHERE a = $1")
	must(t, err)
	_, err = pool.Exec(ctx, "ALTER TABLE t ADD COLUMN c int")
	must(t, err)
	var b string
	must(t, connection.QueryRow(ctx, "one", 1).Scan(&b))
	if _, err := connection.Exec(ctx, "all", 1); code(err) != "0A000" {
		t.Error(err)
	}
}

func TestTransfersOfManySessions(t *testing.T) {
	pool, ctx := newPool(t), within(t)
	_, err := pool.Exec(ctx, "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL CHECK (balance >= 0))")
	must(t, err)
	_, err = pool.Exec(ctx, "INSERT INTO accounts SELECT g, 100 FROM generate_series(0, 9) AS g")
	must(t, err)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 40 {
				from, to := (worker+n)%10, (worker*3+n*7+1)%10
				for {
					err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
						if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - 1 WHERE id = $1", from); err != nil {
							return err
						}
						_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + 1 WHERE id = $1", to)
						return err
					})
					if err == nil || code(err) == "23514" {
						break
					}
					if code(err) != "40P01" {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	var sum int
	must(t, pool.QueryRow(ctx, "SELECT sum(balance) FROM accounts").Scan(&sum))
	if sum != 1000 {
		t.Error(sum)
	}
}

func TestDatabaseSQL(t *testing.T) {
	at, err := url.Parse(address)
	must(t, err)
	query := at.Query()
	query.Set("search_path", newSchema(t))
	at.RawQuery = query.Encode()
	db, err := sql.Open("pgx", at.String())
	must(t, err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, at timestamptz DEFAULT now())")
	must(t, err)
	statement, err := db.Prepare("INSERT INTO t (name) VALUES ($1) RETURNING id")
	must(t, err)
	for n := int64(1); n <= 3; n++ {
		var id int64
		must(t, statement.QueryRow(sql.NullString{String: "x", Valid: n != 2}).Scan(&id))
		if id != n {
			t.Error(id)
		}
	}
	rows, err := db.Query("SELECT id, name, at FROM t ORDER BY id")
	must(t, err)
	types, err := rows.ColumnTypes()
	must(t, err)
	if types[0].DatabaseTypeName() != "INT8" || types[2].DatabaseTypeName() != "TIMESTAMPTZ" {
		t.Error(types[0].DatabaseTypeName(), types[2].DatabaseTypeName())
	}
	for rows.Next() {
		var id int64
		var name sql.NullString
		var at time.Time
		must(t, rows.Scan(&id, &name, &at))
		if name.Valid == (id == 2) || time.Since(at) > time.Hour {
			t.Error(id, name, at)
		}
	}
	must(t, rows.Err())
	tx, err := db.BeginTx(within(t), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	must(t, err)
	result, err := tx.Exec("DELETE FROM t WHERE id < $1", 3)
	must(t, err)
	if count, _ := result.RowsAffected(); count != 2 {
		t.Error(count)
	}
	must(t, tx.Rollback())
}
